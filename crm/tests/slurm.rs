//! The Slurm driver at a real cluster, which is started here: four nodes on this machine.
//!
//! Only with COALLOC_EQUIPMENT=1, and as root, because jobs run as users of their own. Then nothing is skipped:
//! programs or users that are missing are failures.

mod cluster;

use std::time::{Duration, Instant};

use cluster::{Testbed, alone, at, is_asked_for, now, share, version};
use coalloc_common::Amount;
use coalloc_protocol::participant::equipment::{EquipmentTrouble, Stage, WantedVersion};

#[tokio::test(flavor = "multi_thread")]
async fn a_booking_is_claimed_granted_used_and_removed() {
    let Some(bed) = Testbed::start("life") else { return };
    let (from, to) = (now() + 4, now() + 3_600);
    let key = alone("life");
    let held =
        bed.want(Stage::Claimed, vec![version("life", false, vec![share(from, to, "n1 n2")])]);
    let started = Instant::now();
    let reference = bed.driver.make(&key, &held).await.unwrap();
    println!("claim: {:?}", started.elapsed());
    let refused = bed.submit("alice", &reference, "10").unwrap_err();
    assert!(refused.contains("Access denied"), "{refused}");
    bed.assert_as_wanted(&key, &held).await;

    let booked =
        bed.want(Stage::Granted, vec![version("life", true, vec![share(from, to, "n1 n2")])]);
    let differs = bed.differs(&key, &booked).await.unwrap();
    assert!(differs.contains("users root instead of root,alice"), "{differs}");
    let started = Instant::now();
    assert_eq!(bed.driver.make(&key, &booked).await.unwrap(), reference);
    println!("grant: {:?}", started.elapsed());
    assert!(now() < from, "the window has begun too early for this test");
    let job = bed.submit("alice", &reference, "10").unwrap();
    assert!(bed.submit("bob", &reference, "10").is_err());
    while bed.state(&job) != "RUNNING" {
        assert!(now() < from + 5, "the job has not started: {}", bed.state(&job));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("job: {} ms into its window", cluster::now_us() / 1_000 - from * 1_000);
    bed.assert_as_wanted(&key, &booked).await;
    // A second driver, as after a restart, finds everything in place and changes nothing.
    let again = bed.another_driver();
    let seen = again.observe(&at(&key, &booked)).await.unwrap();
    assert!(seen.orphans.is_empty() && seen.present[&key].differs.is_none(), "{seen:?}");
    assert_eq!(again.make(&key, &booked).await.unwrap(), reference);
    // Nobody wants it: it is an orphan.
    let seen = again.observe(&at(&alone("other"), &held)).await.unwrap();
    assert!(seen.orphans.contains(&reference), "{seen:?}");

    let started = Instant::now();
    again.remove(&reference).await.unwrap();
    println!("removal with a job: {:?}", started.elapsed());
    assert_ne!(bed.state(&job), "RUNNING");
    assert_eq!(bed.reservations(), Vec::<String>::new());
    again.remove(&reference).await.unwrap();
    assert!(matches!(again.remove("maintenance").await, Err(EquipmentTrouble::Refused(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_held_beside_the_booking_and_joins_it() {
    let Some(bed) = Testbed::start("change") else { return };
    let (from, to) = (now() - 60, now() + 3_600);
    let key = alone("one");
    let old = version("one", true, vec![share(from, to, "n1")]);
    let new = |is_booked| version("two", is_booked, vec![share(from, to + 600, "n1 n2")]);
    let booked = bed.want(Stage::Granted, vec![old.clone()]);
    let name = bed.driver.make(&key, &booked).await.unwrap();
    let job = bed.submit("alice", &name, "30").unwrap();
    bed.wait_until_running(&job).await;

    let both = bed.want(Stage::Granted, vec![old.clone(), new(false)]);
    assert_eq!(bed.driver.make(&key, &both).await.unwrap(), name);
    bed.assert_as_wanted(&key, &both).await;
    let access = |text: &str| bed.reservation(&name).contains(text);
    assert!(access("Nodes=n1 ") && access("Users=root,alice "), "{}", bed.reservation(&name));

    // An abort leaves what there was.
    bed.driver.make(&key, &booked).await.unwrap();
    assert_eq!(bed.reservations(), [name.as_str()]);
    bed.driver.make(&key, &both).await.unwrap();

    let changed = bed.want(Stage::Granted, vec![new(true)]);
    let started = Instant::now();
    assert_eq!(bed.driver.make(&key, &changed).await.unwrap(), name);
    println!("commit of a change: {:?}", started.elapsed());
    assert_eq!(bed.reservations(), [name.as_str()]);
    assert!(access("Nodes=n[1-2] ") && !access("MAINT"), "{}", bed.reservation(&name));
    assert_eq!(bed.state(&job), "RUNNING");
    bed.assert_as_wanted(&key, &changed).await;

    // A change to less ends the jobs on what is given up, and no others.
    let other = bed.submit_on("alice", &name, "30", "n2").unwrap();
    bed.wait_until_running(&other).await;
    let less = bed.want(Stage::Granted, vec![version("three", true, vec![share(from, to, "n1")])]);
    bed.driver.make(&key, &less).await.unwrap();
    bed.assert_as_wanted(&key, &less).await;
    assert_eq!((bed.state(&job).as_str(), bed.state(&other) == "RUNNING"), ("RUNNING", false));
    bed.driver.remove(&name).await.unwrap();
    assert_eq!(bed.reservations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_provisioned_is_reserved_and_of_no_use() {
    let Some(bed) = Testbed::start("provision") else { return };
    let (from, to) = (now() - 60, now() + 3_600);
    let key = alone("one");
    let provisioned = version("one", true, vec![share(from, to, "n1")]);
    let unprovisioned = WantedVersion { is_granted: false, ..provisioned.clone() };
    let active = bed.want(Stage::Active(Amount(1)), vec![provisioned]);
    let claimed = bed.want(Stage::Claimed, vec![unprovisioned]);
    let name = bed.driver.make(&key, &claimed).await.unwrap();
    bed.assert_as_wanted(&key, &claimed).await;
    let refused = bed.submit("alice", &name, "30").unwrap_err();
    assert!(refused.contains("Access denied"), "{refused}");

    assert_eq!(bed.driver.make(&key, &active).await.unwrap(), name);
    let job = bed.submit("alice", &name, "300").unwrap();
    bed.wait_until_running(&job).await;
    bed.assert_as_wanted(&key, &active).await;

    // What runs ends, and the nodes stay reserved.
    assert_eq!(bed.driver.make(&key, &claimed).await.unwrap(), name);
    assert_ne!(bed.state(&job), "RUNNING");
    assert_eq!(bed.reservations(), [name.as_str()]);
    assert!(bed.submit("alice", &name, "30").is_err());
    bed.assert_as_wanted(&key, &claimed).await;

    // A driver that dies before it has ended the jobs: the next look finds them.
    bed.driver.make(&key, &active).await.unwrap();
    let job = bed.submit("alice", &name, "300").unwrap();
    bed.wait_until_running(&job).await;
    let update = ["update", &format!("ReservationName={name}"), "Users=root"];
    bed.cluster.run("scontrol", &update).unwrap();
    let differs = bed.differs(&key, &claimed).await.unwrap();
    assert!(differs.contains(&format!("the job {job} runs")), "{differs}");
    bed.driver.make(&key, &claimed).await.unwrap();
    assert_ne!(bed.state(&job), "RUNNING");
    bed.assert_as_wanted(&key, &claimed).await;
    bed.driver.remove(&name).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_the_way_is_named_and_left_alone() {
    let Some(bed) = Testbed::start("way") else { return };
    let (from, to) = (now() + 60, now() + 3_600);
    let held = |nodes: &str| {
        bed.want(Stage::Claimed, vec![version("way", false, vec![share(from, to, nodes)])])
    };
    let key = alone("way");
    let refusal = async |nodes: &str| match bed.driver.make(&key, &held(nodes)).await {
        Err(EquipmentTrouble::Refused(refusal)) => refusal.detail,
        other => panic!("{nodes}: {other:?}"),
    };

    let job = bed.submit_local("bob", "n1", "30").unwrap();
    bed.wait_until_running(&job).await;
    let detail = refusal("n1 n2").await;
    assert!(detail.contains(&format!("job {job} of bob may run on n1")), "{detail}");
    assert_eq!(bed.state(&job), "RUNNING");

    bed.reserve("maintenance", now() + 600, now() + 900, "n2");
    bed.reserve("co-ffffffff-0123456789abcdef", now() + 600, now() + 900, "n3");
    let detail = refusal("n2").await;
    assert!(detail.contains("reservation maintenance has n2"), "{detail}");
    let detail = refusal("n3 n4").await;
    assert!(detail.contains("of another CRM has n3"), "{detail}");
    assert_eq!(bed.reservations().len(), 2);

    let detail = refusal("n4 n9").await;
    assert!(detail.contains("n9 is in no partition"), "{detail}");
    bed.cluster.run("scontrol", &["update", "NodeName=n4", "State=DRAIN", "Reason=fan"]).unwrap();
    let detail = refusal("n4").await;
    assert!(detail.contains("n4 is drained (fan)"), "{detail}");
    bed.cluster.run("scontrol", &["update", "NodeName=n4", "State=RESUME"]).unwrap();
    bed.wait_until_answers("n4").await;

    // The part that was free is given back when another part is refused.
    let wanted = vec![share(from, from + 60, "n4"), share(from + 600, to, "n2")];
    let parts = bed.want(Stage::Claimed, vec![version("way", false, wanted)]);
    assert!(matches!(bed.driver.make(&key, &parts).await, Err(EquipmentTrouble::Refused(_))));
    assert_eq!(bed.reservations().len(), 2);

    // What comes later is told of.
    let name = bed.driver.make(&key, &held("n4")).await.unwrap();
    bed.cluster.run("scontrol", &["update", "NodeName=n4", "State=DOWN", "Reason=fire"]).unwrap();
    let trouble = bed.trouble(&key, &held("n4")).await.unwrap();
    assert!(trouble.contains("n4 is down (fire)"), "{trouble}");
    let maint = ["Users=root", "Flags=MAINT", "Duration=60", "StartTime=now+10minutes", "Nodes=n4"];
    let create = ["create", "reservation", "ReservationName=repair"];
    bed.cluster.run("scontrol", &[&create[..], &maint[..]].concat()).unwrap();
    let seen = bed.driver.observe(&at(&key, &held("n4"))).await.unwrap();
    assert!(seen.intruders.iter().any(|one| one.contains("repair has n4")), "{seen:?}");
    bed.driver.remove(&name).await.unwrap();
    assert_eq!(bed.reservations().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_without_a_limit_do_not_bar_later_bookings() {
    let Some(bed) = Testbed::start("endless") else { return };
    let (from, to) = (now() - 10, now() + 600);
    let first = alone("first");
    let booked = version("first", true, vec![share(from, to, "n1")]);
    let booked = bed.want(Stage::Granted, vec![booked]);
    let name = bed.driver.make(&first, &booked).await.unwrap();
    let job = bed.submit("alice", &name, "UNLIMITED").unwrap();
    bed.wait_until_running(&job).await;
    let later = alone("later");
    let held = version("later", false, vec![share(to, to + 600, "n1")]);
    let held = bed.want(Stage::Claimed, vec![held]);
    bed.driver.make(&later, &held).await.unwrap();
    assert_eq!((bed.reservations().len(), bed.state(&job).as_str()), (2, "RUNNING"));
    let wanted = [(first, booked), (later, held)].into();
    let seen = bed.driver.observe(&wanted).await.unwrap();
    assert!(
        seen.intruders.is_empty() && seen.present.values().all(|one| one.differs.is_none()),
        "{seen:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn users_that_are_unknown_are_refused_when_it_is_held() {
    let Some(bed) = Testbed::start("users") else { return };
    let (from, to) = (now() + 60, now() + 3_600);
    let shares = vec![share(from, to, "n1")];
    for (user, part) in [("mallory", "driver.slurm.users"), ("ghost", "nobody-of-that-name")] {
        let want = bed.want(Stage::Claimed, vec![version("u", false, shares.clone())]);
        let want = cluster::of_user(want, user);
        match bed.driver.make(&alone("u"), &want).await {
            Err(EquipmentTrouble::Refused(refusal)) => {
                assert!(refusal.detail.contains(part), "{}", refusal.detail);
            }
            other => panic!("{user}: {other:?}"),
        }
    }
    assert_eq!(bed.reservations(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_controller_forgets_and_others_change_is_mended() {
    let Some(mut bed) = Testbed::start("mend") else { return };
    let (from, to) = (now() + 60, now() + 3_600);
    let key = alone("mend");
    let want =
        bed.want(Stage::Granted, vec![version("mend", true, vec![share(from, to, "n1 n2")])]);
    let name = bed.driver.make(&key, &want).await.unwrap();
    // Killed at once: Slurm has acknowledged what it may not have written.
    bed.cluster.kill_controller();
    let started = Instant::now();
    let down = bed.driver.observe(&at(&key, &want)).await;
    assert!(
        matches!(&down, Err(EquipmentTrouble::Down(text)) if text.contains("slurmctld")),
        "{down:?}"
    );
    println!("look without a controller: {:?}", started.elapsed());
    let made = bed.driver.make(&key, &want).await;
    assert!(matches!(made, Err(EquipmentTrouble::Down(_) | EquipmentTrouble::Lost(_))), "{made:?}");
    bed.cluster.start_controller().unwrap();
    let seen = bed.driver.observe(&at(&key, &want)).await.unwrap();
    println!("after the kill: {seen:?}");
    // Nodes may not have answered the new controller yet.
    bed.cluster.wait_for_idle_nodes().unwrap();
    assert_eq!(bed.driver.make(&key, &want).await.unwrap(), name);
    bed.assert_as_wanted(&key, &want).await;

    // What it does lose is made again.
    bed.cluster.kill_controller();
    bed.forget_reservations();
    bed.cluster.start_controller().unwrap();
    assert_eq!(bed.reservations(), Vec::<String>::new());
    bed.driver.make(&key, &want).await.unwrap();
    bed.assert_as_wanted(&key, &want).await;
    bed.cluster.wait_for_idle_nodes().unwrap();

    let scontrol = |arguments: &[&str]| bed.cluster.run("scontrol", arguments).unwrap();
    scontrol(&["delete", "reservation", &name]);
    let seen = bed.driver.observe(&at(&key, &want)).await.unwrap();
    assert!(seen.present.is_empty(), "{seen:?}");
    bed.driver.make(&key, &want).await.unwrap();
    bed.assert_as_wanted(&key, &want).await;

    // What is booked is reserved again on a node that is down.
    scontrol(&["update", "NodeName=n2", "State=DOWN", "Reason=fire"]);
    scontrol(&["delete", "reservation", &name]);
    bed.driver.make(&key, &want).await.unwrap();
    let trouble = bed.trouble(&key, &want).await.unwrap();
    assert!(trouble.contains("n2 is down (fire)"), "{trouble}");
    scontrol(&["update", "NodeName=n2", "State=RESUME"]);
    bed.cluster.wait_for_idle_nodes().unwrap();

    let reservation = format!("ReservationName={name}");
    for change in ["Nodes=n3", "Users=root", "Users=root,bob", "Duration=5", "Flags+=MAINT"] {
        scontrol(&["update", &reservation, change]);
        let differs = bed.differs(&key, &want).await;
        assert!(differs.is_some(), "{change}");
        println!("{change}: {}", differs.unwrap_or_default());
        bed.driver.make(&key, &want).await.unwrap();
        bed.assert_as_wanted(&key, &want).await;
    }
}

#[test]
fn nothing_is_skipped_when_equipment_is_asked_for() {
    if is_asked_for() {
        assert_eq!(coalloc_crm::slurm::testbed::missing_programs(), Vec::<&str>::new());
    }
}
