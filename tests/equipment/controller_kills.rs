//! The controller of a cluster (slurmctld) is killed, paused and set back under a CRM that runs.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::gate::Mode;
use crate::manager::{ORPHAN_PATIENCE, Order, PATIENCE, until};
use crate::run;
use crate::site::Site;

/// What the controller has written of reservations.
fn state_file(site: &Site) -> PathBuf {
    site.cluster.conf().with_file_name("state").join("resv_state")
}

/// Waits until the controller has written all that it knows of reservations: these words, and not those. Returns it.
async fn written(site: &Site, words: &[&str], not: &[&str]) -> Vec<u8> {
    until("the controller has written its reservations", PATIENCE, async || {
        let bytes = fs::read(state_file(site)).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let is =
            words.iter().all(|one| text.contains(one)) && !not.iter().any(|one| text.contains(one));
        if is { Ok(bytes) } else { Err(text) }
    })
    .await
}

/// Kills the controller, sets it back to what it had written, and starts it again.
async fn set_back(site: &mut Site, written: &[u8]) {
    site.cluster.kill_controller();
    fs::write(state_file(site), written).unwrap();
    let old = state_file(site).with_extension("old");
    if old.exists() {
        fs::write(old, written).unwrap();
    }
    site.start_controller().await;
}

#[test]
fn what_a_killed_controller_has_acknowledged_and_forgotten_is_mended() {
    run(async {
        let mut site = Site::start("forgets");
        let others = ["maintenance", "co-ffffffff"];
        let nothing = written(&site, &others, &[]).await;
        let booking = Order::new("A", 1, 300, 600).on(&["n1"]);
        site.rm.hold(&booking).await;
        set_back(&mut site, &nothing).await;
        site.settle("held again", &booking, &["n1 root"]).await;
        assert_eq!(site.rm.log().matches("told Slurm command=\"create").count(), 2);

        let handle = site.rm.handle(&booking).await;
        let held = written(&site, &[&others[..], &[&handle]].concat(), &["root,alice"]).await;
        site.rm.commit(&booking).await;
        site.settle("booked", &booking, &["n1 root,alice"]).await;
        set_back(&mut site, &held).await;
        site.settle("booked again", &booking, &["n1 root,alice"]).await;

        let booked = written(&site, &[&others[..], &[&handle, "root,alice"]].concat(), &[]).await;
        site.rm.release(&booking).await;
        // It has looked once more, and believes that all is gone.
        until("the CRM has removed it", PATIENCE, async || {
            let log = site.rm.log();
            if log.contains("removed reference=") { Ok(()) } else { Err(log) }
        })
        .await;
        set_back(&mut site, &booked).await;
        assert_eq!(Site::ours(&site.cluster, &booking).unwrap(), ["n1 root,alice"]);
        until("what has come back is gone", ORPHAN_PATIENCE, async || {
            let ours = Site::ours(&site.cluster, &booking)?;
            if ours.is_empty() { Ok(()) } else { Err(format!("{ours:?}")) }
        })
        .await;
        site.assert_reservations_of_others_untouched();
    });
}

#[test]
fn a_controller_that_is_killed_after_each_answer_ends_with_what_is_wanted() {
    run(async {
        let mut site = Site::start("answers");
        let others = ["maintenance", "co-ffffffff"];
        written(&site, &others, &[]).await;
        let kill = |site: &mut Site, what: &str, order: &Order| {
            site.cluster.kill_controller();
            site.cluster.start_controller().unwrap();
            println!("{what}: {:?}", Site::ours(&site.cluster, order));
        };
        let first = Order::new("A", 1, 300, 600).on(&["n1"]);
        site.rm.hold(&first).await;
        kill(&mut site, "after a hold", &first);
        site.rm.commit(&first).await;
        kill(&mut site, "after a commit", &first);
        site.settle("booked", &first, &["n1 root,alice"]).await;
        site.until_nodes_answer().await;
        let change = first.changed(2).on(&["n1", "n2"]);
        site.rm.hold(&change).await;
        kill(&mut site, "after the hold of a change", &change);
        site.rm.commit(&change).await;
        kill(&mut site, "after the commit of a change", &change);
        site.settle("changed", &change, &["n[1-2] root,alice"]).await;
        kill(&mut site, "after the change", &change);
        site.settle("changed", &change, &["n[1-2] root,alice"]).await;
        site.rm.release(&change).await;
        kill(&mut site, "after a release", &change);
        until("nothing is left", ORPHAN_PATIENCE, async || {
            let ours = Site::ours(&site.cluster, &change)?;
            if ours.is_empty() { Ok(()) } else { Err(format!("{ours:?}")) }
        })
        .await;
        site.assert_reservations_of_others_untouched();
    });
}

#[test]
fn what_is_told_while_the_controller_is_down_is_made_up_for_and_holds_say_why_they_fail() {
    run(async {
        let mut site = Site::start("down");
        let booked = Order::new("A", 1, 300, 600).on(&["n1"]);
        site.rm.hold(&booked).await;
        site.rm.commit(&booked).await;
        let held = Order { window: booked.window, ..Order::new("A", 2, 300, 600).on(&["n2"]) };
        site.rm.hold(&held).await;
        site.settle("both", &booked, &["n1 root,alice", "n2 root"]).await;
        written(&site, &["maintenance", "co-ffffffff", "root,alice"], &[]).await;
        site.cluster.kill_controller();

        let later = Order::new("A", 3, 900, 1_200).on(&["n1"]);
        let refusal = site.rm.try_hold(&later).await.unwrap();
        assert!(refusal.detail.contains("slurmctld"), "{refusal:?}");
        // A commit and a release need no controller.
        site.rm.commit(&held).await;
        site.rm.release(&booked).await;
        until("the booking tells the trouble", PATIENCE, async || {
            let told = site.rm.told(&held.txn).await.unwrap_or_default();
            if told.trouble.contains("slurmctld") { Ok(()) } else { Err(format!("{told:?}")) }
        })
        .await;
        assert!(site.rm.log().contains("the equipment cannot be looked at"));
        site.rm.restart();
        site.start_controller().await;
        site.settle("after its restart", &held, &["n2 root,alice"]).await;
        site.assert_reservations_of_others_untouched();
    });
}

#[test]
fn a_command_that_a_paused_controller_carries_out_late_leaves_nothing() {
    run(async {
        let mut site = Site::start("paused");
        site.rm.kill_at(Some(Mode::Before));
        let booking = Order::new("A", 1, 300, 600).on(&["n1"]);
        let held = site.rm.begin_hold(&booking).await;
        let program = until("Slurm is about to be told", PATIENCE, async || {
            site.rm.gate.stopped().pop().ok_or_else(|| site.rm.log())
        })
        .await;
        site.rm.kill_at(None);
        site.cluster.pause_controller(true).unwrap();
        site.rm.gate.let_go(&program);
        let answer = held.await.unwrap().unwrap().into_inner().answer.unwrap();
        let coalloc_proto::v1::hold_response::Answer::Refused(refusal) = answer else {
            panic!("{answer:?}")
        };
        assert!(refusal.detail.contains("slurmctld"), "{refusal:?}");
        site.cluster.pause_controller(false).unwrap();
        until("it is carried out", Duration::from_secs(10), async || {
            let ours = Site::ours(&site.cluster, &booking)?;
            if ours == ["n1 root,alice"] { Ok(()) } else { Err(format!("{ours:?}")) }
        })
        .await;
        until("it is taken away", ORPHAN_PATIENCE, async || {
            let ours = Site::ours(&site.cluster, &booking)?;
            if ours.is_empty() { Ok(()) } else { Err(format!("{ours:?}")) }
        })
        .await;
        site.assert_others_untouched();
    });
}
