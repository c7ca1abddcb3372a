//! The rogue's day: every attack at once, and honest users who notice nothing.
//!
//! The test judges what is the same on every machine: all honest requests are confirmed, nothing forged is let through,
//! and what was booked before is booked after. [`what_a_rogue_costs`] measures how long honest users wait, in paired runs.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use coalloc_net::client::Dialer;
use coalloc_proto::v1::{self, ReservationState as State};

use super::rogue::{Attack, Rogue, honest};
use super::world::TlsWorld;
use crate::harness::pair;

const USERS: usize = 4;

/// Reserves and releases, one after the other. Returns how long each Reserve took.
async fn works(
    world: &TlsWorld,
    (user, dialer): &(String, Dialer),
    run: &str,
    requests: usize,
) -> Vec<Duration> {
    let mut client = world.grc(dialer);
    let mut took = Vec::new();
    for number in 0..requests {
        let request = v1::CoAllocationRequest { user: user.clone(), ..pair(1, 1, 3_600, 600) };
        let id = format!("{run}-{user}-{number}");
        let request =
            v1::ReserveRequest { request_id: id, request: Some(request), ..Default::default() };
        let begun = Instant::now();
        let made = client.reserve(request).await.unwrap().into_inner().reservation.unwrap();
        took.push(begun.elapsed());
        assert_eq!(made.state(), State::Confirmed, "{made:?}");
        let release = v1::ReleaseReservationRequest { id: made.id, user: user.clone() };
        let released = client.release(release).await.unwrap().into_inner().reservation.unwrap();
        assert_eq!(released.state(), State::Terminated, "{released:?}");
    }
    took
}

/// All honest users at once. Returns how long each Reserve took, the shortest first.
async fn honest_day(
    world: &TlsWorld,
    users: &[(String, Dialer); USERS],
    run: &str,
    requests: usize,
) -> Vec<Duration> {
    let works = |at: usize| works(world, &users[at], run, requests);
    let (a, b, c, d) = tokio::join!(works(0), works(1), works(2), works(3));
    let mut took = [a, b, c, d].concat();
    took.sort();
    took
}

/// A world in which something is booked for two months, and the beginning of the ids of its coordinator.
async fn world_with_a_booking() -> (TlsWorld, [(String, Dialer); USERS], v1::Reservation, String) {
    let mut world = TlsWorld::start_with("").await;
    let users = std::array::from_fn(|number| honest(&mut world, number));
    let (user, dialer) = &users[0];
    let request = v1::CoAllocationRequest { user: user.clone(), ..pair(1, 1, 3_600, 60 * 86_400) };
    let request = v1::ReserveRequest {
        request_id: "booked".to_owned(),
        request: Some(request),
        ..Default::default()
    };
    let booked =
        world.grc(dialer).reserve(request).await.unwrap().into_inner().reservation.unwrap();
    assert_eq!(booked.state(), State::Confirmed, "{booked:?}");
    let ids = booked.id.rsplit_once('-').unwrap().0.to_owned() + "-";
    (world, users, booked, ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn honest_users_lose_nothing_while_a_rogue_does_all_it_can() {
    let (mut world, users, booked, ids) = world_with_a_booking().await;
    let rogue = Rogue::start(&mut world, &ids, &Attack::ALL);
    honest_day(&world, &users, "day", 25).await;
    let count = |of: &std::sync::atomic::AtomicUsize| of.load(Ordering::Relaxed);
    assert!(count(&rogue.forged) > 100, "the rogue was at it: {}", count(&rogue.forged));
    assert!(count(&rogue.planned) > 0, "the rogue has planned");
    assert_eq!(count(&rogue.let_through), 0, "forged messages that were let through");
    drop(rogue);
    let (_, dialer) = &users[0];
    let get = v1::GetRequest { id: booked.id.clone() };
    let still = world.grc(dialer).get(get).await.unwrap().into_inner().reservation.unwrap();
    assert_eq!(still.state(), State::Confirmed, "{still:?}");
}

/// Nine paired runs: the 99th percentile of Reserve without and with a rogue, who does everything, and then one thing at a
/// time. Measured by hand (docs/FIGURES.md), since it depends on the machine.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: docs/FIGURES.md has the command"]
async fn what_a_rogue_costs() {
    let alone = Attack::ALL.map(|attack| vec![attack]);
    for attacks in std::iter::once(Attack::ALL.to_vec()).chain(alone) {
        let mut ratios = Vec::new();
        for _ in 0..9 {
            ratios.push(cost(&attacks).await);
        }
        ratios.sort_by(f64::total_cmp);
        println!("{attacks:?}: {:.2} times, median of nine runs", ratios[4]);
    }
}

/// How many times longer the 99th percentile of Reserve is with these attacks.
async fn cost(attacks: &[Attack]) -> f64 {
    let (mut world, users, _, ids) = world_with_a_booking().await;
    let p99 = |took: &[Duration]| took[took.len() * 99 / 100];
    let without = p99(&honest_day(&world, &users, "without", 50).await);
    let rogue = Rogue::start(&mut world, &ids, attacks);
    let with = p99(&honest_day(&world, &users, "with", 50).await);
    let planned = rogue.planned.load(Ordering::Relaxed);
    let ratio = with.as_secs_f64() / without.as_secs_f64();
    println!(
        "p99 {without:?} without, {with:?} with {attacks:?}: {ratio:.2} times; it planned {planned}"
    );
    ratio
}
