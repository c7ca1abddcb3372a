//! What "never" means: a request for more than exists is refused for good, by the current inventory.

use coalloc_proto::v1::{self, Reason, ReservationState as State};

use crate::harness::{Federation, eventually, pair};

/// Gives a CRM this many CPUs, and restarts it if it runs.
async fn give(federation: &mut Federation, name: &str, cpus: u64) {
    let file = format!("{name}.yaml");
    let text = std::fs::read_to_string(federation.dir.path().join(&file)).unwrap();
    let (before, after) = text.split_once("cpus: ").unwrap();
    let (_, after) = after.split_once('}').unwrap();
    federation.stop(name);
    federation.write(&file, &format!("{before}cpus: {cpus}}}{after}"));
    federation.spawn(name);
    let up = async || federation.rm(name).describe(v1::DescribeRequest {}).await.is_ok();
    eventually("it describes itself", up).await;
}

/// Does the coordinator know that the first site of a CRM has this many CPUs?
async fn has(federation: &Federation, name: &str, cpus: u64) -> bool {
    let told = federation.grc().describe_federation(v1::DescribeFederationRequest {}).await;
    let managers = told.unwrap().into_inner().resource_managers;
    let of = managers.iter().find(|manager| manager.name == name).unwrap();
    of.description.as_ref().is_some_and(|said| said.sites[0].cpus == cpus)
}

fn refusal(reservation: &v1::Reservation) -> &v1::Refusal {
    reservation.refusal.as_ref().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_added_is_used_by_the_first_request_and_only_then_never_is_said() {
    let mut federation = Federation::start().await;
    let at_a = |cpus| {
        let mut request = pair(1, 1, 3_600, 600);
        (request.sites[0].cpus, request.sites[0].pinned_to) = (cpus, Some("A".to_owned()));
        request
    };
    let refused = federation.reserve("one", at_a(150)).await;
    assert_eq!(refused.state(), State::Failed, "{refused:?}");
    assert_eq!(refusal(&refused).reason(), Reason::BeyondCapacity, "{refused:?}");
    assert!(!refusal(&refused).transient, "{refused:?}");
    // There is no pause here: the refusal for good makes the coordinator ask again.
    give(&mut federation, "crm-A", 200).await;
    federation.reserve_confirmed("two", at_a(150)).await;
    // Without any request, the description is refreshed as well.
    give(&mut federation, "crm-B", 300).await;
    eventually("the coordinator knows of it", async || has(&federation, "crm-B", 300).await).await;
    // When the CPUs are taken away again, such a request is again refused for good.
    give(&mut federation, "crm-B", 100).await;
    eventually("the coordinator knows of that", async || has(&federation, "crm-B", 100).await)
        .await;
    let mut request = pair(1, 1, 9_600, 600);
    (request.sites[1].cpus, request.sites[1].pinned_to) = (250, Some("B".to_owned()));
    let refused = federation.reserve("three", request).await;
    assert!(!refusal(&refused).transient, "{refused:?}");
}

/// There are three sites and only one path, so a chain with two links is never possible.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_told_to_try_again_what_the_empty_federation_could_not_serve() {
    let federation = Federation::start().await;
    let name = "crm-B.yaml";
    let text = std::fs::read_to_string(federation.dir.path().join(name)).unwrap();
    let third = text.replace("{name: B, cpus: 100}", "{name: B, cpus: 100}, {name: C, cpus: 100}");
    let mut federation = federation;
    federation.stop("crm-B");
    federation.write(name, &third);
    federation.spawn("crm-B");
    let mut chain = pair(1, 100, 3_600, 600);
    chain.sites.push(v1::SiteRequest { name: "end".to_owned(), ..chain.sites[0].clone() });
    let more = v1::LinkRequest { from: "right".into(), to: "end".into(), ..chain.links[0].clone() };
    chain.links.push(more);
    let three = async || {
        let told = federation.grc().describe_federation(v1::DescribeFederationRequest {}).await;
        let managers = told.unwrap().into_inner().resource_managers;
        let sites = managers.iter().filter_map(|manager| manager.description.as_ref());
        sites.map(|said| said.sites.len()).sum::<usize>() == 3
    };
    eventually("the coordinator knows all three sites", three).await;
    let refused = federation.reserve("chain", chain.clone()).await;
    assert_eq!(refusal(&refused).reason(), Reason::BeyondCapacity, "{refused:?}");
    assert!(!refusal(&refused).transient, "{refused:?}");
    // A request that fits when nothing is booked is only refused for now.
    federation.reserve_confirmed("full", pair(1, 1_000, 3_600, 600)).await;
    let later = federation.reserve("later", pair(1, 1_000, 3_600, 600)).await;
    assert!(refusal(&later).transient, "{later:?}");
    // What is more than all have described is never there, whoever is silent. What is less may come back.
    federation.kill("nrm");
    let silent = federation.reserve("silent", chain).await;
    assert_eq!(refusal(&silent).reason(), Reason::BeyondCapacity, "{silent:?}");
    assert!(!refusal(&silent).transient, "{silent:?}");
    let silent = federation.reserve("silent-link", pair(1, 1_000, 3_600, 7_200)).await;
    assert_eq!(refusal(&silent).reason(), Reason::Unreachable, "{silent:?}");
    assert!(refusal(&silent).transient, "{silent:?}");
}
