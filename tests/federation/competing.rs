//! Several coordinators over the same resource managers at the same time: every request gets a definite
//! outcome, nothing is overbooked or left over, and each coordinator gets its share.

use std::collections::BTreeMap;

use coalloc_proto::v1::{self, ReservationState as State};
use tokio::task::JoinSet;

use crate::harness::{Federation, RMS, eventually, free_port, pair};

/// Number of coordinators that compete.
const GRCS: usize = 3;
/// Requests of each coordinator in a round, all sent at once.
const EACH: usize = 13;
/// Number of starts, an hour apart, that suit every request of a round.
const HOURS: i64 = 4;
/// Requests that fit in an hour: 5 of 200 Mbit/s on 1 Gbit/s.
///
/// In a round, 20 of the 39 requests can be confirmed.
const FIT: i64 = 5;
/// In one round it is luck who is first; over this many rounds it is not.
const ROUNDS: i64 = 16;

struct Rivals {
    /// For each coordinator, a federation of this coordinator and the RMs.
    seen: Vec<Federation>,
    /// The processes.
    _owner: Federation,
}

/// Three RMs that accept three coordinators, and these coordinators.
async fn rivals() -> Rivals {
    let mut owner = Federation::prepare();
    let names: Vec<String> = (1..=GRCS).map(|n| format!("grc-{n}")).collect();
    for name in &names {
        owner.addresses.insert(name.clone(), format!("127.0.0.1:{}", free_port()));
    }
    let known: Vec<String> = names
        .iter()
        .map(|name| format!("{{name: {name}, address: \"{}\"}}", owner.addresses[name]))
        .collect();
    let daemon = |name: &str| {
        format!(
            "daemon: {{insecure_plaintext: true, listen: \"{}\", ledger: {name}.ledger}}\n",
            owner.addresses[name]
        )
    };
    for rm in RMS {
        let inventory = match rm.strip_prefix("crm-") {
            Some(site) => format!("sites: [{{name: {site}, cpus: 100}}]"),
            None => "paths: [{name: A-B, a: A, b: B, capacity_bps: 1000000000}]".to_owned(),
        };
        let text = format!(
            "{}coordinators: [{}]\ninventory: {{name: {rm}, domain: D, {inventory}}}\n",
            daemon(rm),
            known.join(", ")
        );
        owner.write(&format!("{rm}.yaml"), &text);
    }
    for name in &names {
        let mut text = format!("{}name: {name}\nresource_managers:\n", daemon(name));
        for rm in RMS {
            text += &format!("- {{name: {rm}, address: \"{}\"}}\n", owner.addresses[rm]);
        }
        owner.write(&format!("{name}.yaml"), &text);
    }
    for name in RMS.iter().copied().chain(names.iter().map(String::as_str)) {
        owner.spawn(name);
    }
    let mut seen = Vec::new();
    for name in &names {
        let mut addresses = owner.addresses.clone();
        addresses.insert("grc".to_owned(), owner.addresses[name].clone());
        let federation = Federation::elsewhere(addresses);
        federation.complete().await;
        seen.push(federation);
    }
    Rivals { seen, _owner: owner }
}

impl Rivals {
    /// All reservations that the coordinators know; all are definite.
    async fn reservations(&self) -> Vec<v1::Reservation> {
        let mut all = Vec::new();
        for federation in &self.seen {
            let list = v1::ListRequest { page_size: Some(1_000), ..Default::default() };
            all.extend(federation.grc().list(list).await.unwrap().into_inner().reservations);
        }
        all
    }

    /// Waits until no RM holds anything and all is definite, then compares RMs and coordinators.
    async fn audit(&self) {
        let rms = &self.seen[0];
        eventually("every transaction has ended", || async {
            let mut held = false;
            for rm in RMS {
                let bookings = rms.bookings(rm).await;
                held |= bookings.iter().any(|b| b.state() == v1::BookingState::Held);
            }
            !held && self.reservations().await.iter().all(|r| r.definite)
        })
        .await;
        let reservations = self.reservations().await;
        let confirmed = reservations.iter().filter(|r| r.state().is_booked());
        let mut owed: BTreeMap<(String, String), Vec<&v1::Segment>> = BTreeMap::new();
        for reservation in confirmed {
            for segment in &reservation.plan.as_ref().unwrap().segments {
                let key = (segment.resource_manager.clone(), reservation.transaction.clone());
                owed.entry(key).or_default().push(segment);
            }
        }
        for rm in RMS {
            let capacity = if rm == "nrm" { 1_000_000_000 } else { 100 };
            let bookings = rms.bookings(rm).await;
            let mut taken: BTreeMap<(String, i64), u64> = BTreeMap::new();
            for booking in &bookings {
                assert_eq!(booking.state(), v1::BookingState::Booked, "{rm}: {booking:?}");
                let due = owed.remove(&(rm.to_owned(), booking.transaction.clone()));
                let due = due.unwrap_or_else(|| panic!("{rm} has booked {booking:?} for nobody"));
                assert_eq!(due.len(), booking.segments.len(), "{rm}: {booking:?}");
                for segment in &booking.segments {
                    assert!(due.iter().any(|d| (&d.resource, d.amount, &d.window)
                        == (&segment.resource, segment.amount, &segment.window)));
                    let start = segment.window.as_ref().unwrap().start.as_ref().unwrap().seconds;
                    // Windows with the same start are equal, and windows with different starts are disjoint.
                    *taken.entry((segment.resource.clone(), start)).or_default() += segment.amount;
                }
            }
            for (at, amount) in taken {
                assert!(amount <= capacity, "{rm} has {amount} of {capacity} taken: {at:?}");
            }
        }
        assert!(owed.is_empty(), "confirmed, but not booked: {owed:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_coordinators_compete_and_each_gets_its_share() {
    let rivals = rivals().await;
    let mut won = [0_usize; GRCS];
    let mut all = 0;
    let mut attempts = BTreeMap::<u32, usize>::new();
    // All requests share one origin, so that those that start in the same hour start in the same second.
    let template = pair(10, 200, 3_600, 1_800);
    let origin = template.earliest_start.unwrap();
    for round in 0..ROUNDS {
        let mut calls = JoinSet::new();
        for n in 0..EACH {
            for turn in 0..GRCS {
                // Each time another coordinator is asked first.
                let rival = (turn + n + round as usize) % GRCS;
                let federation = &rivals.seen[rival];
                let mut grc = federation.grc();
                let mut wanted = template.clone();
                let at = |hour: i64| {
                    let seconds = origin.seconds + (round * HOURS + hour) * 3_600;
                    Some(coalloc_proto::Timestamp { seconds, nanos: 0 })
                };
                (wanted.earliest_start, wanted.latest_start) = (at(0), at(HOURS - 1));
                let request = v1::ReserveRequest {
                    request_id: format!("round{round}-{rival}-{n}"),
                    request: Some(wanted),
                    options: Some(v1::PlanOptions {
                        frames: Some(HOURS as u32),
                        ..Default::default()
                    }),
                    ..Default::default()
                };
                calls.spawn(async move { (rival, grc.reserve(request).await) });
            }
        }
        let mut confirmed = 0;
        while let Some(answer) = calls.join_next().await {
            let (rival, answer) = answer.unwrap();
            let reservation = answer.unwrap().into_inner().reservation.unwrap();
            *attempts.entry(reservation.attempts).or_default() += 1;
            match reservation.state() {
                State::Confirmed | State::Active => {
                    won[rival] += 1;
                    confirmed += 1;
                }
                State::Failed => assert!(reservation.refusal.is_some()),
                other => panic!("{other:?}: {reservation:?}"),
            }
        }
        let fit = HOURS * FIT;
        println!("round {round}: {confirmed} of {fit} that fit were confirmed");
        assert!(confirmed <= fit, "{confirmed} of {fit}");
        all += confirmed;
    }
    // Coordinators that refuse each other's holds must not leave resources unused.
    let fit = ROUNDS * HOURS * FIT;
    println!("{all} of {fit} that fit were confirmed");
    assert!(all * 10 >= fit * 9, "{all} of {fit}");
    println!("confirmed by coordinator: {won:?}; requests by attempts: {attempts:?}");
    rivals.audit().await;
    let (least, most) = (won.iter().min().unwrap(), won.iter().max().unwrap());
    assert!(least * 2 >= *most, "fairness: {won:?}");
}
