//! Tests of what the store makes of updates: an ignored update is counted each time and never planned on.

use std::sync::Arc;

use coalloc_common::profile::FreeStep;
use coalloc_common::{Amount, ResourceId, Span};
use coalloc_net::client::{Destination, Dialer};
use coalloc_net::convert::update_to_wire;
use coalloc_net::machine::System;
use coalloc_plan::multicost::Knowledge;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use coalloc_protocol::update::{Part, Update};

use super::*;

const CRM: &str = "crm-B";

/// Pictures that expect one CRM with a site of 4 CPUs.
fn keeper() -> Pictures {
    let host = System::host(Dialer::plain_text());
    let to = Destination::new("address", "127.0.0.1:9", None).unwrap();
    let client = ResourceManagerClient::new(host.connect(&to));
    let rm = RmName::composed(CRM);
    let peers = [(rm.clone(), to)].into();
    let federation = Federation::new(&peers, &host);
    let settings = TaskSettings { mode: Mode::Distributed, ..TaskSettings::default() };
    let pictures = Pictures::new("grc", settings, federation, &host);
    let site = v1::Site { name: "B".to_owned(), cpus: 4, ..v1::Site::default() };
    let description = v1::DescribeResponse {
        name: CRM.to_owned(),
        domain: "D".to_owned(),
        sites: vec![site],
        ..v1::DescribeResponse::default()
    };
    let described = [(&rm, &description)];
    let topology = coalloc_net::convert::topology_of_descriptions(described).unwrap();
    let members = [(rm.clone(), (client, Arc::new(description.clone())))].into();
    let topology = Arc::new(topology);
    pictures.expect(&Arc::new(Snapshot { topology, members, missing: Vec::new() }));
    pictures
}

fn now() -> Time {
    System::host(Dialer::plain_text()).now().wall
}

fn window() -> Window {
    Window::starting(now(), Span::from_secs(100)).unwrap()
}

fn update(kind: UpdateKind, revision: u64, free: u64) -> v1::ProfileUpdate {
    let at = now();
    let window = Window::starting(at, Span::from_secs(1_000)).unwrap();
    let steps: Vec<FreeStep> = vec![(at, Amount(free))];
    let parts = vec![Part { resource: 0, window, steps }];
    update_to_wire(&Update { epoch: 1, kind, revision, at, parts })
}

fn snapshot(revision: u64) -> v1::ProfileUpdate {
    let resources = vec![ResourceId::composed("B")];
    update(UpdateKind::Snapshot { resources, more: false }, revision, 4)
}

fn ignored(pictures: &Pictures) -> u64 {
    pictures.look(|picture, _| picture.members().map(|(_, _, counts)| counts.ignored).sum())
}

async fn free(pictures: &Pictures) -> Amount {
    let (rm, site) = (RmName::composed(CRM), ResourceId::composed("B"));
    let at = now().saturating_add(Span::from_secs(1));
    pictures.believed(window()).await.free_at(&rm, &site, at)
}

#[tokio::test]
async fn what_does_not_fit_is_counted_and_never_planned_on() {
    let (pictures, rm) = (keeper(), RmName::composed(CRM));
    assert_eq!(pictures.cursor(&rm), (0, 0));
    // Before a snapshot, no other update can be merged.
    let delta = |from, revision, free| update(UpdateKind::Delta { from }, revision, free);
    assert_eq!(pictures.take(&rm, &delta(1, 2, 3)), UpdateOutcome::NeedsSnapshot);
    assert_eq!(pictures.take(&rm, &snapshot(10)), UpdateOutcome::Merged);
    assert_eq!(pictures.cursor(&rm), (1, 10));
    assert_eq!(free(&pictures).await, Amount(4));
    assert_eq!(pictures.take(&rm, &delta(10, 11, 3)), UpdateOutcome::Merged);
    assert_eq!(free(&pictures).await, Amount(3));
    let stranger = RmName::composed("crm-X");
    let cases = [
        (&rm, delta(13, 14, 1), UpdateOutcome::NeedsSnapshot),
        (&rm, delta(10, 10, 1), UpdateOutcome::Ignored),
        (&rm, v1::ProfileUpdate { epoch: 2, ..delta(11, 12, 1) }, UpdateOutcome::NeedsSnapshot),
        (&rm, delta(11, 12, 5), UpdateOutcome::NeedsSnapshot),
        (&rm, v1::ProfileUpdate { kind: 9, ..delta(11, 12, 1) }, UpdateOutcome::NeedsSnapshot),
        (&stranger, delta(11, 12, 1), UpdateOutcome::Ignored),
    ];
    for (who, wire, taken) in cases {
        assert_eq!(pictures.take(who, &wire), taken, "{wire:?}");
        assert_eq!(free(&pictures).await, Amount(3));
    }
    // Those that could be read and came from a known RM.
    assert_eq!(ignored(&pictures), 5);
    let logged = pictures.state().logged.len();
    assert_eq!(pictures.take(&rm, &delta(13, 14, 1)), UpdateOutcome::NeedsSnapshot);
    assert_eq!(pictures.state().logged.len(), logged, "complained of once");
    assert_eq!(ignored(&pictures), 6);
}

#[tokio::test]
async fn facts_are_merged_and_facts_of_before_do_not_end_the_stream() {
    let (pictures, rm) = (keeper(), RmName::composed(CRM));
    let facts = |revision, free| update(UpdateKind::Facts, revision, free);
    pictures.learn(&rm, &facts(3, 1));
    assert_eq!(pictures.take(&rm, &facts(3, 1)), UpdateOutcome::Ignored, "before any snapshot");
    assert_eq!(pictures.take(&rm, &snapshot(2)), UpdateOutcome::Merged);
    pictures.learn(&rm, &facts(3, 1));
    assert_eq!(free(&pictures).await, Amount(1));
    assert_eq!(pictures.cursor(&rm), (1, 2), "the stream goes on from where it was");
}

#[tokio::test]
async fn of_whom_nothing_is_known_everything_is_taken_and_a_refusal_says_so() {
    let (pictures, rm) = (keeper(), RmName::composed(CRM));
    let denied = super::super::believed::why(&tonic::Status::permission_denied("no"));
    pictures.problem(&rm, denied);
    let believed = pictures.believed(window()).await;
    assert!(believed.is_empty());
    let short = coalloc_common::Refusal::new(coalloc_common::Reason::NoRoute, "no plan");
    let blamed = believed.blame(short);
    assert_eq!(blamed.reason, coalloc_common::Reason::Denied);
    assert_eq!(blamed.rm, Some(rm));
    assert!(blamed.detail.contains("`profiles.coordinators`"), "{blamed:?}");
}
