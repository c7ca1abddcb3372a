//! Who has caused each record (I20), as the ledgers of real processes have it.

use coalloc_common::Role;
use coalloc_ledger::look::look;
use coalloc_proto::v1;
use coalloc_proto::v1::watch_bookings_response::What;
use serde_json::Value;

use super::world::{TlsWorld, request};
use crate::harness::RMS;

/// The records of a daemon's ledger.
fn records(world: &TlsWorld, daemon: &str) -> Vec<Value> {
    let path = world.federation.dir.path().join(format!("{daemon}.ledger"));
    let mut records = Vec::new();
    let seen = look(&path, |_, _, body| {
        records.push(serde_json::from_str(&body.to_json().unwrap()).unwrap());
        Ok(())
    });
    seen.unwrap();
    records
}

fn text<'a>(record: &'a Value, at: &str) -> &'a str {
    record.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// The kind and the causer of each record that names `id` anywhere.
fn caused(records: &[Value], id: &str) -> Vec<(String, String)> {
    let of_it = records.iter().filter(|record| record.to_string().contains(id));
    of_it.map(|one| (text(one, "/record").to_owned(), text(one, "/from/peer").to_owned())).collect()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(kind, peer)| ((*kind).to_owned(), (*peer).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_says_whose_message_has_caused_it() {
    const ALICE: &str = "spiffe://grid/coalloc/user/alice";
    const OLGA: &str = "spiffe://grid/coalloc/operator/olga";
    const OTTO: &str = "spiffe://south/coalloc/operator/otto";
    const GRC: &str = "spiffe://grid/coalloc/coordinator/grc";
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    let olga = world.who("grid", Role::Operator, "olga");
    let otto = world.who("south", Role::Operator, "otto");
    // Alice reserves, and an operator releases it in her name.
    let reserved = world.grc(&alice).reserve(request("r1", "alice")).await.unwrap().into_inner();
    let first = reserved.reservation.unwrap();
    let release = v1::ReleaseReservationRequest { id: first.id.clone(), user: "alice".to_owned() };
    world.grc(&olga).release(release).await.unwrap();
    // An operator reserves for alice, and another one ends it at a resource manager.
    let reserved = world.grc(&olga).reserve(request("r2", "alice")).await.unwrap().into_inner();
    let second = reserved.reservation.unwrap();
    let end = v1::ReleaseRequest {
        transaction: second.transaction.clone(),
        coordinator: "grc".to_owned(),
        resource_manager: "crm-A".to_owned(),
        ..Default::default()
    };
    world.rm(&otto, "crm-A").release(end).await.unwrap();

    let grc = records(&world, "grc");
    let first_made = caused(&grc, "r1");
    assert_eq!(first_made[0], ("opened".to_owned(), ALICE.to_owned()), "{first_made:?}");
    let of_first = caused(&grc, &first.transaction);
    for (kind, peer) in &of_first {
        let expected: &[&str] = match kind.as_str() {
            "intent" => &[ALICE],
            "releasing" => &[OLGA],
            // The last answer decides, and completes.
            _ => &[
                "spiffe://south/coalloc/resource-manager/nrm",
                "spiffe://south/coalloc/resource-manager/crm-A",
                "spiffe://south/coalloc/resource-manager/crm-B",
            ],
        };
        assert!(expected.contains(&peer.as_str()), "{kind} from {peer}");
    }
    assert!(of_first.iter().any(|(kind, _)| kind == "decided"), "{of_first:?}");
    assert!(of_first.iter().any(|(kind, _)| kind == "releasing"), "{of_first:?}");
    assert_eq!(caused(&grc, "r2")[0], ("opened".to_owned(), OLGA.to_owned()));

    let of_second = [("held", GRC), ("booked", GRC), ("ended", OTTO)];
    let crm = records(&world, "crm-A");
    assert_eq!(caused(&crm, &second.transaction), pairs(&of_second));
    let of_first = [("held", GRC), ("booked", GRC), ("ended", GRC)];
    for daemon in RMS {
        let all = records(&world, daemon);
        assert_eq!(caused(&all, &first.transaction), pairs(&of_first), "{daemon}");
        // Only the start of the process has no causer, and every other one is proven.
        for record in &all {
            let own = text(record, "/record") == "opened";
            assert_eq!(record.get("from").is_none(), own, "{record}");
            if !own {
                assert!(!text(record, "/from/issuer").is_empty(), "{record}");
                assert_eq!(text(record, "/from/subject").len(), 64, "{record}");
            }
        }
    }

    // Whoever watches the bookings there is told, too.
    let watch = v1::WatchBookingsRequest { resume_token: "0".to_owned() };
    let mut events = world.rm(&otto, "crm-A").watch_bookings(watch).await.unwrap().into_inner();
    let mut causes = Vec::new();
    while causes.len() < 6 {
        let message = events.message().await.unwrap().unwrap();
        if let Some(What::Event(event)) = message.what {
            causes.push(event.cause);
        }
    }
    let operator = format!("operator {OTTO}");
    assert_eq!(causes[5], operator, "{causes:?}");
    assert!(causes[..5].iter().all(|cause| cause == "coordinator grc"), "{causes:?}");
}
