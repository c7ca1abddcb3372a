//! Who may watch, how many may watch, and settings that are refused.

use coalloc_common::limits;
use coalloc_proto::{Duration, v1};
use tonic::{Code, Status};

use crate::harness::Federation;
use crate::rm::{Client, Rm, configuration, order, window};

async fn try_watch(
    client: &mut Client,
    coordinator: &str,
    policy: Option<v1::UpdatePolicy>,
) -> Result<tonic::Streaming<v1::WatchProfilesResponse>, Status> {
    let coordinator = coordinator.to_owned();
    let request = v1::WatchProfilesRequest { coordinator, policy, ..Default::default() };
    Ok(client.watch_profiles(request).await?.into_inner())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_those_with_the_permission_watch_and_only_so_many() {
    let rm = Rm::start("{coordinators: [grc]}", 64).await;
    let mut client = rm.client();
    // Permission to hold is not permission to watch.
    for stranger in ["other", "nobody"] {
        let error = try_watch(&mut client, stranger, None).await.unwrap_err();
        assert_eq!(error.code(), Code::PermissionDenied, "{error}");
        assert!(
            error.message().contains(stranger) && error.message().contains("profiles"),
            "{error}"
        );
    }
    let error = try_watch(&mut client, "no name!", None).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    let periodic = |period| v1::UpdatePolicy {
        strategy: v1::UpdateStrategy::Periodic.into(),
        period,
        ..v1::UpdatePolicy::default()
    };
    let day = Some(Duration { seconds: 86_400, nanos: 0 });
    for period in [None, day] {
        let error = try_watch(&mut client, "grc", Some(periodic(period))).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        assert!(error.message().contains("policy.period"), "{error}");
    }
    let mut one_way = order("t", "A-B", 1, window(0, 10));
    one_way.one_way = true;
    one_way.replaces = "s".to_owned();
    let error = client.hold(one_way).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert!(error.message().contains("one_way"), "{error}");
    let mut streams = Vec::new();
    for _ in 0..limits::WATCHERS_MAX {
        streams.push(try_watch(&mut client, "grc", None).await.unwrap());
    }
    let error = try_watch(&mut client, "grc", None).await.unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    streams.pop();
    crate::harness::eventually("a place is free again", || async {
        try_watch(&mut client.clone(), "grc", None).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_settings_name_their_field() {
    let federation = Federation::prepare();
    for (profiles, field) in [
        ("{coordinators: [nobody]}", "profiles.coordinators[0]"),
        ("{coordinators: [grc, grc]}", "profiles.coordinators[1]"),
        ("{coordinators: [\"a b\"]}", "profiles.coordinators[0]"),
        ("{updates: {strategy: UPDATE_STRATEGY_PERIODIC}}", "profiles.updates.period"),
        ("{updates: {strategy: UPDATE_STRATEGY_PERIODIC, period: 0s}}", "profiles.updates.period"),
        ("{updates: {period: 1s}}", "profiles.updates.period"),
        (
            "{updates: {strategy: UPDATE_STRATEGY_THRESHOLD, period: 1s, threshold_percent: 101}}",
            "profiles.updates.threshold_percent",
        ),
        ("{updates: {delay: 61s}}", "profiles.updates.delay"),
        ("{watchers: [grc]}", "watchers"),
    ] {
        federation.write("nrm.yaml", &configuration(&federation.addresses["nrm"], profiles));
        let mut command = federation.command("nrm");
        let output = command.stderr(std::process::Stdio::piped()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{profiles}: {said}");
        assert!(said.contains(field) && said.contains("nrm.yaml"), "{profiles}: {said}");
    }
}
