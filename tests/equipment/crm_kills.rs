//! A CRM with a real cluster is killed (SIGKILL) at each step of a booking's life, and started again with its ledger.

use std::time::Duration;

use coalloc_common::limits;

use crate::gate::Mode;
use crate::manager::{ORPHAN_PATIENCE, Order, now, until};
use crate::site::Site;
use crate::{run, run_each};

/// The whole life of a booking and of a change of it. The CRM is killed at each different command that changes the cluster.
async fn life(mode: Mode) {
    let mut site = Site::start(&format!("{mode:?}").to_lowercase());
    site.rm.kill_at(Some(mode));
    let booking = Order::new("A", 1, 8, 600).on(&["n1"]);
    site.rm.hold(&booking).await;
    site.settle("held", &booking, &["n1 root"]).await;
    let handle = site.rm.handle(&booking).await;
    site.assert_refused("alice", &handle);

    site.rm.commit(&booking).await;
    site.settle("booked", &booking, &["n1 root,alice"]).await;
    site.assert_refused("bob", &handle);
    let job = site.submit("alice", &handle).unwrap();
    site.until_running(&job, &booking).await;

    let change = booking.changed(2).on(&["n1", "n2"]);
    site.rm.hold(&change).await;
    site.settle("the change is held", &change, &["n1 root,alice", "n2 root"]).await;
    site.rm.commit(&change).await;
    site.settle("the change is booked", &change, &["n[1-2] root,alice"]).await;
    assert_eq!(site.state(&job), "RUNNING");
    assert_eq!(site.rm.handle(&change).await, handle);

    site.rm.release(&change).await;
    site.settle_gone("released", &change, &job).await;
    assert!(!site.is_booked(&change).await);
    site.assert_others_untouched();
    let steps = [
        ("scontrol create", "Nodes=n1 "),
        ("scontrol update", "Users=root/"),
        ("scontrol update", "Users=root,alice/"),
        ("scontrol create", "Nodes=n2 "),
        ("scontrol update", "Flags+=MAINT"),
        ("scontrol delete", &format!("{handle}-2/")),
        ("scontrol update", "Flags-=MAINT"),
        ("scancel", &format!(" {job}/")),
        ("scontrol delete", &format!("{handle}/")),
    ];
    for (command, part) in steps {
        let is_step = |kill: &String| kill.starts_with(command) && kill.contains(part);
        assert!(site.rm.kills.iter().any(is_step), "{command} {part}: {:?}", site.rm.kills);
    }
}

#[test]
fn whichever_command_a_crm_is_killed_at_the_cluster_ends_up_as_wanted() {
    run_each(&[Mode::Before, Mode::After, Mode::Late], life);
}

#[test]
fn a_crm_that_is_killed_between_two_steps_goes_on_with_the_next_one() {
    run(async {
        let mut site = Site::start("between");
        // Answered and not committed: nobody may use it yet, and it is the same hold.
        let booking = Order::new("A", 1, 6, 600).on(&["n1"]);
        site.rm.hold(&booking).await;
        site.rm.restart();
        site.settle("held", &booking, &["n1 root"]).await;
        let handle = site.rm.handle(&booking).await;
        site.assert_refused("alice", &handle);
        site.rm.restart();
        site.rm.hold(&booking).await;
        // Committed, and killed at once: it may not have told the cluster.
        site.rm.commit(&booking).await;
        site.rm.restart();
        site.settle("booked", &booking, &["n1 root,alice"]).await;
        let job = site.submit("alice", &handle).unwrap();
        site.rm.kill();
        site.until_running(&job, &booking).await;
        // It comes back in the window.
        site.rm.restart();
        until("it knows that the window has begun", Duration::from_secs(10), async || {
            let told = site.rm.told(&booking.txn).await.unwrap_or_default();
            if told.active && told.trouble.is_empty() { Ok(()) } else { Err(format!("{told:?}")) }
        })
        .await;
        site.settle("in its window", &booking, &["n1 root,alice"]).await;
        assert_eq!(site.state(&job), "RUNNING");
        // A hold that is aborted, and killed at once.
        let other = Order::new("A", 2, 60, 600).on(&["n2"]);
        site.rm.hold(&other).await;
        site.rm.abort(&other).await;
        site.rm.restart();
        site.settle("without what was aborted", &booking, &["n1 root,alice"]).await;
        assert_eq!(site.state(&job), "RUNNING");
        // Released, and killed at once.
        site.rm.release(&booking).await;
        site.rm.restart();
        site.settle_gone("released", &booking, &job).await;
        site.assert_others_untouched();
    });
}

#[test]
fn a_window_that_ends_while_the_crm_is_dead_leaves_nothing() {
    run(async {
        let mut site = Site::start("over");
        let booking = Order::new("A", 1, 3, 9).on(&["n1"]);
        site.rm.hold(&booking).await;
        site.rm.commit(&booking).await;
        site.settle("booked", &booking, &["n1 root,alice"]).await;
        let handle = site.rm.handle(&booking).await;
        let job = site.submit("alice", &handle).unwrap();
        site.until_running(&job, &booking).await;
        assert!(now() < booking.window.1);
        site.rm.kill();
        // Slurm would end the job by itself; it looks every 30 s.
        let left = u64::try_from(booking.window.1 - now()).unwrap();
        tokio::time::sleep(Duration::from_secs(left + 1)).await;
        site.rm.restart();
        site.settle_gone("its window is over", &booking, &job).await;
        until("it knows that nothing is left", Duration::from_secs(10), async || {
            match site.rm.told(&booking.txn).await {
                Some(told) if told.handle.is_empty() && !told.active => Ok(()),
                told => Err(format!("{told:?}")),
            }
        })
        .await;
        site.assert_others_untouched();
    });
}

#[test]
fn a_claim_that_is_too_late_after_a_restart_is_refused_and_taken_away() {
    run(async {
        let mut site = Site::start("claim");
        site.rm.kill_at(Some(Mode::After));
        let booking = Order::new("A", 1, 300, 600).on(&["n1"]);
        let held = site.rm.begin_hold(&booking).await;
        until(
            "the reservation is there, and nobody has said so",
            Duration::from_secs(10),
            async || match site.rm.gate.stopped().pop() {
                Some(program) => {
                    site.rm.kill();
                    site.rm.gate.kill(&program);
                    Ok(())
                }
                None => Err(site.rm.log()),
            },
        )
        .await;
        site.rm.kill_at(None);
        let killed = now();
        assert!(held.await.unwrap().is_err(), "a hold is answered that nobody has claimed");
        // No coordinator waits that long for the answer to a Hold.
        tokio::time::sleep(limits::CLAIM_PATIENCE.to_std() + Duration::from_secs(1)).await;
        assert_eq!(Site::ours(&site.cluster, &booking).unwrap(), ["n1 root,alice"]);
        site.rm.restart();
        let refusal = site.rm.try_hold(&booking).await.unwrap();
        assert!(refusal.detail.contains("the equipment could not be reserved"), "{refusal:?}");
        until("what was claimed is gone", ORPHAN_PATIENCE, async || {
            let ours = Site::ours(&site.cluster, &booking)?;
            if ours.is_empty() { Ok(()) } else { Err(format!("{ours:?}")) }
        })
        .await;
        println!("gone {} s after the kill", now() - killed);
        assert!(site.rm.log().contains("this is ours and nobody wants it"), "the operator is told");
        site.assert_others_untouched();
    });
}
