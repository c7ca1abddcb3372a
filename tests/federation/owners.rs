//! Names that a rogue resource manager claims, another's site and another's path: the owner keeps them, whoever answers
//! first, and the coordinator tells it.

use coalloc_proto::v1;

use crate::giving_up::coalloc;
use crate::harness::{Federation, RMS, Setup, eventually, free_port, pair};

/// A CRM whose name comes before all others in the alphabet, and an NRM.
const ROGUES: [&str; 2] = ["crm-0", "nrm-0"];

/// A federation in which rogues describe the site A and the path A-B, better and cheaper than their owners do.
fn with_rogues() -> Federation {
    let mut federation = Federation::prepare();
    for rogue in ROGUES {
        federation.addresses.insert(rogue.to_owned(), format!("127.0.0.1:{}", free_port()));
    }
    federation.configure(&Setup::default());
    let sites = "sites: [{name: A, cpus: 5000, unit_value: 0}, {name: R, cpus: 7}]";
    let paths = "paths: [{name: A-B, a: A, b: B, capacity_bps: 1000000000000, unit_value: 0}, \
                 {name: R-A, a: R, b: A, capacity_bps: 1000000000}]";
    for (rogue, inventory) in ROGUES.iter().zip([sites, paths]) {
        describe(&federation, rogue, inventory);
    }
    federation
}

fn describe(federation: &Federation, rogue: &str, inventory: &str) {
    let (listen, grc) = (&federation.addresses[rogue], &federation.addresses["grc"]);
    let daemon =
        format!("{{insecure_plaintext: true, listen: \"{listen}\", ledger: {rogue}.ledger}}");
    let text = format!(
        "daemon: {daemon}\ncoordinators: [{{name: grc, address: \"{grc}\"}}]\n\
         inventory: {{name: {rogue}, domain: D, {inventory}}}\n"
    );
    federation.write(&format!("{rogue}.yaml"), &text);
}

/// Writes the coordinator's configuration, with the resource managers in this order.
fn configure_grc(federation: &Federation, rms: &[(&str, &str)]) {
    let listen = &federation.addresses["grc"];
    let mut text = format!(
        "daemon: {{insecure_plaintext: true, listen: \"{listen}\", ledger: grc.ledger}}\n\
         name: grc\nresource_managers:\n"
    );
    for (name, owns) in rms {
        let address = &federation.addresses[*name];
        text += &format!("- {{name: {name}, address: \"{address}\", owns: [{owns}]}}\n");
    }
    federation.write("grc.yaml", &text);
}

async fn statuses(federation: &Federation) -> Vec<v1::ResourceManagerStatus> {
    let told = federation.grc().describe_federation(v1::DescribeFederationRequest {}).await;
    told.map(|told| told.into_inner().resource_managers).unwrap_or_default()
}

/// The names of others that a resource manager is told to describe.
fn foreign(statuses: &[v1::ResourceManagerStatus], name: &str) -> Vec<String> {
    let of = statuses.iter().find(|status| status.name == name).unwrap();
    let names = of.foreign_names.iter();
    names.map(|name| format!("{}{} of {}", name.site, name.path, name.owner)).collect()
}

/// Starts the rogues, then the coordinator, which learns from them first, and then the owners.
async fn start_rogues_first(federation: &mut Federation) {
    for name in ROGUES.iter().chain(&["grc"]) {
        federation.spawn(name);
    }
    eventually("the rogues have described themselves", || async {
        let all = statuses(federation).await;
        all.iter().filter(|status| status.reachable).count() == ROGUES.len()
    })
    .await;
    for name in RMS {
        federation.spawn(name);
    }
    federation.complete().await;
}

/// Nothing of a pair of A and B with a path between them is booked at a rogue.
async fn only_owners_are_used(federation: &Federation) {
    let mut request = pair(60, 500, 3_600, 600);
    (request.sites[0].pinned_to, request.sites[1].pinned_to) = (Some("A".into()), Some("B".into()));
    let reservation = federation.reserve_confirmed("one", request).await;
    let segments = &reservation.plan.as_ref().unwrap().segments;
    let mut used: Vec<&str> =
        segments.iter().map(|segment| segment.resource_manager.as_str()).collect();
    used.sort_unstable();
    assert_eq!(used, RMS);
    for rogue in ROGUES {
        assert!(federation.bookings(rogue).await.is_empty(), "{rogue}");
    }
    // A has 100 CPUs, not the 5,000 of the rogue.
    let mut large = pair(1, 1, 3_600, 600);
    (large.sites[0].cpus, large.sites[0].pinned_to) = (101, Some("A".to_owned()));
    let refused = federation.reserve("large", large).await;
    assert_eq!(refused.state(), v1::ReservationState::Failed, "{refused:?}");
    federation.audit_at_rest().await;
    // What the rogues have of their own is used: the site R, and the path to it.
    let mut own = pair(1, 1, 3_600, 600);
    (own.sites[0].pinned_to, own.sites[1].pinned_to) = (Some("R".into()), Some("A".into()));
    federation.reserve_confirmed("own", own).await;
    for rogue in ROGUES {
        assert_eq!(federation.bookings(rogue).await.len(), 1, "{rogue}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_listed_first_keeps_its_names_and_the_rogue_is_told() {
    let mut federation = with_rogues();
    let order = ["crm-A", "crm-B", "nrm", "nrm-0", "crm-0"].map(|name| (name, ""));
    configure_grc(&federation, &order);
    start_rogues_first(&mut federation).await;
    let all = statuses(&federation).await;
    assert_eq!(foreign(&all, "crm-0"), ["A of crm-A"]);
    assert_eq!(foreign(&all, "nrm-0"), ["A-B of nrm"]);
    for honest in RMS {
        assert_eq!(foreign(&all, honest), Vec::<String>::new());
    }
    let rogue = all.iter().find(|status| status.name == "crm-0").unwrap();
    let sites = &rogue.description.as_ref().unwrap().sites;
    assert_eq!(sites.len(), 1, "only its own is shown: {sites:?}");
    only_owners_are_used(&federation).await;
    let expected = "crm-0 describes what belongs to another, which is ignored: site A of crm-A";
    for words in [["health"], ["topology"]] {
        let (code, text) = coalloc(&federation, &words);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(expected), "{text}");
    }
    let (_, topology) = coalloc(&federation, &["topology"]);
    assert!(topology.contains("3 sites, 207 CPUs"), "{topology}");
    let log = federation.log("grc");
    let lines = log.lines().filter(|line| line.contains("describes what is another's"));
    assert_eq!(lines.count(), ROGUES.len(), "once for each: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configured_owner_keeps_its_names_although_the_rogue_is_listed_first() {
    let mut federation = with_rogues();
    let order = [("crm-0", ""), ("nrm-0", ""), ("crm-A", "A"), ("crm-B", ""), ("nrm", "\"A-*\"")];
    configure_grc(&federation, &order);
    for name in ROGUES.iter().chain(&["grc"]) {
        federation.spawn(name);
    }
    // The owners have never said anything, and the names are theirs already.
    eventually("the rogues are told", || async {
        let all = statuses(&federation).await;
        !all.is_empty()
            && foreign(&all, "crm-0") == ["A of crm-A"]
            && foreign(&all, "nrm-0") == ["A-B of nrm"]
    })
    .await;
    for name in RMS {
        federation.spawn(name);
    }
    federation.complete().await;
    only_owners_are_used(&federation).await;
    // The rogue describes more than there is room for: it alone is left out.
    let many: Vec<String> = (0..9_999).map(|n| format!("{{name: S{n}, cpus: 1}}")).collect();
    describe(&federation, "crm-0", &format!("sites: [{}]", many.join(", ")));
    federation.stop("crm-0");
    federation.spawn("crm-0");
    eventually("it is left out", || async {
        let all = statuses(&federation).await;
        all.iter().any(|status| status.name == "crm-0" && !status.not_used.is_empty())
    })
    .await;
    let (code, text) = coalloc(&federation, &["health"]);
    assert_eq!(code, Some(0), "{text}");
    let expected = "nothing of what crm-0 describes is used: it describes too much, 9999 sites";
    assert!(text.contains(expected), "{text}");
    federation.reserve_confirmed("after", pair(1, 1, 9_600, 600)).await;
    let (_, topology) = coalloc(&federation, &["topology"]);
    assert!(topology.contains("2 sites, 200 CPUs"), "{topology}");
}
