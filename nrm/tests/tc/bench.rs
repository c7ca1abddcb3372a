//! Two hosts and an exchange between them, in network namespaces that go when the bench goes.

use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coalloc_common::{Amount, CoordinatorName, ResourceId, TransactionId, UserName};
use coalloc_nrm::tc::{TcDriver, TcSettings};
use coalloc_proto::v1;
use coalloc_protocol::participant::equipment::{EquipmentKey, Stage, Want};
use coalloc_rm::driver::Naming;
use serde_json::Value;

/// The table of the first RM.
pub(crate) const TABLE: &str = "co-00000001";
/// An address of host a that is no user's.
pub(crate) const STRANGER: &str = "10.77.1.3";

/// Is the test to run? If not, it says so.
pub(crate) fn is_wanted() -> bool {
    let is = std::env::var("COALLOC_EQUIPMENT").as_deref() == Ok("1");
    if !is {
        eprintln!("skipped: COALLOC_EQUIPMENT is not 1");
    }
    is
}

pub(crate) fn key(chain: &str, resource: &str) -> EquipmentKey {
    EquipmentKey { chain: TransactionId::composed(chain), resource: ResourceId::composed(resource) }
}

pub(crate) fn want(user: &str, stage: Stage, reference: Option<&str>) -> Want {
    Want {
        stage,
        user: UserName::composed(user),
        coordinator: CoordinatorName::composed("grc"),
        versions: Vec::new(),
        reference: reference.map(str::to_owned),
    }
}

pub(crate) fn active(user: &str, bps: u64, reference: Option<&str>) -> Want {
    want(user, Stage::Active(Amount(bps)), reference)
}

/// What is between the hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Middle {
    Router,
    Bridge,
}

/// One bench at a time: flows of two would compete for the processors.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) struct Bench {
    prefix: String,
    server: Option<Child>,
    _turn: MutexGuard<'static, ()>,
}

/// What a flow of iperf3 was like.
pub(crate) struct Flow(Value);

impl Flow {
    /// What was received, in bit/s.
    pub(crate) fn rate(&self) -> f64 {
        self.0["end"]["sum_received"]["bits_per_second"].as_f64().unwrap()
    }

    /// The mean of the intervals that lie between these seconds.
    pub(crate) fn rate_between(&self, from: f64, to: f64) -> f64 {
        let sums = self.0["intervals"].as_array().unwrap().iter().map(|one| &one["sum"]);
        let at = |sum: &Value, field: &str| sum[field].as_f64().unwrap();
        let of_time = sums.filter(|sum| at(sum, "start") >= from && at(sum, "end") <= to);
        let rates: Vec<f64> = of_time.map(|sum| at(sum, "bits_per_second")).collect();
        rates.iter().sum::<f64>() / rates.len() as f64
    }
}

impl Bench {
    pub(crate) fn new(name: &str, middle: Middle) -> Self {
        let prefix = format!("cotc-{}-{name}", std::process::id());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bench = Self { prefix, server: None, _turn: turn };
        for space in ["a", "x", "b"] {
            plain(&["ip", "netns", "add", &bench.space(space)]);
            bench.run_in(space, &["ip", "link", "set", "lo", "up"]);
        }
        for host in ["a", "b"] {
            let (end, to) = (format!("{host}0"), format!("to-{host}"));
            let space = bench.space(host);
            bench.run(&[
                "ip", "link", "add", &to, "type", "veth", "peer", "name", &end, "netns", &space,
            ]);
            bench.run(&["ip", "link", "set", &to, "up"]);
            bench.run_in(host, &["ip", "link", "set", &end, "up"]);
        }
        let address = |space: &str, address: &str, interface: &str| {
            bench.run_in(space, &["ip", "address", "add", address, "dev", interface]);
        };
        if middle == Middle::Router {
            address("x", "10.77.1.1/24", "to-a");
            address("x", "10.77.2.1/24", "to-b");
            bench.run(&["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
            address("a", "10.77.1.2/24", "a0");
            address("a", "10.77.1.3/24", "a0");
            address("b", "10.77.2.2/24", "b0");
            bench.run_in("a", &["ip", "route", "add", "default", "via", "10.77.1.1"]);
            bench.run_in("b", &["ip", "route", "add", "default", "via", "10.77.2.1"]);
            let address = |space: &str, address: &str, interface: &str| {
                let add = ["ip", "address", "add", address, "dev", interface, "nodad"];
                bench.run_in(space, &add);
            };
            address("x", "fd77:1::1/64", "to-a");
            address("x", "fd77:2::1/64", "to-b");
            bench.run(&["sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding"]);
            address("a", "fd77:1::2/64", "a0");
            address("b", "fd77:2::2/64", "b0");
            bench.run_in("a", &["ip", "-6", "route", "add", "default", "via", "fd77:1::1"]);
            bench.run_in("b", &["ip", "-6", "route", "add", "default", "via", "fd77:2::1"]);
        } else {
            address("a", "10.77.1.2/16", "a0");
            address("b", "10.77.2.2/16", "b0");
            bench.run(&["ip", "link", "add", "br0", "type", "bridge"]);
            bench.run(&["ip", "link", "set", "br0", "up"]);
            bench.run(&["ip", "link", "set", "to-a", "master", "br0"]);
            bench.run(&["ip", "link", "set", "to-b", "master", "br0"]);
        }
        let mut server = bench.command("b", &["iperf3", "-s"]);
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        bench.server = Some(server.expect("iperf3 must be there: apt-get install iperf3"));
        bench
    }

    /// A driver of the NRM whose ledger has this number.
    pub(crate) fn driver(&self, ledger: u32) -> TcDriver {
        self.driver_of(ledger, false)
    }

    /// A driver of the NRM whose ledger has this number; the path is full duplex, or shared by both directions.
    pub(crate) fn driver_of(&self, ledger: u32, full_duplex: bool) -> TcDriver {
        let (name, capacity_bps) = ("N0-N1".into(), 1_000_000_000);
        let path = v1::Path { name, capacity_bps, full_duplex, ..v1::Path::default() };
        let wire = v1::TcDriver {
            netns: self.space("x"),
            unbooked_bps: None,
            paths: vec![v1::TcPath { name: "N0-N1".into(), a: "to-a".into(), b: "to-b".into() }],
            users: vec![v1::TcUser {
                user: "alice".into(),
                coordinator: String::new(),
                addresses: ["10.77.1.2", "10.77.2.2", "fd77:1::2", "fd77:2::2"]
                    .map(str::to_owned)
                    .into(),
            }],
        };
        let settings = TcSettings::parse(&wire, &[path], &[]).unwrap();
        TcDriver::new(settings, Naming::of_ledger(&format!("{ledger:08x}-0000")))
    }

    /// Everything of the exchange that the driver could change. Without the numbers that the kernel counts.
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

    /// Sends from host a to host b.
    pub(crate) async fn iperf(&self, args: &[&str]) -> Flow {
        let from = if args.contains(&"-B") { &[][..] } else { &["-B", "10.77.1.2"] };
        self.iperf_to("10.77.2.2", &[from, args].concat()).await
    }

    /// Sends from host a to this address of host b.
    pub(crate) async fn iperf_to(&self, address: &str, args: &[&str]) -> Flow {
        let mut all = vec!["iperf3", "-c", address, "-J"];
        all.extend(args);
        let mut last = String::new();
        // The server may not listen yet, or be busy with the end of the flow before.
        for _ in 0..20 {
            let mut command = self.command("a", &all);
            let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
            let output = output.expect("iperf3 must be there: apt-get install iperf3");
            last = String::from_utf8_lossy(&output.stdout).into_owned();
            if output.status.success() {
                return Flow(serde_json::from_str(&last).unwrap());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("iperf3: {last}")
    }

    /// Runs a command in the exchange.
    pub(crate) fn run(&self, command: &[&str]) {
        self.run_in("x", command);
    }

    /// What a command in the exchange prints.
    pub(crate) fn output(&self, command: &[&str]) -> String {
        checked(&mut self.command("x", command))
    }

    fn run_in(&self, space: &str, command: &[&str]) {
        checked(&mut self.command(space, command));
    }

    fn command(&self, space: &str, command: &[&str]) -> Command {
        let mut entered = Command::new("nsenter");
        entered.arg(format!("--net=/run/netns/{}", self.space(space))).args(command);
        entered
    }

    fn space(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
        for space in ["a", "x", "b"] {
            let _ = Command::new("ip").args(["netns", "del", &self.space(space)]).output();
        }
    }
}

fn plain(command: &[&str]) {
    checked(Command::new(command[0]).args(&command[1..]));
}

fn checked(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} must be there: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
