//! Options of Takefusa 2010, section 3.4, and plans taken by their digest: real processes, checked by what
//! the resource managers have booked.

use std::collections::BTreeMap;

use coalloc_net::convert::{time_from_wire, time_to_wire};
use coalloc_proto::v1;
use tonic::Code;

use crate::harness::{Federation, Setup};

const HOUR_US: i64 = 3_600_000_000;
const DAY_US: i64 = 24 * HOUR_US;

/// Midnight UTC of the day after tomorrow: far from now, but well within every horizon.
fn midnight() -> i64 {
    let now = coalloc_net::clock::now().wall.as_us();
    (now / DAY_US + 2) * DAY_US
}

fn timestamp(us: i64) -> Option<coalloc_proto::Timestamp> {
    Some(time_to_wire(coalloc_common::Time::from_us(us)))
}

/// A request for one site for an hour, somewhere between two instants.
fn one_site(cpus: u64, earliest_us: i64, latest_us: i64) -> v1::CoAllocationRequest {
    v1::CoAllocationRequest {
        sites: vec![v1::SiteRequest { name: "a".into(), cpus, ..Default::default() }],
        earliest_start: timestamp(earliest_us),
        latest_start: timestamp(latest_us),
        duration: Some(coalloc_proto::Duration { seconds: 3_600, nanos: 0 }),
        user: "UserA".into(),
        ..Default::default()
    }
}

fn options(objectives: &[v1::Objective], frames: u32) -> v1::PlanOptions {
    v1::PlanOptions {
        objectives: objectives.iter().map(|objective| (*objective).into()).collect(),
        frames: Some(frames),
        ..Default::default()
    }
}

fn value(plan: &v1::Plan, objective: v1::Objective) -> u64 {
    plan.values.iter().find(|value| value.objective() == objective).unwrap().value
}

fn start_us(plan: &v1::Plan) -> i64 {
    let window = plan.window.as_ref().unwrap();
    time_from_wire("start", window.start.as_ref().unwrap()).unwrap().as_us()
}

/// A federation whose CRM `crm-A` owns these sites, in YAML.
async fn federation(sites: &str) -> Federation {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    configure_sites(&federation, sites);
    federation.start_all().await;
    federation
}

fn configure_sites(federation: &Federation, inventory: &str) -> std::path::PathBuf {
    let (own, grc) = (&federation.addresses["crm-A"], &federation.addresses["grc"]);
    let text = format!(
        "daemon: {{insecure_plaintext: true, listen: \"{own}\", ledger: crm-A.ledger}}\n\
         coordinators: [{{name: grc, address: \"{grc}\"}}]\n\
         inventory:\n  name: crm-A\n  domain: D\n{inventory}"
    );
    federation.write("crm-A.yaml", &text)
}

async fn plan(
    federation: &Federation,
    request: &v1::CoAllocationRequest,
    options: v1::PlanOptions,
) -> Vec<v1::Plan> {
    let request = v1::PlanRequest { request: Some(request.clone()), options: Some(options) };
    federation.grc().plan(request).await.unwrap().into_inner().plans
}

async fn reserve(
    federation: &Federation,
    id: &str,
    request: &v1::CoAllocationRequest,
    options: v1::PlanOptions,
    digest: &str,
) -> Result<v1::ReserveResponse, tonic::Status> {
    let request = v1::ReserveRequest {
        request_id: id.to_owned(),
        request: Some(request.clone()),
        options: Some(options),
        plan_digest: digest.to_owned(),
    };
    Ok(federation.grc().reserve(request).await?.into_inner())
}

/// CPUs booked by site, summed over all time.
async fn booked(federation: &Federation) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for rm in ["crm-A", "crm-B"] {
        for segment in federation.bookings(rm).await.iter().flat_map(|b| &b.segments) {
            *sum.entry(segment.resource.clone()).or_default() += segment.amount;
        }
    }
    sum
}

const DAY_AND_NIGHT: &str = "  \
  price:
    bands:
    - {from: \"00:00\", to: \"06:00\", unit_price_millipoints: 500}
    - {from: \"06:00\", to: \"24:00\", unit_price_millipoints: 2000}
  sites:
  - {name: A, cpus: 100}
  - {name: B2, cpus: 100, price: {bands: [{from: \"00:00\", to: \"24:00\", unit_price_millipoints: 1500}]}}
";

#[tokio::test(flavor = "multi_thread")]
async fn price_chooses_the_night_and_the_start_does_not() {
    let federation = federation(DAY_AND_NIGHT).await;
    let noon = midnight() + 12 * HOUR_US;
    // B is excluded, because it is always free of charge.
    let mut request = one_site(10, noon, noon + 18 * HOUR_US);
    request.sites[0].excluded = vec!["B".into()];
    let early = plan(&federation, &request, options(&[], 19)).await;
    assert_eq!((early.len(), start_us(&early[0])), (19, noon));
    assert_eq!(early[0].placements[0].at, "A", "of equal value, the first");
    assert_eq!(value(&early[0], v1::Objective::Price), 10 * 2_000);

    let cheap = plan(&federation, &request, options(&[v1::Objective::Price], 19)).await;
    assert_eq!(start_us(&cheap[0]), midnight() + DAY_US, "the first hour of the night");
    let prices: Vec<u64> = cheap.iter().map(|p| value(p, v1::Objective::Price)).collect();
    // Seven starts are at the full hours from 00:00 to 06:00; the last of them is by day. All other starts
    // are by day, at B2.
    assert_eq!(prices[..6], [10 * 500; 6]);
    assert_eq!(prices[6..], [10 * 1_500; 13]);
    assert_eq!(cheap[6].placements[0].at, "B2");
    assert!(cheap.iter().all(|plan| plan.proven_optimal && plan.solver == "exact"));
    let three = v1::PlanOptions { plans: Some(3), ..options(&[v1::Objective::Price], 19) };
    assert_eq!(plan(&federation, &request, three).await, cheap[..3], "the best three");

    let answer = reserve(&federation, "night", &request, options(&[v1::Objective::Price], 19), "");
    let reservation = answer.await.unwrap().reservation.unwrap();
    assert_eq!(reservation.state(), v1::ReservationState::Confirmed);
    let bookings = federation.bookings("crm-A").await;
    let window = bookings[0].segments[0].window;
    assert_eq!(window, cheap[0].window);
    assert_eq!(reservation.plan.unwrap().values, cheap[0].values);
}

const UNLIKE: &str = "  \
  sites:
  - {name: A, cpus: 100, unit_value: 1, quality: 500}
  - {name: C, cpus: 100, unit_value: 4, quality: 950}
";

#[tokio::test(flavor = "multi_thread")]
async fn quality_and_preference_choose_unlike_sites() {
    // B, which belongs to crm-B, has unit value 1 and full quality.
    let federation = federation(UNLIKE).await;
    let at = midnight();
    let mut request = one_site(4, at, at);
    request.sites[0].excluded = vec!["B".into()];
    let preferred = plan(&federation, &request, options(&[v1::Objective::Preference], 1)).await;
    assert_eq!(preferred[0].placements[0].at, "A");
    assert_eq!(value(&preferred[0], v1::Objective::Quality), 4 * 500);
    let good = plan(&federation, &request, options(&[v1::Objective::Quality], 1)).await;
    assert_eq!(good[0].placements[0].at, "C");
    assert_eq!(value(&good[0], v1::Objective::Quality), 4 * 50);
    assert_eq!((good[0].cost_millipoints, good[0].lower_bound_millipoints), (16_000, 16_000));
    assert_eq!(good[0].values[0].objective(), v1::Objective::Quality, "in the order of ranking");
    let twice = options(&[v1::Objective::Quality, v1::Objective::Quality], 1);
    let request = v1::PlanRequest { request: Some(request), options: Some(twice) };
    let error = federation.grc().plan(request).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("options.objectives[1]"), "{error}");
}

const FOUR: &str = "  \
  sites:
  - {name: A, cpus: 40}
  - {name: C, cpus: 40}
  - {name: D, cpus: 40}
  - {name: E, cpus: 40}
";

#[tokio::test(flavor = "multi_thread")]
async fn load_balancing_spreads_what_preference_piles_up() {
    let federation = federation(FOUR).await;
    let piled = midnight();
    let spread = piled + 2 * HOUR_US;
    for (name, objectives, at) in
        [("pile", vec![], piled), ("spread", vec![v1::Objective::Load], spread)]
    {
        let mut request = one_site(2, at, at);
        request.sites[0].excluded = vec!["B".into()];
        for number in 0..20 {
            let id = format!("{name}-{number}");
            let answer = reserve(&federation, &id, &request, options(&objectives, 1), "").await;
            let reservation = answer.unwrap().reservation.unwrap();
            assert_eq!(reservation.state(), v1::ReservationState::Confirmed, "{id}");
        }
        let by_site = booked(&federation).await;
        match name {
            "pile" => assert_eq!(by_site, BTreeMap::from([("A".into(), 40)])),
            // The sum of five requests of two CPUs each, and of the bookings made two hours before.
            _ => assert_eq!(
                by_site,
                [("A", 50), ("C", 10), ("D", 10), ("E", 10)]
                    .map(|(site, cpus)| (site.to_owned(), cpus))
                    .into()
            ),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_reserved_by_its_digest_while_it_can_be_made() {
    let federation = Federation::start().await;
    let at = midnight();
    let request = one_site(60, at, at + 4 * HOUR_US);
    let plans = plan(&federation, &request, options(&[], 5)).await;
    assert_eq!(plans.len(), 5);
    let take = |id: &'static str, digest: String| {
        let (federation, request) = (&federation, &request);
        async move { reserve(federation, id, request, options(&[], 5), &digest).await }
    };
    // The fourth plan is taken, not the best one, and no other.
    let taken = take("fourth", plans[3].digest.clone()).await.unwrap().reservation.unwrap();
    assert_eq!(taken.state(), v1::ReservationState::Confirmed);
    assert_eq!(taken.plan.as_ref(), Some(&plans[3]), "exactly what was shown");
    let booked = federation.bookings("crm-A").await;
    assert_eq!((booked.len(), booked[0].segments[0].window), (1, plans[3].window));

    // This plan cannot be taken again: 60 of 100 CPUs are gone there, and now there are other plans.
    let answer = take("again", plans[3].digest[..12].to_owned()).await.unwrap();
    let refused = answer.reservation.unwrap();
    assert_eq!((refused.state(), refused.definite), (v1::ReservationState::Failed, true));
    let refusal = refused.refusal.unwrap();
    assert_eq!(refusal.reason(), v1::Reason::PlanOutdated);
    assert!(refusal.transient);
    assert!(refusal.detail.contains("60 CPUs of 40 CPUs free at A"), "{}", refusal.detail);
    assert!(refusal.detail.ends_with("; 5 others can"), "{}", refusal.detail);
    assert_eq!(answer.fresh_plans.len(), 5);
    assert_eq!(answer.fresh_plans[3].placements[0].at, "B");
    assert_eq!(federation.bookings("crm-A").await.len(), 1, "nothing else was tried");
    assert!(federation.bookings("crm-B").await.is_empty(), "nothing else was tried");
    // The same request again always gets the same answer (I8), but without the fresh plans.
    let same = take("again", plans[3].digest[..12].to_owned()).await.unwrap();
    assert_eq!(same.reservation.unwrap().refusal, Some(refusal));
    // A fresh plan can be taken by its digest, too.
    let fresh = take("fresh", answer.fresh_plans[3].digest.clone()).await.unwrap();
    let fresh = fresh.reservation.unwrap();
    assert_eq!(fresh.state(), v1::ReservationState::Confirmed);
    assert_eq!(federation.bookings("crm-B").await.len(), 1);
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_that_mean_nothing_are_refused_with_what_they_should_be() {
    let mut federation = Federation::start().await;
    let at = midnight();
    let request = one_site(60, at, at);
    let digest = plan(&federation, &request, options(&[], 1)).await.remove(0).digest;
    for (id, wrong, expected) in [
        ("short", "0123", "hexadecimal digits"),
        ("never", "0123456789abcdef", "has shown since it was started"),
    ] {
        let error = reserve(&federation, id, &request, options(&[], 1), wrong).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        assert!(error.message().starts_with("plan_digest: "), "{error}");
        assert!(error.message().contains(expected), "{error}");
        assert_eq!(
            federation.get(id).await.unwrap_err().code(),
            Code::NotFound,
            "nothing was done"
        );
    }
    // The digest belongs to another request, so it is refused although the plan would fit.
    let other = one_site(61, at, at);
    let error = reserve(&federation, "other", &other, options(&[], 1), &digest).await.unwrap_err();
    assert!(error.message().contains("for this very request"), "{error}");
    // After a restart the coordinator remembers no plans, but it recognises a plan that it would make now.
    federation.kill("grc");
    federation.spawn("grc");
    federation.complete().await;
    let answer = reserve(&federation, "after", &request, options(&[], 1), &digest).await.unwrap();
    assert_eq!(answer.reservation.unwrap().state(), v1::ReservationState::Confirmed);
    // The digest is part of the request (I8).
    let error = reserve(&federation, "after", &request, options(&[], 1), "").await.unwrap_err();
    assert_eq!(error.code(), Code::AlreadyExists, "{error}");
}

/// A change to this many CPUs, in which sites may move.
async fn change(
    federation: &Federation,
    change: &str,
    request: &v1::CoAllocationRequest,
    options: Option<v1::PlanOptions>,
) -> v1::Reservation {
    let request = v1::ModifyRequest {
        id: "mine".to_owned(),
        change_id: change.to_owned(),
        request: Some(v1::CoAllocationRequest { earliest_start: None, ..request.clone() }),
        options,
        may_move: true,
    };
    let changed = federation.grc().modify(request).await.unwrap().into_inner();
    let changed = changed.reservation.unwrap();
    assert_eq!(changed.change.as_ref().unwrap().state(), v1::ChangeState::Done, "{changed:?}");
    changed
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_planned_as_its_reservation_was_unless_it_says_otherwise() {
    let mut federation = federation(DAY_AND_NIGHT).await;
    let noon = midnight() + 12 * HOUR_US;
    let mut request = one_site(10, noon, noon);
    request.sites[0].excluded = vec!["B".into()];
    let at = |one: &v1::Reservation| one.plan.as_ref().unwrap().placements[0].at.clone();
    let cheap = options(&[v1::Objective::Price], 1);
    let mine = reserve(&federation, "mine", &request, cheap.clone(), "").await.unwrap();
    let mine = mine.reservation.unwrap();
    assert_eq!((at(&mine), &mine.options), ("B2".to_owned(), &Some(cheap.clone())));
    // By day B2 is cheaper; among equal values, A comes first.
    let request = v1::CoAllocationRequest { latest_start: None, ..request };
    let with = |cpus: u64| {
        let mut request = request.clone();
        request.sites[0].cpus = cpus;
        request
    };
    let kept = change(&federation, "kept", &with(11), None).await;
    assert_eq!((at(&kept), kept.options), ("B2".to_owned(), Some(cheap.clone())));
    // The objectives are durable: after a restart the plan is still cheap. Setting one option keeps the others.
    federation.kill("grc");
    federation.spawn("grc");
    federation.complete().await;
    let mip = v1::PlanOptions { solver: Some("mip".to_owned()), ..Default::default() };
    let kept = change(&federation, "solver", &with(12), Some(mip.clone())).await;
    assert_eq!((at(&kept), kept.plan.as_ref().unwrap().solver.as_str()), ("B2".to_owned(), "mip"));
    let both = v1::PlanOptions { solver: mip.solver, ..cheap };
    assert_eq!(kept.options, Some(both.clone()));
    // From now on, other objectives are set.
    let objectives = vec![v1::Objective::Preference.into()];
    let preferred = v1::PlanOptions { objectives, ..Default::default() };
    let moved = change(&federation, "moved", &with(13), Some(preferred.clone())).await;
    let expected = Some(v1::PlanOptions { objectives: preferred.objectives, ..both });
    assert_eq!((at(&moved), &moved.options), ("A".to_owned(), &expected));
    let stays = change(&federation, "stays", &with(14), None).await;
    assert_eq!((at(&stays), &stays.options), ("A".to_owned(), &expected));
    federation.audit_at_rest().await;
}

/// The price in thousandths of a point for each CPU and second.
const BY_THE_SECOND: &str = "  \
  price:
    bands: [{from: \"00:00\", to: \"24:00\", unit_price_millipoints: 3600000}]
  sites: [{name: A, cpus: 100}]
";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_changed_while_it_runs_is_worth_what_all_of_it_is() {
    let federation = federation(BY_THE_SECOND).await;
    let begun = coalloc_net::clock::now().wall.as_us() / 1_000_000 * 1_000_000 - 20_000_000;
    let lasting = |cpus, seconds| {
        let mut request = one_site(cpus, begun, begun);
        request.sites[0].pinned_to = Some("A".into());
        request.duration = Some(coalloc_proto::Duration { seconds, nanos: 0 });
        v1::CoAllocationRequest { latest_start: None, ..request }
    };
    let mine = reserve(&federation, "mine", &lasting(10, 600), options(&[], 1), "").await.unwrap();
    let price = |one: &v1::Reservation| value(one.plan.as_ref().unwrap(), v1::Objective::Price);
    assert_eq!(price(&mine.reservation.unwrap()), 10 * 600 * 1_000);
    let longer = change(&federation, "longer", &lasting(10, 1_200), None).await;
    assert_eq!(price(&longer), 10 * 1_200 * 1_000, "of the whole, not of what is left");
    let start = value(longer.plan.as_ref().unwrap(), v1::Objective::Start);
    assert_eq!(start, begun.unsigned_abs(), "when it began, not when it was changed");
    // The part that was used keeps its cost; the part that is to come costs more.
    let larger = change(&federation, "larger", &lasting(30, 1_200), None).await;
    let booked = federation.bookings("crm-A").await;
    let seconds = |segment: &v1::Segment| {
        let window = segment.window.as_ref().unwrap();
        window.end.as_ref().unwrap().seconds - window.start.as_ref().unwrap().seconds
    };
    let segments = booked.iter().flat_map(|booking| &booking.segments);
    let used: Vec<(u64, u64)> =
        segments.map(|segment| (segment.amount, seconds(segment).unsigned_abs())).collect();
    assert_eq!(used.iter().map(|(cpus, _)| *cpus).collect::<Vec<_>>(), [10, 30]);
    let sum: u64 = used.iter().map(|(cpus, seconds)| cpus * seconds * 1_000).sum();
    assert_eq!(price(&larger), sum);
    federation.audit_at_rest().await;
}

#[test]
fn a_price_schedule_with_a_hole_refuses_to_start_and_says_where() {
    let federation = Federation::prepare();
    let holes = "  price:\n    bands:\n    \
         - {from: \"00:00\", to: \"08:00\", unit_price_millipoints: 1}\n    \
         - {from: \"09:00\", to: \"24:00\", unit_price_millipoints: 2}\n  \
         sites: [{name: A, cpus: 1}]\n";
    let path = configure_sites(&federation, holes);
    let text = std::fs::read_to_string(&path).unwrap();
    let line = 1 + text.lines().position(|line| line.contains("09:00")).unwrap();
    assert!(!federation.command("crm-A").status().unwrap().success());
    let log = federation.log("crm-A");
    let place =
        format!("crm-A.yaml:{line}: inventory.price.bands[1].from: \"09:00\" is not allowed");
    let place = place.replace("\"09:00\"", "09:00");
    assert!(log.contains(&place), "{log}");
    assert!(log.contains("from 08:00 to 09:00 there is no price"), "{log}");
}
