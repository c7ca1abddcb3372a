//! Workflows over real processes: the ELGL federation of Takefusa 2010, with 13 resource managers and a coordinator.
//!
//! What a receipt says is compared with what every resource manager lists, to the microsecond.

use std::collections::BTreeMap;
use std::path::Path;

use coalloc_net::convert::{
    ParsedWorkflow, file_topology, schedule_from_wire, time_from_wire, workflow_from_wire,
};
use coalloc_plan::workflow::check;
use coalloc_proto::file::read;
use coalloc_proto::v1::workflows_client::WorkflowsClient;
use coalloc_proto::v1::{self, ReservationState as State};
use coalloc_proto::{Duration, Timestamp};
use tonic::Code;
use tonic::transport::Channel;

use crate::harness::{Federation, eventually, free_port, seconds_from_now};

/// Largest message that tests send and accept.
const BYTES: usize = 16 << 20;

pub(crate) fn elgl() -> v1::FederationFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/federations/elgl.yaml");
    read::<v1::FederationFile>(&path).unwrap().message
}

/// Every resource manager of ELGL and a coordinator whom all of them let watch.
pub(crate) async fn start(mode: v1::TaskMode) -> Federation {
    let mut federation = Federation::prepare();
    federation.addresses.clear();
    let file = elgl();
    let computes = file.computes.iter().map(|of| of.name.clone());
    let names: Vec<String> =
        computes.chain(file.networks.iter().map(|of| of.name.clone())).collect();
    for name in names.iter().map(String::as_str).chain(["grc"]) {
        federation.addresses.insert(name.to_owned(), format!("127.0.0.1:{}", free_port()));
    }
    let peer = |name: &str| v1::Peer {
        name: name.to_owned(),
        address: federation.addresses[name].clone(),
        ..v1::Peer::default()
    };
    let daemon = |name: &str| {
        Some(v1::Daemon {
            listen: federation.addresses[name].clone(),
            ledger: format!("{name}.ledger"),
            insecure_plaintext: true,
            ..v1::Daemon::default()
        })
    };
    let profiles =
        || Some(v1::ProfilePolicy { coordinators: vec!["grc".to_owned()], updates: None });
    for of in &file.computes {
        let text = serde_json::to_string(&v1::CrmFile {
            daemon: daemon(&of.name),
            inventory: Some(of.clone()),
            coordinators: vec![peer("grc")],
            profiles: profiles(),
            ..v1::CrmFile::default()
        });
        federation.write(&format!("{}.yaml", of.name), &text.unwrap());
    }
    for of in &file.networks {
        let text = serde_json::to_string(&v1::NrmFile {
            daemon: daemon(&of.name),
            inventory: Some(of.clone()),
            coordinators: vec![peer("grc")],
            profiles: profiles(),
            ..v1::NrmFile::default()
        });
        federation.write(&format!("{}.yaml", of.name), &text.unwrap());
    }
    let grc = serde_json::to_string(&v1::GrcFile {
        daemon: daemon("grc"),
        name: "grc".to_owned(),
        resource_managers: names.iter().map(|name| peer(name)).collect(),
        tasks: Some(v1::TaskSettings { mode: mode.into(), ..v1::TaskSettings::default() }),
        ..v1::GrcFile::default()
    });
    federation.write("grc.yaml", &grc.unwrap());
    for name in names.iter().map(String::as_str).chain(["grc"]) {
        federation.spawn(name);
    }
    federation.complete().await;
    federation
}

pub(crate) fn client(federation: &Federation) -> WorkflowsClient<Channel> {
    let channel = coalloc_net::client::channel("grc", &federation.addresses["grc"]).unwrap();
    let client = WorkflowsClient::new(channel);
    client.max_encoding_message_size(BYTES).max_decoding_message_size(BYTES)
}

fn seconds(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

pub(crate) fn activity(name: &str, cpus: u64, length: i64, sites: &[&str]) -> v1::WorkflowActivity {
    v1::WorkflowActivity {
        name: name.to_owned(),
        cpus: Some(cpus),
        duration: seconds(length),
        sites: sites.iter().map(|site| (*site).to_owned()).collect(),
        ..v1::WorkflowActivity::default()
    }
}

pub(crate) fn data(name: &str, bytes: u64, from: &str, to: &[&str]) -> v1::WorkflowData {
    v1::WorkflowData {
        name: name.to_owned(),
        bytes,
        from: from.to_owned(),
        to: to.iter().map(|to| (*to).to_owned()).collect(),
        ..v1::WorkflowData::default()
    }
}

/// A set over the three domains, data before and after it, and two activities that share a site at one time.
fn beam(from: i64) -> v1::Workflow {
    let from = seconds_from_now(from);
    v1::Workflow {
        activities: vec![
            activity("prepare", 8, 60, &["N1"]),
            activity("measure", 4, 300, &["N0"]),
            activity("filter", 30, 300, &["S2"]),
            activity("display", 2, 300, &["U0"]),
            activity("watch", 1, 250, &["S2"]),
            activity("store", 8, 120, &["S0", "U1"]),
        ],
        data: vec![
            data("corrections", 500_000_000, "prepare", &["measure", "filter"]),
            data("result", 5_000_000_000, "filter", &["store"]),
            v1::WorkflowData { from_site: "U2".into(), ..data("gains", 1_000, "", &["prepare"]) },
        ],
        sync_sets: vec![v1::ActivitySet {
            activities: ["measure", "filter", "display"].map(str::to_owned).to_vec(),
        }],
        channels: vec![v1::WorkflowChannel {
            from: "measure".into(),
            to: "filter".into(),
            bandwidth_bps: 2_000_000_000,
            max_latency: None,
        }],
        ready: Some(from),
        deadline: Some(Timestamp { seconds: from.seconds + 7_200, nanos: 0 }),
        user: "alice".to_owned(),
        ..v1::Workflow::default()
    }
}

fn submission(id: &str, workflow: &v1::Workflow) -> v1::SubmitWorkflowRequest {
    v1::SubmitWorkflowRequest {
        request_id: id.to_owned(),
        workflow: Some(workflow.clone()),
        options: None,
    }
}

pub(crate) async fn submit(
    federation: &Federation,
    id: &str,
    workflow: &v1::Workflow,
) -> Result<v1::WorkflowReceipt, tonic::Status> {
    let answer = client(federation).submit_workflow(submission(id, workflow)).await?;
    Ok(answer.into_inner().workflow.unwrap())
}

pub(crate) type Segments = Vec<(String, u64, i64, i64)>;

fn sorted(all: &[v1::Segment]) -> Segments {
    let us = |at: Option<Timestamp>| time_from_wire("at", &at.unwrap()).unwrap().as_us();
    let of = |one: &v1::Segment| {
        let window = one.window.unwrap();
        (one.resource.clone(), one.amount, us(window.start), us(window.end))
    };
    let mut all: Segments = all.iter().map(of).collect();
    all.sort();
    all
}

/// What every resource manager has held or booked now.
pub(crate) async fn live(federation: &Federation) -> BTreeMap<String, Segments> {
    let mut all = BTreeMap::new();
    for rm in federation.addresses.keys().filter(|name| *name != "grc") {
        let list = federation.rm(rm).list_bookings(v1::ListBookingsRequest::default()).await;
        for booking in list.unwrap().into_inner().bookings {
            // A change that needs nothing more of a resource manager leaves an empty booking there.
            let is_live =
                matches!(booking.state(), v1::BookingState::Held | v1::BookingState::Booked);
            if is_live && !booking.segments.is_empty() {
                all.insert(rm.clone(), sorted(&booking.segments));
            }
        }
    }
    all
}

pub(crate) fn planned(plan: &v1::WorkflowPlan) -> BTreeMap<String, Segments> {
    let mut by_rm: BTreeMap<String, Vec<v1::Segment>> = BTreeMap::new();
    for segment in &plan.segments {
        by_rm.entry(segment.resource_manager.clone()).or_default().push(segment.clone());
    }
    by_rm.into_iter().map(|(rm, all)| (rm, sorted(&all))).collect()
}

/// The plan of a workflow, read in pages of this size.
async fn paged(federation: &Federation, id: &str, size: u32) -> (v1::WorkflowPlan, usize) {
    let (mut plan, mut token, mut pages) = (v1::WorkflowPlan::default(), String::new(), 0);
    loop {
        let request =
            v1::GetWorkflowRequest { id: id.to_owned(), page_size: Some(size), page_token: token };
        let page = client(federation).get_workflow(request).await.unwrap().into_inner();
        let mut more = page.workflow.unwrap().plan.unwrap();
        // How far activities are is no part of the plan.
        for one in &mut more.activities {
            assert_eq!(one.progress(), v1::ActivityProgress::Waiting, "{one:?}");
            one.progress = v1::ActivityProgress::Unspecified.into();
        }
        if pages == 0 {
            plan = more;
        } else {
            plan.activities.extend(more.activities);
            plan.transfers.extend(more.transfers);
            plan.channels.extend(more.channels);
            plan.segments.extend(more.segments);
        }
        (token, pages) = (page.next_page_token, pages + 1);
        if token.is_empty() {
            return (plan, pages);
        }
    }
}

pub(crate) fn parsed(workflow: &v1::Workflow) -> ParsedWorkflow {
    let topology = file_topology(&elgl()).unwrap();
    let soonest = time_from_wire("ready", &workflow.ready.unwrap()).unwrap();
    workflow_from_wire(Some(&topology), workflow, soonest).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_booked_whole_and_stays_the_same_over_restarts() {
    let mut federation = start(v1::TaskMode::Central).await;
    let workflow = beam(3_600);
    let receipt = submit(&federation, "beam", &workflow).await.unwrap();
    assert!(receipt.confirmed && receipt.definite, "{receipt:?}");
    let plan = receipt.plan.clone().unwrap();
    // It does what the workflow asks for, by a check that knows nothing of planners.
    let topology = file_topology(&elgl()).unwrap();
    let parsed = parsed(&workflow);
    let schedule = schedule_from_wire(&topology, &parsed, &plan).unwrap();
    check::verify_graph(&topology, &parsed.workflow, &schedule).unwrap();
    // Exactly that is booked, in one booking for each resource manager.
    assert_eq!(live(&federation).await, planned(&plan));
    let domains: Vec<&str> = plan.activities[1..4].iter().map(|one| &one.site[..1]).collect();
    assert_eq!(domains, ["N", "S", "U"]);
    let at_s2: Vec<&v1::PlannedActivity> =
        plan.activities.iter().filter(|one| one.site == "S2").collect();
    assert_eq!(at_s2.len(), 2, "{at_s2:?}");
    // Sent again it is the same; with other content it is an error.
    assert_eq!(submit(&federation, "beam", &workflow).await.unwrap(), receipt);
    let other = v1::Workflow { user: "bob".to_owned(), ..workflow.clone() };
    let error = submit(&federation, "beam", &other).await.unwrap_err();
    assert_eq!(error.code(), Code::AlreadyExists);
    // Listings have a summary, pages have everything.
    let list = federation.grc().list(v1::ListRequest::default()).await.unwrap().into_inner();
    let one = &list.reservations[0];
    assert_eq!(one.workflow, plan.summary);
    assert!(one.plan.as_ref().unwrap().segments.is_empty());
    for (size, pages) in [(1_000, 1), (5, entries(&plan).div_ceil(5))] {
        assert_eq!(paged(&federation, "beam", size).await, (plan.clone(), pages));
    }
    let none = client(&federation).get_workflow(v1::GetWorkflowRequest::default()).await;
    assert_eq!(none.unwrap_err().code(), Code::InvalidArgument);
    // The ledger alone can answer after a restart.
    federation.kill("grc");
    federation.spawn("grc");
    federation.complete().await;
    assert_eq!(submit(&federation, "beam", &workflow).await.unwrap(), receipt);
    assert_eq!(paged(&federation, &receipt.reservation, 4).await.0, plan);
    assert_eq!(live(&federation).await, planned(&plan));
    // A release frees all of it.
    let release =
        v1::ReleaseReservationRequest { id: receipt.reservation.clone(), user: "alice".to_owned() };
    let released = federation.grc().release(release).await.unwrap().into_inner();
    assert_eq!(released.reservation.unwrap().state(), State::Terminated);
    assert!(live(&federation).await.is_empty());
    let after = submit(&federation, "beam", &workflow).await.unwrap();
    assert!(!after.confirmed, "{after:?}");
}

fn entries(plan: &v1::WorkflowPlan) -> usize {
    plan.activities.len() + plan.transfers.len() + plan.channels.len() + plan.segments.len()
}

/// The picture still believes in a site whose resource manager has died: the Holds end, and nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_resource_manager_refuses_the_workflow_and_nothing_is_left() {
    let mut federation = start(v1::TaskMode::Distributed).await;
    let workflow = beam(3_600);
    eventually("the pictures are whole", || async {
        let request = v1::PlanWorkflowRequest { workflow: Some(workflow.clone()), options: None };
        let answer = client(&federation).plan_workflow(request).await;
        answer.is_ok_and(|answer| answer.into_inner().plan.is_some())
    })
    .await;
    federation.kill("crm-U0");
    let options = Some(v1::WorkflowOptions { tries: Some(1), ..Default::default() });
    let request = v1::SubmitWorkflowRequest { options, ..submission("dead", &workflow) };
    let answer = client(&federation).submit_workflow(request).await.unwrap().into_inner();
    let receipt = answer.workflow.unwrap();
    assert!(!receipt.confirmed, "{receipt:?}");
    let refusal = receipt.refusal.unwrap().refusal.unwrap();
    assert!(
        refusal.detail.contains("crm-U0") || refusal.resource_manager == "crm-U0",
        "{refusal:?}"
    );
    federation.spawn("crm-U0");
    federation.complete().await;
    eventually("nothing is held or booked anywhere", || async {
        live(&federation).await.is_empty()
    })
    .await;
    // The same workflow under a new id is booked now.
    eventually("the workflow is booked", || async {
        let id = format!("again-{}", uuid());
        submit(&federation, &id, &workflow).await.is_ok_and(|receipt| receipt.confirmed)
    })
    .await;
}

/// A number that no other call of this process has.
fn uuid() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// The largest workflow fits a message of this service, and a mistake in it is named; other services keep their limit.
#[tokio::test(flavor = "multi_thread")]
async fn large_workflows_are_read_and_mistakes_are_named() {
    let federation = start(v1::TaskMode::Central).await;
    let name = |at: usize| format!("an-activity-with-a-name-that-is-somewhat-long-{at:05}");
    let mut large = beam(3_600);
    large.activities = (0..4_096).map(|at| activity(&name(at), 1, 1, &[])).collect();
    (large.sync_sets, large.channels) = (Vec::new(), Vec::new());
    let deps = |to: usize| (1..=4).map(move |back| (to - back, to));
    let pairs = (4..4_096).flat_map(deps);
    large.data = pairs
        .map(|(from, to)| data(&format!("{from}-{to}"), 0, &name(from), &[&name(to)]))
        .collect();
    let bytes = prost::Message::encoded_len(&large);
    assert!(bytes > 2 << 20 && large.data.len() > 16_000, "{bytes}");
    let plan = |workflow: v1::Workflow| {
        let mut client = client(&federation);
        let request = v1::PlanWorkflowRequest { workflow: Some(workflow), options: None };
        async move { client.plan_workflow(request).await }
    };
    let mut wrong = large.clone();
    wrong.activities[4_000].sites = vec!["N9".to_owned()];
    let error = plan(wrong).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let text = error.message();
    assert!(text.contains("workflow.activities[4000].sites[0]: \"N9\""), "{text}");
    assert!(text.contains("did you mean N0, N1 or N2?"), "{text}");
    let mut many = large.clone();
    many.activities.push(activity("one-more", 1, 1, &[]));
    let error = plan(many).await.unwrap_err();
    assert!(error.message().contains("1 to 4096 activities"), "{error:?}");
    // It is a chain, so it needs more than an hour.
    let answer = plan(large.clone()).await.unwrap().into_inner();
    let planned = answer.plan.unwrap_or_else(|| panic!("{:?}", answer.refusal));
    assert_eq!(planned.activities.len(), 4_096);
    // Nobody plans after the deadline, and the refusal says when it could end.
    let mut late = large;
    late.deadline = late.ready.map(|at| Timestamp { seconds: at.seconds + 600, nanos: 0 });
    let refused = plan(late).await.unwrap().into_inner().refusal.unwrap();
    assert!(refused.earliest_finish.is_some(), "{refused:?}");
}

/// Four workflows that plan on the same facts: those that come too late are refused by a Hold, and planned again.
#[tokio::test(flavor = "multi_thread")]
async fn workflows_that_collide_are_planned_again_on_what_the_refusal_said() {
    let federation = start(v1::TaskMode::Central).await;
    let from = seconds_from_now(3_600);
    let workflow = |user: usize| v1::Workflow {
        activities: vec![activity("all", 8, 600, &["N0"]), activity("then", 2, 60, &["N1"])],
        data: vec![data("d", 1_000_000_000, "all", &["then"])],
        ready: Some(from),
        deadline: Some(Timestamp { seconds: from.seconds + 3_600, nanos: 0 }),
        user: format!("user-{user}"),
        ..v1::Workflow::default()
    };
    let options = Some(v1::WorkflowOptions { tries: Some(16), ..Default::default() });
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..4 {
        let request = v1::SubmitWorkflowRequest {
            options: options.clone(),
            ..submission(&format!("w{number}"), &workflow(number))
        };
        let mut client = client(&federation);
        calls.spawn(async move { client.submit_workflow(request).await.unwrap().into_inner() });
    }
    let (mut windows, mut refused) = (Vec::new(), 0);
    while let Some(answer) = calls.join_next().await {
        let receipt = answer.unwrap().workflow.unwrap();
        assert!(receipt.confirmed, "{receipt:?}");
        refused += receipt.tries.len();
        let window = receipt.plan.unwrap().activities[0].window.unwrap();
        windows.push((window.start.unwrap().seconds, window.end.unwrap().seconds));
    }
    windows.sort_unstable();
    // N0 has 8 CPUs, so they run one after the other, without any gap.
    let first = windows[0].0;
    let expected: Vec<(i64, i64)> =
        (0..4).map(|at| (first + 600 * at, first + 600 * (at + 1))).collect();
    assert_eq!(windows, expected);
    eprintln!("{refused} tries were refused");
    // A fifth one cannot end before the deadline if it takes an hour.
    let mut fifth = workflow(5);
    fifth.activities[0].duration = seconds(3_000);
    let receipt = submit(&federation, "fifth", &fifth).await.unwrap();
    let refused = receipt.refusal.unwrap();
    assert!(!receipt.confirmed && receipt.plan.is_none() && receipt.definite);
    assert_eq!(refused.activities, ["all"]);
    let end = refused.earliest_finish.unwrap();
    assert_eq!(end.seconds, windows[3].1 + 3_000, "it says when it could end");
    // The answer is the same when it is sent again.
    let again = submit(&federation, "fifth", &fifth).await.unwrap();
    assert_eq!(again.refusal.unwrap(), refused);
}
