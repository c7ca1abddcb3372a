//! What belongs to somebody else: for a user it is not there, by whatever call, and nobody decides it but whoever has to.

use coalloc_common::Role;
use coalloc_proto::v1;
use coalloc_proto::v1::ReservationState as State;
use tonic::{Code, Status};

use super::world::{TlsWorld, request};
use crate::harness::{PATIENCE, pair, seconds_from_now};
use crate::workflows::activity;

fn modification(id: &str, change: &str, cpus: u64, user: &str) -> v1::ModifyRequest {
    let request = v1::CoAllocationRequest { user: user.into(), ..pair(cpus, 1, 3_600, 600) };
    let (id, change_id) = (id.to_owned(), change.to_owned());
    v1::ModifyRequest { id, change_id, request: Some(request), ..Default::default() }
}

fn submission(id: &str, user: &str) -> v1::SubmitWorkflowRequest {
    let from = seconds_from_now(7_200);
    let workflow = v1::Workflow {
        activities: vec![activity("only", 1, 60, &["A"])],
        ready: Some(from),
        deadline: Some(coalloc_proto::Timestamp { seconds: from.seconds + 3_600, nanos: 0 }),
        user: user.to_owned(),
        ..Default::default()
    };
    let request_id = id.to_owned();
    v1::SubmitWorkflowRequest { request_id, workflow: Some(workflow), options: None }
}

/// What every call about `id` says to whoever makes it as `user`, by the name of the call.
async fn asked(
    world: &TlsWorld,
    who: &coalloc_net::client::Dialer,
    user: &str,
    id: &str,
) -> Vec<(&'static str, Option<Status>)> {
    let (mut grc, mut workflows) = (world.grc(who), world.workflows(who));
    let own = || id.to_owned();
    let of = user.to_owned();
    let watch = v1::WatchRequest { id: own(), ..Default::default() };
    let report = v1::ReportActivityRequest {
        id: own(),
        report_id: "report".into(),
        user: of.clone(),
        activity: "only".into(),
        event: v1::ActivityEvent::Started.into(),
        ..Default::default()
    };
    let revise = v1::ReviseWorkflowRequest {
        id: own(),
        change_id: "revision".into(),
        user: of,
        again: vec!["only".into()],
        ..Default::default()
    };
    let read = v1::GetWorkflowRequest { id: own(), ..Default::default() };
    let release = v1::ReleaseReservationRequest { id: own(), user: String::new() };
    let named = v1::ReleaseReservationRequest { id: own(), user: user.to_owned() };
    vec![
        ("Get", grc.get(v1::GetRequest { id: own() }).await.err()),
        ("Watch", grc.watch(watch).await.err()),
        ("Modify", grc.modify(modification(id, "change", 5, user)).await.err()),
        ("GetWorkflow", workflows.get_workflow(read).await.err()),
        ("ReportActivity", workflows.report_activity(report).await.err()),
        ("ReviseWorkflow", workflows.revise_workflow(revise).await.err()),
        ("Release", grc.release(release).await.err()),
        ("Release by name", grc.release(named).await.err()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_somebody_elses_looks_to_a_user_as_if_it_were_not_there() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    let bob = world.who("grid", Role::User, "bob");
    let foreign = world.who("south", Role::User, "alice");
    let olga = world.who("grid", Role::Operator, "olga");
    let ada = world.who("grid", Role::Auditor, "ada");
    let made = world.grc(&alice).reserve(request("r1", "alice")).await.unwrap().into_inner();
    let reserved = made.reservation.unwrap();
    assert_eq!(reserved.state(), State::Confirmed, "{reserved:?}");
    let mut workflows = world.workflows(&alice);
    let submitted = workflows.submit_workflow(submission("w1", "alice")).await.unwrap();
    let submitted = submitted.into_inner().workflow.unwrap();
    assert!(submitted.confirmed, "{submitted:?}");
    // She changes what is hers, and so does the operator.
    for (who, change, cpus) in [(&alice, "c1", 2), (&olga, "c2", 3)] {
        let changed = world.grc(who).modify(modification("r1", change, cpus, "alice")).await;
        let changed = changed.unwrap().into_inner().reservation.unwrap();
        assert_eq!(changed.request.unwrap().sites[0].cpus, cpus, "{change}");
    }
    let read = |who| {
        let mut client = world.workflows(who);
        async move {
            let wanted = v1::GetWorkflowRequest { id: "w1".into(), ..Default::default() };
            client.get_workflow(wanted).await.unwrap().into_inner().reservation.unwrap().user
        }
    };
    for who in [&alice, &olga, &ada] {
        assert_eq!(read(who).await, "alice");
    }
    // The others are told in the same words what they are told of an id that nobody has.
    for (who, user) in [(&bob, "bob"), (&foreign, "south/alice")] {
        for id in ["r1", "w1", &reserved.id, &submitted.reservation] {
            let unknown = "x".repeat(id.len());
            let nothing = asked(&world, who, user, &unknown).await;
            for ((call, said), (_, of_nothing)) in
                asked(&world, who, user, id).await.iter().zip(&nothing)
            {
                let (said, of_nothing) = (said.as_ref().unwrap(), of_nothing.as_ref().unwrap());
                assert_eq!(said.code(), Code::NotFound, "{call} of {id} by {user}: {said:?}");
                let words = said.message().replace(id, &unknown);
                assert_eq!(words, of_nothing.message(), "{call} of {id} by {user}");
            }
        }
        // An id that is taken gives nothing away but that.
        let taken = world.grc(who).reserve(request("r1", user)).await.unwrap_err();
        assert_eq!(taken.code(), Code::AlreadyExists, "{taken:?}");
        let text = format!("{taken:?}");
        assert!(!text.contains(&reserved.id) && !text.contains("\"alice\""), "{text}");
        let taken = world.workflows(who).submit_workflow(submission("w1", user)).await;
        assert_eq!(taken.unwrap_err().code(), Code::AlreadyExists);
    }
    // The same calls of an auditor are no calls of hers, but reading is.
    for (call, said) in asked(&world, &ada, "alice", "w1").await {
        let expected = match call {
            "Get" | "Watch" | "GetWorkflow" => Code::Ok,
            _ => Code::PermissionDenied,
        };
        assert_eq!(said.map_or(Code::Ok, |it| it.code()), expected, "{call}");
    }
    // Bob watches all from the beginning, and is told of his own only.
    world.grc(&bob).reserve(request("b1", "bob")).await.unwrap();
    let all = v1::WatchRequest { resume_token: "0".into(), ..Default::default() };
    let mut stream = world.grc(&bob).watch(all).await.unwrap().into_inner();
    let told = async {
        let mut users = Vec::new();
        loop {
            let message = stream.message().await.unwrap().unwrap();
            if let Some(v1::watch_response::What::Event(event)) = message.what {
                let is_last = event.state() == State::Confirmed;
                users.push(event.user);
                if is_last {
                    break users;
                }
            }
        }
    };
    let users = tokio::time::timeout(PATIENCE, told).await.expect("bob is told of his own");
    assert!(users.iter().all(|user| user == "bob"), "{users:?}");
    let stands = world.grc(&alice).get(v1::GetRequest { id: "r1".into() }).await.unwrap();
    let stands = stands.into_inner().reservation.unwrap();
    assert_eq!((stands.state(), stands.user.as_str()), (State::Confirmed, "alice"));
    assert_eq!(stands.request.unwrap().sites[0].cpus, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_manager_is_told_of_its_own_transactions_only() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    let pinned = v1::SiteRequest {
        name: "only".into(),
        cpus: 1,
        pinned_to: Some("A".into()),
        ..Default::default()
    };
    let (sites, links) = (vec![pinned], Vec::new());
    let at_a = v1::CoAllocationRequest { sites, links, user: "alice".into(), ..pair(1, 1, 60, 60) };
    let wanted =
        v1::ReserveRequest { request: Some(at_a), request_id: "a".into(), ..Default::default() };
    let made = world.grc(&alice).reserve(wanted).await.unwrap().into_inner().reservation.unwrap();
    assert_eq!(made.state(), State::Confirmed, "{made:?}");
    let ask = |of: &str, named: &str| {
        let mut resolver = world.resolver(&world.folder_dialer(of));
        let resource_manager = named.to_owned();
        let wanted = v1::ResolveRequest { transaction: made.transaction.clone(), resource_manager };
        async move { resolver.resolve(wanted).await.map(|answer| answer.into_inner().decision()) }
    };
    assert_eq!(ask("crm-A", "crm-A").await.unwrap(), v1::Decision::Commit);
    // It is no party to it (I21), and does not get there under the name of the one that is.
    assert_eq!(ask("crm-B", "crm-B").await.unwrap_err().code(), Code::NotFound);
    assert_eq!(ask("crm-B", "crm-A").await.unwrap_err().code(), Code::PermissionDenied);
    // Another coordinator does not look for servers in this one's name.
    let rogue = world.who("grid", Role::Coordinator, "grc-2");
    let mut crm = world.rm(&rogue, "crm-A");
    let window = made.plan.unwrap().segments[0].window;
    let find = v1::FindServersRequest { coordinator: "grc".into(), window, ..Default::default() };
    assert_eq!(crm.find_servers(find).await.unwrap_err().code(), Code::PermissionDenied);
    let after = world.grc(&alice).get(v1::GetRequest { id: "a".into() }).await.unwrap();
    assert_eq!(after.into_inner().reservation.unwrap().state(), State::Confirmed);
    let sue = world.who("south", Role::Auditor, "sue");
    let booked = world.rm(&sue, "crm-A").list_bookings(v1::ListBookingsRequest::default()).await;
    assert_eq!(booked.unwrap().into_inner().bookings.len(), 1);
}
