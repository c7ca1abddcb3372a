//! Partitions of a coordinator whose ledger is shared: two processes and three members of etcd in containers, with four resource
//! managers.
//!
//! While customers reserve, change and release, networks are cut on either side of whoever leads, each for longer than a lease
//! lasts. Afterwards `coalloc audit` compares what all daemons have with what customers were told. What has to happen at each cut
//! is in the table of docs/guide/high-availability.md.
//!
//! Left out: processes that are killed or stopped (`coalloc demo ha` has both), networks that lose or delay only a part
//! (`coalloc sim takeover`), and partitions between customers and the coordinator.

mod deployment;
mod etcd;
mod files;

use std::time::{Duration, Instant};

use crate::engine;
use crate::load::Load;
use crate::testbed::eventually;
use deployment::{Connection, Deployment, ProcessState};
use etcd::EtcdImage;
use files::{ETCD, MANAGERS, PROCESSES, peer};

/// How often each cut is made. After an odd number of takeovers the other process is the one that is cut off.
const ROUNDS: usize = 2;
/// How long a cut lasts: a lease of 5 s ends, and whoever had it ends and starts again.
const CUT: Duration = Duration::from_secs(11);
/// How long a takeover may take, from before the cut until the other process answers.
const TAKEOVER_MAX: Duration = Duration::from_secs(10);
/// How long a cut member of etcd may be missed.
const ETCD_ELECTION_MAX: Duration = Duration::from_secs(10);
/// How long everything may take to be as before after a cut.
const HEALED_WITHIN: Duration = Duration::from_secs(30);
/// Pause between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// What is cut off from what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The leader from etcd. Its callers and the resource managers reach it.
    LeaderFromEtcd,
    /// The leader from the resource managers. It reaches etcd.
    LeaderFromManagers,
    /// The leader of etcd from the other members. The coordinator reaches all three.
    EtcdLeaderFromPeers,
    /// The leader from etcd and from the resource managers. Its callers reach it.
    LeaderFromBoth,
}

impl Cut {
    const ALL: [Self; 4] = [
        Self::LeaderFromEtcd,
        Self::LeaderFromManagers,
        Self::EtcdLeaderFromPeers,
        Self::LeaderFromBoth,
    ];

    const fn text(self) -> &'static str {
        match self {
            Self::LeaderFromEtcd => "the leader is cut off from etcd",
            Self::LeaderFromManagers => "the leader is cut off from the resource managers",
            Self::EtcdLeaderFromPeers => "etcd's leader is cut off from the other members",
            Self::LeaderFromBoth => "the leader is cut off from etcd and the resource managers",
        }
    }

    /// The networks that the leader of the coordinator loses.
    const fn networks(self) -> &'static [&'static str] {
        match self {
            Self::LeaderFromEtcd => &["store"],
            Self::LeaderFromManagers => &["domain"],
            Self::EtcdLeaderFromPeers => &[],
            Self::LeaderFromBoth => &["store", "domain"],
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_whatever_the_leader_is_cut_off_from() {
    let Some(_alone) = engine().await else { return };
    let Some(program) = etcd::program() else { return };
    let began = Instant::now();
    let deployment = Deployment::new(EtcdImage::build(&program));
    deployment.start().await;
    println!("{:6.1} s  all containers serve", began.elapsed().as_secs_f64());
    let load = Load::start(deployment.coordinator(), &deployment.identity(), &deployment.journal());
    load.goes_on("before any cut").await;
    let mut takeovers = 0;
    for cut in (0..ROUNDS).flat_map(|_| Cut::ALL) {
        let run = CutRun { deployment: &deployment, load: &load, cut, began: Instant::now() };
        takeovers += usize::from(run.whole().await);
    }
    load.stop().await;
    println!("{}", deployment.audit());
    // The coordinator may be taken over although etcd has a leader again soon.
    let elections = deployment.elections();
    println!("{elections} elections");
    assert!(elections > takeovers, "{elections} elections, {takeovers} takeovers");
    deployment.remove();
    deployment.is_gone();
    println!("{:6.1} s  in all", began.elapsed().as_secs_f64());
}

/// One cut, from before it until everything is as before.
struct CutRun<'a> {
    deployment: &'a Deployment,
    load: &'a Load,
    cut: Cut,
    began: Instant,
}

impl CutRun<'_> {
    /// Cuts, waits and heals. Returns whether another process leads now.
    async fn whole(mut self) -> bool {
        let from = self.leader(None).await;
        let connections = self.connections(from);
        let text = self.cut.text();
        self.began = Instant::now();
        self.deployment.cut(&connections);
        self.say(&format!("{text} ({})", connections[0].service));
        let to = match self.cut {
            Cut::LeaderFromEtcd | Cut::LeaderFromBoth => self.taken_over(from).await,
            Cut::LeaderFromManagers => self.stays(from).await,
            Cut::EtcdLeaderFromPeers => self.etcd_elects(&connections[0].service).await,
        };
        self.deployment.heal(&connections).await;
        self.say("healed");
        self.load.confirms(&format!("after {text}")).await;
        let leader = self.settled().await;
        if self.cut != Cut::EtcdLeaderFromPeers {
            assert_eq!(
                PROCESSES[leader].0, PROCESSES[to].0,
                "nobody else takes over when the cut is healed"
            );
        }
        let pause = self.load.longest_pause(self.began).as_secs_f64();
        self.say(&format!(
            "everything is as before; no customer was told \"confirmed\" for {pause:.1} s"
        ));
        leader != from
    }

    /// The connections that are cut, while this process leads.
    fn connections(&self, leader: usize) -> Vec<Connection> {
        if self.cut == Cut::EtcdLeaderFromPeers {
            let member = self.deployment.etcd_leader(None).expect("etcd has a leader");
            let (name, _) = ETCD[member];
            return vec![Connection::new(name, "peers", &peer(name))];
        }
        let (name, _) = PROCESSES[leader];
        self.cut.networks().iter().map(|network| Connection::new(name, network, name)).collect()
    }

    /// Waits until the other process leads, and watches then that the one that is cut off does not answer.
    async fn taken_over(&self, from: usize) -> usize {
        let to = self.leader(Some(from)).await;
        let took = self.began.elapsed();
        self.say(&format!("{} has taken over", PROCESSES[to].0));
        assert!(took < TAKEOVER_MAX, "{took:?}");
        self.is_cut_as_meant(from).await;
        self.load.confirms("while the old leader is cut off").await;
        self.hold(async || {
            let old = self.deployment.state(from).await;
            assert_ne!(old, ProcessState::Leads, "two lead: {}", PROCESSES[from].0);
        })
        .await;
        to
    }

    /// Watches that nobody else takes over.
    async fn stays(&self, leader: usize) -> usize {
        self.is_cut_as_meant(leader).await;
        self.load.goes_on("without the resource managers").await;
        self.hold(async || {
            let other = self.deployment.state(1 - leader).await;
            assert_ne!(other, ProcessState::Leads, "{} reaches etcd", PROCESSES[leader].0);
        })
        .await;
        assert_eq!(self.leader(None).await, leader, "it still leads");
        leader
    }

    /// Waits until another member of etcd leads and some process of the coordinator decides.
    async fn etcd_elects(&self, cut_off: &str) -> usize {
        let member = ETCD.iter().position(|(name, _)| *name == cut_off).unwrap();
        let other = || self.deployment.etcd_leader(Some(member)).is_some();
        eventually("another member of etcd leads", ETCD_ELECTION_MAX, other).await;
        self.say("another member of etcd leads");
        let alone = || self.deployment.etcd_status(member).is_some_and(|status| !status.has_leader);
        eventually("the one that is cut off has no leader", ETCD_ELECTION_MAX, alone).await;
        self.load.confirms("without etcd's leader").await;
        self.hold(async || {}).await;
        self.leader(None).await
    }

    /// Checks that a process of the coordinator reaches what it was not cut off from, and nothing else.
    async fn is_cut_as_meant(&self, process: usize) {
        let (name, port) = PROCESSES[process];
        let ((member, _), (manager, manager_port)) = (ETCD[0], MANAGERS[0]);
        let lost = self.cut.networks();
        for (service, network, port) in
            [(name, "callers", port), (member, "store", 2_379), (manager, "domain", manager_port)]
        {
            let reaches = || self.deployment.reaches(name, service, network, port);
            if lost.contains(&network) {
                assert!(!reaches(), "{name} reaches {service} over {network}");
            } else {
                // It may be starting again at this moment.
                eventually(&format!("{name} reaches {service}"), CUT, reaches).await;
            }
        }
    }

    /// Lets the cut last, and checks something meanwhile.
    async fn hold(&self, check: impl AsyncFn()) {
        loop {
            check().await;
            if self.began.elapsed() >= CUT {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The process that leads, other than this one.
    async fn leader(&self, other_than: Option<usize>) -> usize {
        let since = Instant::now();
        loop {
            for process in (0..PROCESSES.len()).filter(|process| Some(*process) != other_than) {
                if self.deployment.state(process).await == ProcessState::Leads {
                    return process;
                }
            }
            assert!(since.elapsed() < HEALED_WITHIN, "nobody leads");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until every member of etcd has a leader, one process leads, and the other one stands by. Returns which leads.
    async fn settled(&self) -> usize {
        eventually("every member of etcd has a leader", HEALED_WITHIN, || {
            let statuses = (0..ETCD.len()).map(|member| self.deployment.etcd_status(member));
            statuses.flatten().filter(|status| status.has_leader).count() == ETCD.len()
        })
        .await;
        let since = Instant::now();
        loop {
            let states = [self.deployment.state(0).await, self.deployment.state(1).await];
            match states {
                [ProcessState::Leads, ProcessState::StandsBy] => return 0,
                [ProcessState::StandsBy, ProcessState::Leads] => return 1,
                _ => {}
            }
            assert!(
                since.elapsed() < HEALED_WITHIN,
                "one leads and the other stands by: {states:?}"
            );
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn say(&self, text: &str) {
        println!("{:6.1} s  {text}", self.began.elapsed().as_secs_f64());
    }
}
