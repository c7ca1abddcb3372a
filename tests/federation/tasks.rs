//! Tasks over real processes: two network and two compute resource managers, and coordinators that plan
//! centrally or with pictures, two-phase and one-way.
//!
//! Each test ends with its own audit, exact to the microsecond: nothing is overbooked, and exactly what was
//! confirmed is booked.

use std::collections::BTreeMap;

use coalloc_net::convert::window_from_wire;
use coalloc_plan::{Named as _, TaskPlannerName};
use coalloc_proto::v1::{self, ReservationState as State};
use coalloc_proto::{Duration, Timestamp};
use tokio::task::JoinSet;

use crate::harness::{Federation, eventually, free_port};

/// The paths from A to X and from X to B, each in its own domain; B's computers are twice as fast.
const MANAGERS: [(&str, &str); 4] = [
    ("nrm-1", "paths: [{name: A-X, a: A, b: X, capacity_bps: 1000000000, latency: 0.002s}]"),
    ("nrm-2", "paths: [{name: X-B, a: X, b: B, capacity_bps: 1000000000, latency: 0.002s}]"),
    ("crm-A", "sites: [{name: A, cpus: 2, mips: 10000}]"),
    ("crm-B", "sites: [{name: B, cpus: 4, mips: 20000}]"),
];

const CENTRAL: &str = "{mode: TASK_MODE_CENTRAL}";
const DISTRIBUTED: &str = "{mode: TASK_MODE_DISTRIBUTED}";

/// Resource managers, and coordinators with different settings for tasks.
struct Testbed {
    owner: Federation,
    /// For each coordinator, a federation that sees all daemons and owns none.
    seen: BTreeMap<String, Federation>,
}

impl Testbed {
    async fn start(coordinators: &[(&str, &str)]) -> Self {
        Self::start_with(coordinators, &[]).await
    }

    /// Starts the testbed; the managers in `denied` let nobody watch them.
    async fn start_with(coordinators: &[(&str, &str)], denied: &[&str]) -> Self {
        let mut owner = Federation::prepare();
        owner.addresses.clear();
        let names = MANAGERS.iter().map(|(name, _)| *name);
        for name in names.chain(coordinators.iter().map(|(name, _)| *name)) {
            owner.addresses.insert(name.to_owned(), format!("127.0.0.1:{}", free_port()));
        }
        let mut bed = Self { owner, seen: BTreeMap::new() };
        let names: Vec<&str> = coordinators.iter().map(|(name, _)| *name).collect();
        for (rm, inventory) in MANAGERS {
            bed.write_rm(rm, inventory, &names, !denied.contains(&rm));
            bed.owner.spawn(rm);
        }
        for (name, tasks) in coordinators {
            let mut text = format!("{}name: {name}\ntasks: {tasks}\n", bed.daemon(name));
            text += "resource_managers:\n";
            for (rm, _) in MANAGERS {
                let address = &bed.owner.addresses[rm];
                text += &format!("- {{name: {rm}, address: \"{address}\"}}\n");
            }
            bed.owner.write(&format!("{name}.yaml"), &text);
            bed.owner.spawn(name);
        }
        for name in names {
            let mut addresses = bed.owner.addresses.clone();
            addresses.insert("grc".to_owned(), bed.owner.addresses[name].clone());
            let federation = Federation::elsewhere(addresses);
            federation.complete().await;
            bed.seen.insert(name.to_owned(), federation);
        }
        bed
    }

    fn daemon(&self, name: &str) -> String {
        let address = &self.owner.addresses[name];
        format!(
            "daemon: {{insecure_plaintext: true, listen: \"{address}\", ledger: {name}.ledger}}\n"
        )
    }

    fn write_rm(&self, rm: &str, inventory: &str, coordinators: &[&str], open: bool) {
        let known = coordinators
            .iter()
            .map(|name| format!("{{name: {name}, address: \"{}\"}}", self.owner.addresses[*name]));
        let known: Vec<String> = known.collect();
        let profiles = match open {
            true => format!("profiles: {{coordinators: [{}]}}\n", coordinators.join(", ")),
            false => String::new(),
        };
        let text = format!(
            "{}coordinators: [{}]\n{profiles}inventory: {{name: {rm}, domain: D, {inventory}}}\n",
            self.daemon(rm),
            known.join(", ")
        );
        self.owner.write(&format!("{rm}.yaml"), &text);
    }

    fn grc(&self, name: &str) -> &Federation {
        &self.seen[name]
    }

    /// The picture of one coordinator.
    async fn picture(&self, name: &str) -> Result<v1::ReadPictureResponse, tonic::Status> {
        let request = v1::ReadPictureRequest {
            bandwidth_bps: 600_000_000,
            cpus: 3,
            from: None,
            slot: Some(Duration { seconds: 1, nanos: 0 }),
            slots: 60,
        };
        Ok(self.grc(name).grc().read_picture(request).await?.into_inner())
    }

    /// Waits until a coordinator has heard from every resource manager.
    async fn heard(&self, name: &str) {
        eventually("the picture is whole", || async {
            let picture = self.picture(name).await;
            picture.is_ok_and(|picture| {
                picture.parts.len() == MANAGERS.len()
                    && picture.parts.iter().all(|part| part.age.is_some())
            })
        })
        .await;
    }

    /// Checks that nothing is overbooked at any microsecond, nothing is held, and exactly what is confirmed
    /// is booked.
    async fn audit(&self) {
        let mut confirmed: BTreeMap<(String, String), Vec<v1::Segment>> = BTreeMap::new();
        for federation in self.seen.values() {
            let list = federation.grc().list(v1::ListRequest::default()).await.unwrap();
            for one in list.into_inner().reservations {
                assert!(one.definite, "{one:?}");
                if one.state().was_booked() {
                    for segment in one.plan.as_ref().unwrap().segments.clone() {
                        let key = (segment.resource_manager.clone(), one.transaction.clone());
                        confirmed.entry(key).or_default().push(segment);
                    }
                }
            }
        }
        let (mut booked, seen) = (BTreeMap::new(), self.seen.values().next().unwrap());
        for (rm, _) in MANAGERS {
            let described = seen.rm(rm).describe(v1::DescribeRequest {}).await.unwrap();
            let described = described.into_inner();
            let paths = described.paths.iter().map(|path| (path.name.clone(), path.capacity_bps));
            let sites = described.sites.iter().map(|site| (site.name.clone(), site.cpus));
            let capacity: BTreeMap<String, u64> = paths.chain(sites).collect();
            let mut taken: Vec<(i64, i128, String)> = Vec::new();
            for booking in seen.bookings(rm).await {
                assert_eq!(booking.state(), v1::BookingState::Booked, "{rm}: {booking:?}");
                for segment in &booking.segments {
                    let window = window_from_wire("window", segment.window.as_ref()).unwrap();
                    let amount = i128::from(segment.amount);
                    let resource = segment.resource.clone();
                    taken.push((window.start().as_us(), amount, resource.clone()));
                    taken.push((window.end().as_us(), -amount, resource));
                }
                booked.insert((rm.to_owned(), booking.transaction), booking.segments.len());
            }
            taken.sort();
            let mut free: BTreeMap<String, i128> = BTreeMap::new();
            for (at, amount, resource) in taken {
                let left = i128::from(capacity[&resource]);
                let used = free.entry(resource.clone()).or_default();
                *used += amount;
                assert!(*used <= left, "I1: {rm} has {used} of {left} {resource} taken at {at}");
            }
        }
        let confirmed: BTreeMap<_, usize> =
            confirmed.into_iter().map(|(key, segments)| (key, segments.len())).collect();
        assert_eq!(booked, confirmed, "booked is what is confirmed");
    }

    async fn audit_at_rest(&self) {
        eventually("every task has ended", || async {
            for federation in self.seen.values() {
                let list = federation.grc().list(v1::ListRequest::default()).await.unwrap();
                if list.into_inner().reservations.iter().any(|one| !one.definite) {
                    return false;
                }
            }
            true
        })
        .await;
        self.audit().await;
    }
}

/// A task with 25 MB at 600 Mbit/s (a third of a second) and a run of 3 CPUs for a second at B; A has too
/// few CPUs.
fn task() -> v1::TaskRequest {
    v1::TaskRequest {
        source: "A".to_owned(),
        data_bytes: 25_000_000,
        work_mi: 20_000,
        cpus: Some(3),
        bandwidth_bps: 600_000_000,
        user: "UserA".to_owned(),
        ..Default::default()
    }
}

fn submission(id: &str, task: v1::TaskRequest) -> v1::SubmitTaskRequest {
    let options = v1::TaskOptions {
        link_slot: Some(Duration { seconds: 0, nanos: 10_000_000 }),
        horizon: Some(Duration { seconds: 300, nanos: 0 }),
        ..Default::default()
    };
    v1::SubmitTaskRequest {
        request_id: id.to_owned(),
        task: Some(task),
        options: Some(options),
        ..Default::default()
    }
}

async fn submit(at: &Federation, wire: v1::SubmitTaskRequest) -> v1::TaskReceipt {
    try_submit(at, wire).await.unwrap()
}

async fn try_submit(
    at: &Federation,
    wire: v1::SubmitTaskRequest,
) -> Result<v1::TaskReceipt, tonic::Status> {
    Ok(at.grc().submit_task(wire).await?.into_inner().task.unwrap())
}

fn us(time: Option<&Timestamp>) -> i128 {
    let time = time.unwrap();
    i128::from(time.seconds) * 1_000_000 + i128::from(time.nanos) / 1_000
}

#[tokio::test(flavor = "multi_thread")]
async fn every_planner_answers_live() {
    let bed = Testbed::start(&[("grc", DISTRIBUTED)]).await;
    bed.heard("grc").await;
    let at = bed.grc("grc");
    for planner in TaskPlannerName::ALL {
        let name = planner.name();
        let mut wire = submission(name, task());
        if let Some(options) = &mut wire.options {
            options.planner = Some(name.to_owned());
        }
        let (task, options) = (wire.task.clone(), wire.options.clone());
        let planned = at.grc().plan_task(v1::PlanTaskRequest { task, options }).await.unwrap();
        let plans = planned.into_inner().answer.unwrap().plans;
        assert_eq!(plans.first().map(|plan| plan.planner.as_str()), Some(name), "{plans:?}");
        let receipt = submit(at, wire).await;
        assert!(receipt.confirmed, "{name}: {receipt:?}");
        assert_eq!(receipt.plan.map(|plan| plan.planner).as_deref(), Some(name));
        // This makes space for the next tasks, some of which begin at once or not at all.
        let request =
            v1::ReleaseReservationRequest { id: receipt.reservation, ..Default::default() };
        at.grc().release(request).await.unwrap();
        eventually("the picture knows", || async {
            let parts = bed.picture("grc").await.unwrap().parts;
            let mut vectors = parts.iter().flat_map(|part| &part.vectors);
            vectors.all(|vector| !vector.free.contains('0') || vector.resource == "A")
        })
        .await;
    }
    bed.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_planned_booked_shown_and_released_in_both_modes_and_manners() {
    let bed = Testbed::start(&[("grc-c", CENTRAL), ("grc-d", DISTRIBUTED)]).await;
    for name in ["grc-c", "grc-d"] {
        let at = bed.grc(name);
        for manner in [v1::TaskReservation::TwoPhase, v1::TaskReservation::OneWay] {
            let before = i128::from(coalloc_net::clock::now().wall.as_us());
            let id = format!("{name}-{}", manner.as_str_name());
            let wire =
                v1::SubmitTaskRequest { reservation: manner.into(), ..submission(&id, task()) };
            let receipt = submit(at, wire.clone()).await;
            assert!(receipt.confirmed && receipt.definite, "{receipt:?}");
            assert_eq!(receipt.tries, []);
            let plan = receipt.plan.clone().unwrap();
            assert_eq!((plan.cluster.as_str(), plan.cpus), ("B", 3));
            let legs: Vec<&str> = plan.legs.iter().map(|leg| leg.path.as_str()).collect();
            assert_eq!(legs, ["A-X", "X-B"]);
            for segment in &plan.segments {
                let start = us(segment.window.as_ref().unwrap().start.as_ref());
                assert!(start >= before, "nothing begins in the past");
            }
            // The same task again gets the same answer; a different task under its id is an error.
            assert_eq!(submit(at, wire.clone()).await, receipt);
            let other = v1::SubmitTaskRequest { tries: Some(2), ..wire };
            let error = try_submit(at, other).await.unwrap_err();
            assert_eq!(error.code(), tonic::Code::AlreadyExists, "{error:?}");
            // A task's reservation is a reservation like any other.
            let shown = at.get(&id).await.unwrap();
            assert!(shown.state().is_booked(), "{shown:?}");
            assert_eq!(shown.id, receipt.reservation);
            assert_eq!(shown.plan.as_ref().unwrap().segments, plan.segments);
            bed.audit().await;
            let release = v1::ReleaseReservationRequest { id: id.clone(), user: String::new() };
            let released = at.grc().release(release).await.unwrap().into_inner();
            assert_eq!(released.reservation.unwrap().state(), State::Terminated);
            bed.audit().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_picture_moves_with_what_is_booked_and_a_plan_holds_nothing() {
    let bed = Testbed::start(&[("grc-c", CENTRAL), ("grc-d", DISTRIBUTED)]).await;
    let error = bed.picture("grc-c").await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::FailedPrecondition, "{error:?}");
    bed.heard("grc-d").await;
    let free_at_b = |picture: v1::ReadPictureResponse| {
        let part = picture.parts.into_iter().find(|part| part.resource_manager == "crm-B");
        part.unwrap().vectors[0].free.matches('1').count()
    };
    let all = free_at_b(bed.picture("grc-d").await.unwrap());
    assert!(all >= 59, "{all}");
    for name in ["grc-c", "grc-d"] {
        let wire = submission("plan", task());
        let request = v1::PlanTaskRequest { task: wire.task, options: wire.options };
        let answer = bed.grc(name).grc().plan_task(request).await.unwrap().into_inner();
        let answer = answer.answer.unwrap();
        assert_eq!(answer.plans.len(), 1, "{answer:?}");
        assert!(answer.plans[0].proven_optimal);
        assert!(answer.effort.unwrap().tried > 0);
    }
    // Another coordinator books B for ten seconds.
    let long = v1::TaskRequest { work_mi: 200_000, ..task() };
    let receipt = submit(bed.grc("grc-c"), submission("long", long)).await;
    assert!(receipt.confirmed, "{receipt:?}");
    eventually("the picture has it", || async {
        free_at_b(bed.picture("grc-d").await.unwrap()) <= all - 9
    })
    .await;
    // A coordinator that plans with its picture plans after this booking, without asking any resource manager.
    let receipt = submit(bed.grc("grc-d"), submission("after", task())).await;
    assert!(receipt.confirmed && receipt.tries.is_empty(), "{receipt:?}");
    bed.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_outdated_pictures_tries_are_refused_facts_are_merged_and_nothing_is_overbooked() {
    // Updates come too late for tasks that are submitted at once, so only answers to Hold show what is free.
    let late = "{mode: TASK_MODE_DISTRIBUTED, updates: {delay: 6s}}";
    let one_way = "{mode: TASK_MODE_DISTRIBUTED, updates: {delay: 6s}, reservation: TASK_RESERVATION_ONE_WAY}";
    let bed = Testbed::start(&[("grc-1", late), ("grc-2", one_way), ("grc-3", late)]).await;
    for name in bed.seen.keys() {
        bed.heard(name).await;
    }
    let mut all = JoinSet::new();
    for (name, federation) in &bed.seen {
        for number in 0..6 {
            let client = federation.grc();
            let wire = v1::SubmitTaskRequest {
                tries: Some(16),
                ..submission(&format!("{name}-{number}"), task())
            };
            all.spawn(async move {
                let mut client = client;
                client.submit_task(wire).await.unwrap().into_inner().task.unwrap()
            });
        }
    }
    let receipts = all.join_all().await;
    let booked = receipts.iter().filter(|receipt| receipt.confirmed).count();
    let again = receipts.iter().filter(|one| one.confirmed && !one.tries.is_empty()).count();
    let refused: usize = receipts.iter().map(|receipt| receipt.tries.len()).sum();
    assert!(refused > 0, "18 tasks at once on pictures of before, and no conflict");
    assert!(again > 0, "planned again on fresh facts, and booked");
    assert!(booked >= 9, "{booked} of 18 booked, {refused} tries refused");
    println!("{booked} of 18 booked, {again} of them planned again, {refused} tries refused");
    for one in receipts.iter().flat_map(|receipt| &receipt.tries) {
        assert_eq!(one.age.is_some(), !one.resource_manager.is_empty(), "{one:?}");
    }
    let log: String = bed.seen.keys().map(|name| bed.owner.log(name)).collect();
    assert!(log.contains("a task's plan was refused"));
    bed.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_kill_9_of_a_manager_the_picture_goes_on_and_with_another_inventory_it_begins_anew() {
    let mut bed = Testbed::start(&[("grc-d", DISTRIBUTED)]).await;
    bed.heard("grc-d").await;
    let part = |picture: v1::ReadPictureResponse| {
        let mut parts = picture.parts.into_iter();
        parts.find(|part| part.resource_manager == "crm-B").unwrap()
    };
    assert!(submit(bed.grc("grc-d"), submission("first", task())).await.confirmed);
    let before = part(bed.picture("grc-d").await.unwrap());
    bed.owner.kill("crm-B");
    bed.owner.spawn("crm-B");
    bed.grc("grc-d").complete().await;
    let receipt = submit(bed.grc("grc-d"), submission("second", task())).await;
    assert!(receipt.confirmed, "{receipt:?}");
    eventually("the picture goes on", || async {
        part(bed.picture("grc-d").await.unwrap()).revision > before.revision
    })
    .await;
    let after = part(bed.picture("grc-d").await.unwrap());
    assert_eq!(after.ignored, 0, "{after:?}");
    // The cluster now has more CPUs: nothing that was told before counts any more.
    assert!(bed.owner.stop("crm-B").success());
    bed.write_rm("crm-B", "sites: [{name: B, cpus: 16, mips: 20000}]", &["grc-d"], true);
    bed.owner.spawn("crm-B");
    let large = v1::TaskRequest { cpus: Some(12), ..task() };
    let number = std::sync::atomic::AtomicU32::new(0);
    eventually("the new inventory is planned with", || async {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let wire = submission(&format!("large-{number}"), large.clone());
        submit(bed.grc("grc-d"), wire).await.confirmed
    })
    .await;
    bed.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_the_refusal_names_the_manager_and_the_setting() {
    let coordinators = [("grc-c", CENTRAL), ("grc-d", DISTRIBUTED)];
    let bed = Testbed::start_with(&coordinators, &["crm-B"]).await;
    for name in ["grc-c", "grc-d"] {
        let receipt = submit(bed.grc(name), submission(name, task())).await;
        assert!(!receipt.confirmed && receipt.definite, "{receipt:?}");
        let refusal = receipt.refusal.unwrap();
        assert_eq!(refusal.reason(), v1::Reason::Denied, "{refusal:?}");
        assert_eq!(refusal.resource_manager, "crm-B", "{refusal:?}");
        assert!(refusal.detail.contains("`profiles.coordinators`"), "{refusal:?}");
        // A task that needs nothing of that resource manager succeeds.
        let small = v1::TaskRequest { cpus: Some(2), ..task() };
        let receipt = submit(bed.grc(name), submission(&format!("{name}-2"), small)).await;
        assert!(receipt.confirmed, "{receipt:?}");
        assert_eq!(receipt.plan.unwrap().cluster, "A");
    }
    bed.audit().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_task_is_named_and_a_deadline_too_early_is_refused_with_what_would_do()
{
    type Spoil = fn(&mut v1::SubmitTaskRequest);
    fn of(wire: &mut v1::SubmitTaskRequest) -> &mut v1::TaskRequest {
        wire.task.as_mut().unwrap()
    }
    fn options(wire: &mut v1::SubmitTaskRequest) -> &mut v1::TaskOptions {
        wire.options.as_mut().unwrap()
    }
    let bed = Testbed::start(&[("grc-c", CENTRAL)]).await;
    let at = bed.grc("grc-c");
    let cases: [(&str, Spoil); 15] = [
        ("task: it is missing", |w| w.task = None),
        ("task.source", |w| of(w).source = "Nowhere".to_owned()),
        ("task.source", |w| of(w).source = String::new()),
        ("task.data_bytes", |w| of(w).data_bytes = 0),
        ("task.data_bytes", |w| of(w).data_bytes = u64::MAX),
        ("task.work_mi", |w| of(w).work_mi = 0),
        ("task.cpus", |w| of(w).cpus = Some(u64::MAX)),
        ("task.bandwidth_bps", |w| of(w).bandwidth_bps = 0),
        ("task.deadline", |w| of(w).deadline = Some(Timestamp { seconds: 1, nanos: 0 })),
        ("task.cluster", |w| of(w).cluster = Some("X".to_owned())),
        ("options.link_slot", |w| {
            options(w).link_slot = Some(Duration { seconds: 0, nanos: 1_000 });
        }),
        ("options.horizon", |w| options(w).horizon = Some(Duration { seconds: 0, nanos: 0 })),
        ("options.plans", |w| options(w).plans = Some(2)),
        ("tries", |w| w.tries = Some(17)),
        ("reservation", |w| w.reservation = 9),
    ];
    for (number, (field, spoil)) in cases.into_iter().enumerate() {
        let mut wire = submission(&format!("bad-{number}"), task());
        spoil(&mut wire);
        let error = try_submit(at, wire).await.unwrap_err();
        assert_eq!(error.code(), tonic::Code::InvalidArgument, "{field}: {error:?}");
        assert!(error.message().contains(field), "{field}: {error:?}");
    }
    // The data take a third of a second, the run a hundred seconds.
    let now = coalloc_net::clock::now().wall.as_us();
    let soon = now + 60_000_000;
    let deadline =
        Timestamp { seconds: soon / 1_000_000, nanos: (soon % 1_000_000) as i32 * 1_000 };
    let wire = submission(
        "early",
        v1::TaskRequest { deadline: Some(deadline), work_mi: 2_500_000, ..task() },
    );
    let receipt = submit(at, wire.clone()).await;
    assert!(!receipt.confirmed && receipt.definite, "{receipt:?}");
    let nearest = receipt.nearest.clone().unwrap();
    let end = us(nearest.run.unwrap().end.as_ref());
    assert!((100_300_000..160_000_000).contains(&(end - i128::from(now))), "{end} after {now}");
    assert_eq!(submit(at, wire).await, receipt, "the same answer for ever");
    // None of these tasks has left anything behind.
    bed.audit().await;
}
