//! Quotas of holds at real resource managers: who meets one is told so, nobody else notices, and a booking counts no
//! longer.

use coalloc_proto::v1::{self, Reason, ReservationState as State};

use crate::harness::{Federation, Setup, pair, seconds_from_now};

/// A federation whose resource manager of A has these quotas.
async fn with_quotas(quotas: &str) -> Federation {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    append(&federation, quotas);
    federation.start_all().await;
    federation
}

fn append(federation: &Federation, quotas: &str) {
    let path = federation.dir.path().join("crm-A.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.lines().filter(|line| !line.starts_with("quotas:"));
    let text = text.map(|line| format!("{line}\n")).collect::<String>();
    std::fs::write(path, text + &format!("quotas: {quotas}\n")).unwrap();
}

/// A Hold of some CPUs of A for an hour, which its coordinator does not decide.
async fn hold(federation: &Federation, number: u32, user: &str, cpus: u64) -> Result<(), String> {
    let window =
        v1::Window { start: Some(seconds_from_now(90_000)), end: Some(seconds_from_now(93_600)) };
    let order = v1::HoldRequest {
        transaction: format!("grc-00000000-{number}/1"),
        coordinator: "grc".to_owned(),
        user: user.to_owned(),
        segments: vec![v1::Segment {
            resource: "A".to_owned(),
            amount: cpus,
            window: Some(window),
            ..v1::Segment::default()
        }],
        ..v1::HoldRequest::default()
    };
    let answer = federation.rm("crm-A").hold(order.clone()).await.unwrap().into_inner();
    let again = federation.rm("crm-A").hold(order).await.unwrap().into_inner();
    match (answer.answer.unwrap(), again.answer.unwrap()) {
        (v1::hold_response::Answer::Held(_), v1::hold_response::Answer::Held(_)) => Ok(()),
        (v1::hold_response::Answer::Refused(one), v1::hold_response::Answer::Refused(two)) => {
            assert_eq!(one, two, "the same id gets the same answer");
            assert_eq!(one.reason(), Reason::Quota, "{one:?}");
            assert_eq!(one.nsi_error, "00600");
            Err(one.detail)
        }
        other => panic!("{other:?}"),
    }
}

async fn abort(federation: &Federation, number: u32) {
    let abort = v1::AbortRequest {
        transaction: format!("grc-00000000-{number}/1"),
        coordinator: "grc".to_owned(),
        ..v1::AbortRequest::default()
    };
    assert!(federation.rm("crm-A").abort(abort).await.unwrap().into_inner().refused.is_none());
}

fn by(user: &str) -> v1::CoAllocationRequest {
    v1::CoAllocationRequest { user: user.to_owned(), ..pair(1, 1, 3_600, 600) }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_used_up_its_holds_is_told_so_and_others_do_not_notice() {
    let federation = with_quotas("{coordinator: {holds: 3}, user: {holds: 1}}").await;
    hold(&federation, 1, "UserA", 1).await.unwrap();
    let refused = federation.reserve("one", by("UserA")).await;
    let refusal = refused.refusal.clone().unwrap();
    assert_eq!((refused.state(), refusal.reason()), (State::Failed, Reason::Quota), "{refused:?}");
    assert_eq!(refusal.resource_manager, "crm-A");
    let told = "user UserA of coordinator grc has 1 of at most 1 holds here";
    assert!(refusal.detail.contains(told), "{refusal:?}");
    // Ten of another user are booked one after the other: a booking is no hold.
    for number in 0..10 {
        federation.reserve_confirmed(&format!("b{number}"), by("UserB")).await;
    }
    for (number, user) in [(2, "UserC"), (3, "UserD")] {
        hold(&federation, number, user, 1).await.unwrap();
    }
    let refused = federation.reserve("two", by("UserB")).await;
    let detail = refused.refusal.unwrap().detail;
    assert!(detail.contains("coordinator grc has 3 of at most 3 holds here"), "{detail}");
    abort(&federation, 1).await;
    federation.reserve_confirmed("three", by("UserA")).await;
    for number in [2, 3] {
        abort(&federation, number).await;
    }
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_said_and_counts_again_after_a_restart_with_other_quotas() {
    let quotas = "{user: {cpu_hours: 40}, users: [{user: UserB, quota: {cpu_hours: 60}}]}";
    let mut federation = with_quotas(quotas).await;
    hold(&federation, 1, "UserA", 30).await.unwrap();
    let detail = hold(&federation, 2, "UserA", 11).await.unwrap_err();
    assert_eq!(
        detail,
        "user UserA of coordinator grc holds 30 CPU-hours of at most 40 CPU-hours here that are not \
         booked yet: 10 CPU-hours are left, and this hold takes 11 CPU-hours"
    );
    hold(&federation, 3, "UserA", 10).await.unwrap();
    hold(&federation, 4, "UserB", 50).await.unwrap();
    federation.stop("crm-A");
    append(&federation, "{user: {cpu_hours: 20}}");
    federation.spawn("crm-A");
    crate::harness::eventually("it serves again", || async {
        federation.rm("crm-A").describe(v1::DescribeRequest {}).await.is_ok()
    })
    .await;
    // What is held stays held.
    let bookings = federation.bookings("crm-A").await;
    assert_eq!(bookings.iter().filter(|b| b.state() == v1::BookingState::Held).count(), 3);
    let detail = hold(&federation, 5, "UserA", 1).await.unwrap_err();
    assert!(detail.contains("holds 40 CPU-hours of at most 20 CPU-hours"), "{detail}");
    abort(&federation, 1).await;
    hold(&federation, 6, "UserA", 10).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_quotas_name_their_field() {
    let federation = Federation::prepare();
    federation.configure(&Setup::default());
    for (quotas, field) in [
        ("{user: {holds: 0}}", "quotas.user.holds"),
        ("{coordinator: {holds: 1000001}}", "quotas.coordinator.holds"),
        ("{coordinator: {cpu_hours: 0}}", "quotas.coordinator.cpu_hours"),
        ("{user: {gbit_hours: 5}}", "quotas.user.gbit_hours"),
        ("{users: [{user: a}, {user: a}]}", "quotas.users[1].user"),
        ("{coordinators: [{name: nobody}]}", "quotas.coordinators[0].name"),
        ("{user: {cpus: 4}}", "cpus"),
    ] {
        append(&federation, quotas);
        let mut command = federation.command("crm-A");
        let output = command.stderr(std::process::Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{quotas}: {said}");
        assert!(said.contains(field) && said.contains("crm-A.yaml"), "{quotas}: {said}");
    }
}
