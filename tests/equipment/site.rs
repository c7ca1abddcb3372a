//! A Slurm cluster with its CRM, and what is there of others.

use std::path::Path;

use coalloc_common::Time;
use coalloc_crm::slurm::testbed::Cluster;
use coalloc_proto::v1::{BookingState, ProvisionState};
use tempfile::TempDir;

use crate::gate::Gate;
use crate::manager::{Manager, Order, PATIENCE, now, until};

/// The nodes that the CRM has. One more, `n3`, is for others.
const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// See the [module](self).
pub(crate) struct Site {
    // In the order in which they end.
    pub(crate) rm: Manager,
    pub(crate) cluster: Cluster,
    others: String,
    /// The job of somebody else, on `n3`.
    local: String,
    _folder: TempDir,
}

impl Site {
    /// A cluster of three nodes. On `n3`, others have a job and two reservations.
    pub(crate) fn start(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let own = folder.path().join(name);
            std::fs::create_dir(&own).unwrap();
            own
        };
        let cluster = Cluster::start(&at("cluster"), name, &NODES, 4).unwrap();
        let programs = folder.path().join("programs");
        let gate = Gate::new(&programs);
        let rm = Manager::start(&at("crm"), "crm", &configuration(&cluster, &programs), gate);
        let (others, local) = (String::new(), String::new());
        let mut site = Self { rm, cluster, others, local, _folder: folder };
        for name in ["maintenance", "co-ffffffff-0123456789abcdef"] {
            let named = format!("ReservationName={name}");
            let create = ["create", "reservation", &named, "Users=root", "Nodes=n3"];
            let hours = if name == "maintenance" { 2 } else { 4 };
            let start = format!("StartTime=now+{hours}hours");
            let all = [&create[..], &[&start, "Duration=60"]].concat();
            site.cluster.run("scontrol", &all).unwrap();
        }
        site.local = site.sbatch("bob", &["-w", "n3"]).unwrap();
        site.others = site.others().unwrap();
        site
    }

    /// Starts the controller again, and waits until it has heard of its nodes.
    pub(crate) async fn start_controller(&mut self) {
        self.cluster.start_controller().unwrap();
        self.until_nodes_answer().await;
    }

    /// Waits until the controller has heard of its nodes: until then it may not reserve them.
    pub(crate) async fn until_nodes_answer(&self) {
        until("the nodes answer", PATIENCE, async || {
            let states = self.cluster.run("sinfo", &["-h", "-N", "-o", "%T"])?;
            let is_heard = !states.contains('*') && !states.contains("unk");
            if is_heard { Ok(()) } else { Err(states) }
        })
        .await;
    }

    fn reservations(cluster: &Cluster) -> Result<Vec<String>, String> {
        let text = cluster.run("scontrol", &["show", "reservation", "-o"])?;
        Ok(text.lines().filter(|line| line.starts_with("Res")).map(str::to_owned).collect())
    }

    /// What is there of others, as Slurm writes it.
    fn others(&self) -> Result<String, String> {
        let own = |line: &String| line.contains("=co-") && !line.contains("=co-ffffffff-");
        let mut others = Self::reservations(&self.cluster)?;
        others.retain(|line| !own(line));
        others.sort();
        Ok(others.join("\n"))
    }

    /// Our reservations: nodes and users of each, and their end when it is not that of the order.
    pub(crate) fn ours(cluster: &Cluster, order: &Order) -> Result<Vec<String>, String> {
        let end = Time::from_us(order.window.1 * 1_000_000).to_string().replace('Z', "");
        let mut ours = Vec::new();
        for line in Self::reservations(cluster)? {
            let field = |name: &str| {
                let mut words = line.split_whitespace();
                let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
                value.unwrap_or_default()
            };
            let name = field("ReservationName");
            if !name.starts_with("co-") || name.starts_with("co-ffffffff-") {
                continue;
            }
            let mut text = format!("{} {}", field("Nodes"), field("Users"));
            if field("Flags").contains("MAINT") {
                text += " MAINT";
            }
            if !field("EndTime").starts_with(&end) {
                text = format!("{text} until {}", field("EndTime"));
            }
            ours.push(text);
        }
        ours.sort();
        Ok(ours)
    }

    /// Waits until a booking has these reservations, and its CRM says so.
    pub(crate) async fn settle(&mut self, what: &str, order: &Order, pieces: &[&str]) {
        let Self { rm, cluster, .. } = self;
        let is_granted = pieces.iter().any(|piece| piece.contains("alice"));
        rm.settle(what, async |rm| {
            let seen = Self::ours(cluster, order);
            let told = rm.told(&order.txn).await.unwrap_or_default();
            let is_told = if pieces.is_empty() {
                told.handle.is_empty()
            } else {
                let provision =
                    if is_granted { ProvisionState::Provisioned } else { ProvisionState::Released };
                told.provision == provision && told.consistent && told.trouble.is_empty()
            };
            let is_there = seen.as_ref().is_ok_and(|seen| seen == pieces);
            (!is_there || !is_told).then(|| format!("{seen:?} instead of {pieces:?}; {told:?}"))
        })
        .await;
    }

    /// Waits until a released or ended booking has left nothing, neither reservations nor jobs.
    pub(crate) async fn settle_gone(&mut self, what: &str, order: &Order, job: &str) {
        let Self { rm, cluster, .. } = self;
        rm.settle(what, async |_| {
            let seen = Self::ours(cluster, order);
            let state = state(cluster, job);
            let is_gone = seen.as_ref().is_ok_and(Vec::is_empty) && !is_alive(&state);
            (!is_gone).then(|| format!("{seen:?}; the job is {state}"))
        })
        .await;
    }

    /// Does the CRM say that it is booked?
    pub(crate) async fn is_booked(&self, order: &Order) -> bool {
        self.rm.told(&order.txn).await.is_some_and(|told| told.state == BookingState::Booked)
    }

    /// Submits a job of ten minutes.
    pub(crate) fn submit(&self, user: &str, reservation: &str) -> Result<String, String> {
        self.sbatch(user, &[&format!("--reservation={reservation}")])
    }

    fn sbatch(&self, user: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.cluster.command_as(user, "sbatch");
        command.args(["--parsable", "-n1", "-t", "10", "-o", "/dev/null", "--wrap", "sleep 600"]);
        let output = command.args(arguments).output().unwrap();
        let [text, complaint] =
            [output.stdout, output.stderr].map(|one| String::from_utf8(one).unwrap());
        if output.status.success() { Ok(text.trim().to_owned()) } else { Err(complaint) }
    }

    /// Checks that a user may not use a reservation.
    pub(crate) fn assert_refused(&self, user: &str, reservation: &str) {
        let refused = self.submit(user, reservation).unwrap_err();
        assert!(refused.contains("Access denied"), "{refused}");
    }

    /// Waits until a job runs, which is within seconds of the start of its window.
    pub(crate) async fn until_running(&mut self, job: &str, order: &Order) {
        let late = u64::try_from(order.window.0 - now()).unwrap_or_default();
        let patience = std::time::Duration::from_secs(late) + PATIENCE;
        until("the job runs", patience, async || match state(&self.cluster, job) {
            state if state == "RUNNING" => Ok(()),
            state => Err(state),
        })
        .await;
        assert!(now() >= order.window.0, "the job runs before its window");
    }

    /// The state of a job in Slurm's word.
    pub(crate) fn state(&self, job: &str) -> String {
        state(&self.cluster, job)
    }

    /// Checks that the reservations of others are as they were.
    pub(crate) fn assert_reservations_of_others_untouched(&self) {
        assert_eq!(self.others().unwrap(), self.others);
    }

    /// Checks that what others have is as it was.
    pub(crate) fn assert_others_untouched(&self) {
        self.assert_reservations_of_others_untouched();
        assert_eq!(self.state(&self.local), "RUNNING");
    }
}

fn state(cluster: &Cluster, job: &str) -> String {
    let state = cluster.run("squeue", &["-h", "-t", "all", "-j", job, "-o", "%T"]);
    state.unwrap_or_default().trim().to_owned()
}

fn is_alive(state: &str) -> bool {
    ["PENDING", "RUNNING", "SUSPENDED", "COMPLETING"].contains(&state)
}

fn configuration(cluster: &Cluster, programs: &Path) -> String {
    format!(
        "inventory:\n  name: crm\n  domain: D\n  sites:\n  - name: A\n    servers: {{cpus_each: 4, groups: \
         [{{names: [n1, n2]}}]}}\n\
         driver:\n  slurm: {{conf: \"{}\", bin: \"{}\", users: [{{user: alice}}]}}\n",
        cluster.conf().display(),
        programs.display()
    )
}
