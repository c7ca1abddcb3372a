//! A shared log in real etcd members that are killed, with two leaders that take turns.

use std::time::Duration;

use super::error::SharedLogError;
use super::etcd_store::EtcdStore;
use super::log::{SharedLog, SharedLogId};
use crate::body::OwnedBody;
use crate::identity::Identity;

#[path = "../../../etcd/tests/real/cluster.rs"]
mod cluster;

use self::cluster::Cluster;

const PATIENCE: Duration = Duration::from_secs(30);

/// Connections are made in the runtime.
fn client(cluster: &Cluster, runtime: &tokio::runtime::Runtime) -> coalloc_etcd::Etcd {
    let _in = runtime.enter();
    cluster.client()
}

fn open(cluster: &Cluster, runtime: &tokio::runtime::Runtime) -> SharedLog<EtcdStore> {
    let store = EtcdStore::new(client(cluster, runtime), runtime.handle().clone(), PATIENCE);
    let node = Identity { kind: "grc".to_owned(), name: "grc".to_owned() };
    let made =
        SharedLog::create(store.clone(), "coalloc/grc", &SharedLogId::new("f".repeat(32), node));
    assert!(matches!(made, Ok(()) | Err(SharedLogError::Occupied { .. })));
    SharedLog::open(store, "coalloc/grc").unwrap()
}

fn body(number: u64) -> OwnedBody {
    OwnedBody { record: number.to_string().into_bytes(), causer: None }
}

#[test]
fn members_of_etcd_are_killed_and_leaders_take_turns() {
    const RECORDS: u64 = 600;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(mut cluster) = runtime.block_on(Cluster::start(3)) else { return };
    let mut leaders = [open(&cluster, &runtime), open(&cluster, &runtime)];
    let etcd = client(&cluster, &runtime);
    let (mut next, mut turns) = (1, 0);
    while next <= RECORDS {
        let leader = &mut leaders[turns % 2];
        let lease = runtime.block_on(etcd.grant(30));
        let Ok(lease) = lease else { continue };
        assert!(leader.lead(&format!("turn {turns}"), lease.id).unwrap());
        while !leader.read_next().unwrap().is_empty() {}
        assert_eq!(leader.tip().sequence, next - 1, "nothing is lost and nothing is there twice");
        for _ in 0..50 {
            match next {
                120 => cluster.kill(0),
                220 => cluster.restart(0),
                320 => cluster.kill(1),
                420 => cluster.restart(1),
                520 => cluster.kill(2),
                _ => {}
            }
            leader.append(&[body(next)]).unwrap();
            next += 1;
        }
        // The other one leads next. This one still believes that it does.
        while runtime.block_on(etcd.revoke(lease.id)).is_err_and(|error| error.is_unknown()) {}
        let late = leader.append(&[body(0)]);
        assert!(matches!(late, Err(SharedLogError::NotLeading { .. })), "{late:?}");
        assert!(leader.lead("again", lease.id).is_err(), "only a new process may lead again");
        *leader = open(&cluster, &runtime);
        turns += 1;
    }
    let (mut reader, mut all) = (open(&cluster, &runtime), Vec::new());
    loop {
        let more = reader.read_next().unwrap();
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    assert_eq!(all, (1..=RECORDS).map(body).collect::<Vec<_>>());
}
