//! Secret addresses of calendars: one for each user, found by its digest until its time is over or it is revoked, also after a
//! restart and from a snapshot.

use coalloc_common::{DiskSpace, Time, UserName, limits};

use super::tests::{Bench, OTHER, at, fresh, replies};
use super::*;
use crate::snapshot::Snapshot as _;

fn user(name: &str) -> UserName {
    UserName::composed(name)
}

/// When the time of an address of this digest is over that was made at `ms`.
fn address(digest: &str, ms: i64) -> CalendarAddress {
    let proof = OwnerProof::Certificate(vec!["MIIB".to_owned()]);
    let (made, expires) = (at(ms).wall, at(ms + 1_000).wall);
    CalendarAddress { digest: digest.to_owned(), made, expires, proof }
}

fn done(bench: &mut Bench, input: CalendarInput, ms: i64) -> CalendarReply {
    match &replies(&bench.step(CoordinatorInput::Calendar(input), at(ms)))[..] {
        [Reply::Calendar(token, reply)] if token.number() == OTHER => *reply,
        other => panic!("one answer expected: {other:?}"),
    }
}

fn make(bench: &mut Bench, name: &str, digest: &str, ms: i64) -> CalendarReply {
    let (user, address, token) = (user(name), address(digest, ms), Token::new(OTHER));
    done(bench, CalendarInput::Make { user, address, token }, ms)
}

fn revoke(bench: &mut Bench, name: &str, ms: i64) -> CalendarReply {
    revoke_only(bench, name, None, ms)
}

fn revoke_only(bench: &mut Bench, name: &str, digest: Option<&str>, ms: i64) -> CalendarReply {
    let (user, digest, token) = (user(name), digest.map(str::to_owned), Token::new(OTHER));
    done(bench, CalendarInput::Revoke { user, digest, token }, ms)
}

/// Whose calendar it is.
fn owner(core: &Coordinator, digest: &str, ms: i64) -> Option<String> {
    core.calendar_by_digest(digest, at(ms).wall).map(|(user, _)| user.to_string())
}

/// What a process has that starts from a snapshot of this one.
fn from_snapshot(bench: &mut Bench) -> Coordinator {
    let mut core = fresh();
    for changed in bench.core.take_changed() {
        let text = serde_json::to_string(&changed.part.unwrap()).unwrap();
        core.restore(serde_json::from_str(&text).unwrap()).unwrap();
    }
    core.restored(bench.log.len() as u64).unwrap();
    core.check_invariants().unwrap();
    core
}

#[test]
fn a_new_address_takes_the_place_of_the_old_one_until_it_is_revoked() {
    let mut bench = Bench::new();
    assert_eq!(make(&mut bench, "alice", "d1", 10), CalendarReply::Done);
    assert_eq!(make(&mut bench, "bob", "d2", 11), CalendarReply::Done);
    assert_eq!(make(&mut bench, "alice", "d3", 12), CalendarReply::Done);
    // Whoever ends the old one comes too late, and leaves the new one.
    let late = revoke_only(&mut bench, "alice", Some("d1"), 12);
    assert_eq!(late, CalendarReply::NothingToRevoke);
    let check = |core: &Coordinator| {
        let owners = ["d1", "d2", "d3", "", "alice"].map(|digest| owner(core, digest, 20));
        assert_eq!(owners, [None, Some("bob".into()), Some("alice".into()), None, None]);
        let known = core.calendar_of(&user("alice"), at(20).wall).unwrap();
        assert_eq!(*known, address("d3", 12));
    };
    check(&bench.core);
    check(&from_snapshot(&mut bench));
    let _ = bench.restart(at(30));
    check(&bench.core);

    assert_eq!(revoke(&mut bench, "alice", 40), CalendarReply::Done);
    assert_eq!(revoke(&mut bench, "alice", 41), CalendarReply::NothingToRevoke);
    let _ = bench.restart(at(50));
    assert_eq!(owner(&bench.core, "d3", 51), None);
    assert_eq!(bench.core.calendar_of(&user("alice"), at(51).wall), None);
    assert_eq!(owner(&bench.core, "d2", 51).unwrap(), "bob");
}

#[test]
fn an_address_is_not_found_from_its_end_on_and_goes_when_the_next_one_is_made() {
    let mut bench = Bench::new();
    make(&mut bench, "alice", "d1", 10);
    assert_eq!(owner(&bench.core, "d1", 1_009).unwrap(), "alice");
    assert_eq!(owner(&bench.core, "d1", 1_010), None);
    assert_eq!(bench.core.calendar_of(&user("alice"), at(1_010).wall), None);
    let records = bench.log.len();
    assert_eq!(make(&mut bench, "bob", "d2", 1_010), CalendarReply::Done);
    assert_eq!(bench.log.len(), records + 2, "{:?}", bench.log);
    // Even a clock that is set back does not bring it back.
    assert_eq!(owner(&bench.core, "d1", 20), None);
    let _ = bench.restart(at(1_020));
    assert_eq!(owner(&bench.core, "d2", 1_020).unwrap(), "bob");

    assert_eq!(revoke(&mut bench, "bob", 9_000), CalendarReply::NothingToRevoke);
    assert_eq!(owner(&bench.core, "d2", 1_020), None);
}

#[test]
fn there_are_only_so_many_and_none_is_begun_on_a_full_disk() {
    let mut bench = Bench::new();
    // The long way would check all invariants at each of them.
    for number in 0..limits::CALENDARS_MAX {
        let (user, expires) = (user(&format!("u{number}")), Time::MAX);
        let address = CalendarAddress { expires, ..address(&format!("d{number}"), 10) };
        let record =
            CoordinatorRecord::CalendarChanged { user, address: Some(address), at: at(10) };
        bench.core.apply(&record).unwrap();
        bench.log.push(record);
    }
    assert_eq!(make(&mut bench, "alice", "d", 11), CalendarReply::Full);
    assert_eq!(owner(&bench.core, "d", 12), None);
    // Whoever has one may have another one instead.
    assert_eq!(make(&mut bench, "u7", "d", 13), CalendarReply::Done);
    assert_eq!(owner(&bench.core, "d", 14).unwrap(), "u7");

    assert_eq!(bench.step(CoordinatorInput::Room(DiskSpace::Low), at(20)), []);
    assert_eq!(make(&mut bench, "u8", "other", 21), CalendarReply::DiskFull);
    assert_eq!(owner(&bench.core, "d8", 22).unwrap(), "u8");
    // What ends something has space.
    assert_eq!(revoke(&mut bench, "u8", 23), CalendarReply::Done);
}

#[test]
fn a_log_that_ends_what_is_not_there_or_gives_one_address_twice_is_refused() {
    let changed = |name: &str, digest: Option<&str>| CoordinatorRecord::CalendarChanged {
        user: user(name),
        address: digest.map(|digest| address(digest, 10)),
        at: at(10),
    };
    let mut core = fresh();
    assert!(core.apply(&changed("alice", None)).is_err());
    core.apply(&changed("alice", Some("d1"))).unwrap();
    assert!(core.apply(&changed("bob", Some("d1"))).is_err());
}
