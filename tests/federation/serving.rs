//! What every daemon does apart from its service: health, reflection, identity, configuration, stop, logs.

use std::process::Output;

use coalloc_proto::v1;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{Federation, RMS, Setup, eventually, pair};

/// The services that a daemon lists in one version of reflection; both versions have the same messages.
macro_rules! reflected {
    ($version:ident, $channel:expr) => {{
        use tonic_reflection::pb::$version::server_reflection_client::ServerReflectionClient;
        use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::$version::{
            ServerReflectionRequest, server_reflection_response as answer,
        };
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let stream = tokio_stream::iter([request]);
        let mut client = ServerReflectionClient::new($channel.clone());
        let mut answers = client.server_reflection_info(stream).await.unwrap().into_inner();
        let first = answers.message().await.unwrap().unwrap().message_response.unwrap();
        let answer::MessageResponse::ListServicesResponse(list) = first else { panic!() };
        list.service.into_iter().map(|service| service.name).collect::<Vec<String>>()
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_reflection_are_served_by_every_daemon() {
    let federation = Federation::start().await;
    for (name, address) in &federation.addresses {
        let channel = coalloc_net::client::channel("address", address).unwrap();
        let grc = name == "grc";
        let service = if grc { "coalloc.v1.Coordinator" } else { "coalloc.v1.ResourceManager" };
        for service in ["", service] {
            let request = HealthCheckRequest { service: service.to_owned() };
            let health = HealthClient::new(channel.clone()).check(request).await.unwrap();
            assert_eq!(health.into_inner().status, 1, "{name} {service}: SERVING");
        }
        // Many clients know only the older of the two versions.
        assert!(reflected!(v1, channel).contains(&service.to_owned()), "{name}");
        assert!(reflected!(v1alpha, channel).contains(&service.to_owned()), "{name}");
    }
}

fn run_to_its_end(federation: &Federation, name: &str) -> Output {
    let mut command = federation.command(name);
    command.stderr(std::process::Stdio::piped());
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_daemons_never_share_an_identity() {
    let federation = Federation::start().await;
    // A second daemon with the same address.
    let output = run_to_its_end(&federation, "nrm");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot be bound"), "{text}");
    // A second daemon with another address, but the same ledger.
    let config = std::fs::read_to_string(federation.dir.path().join("nrm.yaml")).unwrap();
    let other = format!("127.0.0.1:{}", crate::harness::free_port());
    let twin = config.replace(&federation.addresses["nrm"], &other);
    federation.write("nrm-twin.yaml", &twin);
    let output = run_to_its_end(&federation, "nrm-twin");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("nrm.ledger"), "names the ledger: {text}");
    // A node with another name on this ledger.
    let renamed = twin.replace("{name: nrm,", "{name: nrm-2,");
    assert_ne!(renamed, twin);
    federation.write("nrm-twin.yaml", &renamed);
    let output = run_to_its_end(&federation, "nrm-twin");
    assert_eq!(output.status.code(), Some(1));
    // A GRC's configuration with the same name twice, and with the same address twice.
    let config = std::fs::read_to_string(federation.dir.path().join("grc.yaml")).unwrap();
    let doubled = [config.replace("crm-B", "crm-A"), {
        let (a, b) = (&federation.addresses["crm-A"], &federation.addresses["crm-B"]);
        config.replace(b.as_str(), a)
    }];
    for config in doubled {
        federation.write("grc-twin.yaml", &config);
        let output = run_to_its_end(&federation, "grc-twin");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("grc-twin.yaml:5:"), "file and line: {text}");
        assert!(text.contains("resource_managers[1]"), "field: {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_federation_is_noticed_and_named() {
    let mut federation = Federation::prepare();
    // The GRC's configuration swaps the addresses of crm-A and crm-B.
    let swapped = [
        ("crm-A".to_owned(), federation.addresses["crm-B"].clone()),
        ("crm-B".to_owned(), federation.addresses["crm-A"].clone()),
    ];
    federation.configure(&Setup { relayed: swapped.into(), ..Setup::default() });
    for name in RMS {
        federation.spawn(name);
    }
    federation.spawn("grc");
    eventually("both are named", || async {
        let Ok(answer) =
            federation.grc().describe_federation(v1::DescribeFederationRequest {}).await
        else {
            return false;
        };
        let rms = answer.into_inner().resource_managers;
        rms.iter().filter(|rm| rm.problem.contains("calls itself")).count() == 2
    })
    .await;
    let error = {
        let mut pinned = pair(1, 1, 3_600, 600);
        pinned.sites[0].pinned_to = Some("A".to_owned());
        federation.try_reserve("one", pinned).await.unwrap_err()
    };
    assert_eq!(error.code(), tonic::Code::Unavailable, "{error}");
    assert!(error.message().contains("crm-A"), "{error}");
}

/// Plans a request, with its left site pinned or free, as soon as the coordinator accepts connections.
async fn plan_at_once(
    federation: &Federation,
    pin: Option<&str>,
) -> Result<v1::PlanResponse, tonic::Status> {
    eventually("the coordinator listens", || async {
        tokio::net::TcpStream::connect(&federation.addresses["grc"]).await.is_ok()
    })
    .await;
    let mut request = pair(10, 600, 3_600, 600);
    request.sites[0].pinned_to = pin.map(str::to_owned);
    let request = v1::PlanRequest { request: Some(request), ..Default::default() };
    Ok(federation.grc().plan(request).await?.into_inner())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_at_the_start_waits_for_those_who_are_there_pinned_or_not() {
    let mut federation = Federation::start().await;
    for pin in [None, Some("A"), None, Some("B")] {
        federation.kill("grc");
        federation.spawn("grc");
        let planned = plan_at_once(&federation, pin).await.unwrap();
        assert_eq!((planned.plans.len(), planned.unreachable), (1, Vec::new()), "{pin:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_nobody_has_been_heard_of_nothing_is_refused_for_good_pinned_or_not() {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    federation.spawn("grc");
    for pin in [None, Some("A")] {
        let error = plan_at_once(&federation, pin).await.unwrap_err();
        assert_eq!(error.code(), tonic::Code::Unavailable, "{pin:?}: {error}");
        assert!(RMS.iter().all(|rm| error.message().contains(rm)), "{pin:?}: {error}");
    }
    let request = pair(10, 600, 3_600, 600);
    let error = federation.try_reserve("one", request.clone()).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unavailable, "{error}");
    // Once the resource managers are there, the same request under the same id is reserved.
    for name in RMS {
        federation.spawn(name);
    }
    federation.complete().await;
    federation.reserve_confirmed("one", request).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_mistakes_name_file_line_and_field() {
    let federation = Federation::prepare();
    federation.configure(&Setup::default());
    let good = std::fs::read_to_string(federation.dir.path().join("crm-A.yaml")).unwrap();
    let cases = [
        (good.replace("cpus: 100", "cpus: 0"), "crm-A.yaml:4:", "inventory.sites[0].cpus"),
        (good.replace("cpus: 100", "cpu: 100"), "crm-A.yaml:4:", "cpu"),
        (good.replace("127.0.0.1:", "0.0.0.0:"), "crm-A.yaml:1:", "daemon.listen"),
        (
            good.replace("ledger: crm-A.ledger", "ledger: no/where"),
            "crm-A.yaml:1:",
            "daemon.ledger",
        ),
        (
            good.replace("policy: {}", "policy: {hold_soft: 9000s}"),
            "crm-A.yaml:3:",
            "policy.hold_soft",
        ),
        (good.replace("address: \"127", "address: \"http://127"), "crm-A.yaml:2:", "address"),
        (good.replace("[{name: grc", "[{name: grc, nmae: x"), "crm-A.yaml:2:", "nmae"),
    ];
    for (text, place, field) in cases {
        federation.write("crm-A.yaml", &text);
        let output = run_to_its_end(&federation, "crm-A");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(place) && said.contains(field), "{place} {field}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_stream_does_not_keep_a_daemon_from_stopping() {
    let mut federation = Federation::start().await;
    let channel = coalloc_net::client::channel("address", &federation.addresses["crm-A"]).unwrap();
    let watched = HealthClient::new(channel).watch(HealthCheckRequest::default()).await.unwrap();
    assert!(federation.stop("crm-A").success(), "{}", federation.log("crm-A"));
    drop(watched);
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_stop_gracefully_and_logs_carry_the_transaction_everywhere() {
    let mut federation = Federation::start().await;
    let reservation = federation.reserve_confirmed("one", pair(10, 600, 3_600, 600)).await;
    for name in RMS.iter().chain(&["grc"]) {
        assert!(federation.stop(name).success(), "{name}: {}", federation.log(name));
        let log = federation.log(name);
        assert!(log.contains(&reservation.transaction), "{name}: {log}");
    }
}
