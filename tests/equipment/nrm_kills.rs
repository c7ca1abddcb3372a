//! An NRM with a real link is killed (SIGKILL) at each step of a booking's life, and people change the link by hand, while it
//! runs and while it is dead.

use crate::gate::Mode;
use crate::link::{ADDRESSES, ENDS, Link};
use crate::manager::{PATIENCE, until};
use crate::{run, run_each};

/// The lives of two bookings of one user, who share a class, and of a change. The NRM is killed at each different command that
/// changes the link.
async fn life(mode: Mode) {
    let mut link = Link::start();
    let booking = Link::order(1, 300, 3, 600);
    if mode == Mode::BeforeLooks {
        // It has looked at the link before, so the looks are those of the claim.
        let first = Link::order(9, 1, 60, 600);
        link.rm.hold(&first).await;
        link.rm.abort(&first).await;
    }
    link.rm.kill_at(Some(mode));
    link.rm.hold(&booking).await;
    link.settle_quiet("held", &booking).await;
    link.rm.commit(&booking).await;
    link.settle("in its window", &booking, 300).await;
    let state = link.space.state();

    let change = booking.changed(2).at(400);
    link.rm.hold(&change).await;
    link.settle("the change is held", &change, 300).await;
    assert_eq!(link.space.state(), state);
    link.rm.commit(&change).await;
    link.settle("the change is booked", &change, 400).await;

    let other = Link::order(3, 100, 2, 600);
    link.rm.hold(&other).await;
    link.rm.commit(&other).await;
    link.settle("two in their windows", &other, 500).await;
    link.settle("two in their windows", &change, 500).await;
    link.rm.release(&change).await;
    link.settle("one of them", &other, 100).await;
    link.rm.release(&other).await;
    link.settle_bare("released").await;
    let of = |mbps: u64| format!("rate {mbps}000000bit");
    let steps = [
        ("nft -f -", "add element".to_owned()),
        ("tc -batch -", of(300)),
        ("tc -batch -", of(400)),
        ("tc -batch -", of(500)),
        ("tc -batch -", of(100)),
        ("tc -batch -", "qdisc del dev to-a root".to_owned()),
        ("nft -f -", "delete table".to_owned()),
    ];
    for (command, part) in steps {
        let is_step = |kill: &String| kill.starts_with(command) && kill.contains(&part);
        assert!(link.rm.kills.iter().any(is_step), "{command} {part}: {:#?}", link.rm.kills);
    }
    let has_looks = link.rm.kills.iter().any(|kill| kill.starts_with("ip -d -j link show"));
    assert_eq!(has_looks, mode == Mode::BeforeLooks);
}

#[test]
fn whichever_command_an_nrm_is_killed_at_the_link_ends_up_as_wanted() {
    run_each(&[Mode::BeforeLooks, Mode::After, Mode::Half, Mode::Late], life);
}

#[test]
fn an_nrm_that_is_killed_between_two_steps_goes_on_with_the_next_one() {
    run(async {
        let mut link = Link::start();
        let booking = Link::order(1, 300, 3, 600);
        link.rm.hold(&booking).await;
        link.rm.restart();
        link.settle_quiet("held", &booking).await;
        link.rm.hold(&booking).await;
        link.rm.commit(&booking).await;
        link.rm.restart();
        link.settle("in its window", &booking, 300).await;
        let state = link.space.state();
        link.rm.restart();
        link.settle("after a restart in its window", &booking, 300).await;
        assert_eq!(link.space.state(), state);
        link.rm.release(&booking).await;
        link.rm.restart();
        link.settle_bare("released").await;
        // The next window ends while nobody is there.
        let short = Link::order(2, 200, 2, 5);
        link.rm.hold(&short).await;
        link.rm.commit(&short).await;
        link.settle("in its window", &short, 200).await;
        link.rm.kill();
        let left = u64::try_from(short.window.1 - crate::manager::now()).unwrap_or_default();
        tokio::time::sleep(std::time::Duration::from_secs(left + 1)).await;
        assert_ne!(link.space.ours(), Vec::<String>::new(), "the kernel knows of no windows");
        link.rm.restart();
        link.settle_bare("its window is over").await;
        // The record follows what is done at the link.
        until("the booking is told as over", PATIENCE, async || {
            match link.rm.told(&short.txn).await {
                Some(told) if told.active => Err(format!("{told:?}")),
                _ => Ok(()),
            }
        })
        .await;
    });
}

#[test]
fn what_people_change_by_hand_is_mended_while_the_nrm_runs_and_when_it_comes_back() {
    run(async {
        let mut link = Link::start();
        let booking = Link::order(1, 300, 2, 600);
        link.rm.hold(&booking).await;
        link.rm.commit(&booking).await;
        link.settle("in its window", &booking, 300).await;
        let handle = link.rm.handle(&booking).await;
        let (name, class) = handle.split_once(' ').unwrap();
        let (table, _) = name.rsplit_once('-').unwrap();
        let root = format!("{}:1", class.split(':').next().unwrap());
        let delete = ["tc", "class", "del", "dev", ENDS[1], "classid", class];
        let change = ["tc", "class", "change", "dev", ENDS[0], "parent", &root, "classid", class];
        let rate = ["htb", "rate", "700mbit", "burst", "187500b", "cburst", "187500b"];
        let [from, to] = ADDRESSES;
        let element = format!("delete element inet {table} cls {{ \"to-b\" . {from} . {to} }}");
        let by_hand: [&[&str]; 6] = [
            &delete,
            &[&change[..], &rate].concat(),
            &["nft", &element],
            &["nft", "flush", "map", "inet", table, "cls"],
            &["nft", "delete", "table", "inet", table],
            &["tc", "qdisc", "del", "dev", ENDS[0], "root"],
        ];
        // The first ones while it runs, which takes until its next look, 5 s after a change; all of them while it is dead.
        let lives = by_hand[..4].iter().map(|by_hand| (by_hand, true));
        for (by_hand, runs) in lives.chain(by_hand.iter().map(|by_hand| (by_hand, false))) {
            if !runs {
                link.rm.kill();
            }
            let before = link.space.state();
            link.space.run(by_hand);
            assert_ne!(link.space.state(), before, "{by_hand:?} has no effect");
            if !runs {
                link.rm.restart();
            }
            link.settle(&format!("{by_hand:?}, runs: {runs}"), &booking, 300).await;
        }
        let log = link.rm.log();
        let told = log.matches("the equipment is not as it was left").count();
        assert!(told >= by_hand.len(), "the operator is told {told} times");
        link.rm.release(&booking).await;
        link.settle_bare("released").await;
    });
}
