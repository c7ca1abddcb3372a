//! Workflows that live, over real processes: reports of activities and what follows from them, restarts between a
//! report and its consequence, revisions that users ask for, and many of all these at once.
//!
//! After every step the version that is booked is verified by rules of its own, and compared with what every resource
//! manager lists.

use std::collections::BTreeSet;

use coalloc_net::convert::{file_topology, schedule_from_wire, time_from_wire, window_from_wire};
use coalloc_plan::workflow::check;
use coalloc_proto::Timestamp;
use coalloc_proto::v1::{self, ActivityEvent as Event, RevisionState};
use tonic::{Code, Status};

use crate::harness::{Federation, eventually, seconds_from_now};
use crate::workflows::{activity, client, data, elgl, live, parsed, planned, start, submit};

/// Seconds until the workflow may begin: the coordinator plans no sooner.
const SOON: i64 = 12;

/// `read` makes data for `filter` and `show`, which run at one time; `write` comes after them.
fn pipeline(id: &str) -> (String, v1::Workflow) {
    let from = seconds_from_now(SOON);
    let workflow = v1::Workflow {
        activities: vec![
            activity("read", 8, 600, &["S0", "S1"]),
            activity("filter", 16, 600, &["S2", "U2"]),
            activity("show", 2, 600, &["N0", "U0"]),
            activity("write", 4, 300, &[]),
        ],
        data: vec![
            data("raw", 2_000_000_000, "read", &["filter", "show"]),
            data("result", 1_000_000_000, "filter", &["write"]),
        ],
        sync_sets: vec![v1::ActivitySet {
            activities: ["filter", "show"].map(str::to_owned).to_vec(),
        }],
        channels: vec![v1::WorkflowChannel {
            from: "filter".into(),
            to: "show".into(),
            bandwidth_bps: 1_000_000_000,
            max_latency: None,
        }],
        ready: Some(from),
        deadline: Some(Timestamp { seconds: from.seconds + 3_600, nanos: 0 }),
        user: "ann".to_owned(),
        ..v1::Workflow::default()
    };
    (id.to_owned(), workflow)
}

fn report(id: &str, number: u32, activity: &str, event: Event) -> v1::ReportActivityRequest {
    v1::ReportActivityRequest {
        id: id.to_owned(),
        report_id: format!("{id}-{number}"),
        user: "ann".to_owned(),
        activity: activity.to_owned(),
        event: event.into(),
        ..v1::ReportActivityRequest::default()
    }
}

async fn send(
    federation: &Federation,
    wire: &v1::ReportActivityRequest,
) -> Result<v1::ReportActivityResponse, Status> {
    client(federation).report_activity(wire.clone()).await.map(tonic::Response::into_inner)
}

async fn revise(
    federation: &Federation,
    wire: &v1::ReviseWorkflowRequest,
) -> Result<v1::ReviseWorkflowResponse, Status> {
    client(federation).revise_workflow(wire.clone()).await.map(tonic::Response::into_inner)
}

async fn get(federation: &Federation, id: &str) -> v1::WorkflowReceipt {
    let request = v1::GetWorkflowRequest { id: id.to_owned(), ..Default::default() };
    let answer = client(federation).get_workflow(request).await.unwrap().into_inner();
    assert_eq!(answer.next_page_token, "");
    answer.workflow.unwrap()
}

/// Waits until an activity has begun by the clock, and reports so.
async fn begun(federation: &Federation, id: &str, activity: &str) {
    eventually("the activity begins", || async {
        send(federation, &report(id, 0, activity, Event::Started)).await.is_ok()
    })
    .await;
}

fn end_s(one: &v1::PlannedActivity) -> i64 {
    window_from_wire("window", one.window.as_ref()).unwrap().end().as_us() / 1_000_000
}

fn placed<'a>(receipt: &'a v1::WorkflowReceipt, name: &str) -> &'a v1::PlannedActivity {
    let plan = receipt.plan.as_ref().unwrap();
    plan.activities.iter().find(|one| one.name == name).unwrap()
}

/// The version that is booked does what the workflow asks for, and resource managers have booked just that.
async fn verified(
    federation: &Federation,
    id: &str,
    workflow: &v1::Workflow,
) -> v1::WorkflowReceipt {
    let receipt = get(federation, id).await;
    let plan = receipt.plan.as_ref().unwrap();
    let topology = file_topology(&elgl()).unwrap();
    let mut parsed = parsed(workflow);
    parsed.workflow.deadline =
        parsed.workflow.deadline.saturating_add(coalloc_common::Span::from_secs(86_400));
    let schedule = schedule_from_wire(&topology, &parsed, plan).unwrap();
    let ended = plan
        .activities
        .iter()
        .enumerate()
        .filter(|(_, one)| one.reported && one.progress() == v1::ActivityProgress::Finished);
    let ended: BTreeSet<usize> = ended.map(|(index, _)| index).collect();
    check::verify_revised(&topology, &parsed.workflow, &schedule, &ended).unwrap();
    assert_eq!(live(federation).await, planned(plan));
    receipt
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_are_followed_and_outlive_the_coordinator() {
    let mut federation = start(v1::TaskMode::Central).await;
    let (id, workflow) = pipeline("p");
    assert!(submit(&federation, &id, &workflow).await.unwrap().confirmed);
    // Nothing is reported of what has not begun, by strangers, or of what there is not.
    let early = send(&federation, &report(&id, 90, "filter", Event::Failed)).await.unwrap_err();
    assert_eq!(early.code(), Code::InvalidArgument);
    assert!(early.message().contains("before its window begins"), "{early:?}");
    begun(&federation, &id, "read").await;
    let mut stranger = report(&id, 91, "read", Event::Failed);
    stranger.user = "bob".to_owned();
    assert_eq!(send(&federation, &stranger).await.unwrap_err().code(), Code::PermissionDenied);
    let wrong = |change: fn(&mut v1::ReportActivityRequest)| {
        let mut wire = report(&id, 92, "read", Event::NeedsUntil);
        change(&mut wire);
        wire
    };
    let cases: [(&str, v1::ReportActivityRequest); 7] = [
        ("until", wrong(|_| {})),
        ("until", wrong(|wire| wire.until = Some(Timestamp { seconds: 1, nanos: 0 }))),
        ("activity", wrong(|wire| wire.activity = "raed".to_owned())),
        ("event", wrong(|wire| wire.event = 0)),
        ("time", wrong(|wire| wire.time = Some(seconds_from_now(600)))),
        ("report_id", wrong(|wire| wire.report_id = String::new())),
        (
            "excluded[0]",
            wrong(|wire| {
                wire.event = Event::Failed.into();
                wire.excluded = vec!["Z9".to_owned()];
            }),
        ),
    ];
    for (field, wire) in cases {
        let error = send(&federation, &wire).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error:?}");
        assert!(error.message().starts_with(&format!("{field}: ")), "{field}: {error:?}");
    }
    let unknown = send(&federation, &report("nobody", 93, "read", Event::Failed)).await;
    assert_eq!(unknown.unwrap_err().code(), Code::NotFound);
    assert_eq!(verified(&federation, &id, &workflow).await.version, 1);
    // It runs longer: what waits for its data is moved, and the answer stays the same.
    let old_end = end_s(placed(&get(&federation, &id).await, "read"));
    let until = Timestamp { seconds: old_end + 200, nanos: 0 };
    let longer = v1::ReportActivityRequest {
        until: Some(until),
        ..report(&id, 1, "read", Event::NeedsUntil)
    };
    let answer = send(&federation, &longer).await.unwrap();
    let revision = answer.revision.clone().unwrap();
    assert_eq!((revision.state(), answer.version), (RevisionState::Done, 2), "{answer:?}");
    assert_eq!(revision.resized, ["read"]);
    assert_eq!(revision.moved, ["filter", "show", "write"]);
    assert_eq!(send(&federation, &longer).await.unwrap(), answer);
    let other =
        v1::ReportActivityRequest { until: Some(seconds_from_now(9_000)), ..longer.clone() };
    assert_eq!(send(&federation, &other).await.unwrap_err().code(), Code::AlreadyExists);
    let receipt = verified(&federation, &id, &workflow).await;
    let read = placed(&receipt, "read");
    assert_eq!((end_s(read), read.reported), (old_end + 200, true));
    assert_eq!(read.progress(), v1::ActivityProgress::Running);
    assert_eq!(placed(&receipt, "filter").progress(), v1::ActivityProgress::Waiting);
    // All of it is in the ledger.
    federation.kill("grc");
    federation.spawn("grc");
    federation.complete().await;
    assert_eq!(verified(&federation, &id, &workflow).await, receipt);
    assert_eq!(send(&federation, &longer).await.unwrap(), answer);
    // What misses the deadline is refused, and everything stays.
    let too_long = v1::ReportActivityRequest {
        until: Some(seconds_from_now(3_500)),
        ..report(&id, 2, "read", Event::NeedsUntil)
    };
    let refused = send(&federation, &too_long).await.unwrap();
    let revision = refused.revision.unwrap();
    assert_eq!((revision.state(), refused.version), (RevisionState::Refused, 2));
    let why = revision.refusal.unwrap().refusal.unwrap().detail;
    assert!(why.contains("would be missed by"), "{why}");
    let still = verified(&federation, &id, &workflow).await;
    assert_eq!(still.plan.as_ref().unwrap().segments, receipt.plan.as_ref().unwrap().segments);
    assert_eq!(still.revision.unwrap().state(), RevisionState::Refused);
    // It has failed, and must run elsewhere: it and all that follows are placed anew.
    let site = placed(&receipt, "read").site.clone();
    let mut failed = report(&id, 3, "read", Event::Failed);
    failed.excluded = vec![site.clone()];
    let answer = send(&federation, &failed).await.unwrap();
    let revision = answer.revision.unwrap();
    assert_eq!((revision.state(), answer.version), (RevisionState::Done, 3), "{revision:?}");
    assert_eq!(revision.moved, ["read", "filter", "show", "write"]);
    let moved = verified(&federation, &id, &workflow).await;
    assert_ne!(placed(&moved, "read").site, site);
    assert_eq!(placed(&moved, "read").progress(), v1::ActivityProgress::Waiting);
    // It ends sooner than planned: the rest of its window is given back, and nothing is moved.
    begun(&federation, &id, "read").await;
    eventually("it may be reported to have ended", || async {
        let ended = report(&id, 4, "read", Event::Finished);
        send(&federation, &ended).await.is_ok_and(|answer| answer.version == 4)
    })
    .await;
    let shorter = verified(&federation, &id, &workflow).await;
    assert!(end_s(placed(&shorter, "read")) < end_s(placed(&moved, "read")));
    assert_eq!(placed(&shorter, "filter").window, placed(&moved, "filter").window);
    // A watcher hears all of it in order.
    let events = events(&federation, &id).await;
    let said = |text: &str| events.iter().any(|event| event.contains(text));
    for text in [
        "read has begun",
        "read needs until",
        "read has failed",
        "must not run again at",
        "read has ended",
    ] {
        assert!(said(text), "{text}: {events:?}");
    }
    assert!(events.iter().any(|event| event.contains("would be missed by")), "{events:?}");
    // After the release nothing is taken any more.
    let release = v1::ReleaseReservationRequest { id: receipt.reservation, user: "ann".to_owned() };
    federation.grc().release(release).await.unwrap();
    assert!(live(&federation).await.is_empty());
    let late = send(&federation, &report(&id, 5, "filter", Event::Started)).await.unwrap_err();
    assert_eq!(late.code(), Code::FailedPrecondition);
    assert!(send(&federation, &failed).await.is_ok(), "what is known keeps its answer");
}

/// All events of a reservation so far: what each says, with its refusal.
async fn events(federation: &Federation, id: &str) -> Vec<String> {
    let (id, resume_token) = (id.to_owned(), "0".to_owned());
    let request = v1::WatchRequest { id, resume_token, ..v1::WatchRequest::default() };
    let mut stream = federation.grc().watch(request).await.unwrap().into_inner();
    let mut all: Vec<String> = Vec::new();
    loop {
        match stream.message().await.unwrap().and_then(|one| one.what) {
            Some(v1::watch_response::What::Event(event)) => {
                let why = event.refusal.map(|refusal| refusal.detail).unwrap_or_default();
                all.push(format!("{} {why}", event.what));
            }
            // Everything so far was sent. The first sign of life comes before all events.
            Some(v1::watch_response::What::Progress(_)) if all.is_empty() => {}
            Some(v1::watch_response::What::Progress(_)) | None => return all,
        }
    }
}

/// A report is recorded while a resource manager does not answer; then the coordinator dies. The next process follows the
/// report without being asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_followed_by_the_next_process() {
    let mut federation = start(v1::TaskMode::Distributed).await;
    let (id, workflow) = pipeline("q");
    eventually("it is booked", || async {
        submit(&federation, &id, &workflow).await.is_ok_and(|receipt| receipt.confirmed)
    })
    .await;
    begun(&federation, &id, "read").await;
    let receipt = get(&federation, &id).await;
    let rm = format!("crm-{}", placed(&receipt, "read").site);
    federation.pause(&rm);
    let until = Timestamp { seconds: end_s(placed(&receipt, "read")) + 100, nanos: 0 };
    let longer = v1::ReportActivityRequest {
        until: Some(until),
        ..report(&id, 1, "read", Event::NeedsUntil)
    };
    let (mut caller, wire) = (client(&federation), longer.clone());
    let call = tokio::spawn(async move { caller.report_activity(wire).await });
    eventually("the report is recorded and its change is under way", || async {
        let receipt = get(&federation, &id).await;
        receipt.revision.is_some_and(|revision| revision.state() == RevisionState::UnderWay)
    })
    .await;
    federation.kill("grc");
    assert!(call.await.unwrap().is_err(), "the coordinator died");
    federation.resume(&rm);
    federation.spawn("grc");
    federation.complete().await;
    eventually("the report is followed", || async { get(&federation, &id).await.version == 2 })
        .await;
    eventually("nothing is left of the version before", || async {
        live(&federation).await == planned(get(&federation, &id).await.plan.as_ref().unwrap())
    })
    .await;
    let receipt = verified(&federation, &id, &workflow).await;
    let end = window_from_wire("window", placed(&receipt, "read").window.as_ref()).unwrap().end();
    assert_eq!(end, time_from_wire("until", &until).unwrap());
    let again = send(&federation, &longer).await.unwrap();
    assert_eq!(again.revision.unwrap().state(), RevisionState::Done);
}

/// The resource manager of a running activity does not answer, so the activity cannot be prolonged. Once the resource
/// manager answers again, the report is followed without being sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_followed_when_a_silent_resource_manager_answers_again() {
    let federation = start(v1::TaskMode::Distributed).await;
    let (id, workflow) = pipeline("s");
    eventually("it is booked", || async {
        submit(&federation, &id, &workflow).await.is_ok_and(|receipt| receipt.confirmed)
    })
    .await;
    begun(&federation, &id, "read").await;
    let receipt = get(&federation, &id).await;
    let rm = format!("crm-{}", placed(&receipt, "read").site);
    federation.pause(&rm);
    let until = Timestamp { seconds: end_s(placed(&receipt, "read")) + 100, nanos: 0 };
    let longer = v1::ReportActivityRequest {
        until: Some(until),
        ..report(&id, 1, "read", Event::NeedsUntil)
    };
    let (mut caller, wire) = (client(&federation), longer.clone());
    let call = tokio::spawn(async move { caller.report_activity(wire).await });
    eventually("the first try has failed", || async {
        let known = federation.get(&id).await.unwrap();
        known.change.is_some_and(|change| change.refusal.is_some())
    })
    .await;
    federation.resume(&rm);
    let answer = call.await.unwrap().unwrap().into_inner();
    assert_eq!((answer.revision.unwrap().state(), answer.version), (RevisionState::Refused, 1));
    eventually("the report is followed", || async { get(&federation, &id).await.version == 2 })
        .await;
    eventually("nothing is left of the version before", || async {
        live(&federation).await == planned(get(&federation, &id).await.plan.as_ref().unwrap())
    })
    .await;
    verified(&federation, &id, &workflow).await;
}

fn revision(id: &str, number: u32) -> v1::ReviseWorkflowRequest {
    v1::ReviseWorkflowRequest {
        id: id.to_owned(),
        change_id: format!("{id}-change-{number}"),
        user: "ann".to_owned(),
        ..v1::ReviseWorkflowRequest::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_revises_without_a_site_and_for_another_deadline() {
    let federation = start(v1::TaskMode::Central).await;
    let (id, mut workflow) = pipeline("r");
    workflow.ready = Some(seconds_from_now(600));
    let receipt = submit(&federation, &id, &workflow).await.unwrap();
    assert!(receipt.confirmed, "{receipt:?}");
    // Bad input names its field, and nothing is done.
    let cases: [(&str, v1::ReviseWorkflowRequest); 6] = [
        (
            "excluded[0]",
            v1::ReviseWorkflowRequest { excluded: vec!["S7".into()], ..revision(&id, 9) },
        ),
        ("again[0]", v1::ReviseWorkflowRequest { again: vec!["red".into()], ..revision(&id, 9) }),
        (
            "deadline",
            v1::ReviseWorkflowRequest { deadline: Some(seconds_from_now(-9)), ..revision(&id, 9) },
        ),
        (
            "change_id",
            v1::ReviseWorkflowRequest { change_id: "reports-1.1".into(), ..revision(&id, 9) },
        ),
        ("change_id", v1::ReviseWorkflowRequest { change_id: String::new(), ..revision(&id, 9) }),
        ("user", v1::ReviseWorkflowRequest { user: "a b".into(), ..revision(&id, 9) }),
    ];
    for (field, wire) in cases {
        let error = revise(&federation, &wire).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{field}: {error:?}");
        assert!(error.message().starts_with(&format!("{field}: ")), "{field}: {error:?}");
    }
    let bob = v1::ReviseWorkflowRequest { user: "bob".into(), ..revision(&id, 9) };
    assert_eq!(revise(&federation, &bob).await.unwrap_err().code(), Code::PermissionDenied);
    let nothing = revise(&federation, &revision(&id, 9)).await.unwrap();
    assert_eq!(nothing.revision.unwrap().state(), RevisionState::Nothing);
    // What the new version would be, then the same for real.
    let site = placed(&receipt, "read").site.clone();
    let without = v1::ReviseWorkflowRequest { excluded: vec![site.clone()], ..revision(&id, 1) };
    let only = v1::ReviseWorkflowRequest { plan_only: true, ..without.clone() };
    let would_be = revise(&federation, &only).await.unwrap();
    assert_eq!(would_be.revision.unwrap().state(), RevisionState::Planned);
    assert_eq!(verified(&federation, &id, &workflow).await.version, 1);
    let answer = revise(&federation, &without).await.unwrap();
    assert_eq!(answer.revision.as_ref().unwrap().state(), RevisionState::Done, "{answer:?}");
    assert_eq!(revise(&federation, &without).await.unwrap(), answer);
    let other = v1::ReviseWorkflowRequest { excluded: Vec::new(), ..without.clone() };
    assert_eq!(revise(&federation, &other).await.unwrap_err().code(), Code::AlreadyExists);
    let moved = verified(&federation, &id, &workflow).await;
    assert!(moved.plan.as_ref().unwrap().activities.iter().all(|one| one.site != site));
    assert_eq!(moved.version, 2);
    // An impossible deadline is refused, and says by how much it would be missed; a later one is taken.
    let mut deadline = revision(&id, 2);
    deadline.deadline = Some(seconds_from_now(1_000));
    let refused = revise(&federation, &deadline).await.unwrap();
    let revision_of = refused.revision.unwrap();
    assert_eq!(revision_of.state(), RevisionState::Refused);
    let why = revision_of.refusal.unwrap().refusal.unwrap().detail;
    assert!(why.contains("would be missed by"), "{why}");
    let mut later = revision(&id, 3);
    later.deadline = Some(seconds_from_now(7_200));
    let done = revise(&federation, &later).await.unwrap();
    assert_eq!(done.revision.unwrap().state(), RevisionState::Done);
    let last = verified(&federation, &id, &workflow).await;
    assert_eq!(last.version, 3);
    // The site stays excluded.
    let again = v1::ReviseWorkflowRequest { again: vec!["read".into()], ..revision(&id, 4) };
    revise(&federation, &again).await.unwrap();
    let last = verified(&federation, &id, &workflow).await;
    assert!(last.plan.as_ref().unwrap().activities.iter().all(|one| one.site != site));
}

/// Reports of all activities and revisions by the user arrive at once. None is lost, and one whole version is booked.
#[tokio::test(flavor = "multi_thread")]
async fn many_reports_at_once_lead_to_one_whole_version() {
    let federation = start(v1::TaskMode::Central).await;
    let from = seconds_from_now(SOON);
    let names: Vec<String> = (0..24).map(|number| format!("part-{number}")).collect();
    let workflow = v1::Workflow {
        activities: names.iter().map(|name| activity(name, 1, 900, &[])).collect(),
        ready: Some(from),
        deadline: Some(Timestamp { seconds: from.seconds + 7_200, nanos: 0 }),
        user: "ann".to_owned(),
        ..v1::Workflow::default()
    };
    assert!(submit(&federation, "many", &workflow).await.unwrap().confirmed);
    begun(&federation, "many", &names[0]).await;
    let mut calls = tokio::task::JoinSet::new();
    for (number, name) in (1..).zip(&names) {
        let (mut caller, wire) =
            (client(&federation), report("many", number, name, Event::NeedsUntil));
        let until = Some(seconds_from_now(1_000 + i64::from(number)));
        calls.spawn(async move {
            caller.report_activity(v1::ReportActivityRequest { until, ..wire }).await.map(|_| ())
        });
    }
    for number in 0..4 {
        let mut wire = revision("many", number);
        wire.deadline = Some(seconds_from_now(7_200 + i64::from(number)));
        let mut caller = client(&federation);
        calls.spawn(async move {
            match caller.revise_workflow(wire).await {
                // Another change is under way: nothing was done.
                Err(status) if status.code() == Code::FailedPrecondition => Ok(()),
                answer => answer.map(|_| ()),
            }
        });
    }
    while let Some(answer) = calls.join_next().await {
        answer.unwrap().unwrap();
    }
    eventually("nothing is under way", || async {
        let revision = get(&federation, "many").await.revision;
        revision.is_none_or(|revision| revision.state() != RevisionState::UnderWay)
    })
    .await;
    eventually("only the last version is left", || async {
        live(&federation).await == planned(get(&federation, "many").await.plan.as_ref().unwrap())
    })
    .await;
    let receipt = verified(&federation, "many", &workflow).await;
    let plan = receipt.plan.as_ref().unwrap();
    for one in &plan.activities {
        assert!(one.reported, "{one:?}");
        assert!(end_s(one) > from.seconds + 900, "{} is prolonged: {one:?}", one.name);
    }
}

/// The site of a workflow dies with its resource manager. The workflow goes on without it, and when the resource manager
/// returns, it gives back what it had.
#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_goes_on_without_a_dead_site() {
    let mut federation = start(v1::TaskMode::Central).await;
    let (id, workflow) = pipeline("d");
    assert!(submit(&federation, &id, &workflow).await.unwrap().confirmed);
    begun(&federation, &id, "read").await;
    let receipt = get(&federation, &id).await;
    let site = placed(&receipt, "read").site.clone();
    let rm = format!("crm-{site}");
    federation.kill(&rm);
    let mut failed = report(&id, 1, "read", Event::Failed);
    failed.excluded = vec![site.clone()];
    let answer = send(&federation, &failed).await.unwrap();
    assert_eq!(answer.revision.unwrap().state(), RevisionState::Done);
    let receipt = get(&federation, &id).await;
    assert_ne!(placed(&receipt, "read").site, site);
    federation.spawn(&rm);
    federation.complete().await;
    eventually("what the site had is released", || async {
        live(&federation).await == planned(get(&federation, &id).await.plan.as_ref().unwrap())
    })
    .await;
    verified(&federation, &id, &workflow).await;
}
