//! A small kernel of nft and tc carries out the commands; a second look then finds nothing to do.

use super::super::kernel::{ClassRates, Link};
use super::*;

const BASE: &str = "qdisc add dev to-b root handle 2678: htb default 2
class replace dev to-b parent 2678: classid 2678:1 htb rate 1010000000bit ceil 1010000000bit burst 631250b cburst 631250b quantum 60000
class replace dev to-b parent 2678:1 classid 2678:2 htb rate 10000000bit ceil 10000000bit burst 128000b cburst 128000b quantum 60000
class replace dev to-b parent 2678:1 classid 2678:10 htb rate 300000000bit ceil 300000000bit burst 187500b cburst 187500b quantum 60000
qdisc replace dev to-b parent 2678:10 bfifo limit 750000b";

fn names() -> Names {
    Names::of_rm("co-12345678")
}

fn bare() -> KernelState {
    let link = Link { is_up: true, family: Family::Inet };
    let links = ["to-a", "to-b"].map(|name| (name.to_owned(), link)).into();
    KernelState { links, ..KernelState::default() }
}

fn target(interface: &str, minor: u16, bps: u64) -> Target {
    let address = |last| IpAddr::from([10, 77, last, 2]);
    let (one, two) = (address(1), address(2));
    let class = TargetClass {
        bps,
        capacity_bps: 1_000_000_000,
        unbooked_bps: 10_000_000,
        pairs: vec![(one, two), (two, one)],
    };
    Target { interface: interface.into(), minor, class: (bps > 0).then_some(class) }
}

/// Carries out commands, as far as the plan uses them.
fn carry_out(kernel: &mut KernelState, commands: &Commands) {
    for line in commands.first_nft.iter().chain(&commands.tc).chain(&commands.last_nft) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let family = |word: &&str| if *word == "inet" { Family::Inet } else { Family::Bridge };
        let key = |words: &[&str]| ElementKey {
            interface: words[0].trim_matches('"').into(),
            from: words[2].parse().unwrap(),
            to: words[4].parse().unwrap(),
        };
        let bits = |word: &str| word.trim_end_matches("bit").parse::<u64>().unwrap();
        match words.as_slice() {
            ["add", "table", of, _] => _ = kernel.tables.entry(family(of)).or_default(),
            ["add", "rule", of, ..] => {
                kernel.tables.get_mut(&family(of)).unwrap().is_complete = true
            }
            ["add", "map" | "chain", ..] | ["flush", ..] => {}
            ["add", "element", of, _, _, "{", rest @ ..] => {
                let id = ClassId::parse(rest[6]).unwrap();
                let table = kernel.tables.get_mut(&family(of)).unwrap();
                assert!(table.elements.insert(key(rest), id).is_none_or(|old| old == id), "{line}");
            }
            ["delete", "element", of, _, _, "{", rest @ ..] => {
                let table = kernel.tables.get_mut(&family(of)).unwrap();
                assert!(table.elements.remove(&key(rest)).is_some(), "{line}");
            }
            ["delete", "table", of, _] => assert!(kernel.tables.remove(&family(of)).is_some()),
            ["qdisc", "add", _, on, "root", _, handle, kind, ..] => {
                let major = ClassId::parse(handle).unwrap().major;
                let root = Qdisc { kind: (*kind).trim_end_matches(':').into(), major, limit: None };
                assert!(kernel.roots.insert((*on).into(), root).is_none(), "{line}");
                kernel.classes.entry((*on).into()).or_default();
            }
            ["qdisc", "replace", _, on, _, parent, kind, _, limit] => {
                let limit = limit.trim_end_matches('b').parse().ok();
                let qdisc = Qdisc { kind: (*kind).into(), major: 0x8001, limit };
                kernel.leaves.insert(((*on).into(), ClassId::parse(parent).unwrap()), qdisc);
            }
            ["qdisc", "del", _, on, "root"] => {
                assert!(kernel.roots.remove(*on).is_some() && kernel.classes.remove(*on).is_some());
                kernel.leaves.retain(|(of, _), _| of != on);
            }
            ["qdisc", "del", _, on, _, parent] => {
                let class = ClassId::parse(parent).unwrap();
                assert!(kernel.leaves.remove(&((*on).into(), class)).is_some());
            }
            ["class", "replace", _, on, _, _, _, id, _, _, rate, _, ceil, ..] => {
                let rates = ClassRates { rate: bits(rate), ceil: bits(ceil) };
                let minor = ClassId::parse(id).unwrap().minor;
                kernel.classes.get_mut(*on).unwrap().insert(minor, rates);
            }
            ["class", "del", _, on, _, id] => {
                let id = ClassId::parse(id).unwrap();
                assert!(kernel.classes.get_mut(*on).unwrap().remove(&id.minor).is_some());
                kernel.leaves.remove(&((*on).into(), id));
            }
            _ => panic!("unknown: {line}"),
        }
    }
}

/// Makes the targets so, and checks that nothing is left to do. Returns what was done.
fn settle(kernel: &mut KernelState, targets: &[Target]) -> Commands {
    let done = commands(kernel, &names(), targets);
    carry_out(kernel, &done);
    assert_eq!(commands(kernel, &names(), targets), Commands::default());
    done
}

#[test]
fn the_first_class_brings_its_root_and_the_last_takes_it_away() {
    let mut kernel = bare();
    let done = settle(&mut kernel, &[target("to-b", 0x10, 300_000_000)]);
    assert_eq!(done.tc.join("\n"), BASE);
    assert_eq!(done.first_nft.len(), 7 + 2);
    let element =
        r#"add element inet co-12345678 cls { "to-b" . 10.77.1.2 . 10.77.2.2 : 2678:10 }"#;
    assert!(done.first_nft.iter().any(|line| line == element), "{:#?}", done.first_nft);

    // A change is made in place.
    let done = settle(&mut kernel, &[target("to-b", 0x10, 100_000_000)]);
    assert_eq!((done.first_nft.len(), done.tc.len(), done.last_nft.len()), (0, 2, 0));
    assert!(done.differences[0].contains("has 300000000 bit/s, and not 100000000"), "{done:?}");

    let done = settle(&mut kernel, &[target("to-b", 0x10, 0)]);
    assert_eq!(done.tc, ["qdisc del dev to-b root"]);
    assert_eq!(done.last_nft, ["delete table inet co-12345678"]);
    assert_eq!(kernel, bare());
}

#[test]
fn other_classes_keep_the_root_and_the_table() {
    let mut kernel = bare();
    settle(&mut kernel, &[target("to-b", 0x10, 300), target("to-a", 0x10, 300)]);
    let done = settle(&mut kernel, &[target("to-a", 0x10, 0)]);
    assert_eq!((done.tc.len(), done.last_nft.len()), (1, 2));
    // Somebody has put a class of their own under our root: it stays, and so does the root.
    let rates = ClassRates { rate: 5, ceil: 5 };
    kernel.classes.get_mut("to-b").unwrap().insert(0x99, rates);
    let done = settle(&mut kernel, &[target("to-b", 0x10, 0)]);
    assert_eq!(done.tc, ["class del dev to-b classid 2678:10"]);
    assert_eq!(kernel.classes["to-b"][&0x99], rates);
}

#[test]
fn each_change_by_hand_is_told_and_mended() {
    type Change = fn(&mut KernelState);
    let cases: [(Change, &str); 9] = [
        (|it| _ = it.classes.get_mut("to-b").unwrap().remove(&0x10), "2678:10 is missing"),
        (
            |it| it.classes.get_mut("to-b").unwrap().get_mut(&0x10).unwrap().ceil = 400_000_000,
            "300000000 to 400000000 bit/s",
        ),
        (
            |it| _ = it.classes.get_mut("to-b").unwrap().remove(&2),
            "unbooked traffic 2678:2 is missing",
        ),
        (|it| it.leaves.clear(), "the queue of class 2678:10"),
        (|it| it.leaves.values_mut().for_each(|leaf| leaf.kind = "pfifo".into()), "the queue of"),
        (|it| it.tables.clear(), "the table inet co-12345678 is not complete"),
        (|it| it.tables.get_mut(&Family::Inet).unwrap().is_complete = false, "is not complete"),
        (
            |it| {
                let table = it.tables.get_mut(&Family::Inet).unwrap();
                table.elements.values_mut().for_each(|id| id.minor = 0x11);
            },
            "not of class 2678:10",
        ),
        (
            |it| {
                it.roots.clear();
                it.classes.clear();
                it.leaves.clear();
            },
            "to-b has no qdisc of this RM",
        ),
    ];
    for (change, sentence) in cases {
        let mut kernel = bare();
        let targets = [target("to-b", 0x10, 300_000_000)];
        settle(&mut kernel, &targets);
        let before = kernel.clone();
        change(&mut kernel);
        let done = settle(&mut kernel, &targets);
        assert!(done.differences[0].contains(sentence), "{sentence}: {:?}", done.differences);
        assert_eq!(kernel, before);
    }
}

#[test]
fn traffic_moves_to_the_new_class_of_its_group() {
    let mut kernel = bare();
    settle(&mut kernel, &[target("to-b", 0x10, 300_000_000)]);
    settle(&mut kernel, &[target("to-b", 0x10, 0), target("to-b", 0x11, 300_000_000)]);
    assert!(kernel.tables[&Family::Inet].elements.values().all(|class| class.minor == 0x11));
    assert!(!kernel.classes["to-b"].contains_key(&0x10));
    // The interface becomes a port of a bridge.
    kernel.links.get_mut("to-b").unwrap().family = Family::Bridge;
    settle(&mut kernel, &[target("to-b", 0x11, 300_000_000)]);
    assert_eq!(kernel.tables.keys().collect::<Vec<_>>(), [&Family::Bridge]);
}

#[test]
fn roots_are_told_apart_by_their_number() {
    let mut kernel = bare();
    let qdisc = |kind: &str, major| Qdisc { kind: kind.into(), major, limit: None };
    let mut whose = |root: Qdisc| {
        kernel.roots.insert("to-b".into(), root);
        format!("{:?}", kernel.root("to-b", &names())).split('(').next().map(str::to_owned)
    };
    assert_eq!(whose(qdisc("mq", 0)).as_deref(), Some("Kernels"));
    assert_eq!(whose(qdisc("htb", 0x2678)).as_deref(), Some("Own"));
    assert_eq!(whose(qdisc("htb", 1)).as_deref(), Some("Foreign"));
    assert_eq!(whose(qdisc("tbf", 0x2678)).as_deref(), Some("Foreign"));
    assert_eq!(bare().root("to-b", &names()), Root::Kernels);
    for digits in ["co-00000000", "co-ffffffff", "co-12345678", ""] {
        assert!((0x1000..0x8000).contains(&Names::of_rm(digits).major), "{digits}");
    }
}

#[test]
fn queues_and_bursts_fit_into_the_kernels_fields() {
    assert_eq!((burst_bytes(300_000_000), leaf_bytes(300_000_000)), (187_500, 750_000));
    assert_eq!((burst_bytes(8), leaf_bytes(8)), (128_000, 256_000));
    let most = 1_000_000_000_000_000;
    assert!(u32::try_from(burst_bytes(most)).is_ok() && u32::try_from(leaf_bytes(most)).is_ok());
}
