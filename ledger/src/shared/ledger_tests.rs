//! Members with copies of one shared log: following, taking over, and giving up what all have.

use std::path::{Path, PathBuf};

use coalloc_common::limits;
use coalloc_etcd::{Change, Transaction};
use coalloc_protocol::{ChangedPart, Log as _, ReplayError};
use tempfile::TempDir;

use super::error::SharedLogError;
use super::ledger::{Membership, SharedLedger, share, unshare};
use super::store::Store as _;
use super::twin::EtcdTwin;
use crate::backup::back_up;
use crate::error::LedgerError;
use crate::identity::Identity;
use crate::look::{self, SoundLedger};
use crate::snapshot::Fold;
use crate::sqlite::SqliteLedger;

const PREFIX: &str = "coalloc/grc";

/// The sum of all records, and how many there were.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Sum {
    sum: u64,
    records: u64,
}

impl Fold for Sum {
    type Part = u64;
    type Record = u64;

    fn restore(&mut self, part: u64) -> Result<(), ReplayError> {
        self.sum = part;
        Ok(())
    }

    fn restored(&mut self, records: u64) -> Result<(), ReplayError> {
        self.records = records;
        Ok(())
    }

    fn replay(&mut self, sequence: u64, record: u64) -> Result<(), ReplayError> {
        assert_eq!(sequence, self.records + 1);
        self.sum += record;
        self.records = sequence;
        Ok(())
    }
}

type Member = SharedLedger<u64, EtcdTwin>;

struct World {
    store: EtcdTwin,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { store: EtcdTwin::new(1, 0), folder: tempfile::tempdir().unwrap() };
        assert!(world.share("nobody").unwrap().is_none(), "a new ledger");
        world
    }

    /// Shares the file of this name, or a new ledger.
    fn share(&self, name: &str) -> Result<Option<SoundLedger>, LedgerError> {
        let id = || "0123456789abcdef0123456789abcdef".to_owned();
        share(self.store.observer(), PREFIX, &self.path(name), &node(), id)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.ledger"))
    }

    fn open(&mut self, name: &str) -> Result<(Member, Sum), LedgerError> {
        let membership = Membership {
            prefix: PREFIX.to_owned(),
            member: name.to_owned(),
            members: vec!["a".to_owned(), "b".to_owned()],
        };
        let (path, mut sum) = (self.path(name), Sum::default());
        let store = self.store.client();
        let member = SharedLedger::open(store, membership, &path, &node(), &mut sum)?;
        Ok((member, sum))
    }

    fn keys(&self, part: &str) -> usize {
        self.store.keys().iter().filter(|key| key.contains(part)).count()
    }
}

fn node() -> Identity {
    Identity { kind: "grc".to_owned(), name: "grc".to_owned() }
}

fn follow(member: &mut Member, sum: &mut Sum) {
    while member.follow(sum).unwrap() > 0 {}
}

/// Takes over, and appends records from `from` on.
fn lead(world: &World, member: &mut Member, sum: &mut Sum, process: &str, from: u64, count: u64) {
    world.store.expire(b"coalloc/grc/leader");
    assert!(member.lead(process, 1).unwrap());
    follow(member, sum);
    for record in from..from + count {
        member.append(&[&record, &1]).unwrap();
        sum.sum += record + 1;
        sum.records += 2;
    }
}

fn snapshot(member: &mut Member, sum: Sum) {
    let part = ChangedPart { key: "sum".to_owned(), part: Some(sum.sum) };
    member.write_snapshot(&[part]).unwrap();
}

fn verified(path: &Path) -> u64 {
    look::look(path, |_, _, _| Ok(())).unwrap().tip.sequence
}

#[test]
fn whoever_takes_over_has_every_record_and_copies_are_sound_ledgers() {
    let mut world = World::new();
    let (mut a, mut of_a) = world.open("a").unwrap();
    let (mut b, mut of_b) = world.open("b").unwrap();
    assert!(matches!(a.append(&[&1]), Err(LedgerError::Shared(SharedLogError::NotLeading { .. }))));
    lead(&world, &mut a, &mut of_a, "a1", 10, 50);
    assert_eq!(a.leader().unwrap().as_deref(), Some("a1"));
    follow(&mut b, &mut of_b);
    assert_eq!(of_b, of_a);
    lead(&world, &mut b, &mut of_b, "b1", 1_000, 5);
    // The old leader learns it at its next append, and is opened again as a new process.
    assert!(a.append(&[&1]).is_err());
    drop(a);
    let (mut a, mut of_a) = world.open("a").unwrap();
    assert_eq!(of_a.records, 100);
    follow(&mut a, &mut of_a);
    assert_eq!(of_a, of_b);
    drop((a, b));
    for name in ["a", "b"] {
        assert_eq!(verified(&world.path(name)), 110, "{name}");
        assert!(!world.folder.path().join(format!("{name}.ledger.tip")).exists());
    }
}

#[test]
fn what_all_have_is_given_up_and_who_was_away_for_long_is_told_what_to_do() {
    let mut world = World::new();
    let (mut a, mut of_a) = world.open("a").unwrap();
    let (mut b, mut of_b) = world.open("b").unwrap();
    lead(&world, &mut a, &mut of_a, "a1", 1, 2_100);
    let batches = world.keys("/log/");
    snapshot(&mut a, of_a);
    assert_eq!(world.keys("/log/"), batches, "b has nothing yet");
    follow(&mut b, &mut of_b);
    snapshot(&mut b, of_b);
    assert_eq!(world.keys("/log/"), 0);
    // A copy whose end was lost in a crash would not be this short; a member with another one's file goes on.
    drop(b);
    back_up(&world.path("a"), &world.folder.path().join("copy")).unwrap();
    std::fs::remove_file(world.path("b")).unwrap();
    let (mut b, mut of_b) = world.open("b").unwrap();
    let error = b.follow(&mut of_b).unwrap_err();
    assert!(matches!(&error, LedgerError::Shared(SharedLogError::Trimmed { wanted: 1, .. })));
    drop(b);
    std::fs::rename(world.folder.path().join("copy"), world.path("b")).unwrap();
    let (mut b, mut of_b) = world.open("b").unwrap();
    lead(&world, &mut a, &mut of_a, "a2", 7, 3);
    follow(&mut b, &mut of_b);
    assert_eq!(of_b, of_a);
}

#[test]
fn a_full_store_keeps_nothing_for_members_that_are_away() {
    let mut world = World::new();
    let (mut a, mut of_a) = world.open("a").unwrap();
    let (mut b, mut of_b) = world.open("b").unwrap();
    lead(&world, &mut a, &mut of_a, "a1", 1, 2_100);
    world.store.fill(limits::SHARED_STORE_BYTES_MAX);
    snapshot(&mut a, of_a);
    assert_eq!(world.keys("/log/"), 0);
    let error = b.follow(&mut of_b).unwrap_err();
    assert!(matches!(error, LedgerError::Shared(SharedLogError::Trimmed { .. })), "{error}");
}

#[test]
fn a_member_of_an_earlier_release_is_told_that_it_is_one() {
    let mut world = World::new();
    let (mut a, mut of_a) = world.open("a").unwrap();
    let (mut b, mut of_b) = world.open("b").unwrap();
    lead(&world, &mut a, &mut of_a, "a1", 1, 3);
    a.raise_format().unwrap();
    follow(&mut b, &mut of_b);
    drop(b);
    let (b, _) = world.open("b").unwrap();
    drop(b);
    let (key, value) = (b"coalloc/grc/format".to_vec(), b"9 coalloc 9.1".to_vec());
    let later = Transaction {
        changes: vec![Change::Put { key, value, lease: None }],
        ..Transaction::default()
    };
    world.store.observer().transact(&later).unwrap();
    a.raise_format().unwrap();
    let error = world.open("b").unwrap_err();
    assert!(matches!(&error, LedgerError::Shared(SharedLogError::NewerFormat { found: 9, .. })));
    assert!(error.to_string().contains("written by coalloc 9.1"), "{error}");
}

#[test]
fn a_file_and_a_log_that_do_not_belong_together_are_refused() {
    let mut world = World::new();
    let (mut a, mut of_a) = world.open("a").unwrap();
    lead(&world, &mut a, &mut of_a, "a1", 1, 3);
    drop(a);
    // A copy is not opened as if it were all that there is.
    let alone: Result<SqliteLedger<u64>, _> =
        SqliteLedger::open_into(&world.path("a"), &node(), String::new, &mut Sum::default());
    assert!(matches!(alone.unwrap_err(), LedgerError::IsCopy { .. }));
    // etcd has lost everything, or the prefix is wrong. Nothing is made by itself.
    world.store = EtcdTwin::new(2, 0);
    for name in ["a", "new"] {
        let error = world.open(name).unwrap_err();
        assert!(matches!(&error, LedgerError::Shared(SharedLogError::Missing { .. })), "{error}");
    }
    assert_eq!(world.keys(""), 0, "nothing was made");
    // Somebody makes a new log: the copy is of another one.
    assert!(world.share("nobody").is_ok());
    let foreign = Identity { kind: "crm".to_owned(), name: "crm".to_owned() };
    let wrong =
        share(world.store.observer(), PREFIX, &world.path("x"), &foreign, || "f".repeat(32));
    assert!(matches!(wrong, Err(LedgerError::Shared(SharedLogError::Occupied { .. }))));
    let membership = Membership {
        prefix: PREFIX.to_owned(),
        member: "a".to_owned(),
        members: vec!["a".to_owned()],
    };
    let opened: Result<Member, _> = SharedLedger::open(
        world.store.observer(),
        membership,
        &world.path("x"),
        &foreign,
        &mut Sum::default(),
    );
    assert!(matches!(opened, Err(LedgerError::ForeignNode { .. })));
}

#[test]
fn a_ledger_is_shared_and_taken_back_with_every_record() {
    let mut world = World::new();
    let (mut a, mut of_a) = world.open("a").unwrap();
    let (mut b, mut of_b) = world.open("b").unwrap();
    lead(&world, &mut a, &mut of_a, "a1", 1, 3);
    let back =
        |world: &World, name: &str| unshare(world.store.observer(), PREFIX, &world.path(name));
    assert!(matches!(back(&world, "a"), Err(LedgerError::Locked { .. })), "a process runs");
    drop(a);
    // A process leads, as far as the store knows; and the other copy lacks records.
    let not_at_end =
        |error: &LedgerError| matches!(error, LedgerError::Shared(SharedLogError::NotAtEnd { .. }));
    assert!(not_at_end(&back(&world, "a").unwrap_err()));
    world.store.expire(b"coalloc/grc/leader");
    b.follow(&mut of_b).unwrap();
    drop(b);
    let (mut a, mut of_a) = world.open("a").unwrap();
    lead(&world, &mut a, &mut of_a, "a2", 9, 1);
    drop(a);
    world.store.expire(b"coalloc/grc/leader");
    assert!(not_at_end(&back(&world, "b").unwrap_err()));
    assert_eq!(back(&world, "a").unwrap().tip.sequence, 8);
    assert_eq!(world.keys(""), 0);
    // It is a ledger of its own, which goes on and is shared again.
    let mut sum = Sum::default();
    let mut alone: SqliteLedger<u64> =
        SqliteLedger::open_into(&world.path("a"), &node(), String::new, &mut sum).unwrap();
    assert_eq!(sum, of_a);
    alone.append(&[&100]).unwrap();
    drop(alone);
    assert_eq!(world.share("a").unwrap().unwrap().tip.sequence, 9);
    let (mut a, mut of_a) = world.open("a").unwrap();
    assert_eq!(of_a.records, 9);
    lead(&world, &mut a, &mut of_a, "a3", 1, 1);
    // The new log begins after the old copy of b, which is told to begin with another one.
    drop(a);
    let (mut b, mut of_b) = world.open("b").unwrap();
    let error = b.follow(&mut of_b).unwrap_err();
    assert!(matches!(error, LedgerError::Shared(SharedLogError::Trimmed { wanted: 7, .. })));
}
