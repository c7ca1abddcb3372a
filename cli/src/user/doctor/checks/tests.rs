//! Findings without daemons.

use coalloc_net::client::Dialer;
use coalloc_net::needs::own_version;
use coalloc_protocol::capability::Capability;

use super::*;
use crate::user::doctor::answers::Contact;
use crate::user::doctor::findings::Verdict;

fn at(role: DaemonRole) -> ExaminedDaemon {
    let (address, dialer) = ("127.0.0.1:1".to_owned(), Dialer::plain_text());
    ExaminedDaemon {
        name: address.clone(),
        contact: Contact { role, address, dialer },
        files: None,
    }
}

fn read(ahead_us: i64, within_us: i64) -> Verdict {
    let offset = Ok(ClockOffset { ahead_us, within_us });
    clock("crm-a", &at(DaemonRole::Manager), &offset).verdict
}

#[test]
fn a_clock_is_judged_by_what_is_certain_of_its_offset() {
    assert_eq!(read(900_000, 100), Verdict::Ok);
    assert_eq!(read(-2_000_000, 1_500_000), Verdict::Ok, "the message may have taken it");
    assert_eq!(read(-2_000_000, 100), Verdict::Warning);
    assert_eq!(read(301_000_000, 100), Verdict::Failed);
    assert_eq!(read(i64::MIN, 1), Verdict::Failed);
}

#[test]
fn a_daemon_that_says_that_its_disk_is_full_has_failed() {
    assert_eq!(disk("grc", None, Some(false)).unwrap().verdict, Verdict::Failed);
    assert_eq!(disk("grc", None, Some(true)).unwrap().verdict, Verdict::Ok);
    assert_eq!(disk("grc", None, None), None, "an older release does not say");
}

fn status(name: &str, version: v1::Version) -> v1::ResourceManagerStatus {
    v1::ResourceManagerStatus {
        name: name.to_owned(),
        reachable: true,
        description: Some(v1::DescribeResponse { version: Some(version), ..Default::default() }),
        ..Default::default()
    }
}

#[test]
fn what_a_coordinator_says_of_its_resource_managers_is_judged_one_by_one() {
    let old = own_version(&[Capability::Servers]);
    let denies = v1::ResourceManagerStatus { denies: true, ..status("c", own_version(&[])) };
    let gone = v1::ResourceManagerStatus {
        reachable: false,
        problem: "refused".to_owned(),
        ..status("d", own_version(&[]))
    };
    let differs = v1::ResourceManagerStatus { differences: 2, ..status("e", own_version(&[])) };
    let resource_managers =
        vec![status("a", own_version(&[])), status("b", old), denies, gone, differs];
    let federation = v1::DescribeFederationResponse {
        coordinator: "grc".to_owned(),
        resource_managers,
        version: Some(own_version(&[])),
        ..Default::default()
    };
    let examined = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
    let found = managers("grc", &federation, &examined, Time::from_us(0));
    let told: Vec<(&str, Check, Verdict)> =
        found.iter().map(|one| (one.about.as_str(), one.check, one.verdict)).collect();
    use Check::{Accepts, Version};
    use Verdict::{Failed, Ok, Warning};
    let expected = [
        ("grc -> a", Accepts, Ok),
        ("grc -> b", Accepts, Ok),
        ("grc -> b", Version, Warning),
        ("grc -> c", Accepts, Failed),
        ("grc -> d", Accepts, Failed),
        ("grc -> e", Accepts, Warning),
    ];
    assert_eq!(told, expected);
    assert!(found[2].measured.contains("does not know servers"), "{:?}", found[2]);
    assert!(found[3].next.as_ref().unwrap().contains("coordinators in the file of c"));
}

#[test]
fn a_picture_that_is_old_is_a_warning_and_none_at_all_is_not() {
    let seconds = |seconds: i64| coalloc_proto::Duration { seconds, nanos: 0 };
    let part = |name: &str, age: Option<i64>| v1::PicturePart {
        resource_manager: name.to_owned(),
        age: age.map(seconds),
        ..Default::default()
    };
    let compared = |name: &str, at: i64, problem: &str| v1::ComparedBookings {
        resource_manager: name.to_owned(),
        time: Some(coalloc_proto::Timestamp { seconds: at, nanos: 0 }),
        problem: problem.to_owned(),
        ..Default::default()
    };
    let parts = vec![part("a", Some(2)), part("b", Some(600)), part("c", None)];
    let said = DaemonAnswers {
        picture: Some(v1::ReadPictureResponse { parts, ..Default::default() }),
        comparisons: Some(Ok(v1::ListDifferencesResponse {
            resource_managers: vec![
                compared("a", 90_000, ""),
                compared("b", 90_000, ""),
                compared("c", 90_000, ""),
                compared("d", 1, ""),
                compared("e", 90_000, "refused"),
            ],
        })),
        ..DaemonAnswers::default()
    };
    let found = pictures("grc", &said, Time::from_us(90_005_000_000));
    let verdicts: Vec<Verdict> = found.iter().map(|one| one.verdict).collect();
    use Verdict::{Ok as Well, Warning};
    assert_eq!(verdicts, [Well, Warning, Well, Warning, Warning]);
    assert_eq!(found[0].measured, "picture 2.0 s old; bookings compared 5.0 s ago");
    assert!(found[4].measured.ends_with("; refused"), "{:?}", found[4]);
    let denied = DaemonAnswers { comparisons: Some(Err("not you".to_owned())), ..said };
    assert_eq!(pictures("grc", &denied, Time::from_us(0))[0].verdict, Verdict::NotChecked);
}
