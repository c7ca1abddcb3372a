//! A link in a network namespace with its NRM, and what is there of others.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::gate::Gate;
use crate::manager::{Manager, Order};

/// Both ends of the link.
pub(crate) const ENDS: [&str; 2] = ["to-a", "to-b"];
/// The addresses of alice.
pub(crate) const ADDRESSES: [&str; 2] = ["10.77.1.2", "10.77.2.2"];

/// See the [module](self).
pub(crate) struct Link {
    // In the order in which they end.
    pub(crate) rm: Manager,
    pub(crate) space: Space,
    /// All that was there before the first booking.
    before: Vec<String>,
    _folder: TempDir,
}

/// A network namespace, which goes with the value.
pub(crate) struct Space(String);

impl Link {
    /// A link whose ends are up. Others have shaped another interface, and have a table of nft.
    pub(crate) fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let space = Space(format!("cokill-{}-{count}", std::process::id()));
        checked(Command::new("ip").args(["netns", "add", &space.0]));
        for interface in ENDS.iter().chain(&["other"]) {
            let peer = format!("p-{interface}");
            space.run(&["ip", "link", "add", interface, "type", "veth", "peer", "name", &peer]);
            space.run(&["ip", "link", "set", interface, "up"]);
            space.run(&["ip", "link", "set", &peer, "up"]);
        }
        let tbf = ["tbf", "rate", "1mbit", "burst", "10k", "latency", "1s"];
        let add = ["tc", "qdisc", "add", "dev", "other", "root", "handle", "77:"];
        space.run(&[&add[..], &tbf].concat());
        let chain = "add chain inet guard in { type filter hook input priority 0; }";
        for command in ["add table inet guard", chain, "add rule inet guard in tcp dport 23 drop"] {
            space.run(&["nft", command]);
        }
        let folder = tempfile::tempdir().unwrap();
        let gate = Gate::new(&folder.path().join("programs"));
        let configuration = format!(
            "inventory:\n  name: nrm\n  domain: D\n  paths: [{{name: N0-N1, a: N0, b: N1, capacity_bps: \
             1000000000}}]\n\
             driver:\n  tc:\n    netns: {}\n    unbooked_bps: 10000000\n    paths: [{{name: N0-N1, a: to-a, b: to-b}}]\n    \
             users: [{{user: alice, addresses: [{}]}}]\n",
            space.0,
            ADDRESSES.join(", ")
        );
        let rm = Manager::start(folder.path(), "nrm", &configuration, gate);
        let before = space.state();
        Self { rm, space, before, _folder: folder }
    }

    /// An order of the link, from `start` to `end` seconds from now.
    pub(crate) fn order(number: u32, mbps: u64, start: i64, end: i64) -> Order {
        Order::new("N0-N1", number, start, end).at(mbps)
    }

    /// Waits until alice has a class with this rate at both ends, and all of her traffic is mapped to it, and until the NRM says
    /// that the booking is active.
    pub(crate) async fn settle(&mut self, what: &str, order: &Order, mbps: u64) {
        let Self { rm, space, .. } = self;
        rm.settle(what, async |rm| {
            let told = rm.told(&order.txn).await.unwrap_or_default();
            let is_told = told.active && told.consistent && told.trouble.is_empty();
            let wanted = wanted(mbps, told.handle.split(' ').next_back().unwrap_or_default());
            let seen = space.ours();
            (!is_told || seen != wanted)
                .then(|| format!("{seen:#?} instead of {wanted:#?}; {told:?}"))
        })
        .await;
    }

    /// Waits until nothing is there but what was there before the first booking.
    pub(crate) async fn settle_bare(&mut self, what: &str) {
        let Self { rm, space, before, .. } = self;
        rm.settle(what, async |_| {
            let seen = space.state();
            (seen != *before).then(|| format!("{seen:#?} instead of {before:#?}"))
        })
        .await;
    }

    /// Waits until the NRM says that a booking is held or booked, and nothing is wrong. Nothing is there of it.
    pub(crate) async fn settle_quiet(&mut self, what: &str, order: &Order) {
        let Self { rm, space, before, .. } = self;
        rm.settle(what, async |rm| {
            let (seen, told) = (space.state(), rm.told(&order.txn).await.unwrap_or_default());
            let is_told = !told.handle.is_empty() && !told.active && told.trouble.is_empty();
            (seen != *before || !is_told)
                .then(|| format!("{seen:#?} instead of {before:#?}; {told:?}"))
        })
        .await;
    }
}

/// What is there for a class with this rate.
fn wanted(mbps: u64, class: &str) -> Vec<String> {
    let mut wanted = Vec::new();
    let [one, other] = ADDRESSES;
    for end in ENDS {
        wanted.push(format!("{end} {class} {mbps}Mbit"));
        for (from, to) in [(one, other), (other, one)] {
            wanted.push(format!("\"{end}\" . {from} . {to} : {class}"));
        }
    }
    wanted.sort();
    wanted
}

impl Space {
    /// The class of each user at each end, and the traffic that is mapped to one.
    pub(crate) fn ours(&self) -> Vec<String> {
        let mut ours = Vec::new();
        for end in ENDS {
            for line in self.output(&["tc", "class", "show", "dev", end]).lines() {
                let words: Vec<&str> = line.split_whitespace().collect();
                let (class, is_leaf) = (words[2], words.contains(&"leaf"));
                let rate = words.iter().position(|word| *word == "rate").map(|at| words[at + 1]);
                // The class of unbooked traffic has no queue of its own.
                if is_leaf && !class.ends_with(":2") {
                    ours.push(format!("{end} {class} {}", rate.unwrap_or_default()));
                }
            }
        }
        let ruleset = self.output(&["nft", "list", "ruleset"]);
        let elements = ruleset.split(['{', '}', ',', '\n']).map(str::trim);
        let elements = elements.filter(|text| text.starts_with("\"to-"));
        ours.extend(elements.map(|text| text.trim_start_matches("elements = ").to_owned()));
        ours.sort();
        ours
    }

    /// All that is there, without the numbers that the kernel counts.
    pub(crate) fn state(&self) -> Vec<String> {
        let mut state = Vec::new();
        for command in [
            &["tc", "qdisc", "show"][..],
            &["tc", "class", "show", "dev", "to-a"],
            &["tc", "class", "show", "dev", "to-b"],
            &["nft", "list", "ruleset"],
        ] {
            let text = self.output(command);
            let lines = text.lines().map(|line| {
                let words = line.split(' ').take_while(|word| *word != "direct_packets_stat");
                words.filter(|word| !word.starts_with('8')).collect::<Vec<_>>().join(" ")
            });
            state.extend(lines);
        }
        state.sort();
        state
    }

    /// Runs a command there.
    pub(crate) fn run(&self, command: &[&str]) {
        self.output(command);
    }

    /// What a command prints there.
    fn output(&self, command: &[&str]) -> String {
        let mut entered = Command::new("nsenter");
        entered.arg(format!("--net=/run/netns/{}", self.0)).args(command);
        let path = std::env::var("PATH").unwrap();
        checked(entered.env("PATH", format!("{path}:/usr/sbin:/sbin")))
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

fn checked(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} must be there: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
