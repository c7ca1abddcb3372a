//! The tc driver at a real kernel: two hosts and an exchange between them, each a network namespace, and iperf3.
//!
//! It needs root, or a user namespace in which /run can be written (`unshare -U --map-root-user -n -m` and a tmpfs
//! there), and the programs ip, tc, nft, nsenter and iperf3. Where COALLOC_EQUIPMENT is not 1 it does nothing; where it
//! is, what is missing is a failure.

// clippy allows unwrap in test functions only; this file is test code all through.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bench;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use coalloc_common::{Amount, Time, TransactionId, Window};
use coalloc_protocol::participant::equipment::{
    EquipmentTrouble, Observed, Share, Stage, Want, WantedVersion,
};
use coalloc_rm::driver::Driver as _;

use self::bench::{Bench, Middle, active, is_wanted, key, want};

const M: u64 = 1_000_000;

/// A flow of TCP gets 1448 bytes of 1514 that are on the wire, and a little is lost at the start.
fn is_rate(measured: f64, booked: u64) {
    let share = measured / booked as f64;
    println!("measured {:.1} of {} Mbit/s: {:.1} %", measured / 1e6, booked / M, share * 100.0);
    assert!((0.90..=0.97).contains(&share), "{measured} of {booked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_booking_gets_its_rate_in_its_window_and_nothing_is_left() {
    if !is_wanted() {
        return;
    }
    let bench = Bench::new("r", Middle::Router);
    let driver = bench.driver(1);
    let before = bench.state();
    let booking = key("t-1", "N0-N1");
    let claimed = want("alice", Stage::Claimed, None);
    let reference = driver.make(&booking, &claimed).await.unwrap();
    assert_eq!(driver.make(&booking, &claimed).await.unwrap(), reference);
    let granted = want("alice", Stage::Granted, Some(&reference));
    assert_eq!(driver.make(&booking, &granted).await.unwrap(), reference);
    assert_eq!(bench.state(), before, "a claim and a grant change nothing");

    let make = async |mbits: u64| {
        let want = active("alice", mbits * M, Some(&reference));
        assert_eq!(driver.make(&booking, &want).await.unwrap(), reference);
        let state = bench.state();
        driver.make(&booking, &want).await.unwrap();
        assert_eq!(bench.state(), state, "a second time changes nothing");
    };
    make(300).await;
    is_rate(bench.iperf(&["-t", "3", "-O", "1"]).await.rate(), 300 * M);
    let unbooked = bench.iperf(&["-t", "3", "-O", "1", "-B", bench::STRANGER]).await.rate();
    println!("measured {:.1} Mbit/s of unbooked traffic", unbooked / 1e6);
    assert!(unbooked < 10.5e6, "{unbooked}");

    // From b to a, and changed while it flows.
    let flow = bench.iperf(&["-t", "12", "-i", "0.5", "-R"]);
    let changes = async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        make(100).await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        make(300).await;
    };
    let (flow, ()) = tokio::join!(flow, changes);
    is_rate(flow.rate_between(1.5, 3.5), 300 * M);
    is_rate(flow.rate_between(5.5, 7.5), 100 * M);
    is_rate(flow.rate_between(9.5, 11.5), 300 * M);

    driver.make(&booking, &granted).await.unwrap();
    assert_eq!(bench.state(), before, "nothing is left after the window");
    make(300).await;
    driver.remove(&reference).await.unwrap();
    driver.remove(&reference).await.unwrap();
    assert_eq!(bench.state(), before, "nothing is left of what is removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_of_a_bridge_are_shaped_too() {
    if !is_wanted() {
        return;
    }
    let bench = Bench::new("p", Middle::Bridge);
    let driver = bench.driver(1);
    let before = bench.state();
    let booking = key("t-1", "N0-N1");
    let reference = driver.make(&booking, &active("alice", 300 * M, None)).await.unwrap();
    is_rate(bench.iperf(&["-t", "3", "-O", "1"]).await.rate(), 300 * M);
    driver.remove(&reference).await.unwrap();
    assert_eq!(bench.state(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directions_of_a_full_duplex_path_have_rates_of_their_own() {
    if !is_wanted() {
        return;
    }
    let bench = Bench::new("d", Middle::Router);
    let driver = bench.driver_of(1, true);
    let before = bench.state();
    let (there, back) = (key("t-1", "N0-N1:ab"), key("t-1", "N0-N1:ba"));
    let first = driver.make(&there, &active("alice", 300 * M, None)).await.unwrap();
    let second = driver.make(&back, &active("alice", 100 * M, None)).await.unwrap();
    is_rate(bench.iperf(&["-t", "3", "-O", "1"]).await.rate(), 300 * M);
    is_rate(bench.iperf(&["-t", "3", "-O", "1", "-R"]).await.rate(), 100 * M);
    // The header of IPv6 has 20 bytes more.
    let v6 = &["-t", "3", "-O", "1", "-B", "fd77:1::2"];
    is_rate(bench.iperf_to("fd77:2::2", v6).await.rate(), 300 * M);
    driver.remove(&first).await.unwrap();
    driver.remove(&second).await.unwrap();
    assert_eq!(bench.state(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_short() {
    if !is_wanted() {
        return;
    }
    let bench = Bench::new("t", Middle::Router);
    let driver = bench.driver(1);
    let booking = key("t-1", "N0-N1");
    let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for _ in 0..20 {
        let mut start = Instant::now();
        let mut took = |call| {
            times.entry(call).or_default().push(start.elapsed());
            start = Instant::now();
        };
        let claimed = want("alice", Stage::Claimed, None);
        let reference = driver.make(&booking, &claimed).await.unwrap();
        took("claim");
        let want = active("alice", 300 * M, Some(&reference));
        driver.make(&booking, &want).await.unwrap();
        took("start");
        driver.observe(&BTreeMap::from([(booking.clone(), want)])).await.unwrap();
        took("observe");
        driver.remove(&reference).await.unwrap();
        took("remove");
    }
    for (call, times) in &mut times {
        times.sort();
        println!("{call}: median {:.1?}, slowest {:.1?}", times[10], times[19]);
        assert!(times[10] < Duration::from_secs(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bookings_of_a_user_on_a_path_get_their_sum() {
    if !is_wanted() {
        return;
    }
    let bench = Bench::new("s", Middle::Router);
    let driver = bench.driver(1);
    let (one, two) = (key("t-1", "N0-N1"), key("t-2", "N0-N1"));
    let first = driver.make(&one, &active("alice", 100 * M, None)).await.unwrap();
    let second = driver.make(&two, &active("alice", 200 * M, None)).await.unwrap();
    assert_ne!(first, second);
    assert_eq!(first.split(' ').next_back(), second.split(' ').next_back());
    is_rate(bench.iperf(&["-t", "3", "-O", "1"]).await.rate(), 300 * M);
    // After a restart, one of the two is wanted no more.
    let driver = bench.driver(1);
    let wanted = BTreeMap::from([(two.clone(), active("alice", 200 * M, Some(&second)))]);
    let observed = driver.observe(&wanted).await.unwrap();
    assert!(observed.present[&two].differs.as_ref().unwrap().contains("300000000"), "{observed:?}");
    assert!(observed.orphans.is_empty(), "{observed:?}");
    driver.remove(&first).await.unwrap();
    let observed = driver.observe(&wanted).await.unwrap();
    assert_eq!(observed.present[&two].differs, None);
    driver.remove(&second).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_finds_everything_and_changes_by_hand_are_mended() {
    if !is_wanted() {
        return;
    }
    let bench = Bench::new("h", Middle::Router);
    let before = bench.state();
    let booking = key("t-1", "N0-N1");
    let first = bench.driver(1);
    let reference = first.make(&booking, &active("alice", 300 * M, None)).await.unwrap();
    let class = reference.split(' ').next_back().unwrap().to_owned();
    let root = format!("{}:", class.split(':').next().unwrap());

    let driver = bench.driver(1);
    let wanted =
        BTreeMap::from([(booking.clone(), active("alice", 300 * M, Some(reference.as_str())))]);
    let clean = |observed: &Observed| {
        assert_eq!(observed.present[&booking].differs, None);
        assert_eq!(observed.present[&booking].reference, reference);
        assert!(observed.orphans.is_empty() && observed.intruders.is_empty(), "{observed:?}");
    };
    clean(&driver.observe(&wanted).await.unwrap());
    let as_made = bench.state();

    let by_hand: [(&[&str], &str); 7] = [
        (&["tc", "class", "del", "dev", "to-b", "classid", &class], "missing on to-b"),
        (
            &[
                "tc",
                "class",
                "change",
                "dev",
                "to-a",
                "classid",
                &class,
                "parent",
                &format!("{root}1"),
                "htb",
                "rate",
                "700mbit",
                "burst",
                "187500b",
                "cburst",
                "187500b",
            ],
            "has 700000000 bit/s, and not 300000000",
        ),
        (&["tc", "qdisc", "del", "dev", "to-a", "root"], "to-a has no qdisc of this RM"),
        (&["tc", "qdisc", "del", "dev", "to-a", "parent", &class], "the queue of class"),
        (&["nft", "flush", "ruleset"], "is not complete"),
        (&["nft", "flush", "chain", "inet", bench::TABLE, "post"], "is not complete"),
        (&["nft", "flush", "map", "inet", bench::TABLE, "cls"], "is not mapped to it"),
    ];
    for (command, sentence) in by_hand {
        bench.run(command);
        let observed = driver.observe(&wanted).await.unwrap();
        let differs = observed.present[&booking].differs.clone().unwrap_or_default();
        assert!(differs.contains(sentence), "{command:?}: {observed:?}");
        driver.make(&booking, &wanted[&booking]).await.unwrap();
        clean(&driver.observe(&wanted).await.unwrap());
        // Handles that the kernel counts may differ.
        assert_eq!(bench.state().len(), as_made.len(), "{command:?}");
    }

    // Nobody wants it any more, and nobody remembers it: it is an orphan.
    let driver = bench.driver(1);
    let observed = driver.observe(&BTreeMap::new()).await.unwrap();
    assert_eq!(observed.orphans.len(), 1, "{observed:?}");
    // A class that somebody has put there is reported, and stays.
    bench.run(&[
        "tc",
        "class",
        "add",
        "dev",
        "to-a",
        "classid",
        &format!("{root}99"),
        "parent",
        &format!("{root}1"),
        "htb",
        "rate",
        "5mbit",
    ]);
    let observed = driver.observe(&BTreeMap::new()).await.unwrap();
    assert_eq!(observed.intruders.len(), 1, "{observed:?}");
    driver.remove(observed.orphans.first().unwrap()).await.unwrap();
    let classes = bench.output(&["tc", "class", "show", "dev", "to-a"]);
    assert!(classes.contains(&format!("{root}99")) && !classes.contains(&class), "{classes}");
    bench.run(&["tc", "class", "del", "dev", "to-a", "classid", &format!("{root}99")]);
    let observed = driver.observe(&BTreeMap::new()).await.unwrap();
    driver.remove(observed.orphans.first().unwrap()).await.unwrap();
    assert_eq!(driver.observe(&BTreeMap::new()).await.unwrap(), Observed::default());
    assert_eq!(bench.state(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_ends_though_the_user_is_gone_from_the_configuration() {
    if !is_wanted() {
        return;
    }
    let bench = Bench::new("u", Middle::Router);
    let before = bench.state();
    let booking = key("t-1", "N0-N1");
    let reference = bench.driver(1).make(&booking, &active("alice", 300 * M, None)).await.unwrap();
    // To the configuration, it is as if the booking were of another user.
    let driver = bench.driver(1);
    let wanted = BTreeMap::from([(booking.clone(), active("bob", 300 * M, Some(&reference)))]);
    let observed = driver.observe(&wanted).await.unwrap();
    assert!(observed.present[&booking].differs.as_ref().unwrap().contains("driver.tc.users"));
    let granted = want("bob", Stage::Granted, Some(&reference));
    let outcome = driver.make(&booking, &granted).await;
    assert!(matches!(outcome, Err(EquipmentTrouble::Refused(_))), "{outcome:?}");
    assert_eq!(bench.state(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_ours_is_refused_and_untouched() {
    if !is_wanted() {
        return;
    }
    let bench = Bench::new("f", Middle::Router);
    let booking = key("t-1", "N0-N1");
    let driver = bench.driver(1);
    let other = bench.driver(2);
    let reference = driver.make(&booking, &active("alice", 300 * M, None)).await.unwrap();
    let refused = async |driver: &coalloc_nrm::tc::TcDriver, part: &str| {
        let before = bench.state();
        let outcome = driver.make(&booking, &want("alice", Stage::Claimed, None)).await;
        let Err(EquipmentTrouble::Refused(refusal)) = outcome else { panic!("{outcome:?}") };
        assert!(refusal.detail.contains(part), "{refusal:?}");
        let observed = driver.observe(&BTreeMap::new()).await.unwrap();
        assert!(observed.intruders.iter().any(|one| one.contains(part)), "{observed:?}");
        assert_eq!(bench.state(), before);
    };
    // Of another RM.
    refused(&other, "has a root qdisc that is not of this NRM, htb").await;
    let outcome = other.remove(&reference).await;
    assert!(matches!(outcome, Err(EquipmentTrouble::Refused(_))), "{outcome:?}");
    driver.remove(&reference).await.unwrap();
    // Of a person.
    bench.run(&[
        "tc", "qdisc", "add", "dev", "to-b", "root", "tbf", "rate", "1mbit", "burst", "10k",
        "latency", "1s",
    ]);
    refused(&driver, "to-b in the network namespace").await;
    bench.run(&["tc", "qdisc", "del", "dev", "to-b", "root"]);
    bench
        .run(&["tc", "qdisc", "add", "dev", "to-b", "root", "handle", "1:", "htb", "default", "2"]);
    refused(&driver, "htb 1:").await;
    bench.run(&["tc", "qdisc", "del", "dev", "to-b", "root"]);

    let outcome = driver.make(&booking, &want("bob", Stage::Claimed, None)).await;
    let Err(EquipmentTrouble::Refused(refusal)) = outcome else { panic!("{outcome:?}") };
    assert!(refusal.detail.contains("bob") && refusal.detail.contains("driver.tc.users"));
    let attempt = async || driver.make(&booking, &want("alice", Stage::Claimed, None)).await;
    let unusable = async |part: &str| {
        let outcome = attempt().await;
        let Err(EquipmentTrouble::Refused(refusal)) = outcome else { panic!("{outcome:?}") };
        assert!(refusal.detail.contains(part), "{refusal:?}");
    };
    // A version that takes nothing new is as certain as the booked one, also where the link has failed: a Deprovision.
    let other_key = key("t-9", "N0-N1");
    let version = |txn: &str, is_booked, is_granted| {
        let window = Window::new(Time::from_us(0), Time::from_us(1_000_000)).unwrap();
        let (servers, route) = (Vec::new(), Vec::new());
        let share = Share { window, amount: Amount(300 * M), servers, route };
        let txn = TransactionId::composed(txn);
        WantedVersion { txn, is_booked, is_granted, shares: vec![share] }
    };
    let booked = active("alice", 300 * M, None);
    let booked = Want { versions: vec![version("t-9", true, true)], ..booked };
    let reference = driver.make(&other_key, &booked).await.unwrap();
    bench.run(&["ip", "link", "set", "to-b", "down"]);
    let mut both = booked.clone();
    both.versions.push(version("t-10", false, false));
    assert_eq!(driver.make(&other_key, &both).await.as_ref(), Ok(&reference));
    both.versions[1].shares[0].amount = Amount(400 * M);
    let outcome = driver.make(&other_key, &both).await;
    assert!(matches!(outcome, Err(EquipmentTrouble::Refused(_))), "{outcome:?}");
    let versions = vec![version("t-10", true, false)];
    let out = Want { versions, stage: Stage::Claimed, ..booked };
    assert_eq!(driver.make(&other_key, &out).await.as_ref(), Ok(&reference));
    driver.remove(&reference).await.unwrap();
    unusable("`ip link set to-b up`").await;
    bench.run(&["ip", "link", "del", "to-b"]);
    unusable("the interface to-b of N0-N1 is not in the network namespace").await;
    drop(bench);
    let outcome = attempt().await;
    let Err(EquipmentTrouble::Down(sentence)) = outcome else { panic!("{outcome:?}") };
    assert!(sentence.contains("driver.tc.netns"), "{sentence}");
}
