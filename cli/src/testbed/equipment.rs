//! `coalloc demo equipment`: bookings that real equipment carries out. Two Slurm clusters, a shaped link between them, and two
//! jobs that measure it in the window of a reservation.
//!
//! ```text
//!        here: the daemons, slurmctld of both clusters
//!        10.78.1.1 |                  | 10.78.2.1
//!                  |                  |             management
//!          mgmt    |                  |  mgmt
//!   namespace site-N0                namespace site-N1
//!   slurmd n0-1, n0-2, n0-3          slurmd n1-1, n1-2, n1-3
//!          data |  10.77.1.2   10.77.2.2  | data
//!               |                         |
//!         to-N0 +-- namespace exchange ---+ to-N1   shaped by the NRM
//! ```
//!
//! The steps, in order: [`enter`] runs this program again in namespaces of its own, so that nothing of the machine is
//! touched; [`network`] lays the links; [`site`] starts the clusters; [`files`] writes the configurations of the daemons;
//! [`story`] reserves, runs the jobs and looks at the equipment; [`report`] says what came of it. [`kill_node`] is another
//! story with the same equipment.
//!
//! Left out: other faults of the equipment and of the daemons, which the tests of the drivers and the simulator make.

mod enter;
mod files;
mod kill_node;
mod network;
mod programs;
mod report;
mod site;
mod story;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use self::enter::JobUser;
use self::kill_node::KillReport;
use self::report::Report;
use self::site::Site;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::text;
use crate::testbed::local::layout::{self, Setup};
use crate::testbed::local::{Folder, start_posts};
use crate::user::daemons::{Daemons, first_death, stop};

/// A site of the story, and where its things are.
#[derive(Debug)]
struct Place {
    /// Its name in the federation.
    name: &'static str,
    /// The namespace of its nodes.
    netns: &'static str,
    /// The nodes of its cluster that the story reserves.
    nodes: [&'static str; 2],
    /// One more node.
    spare: &'static str,
    /// The interface of the exchange towards it.
    port: &'static str,
    /// The address of the exchange on the link to it.
    router: &'static str,
    /// The address of its nodes on the link to the exchange.
    data: &'static str,
    /// Our interface towards it.
    wire: &'static str,
    /// Our address on the management link, where its controller listens.
    controller: &'static str,
    /// The address of its nodes on the management link.
    management: &'static str,
}

impl Place {
    fn all_nodes(&self) -> [&'static str; 3] {
        let [first, second] = self.nodes;
        [first, second, self.spare]
    }
}

const PLACES: [Place; 2] = [
    Place {
        name: "N0",
        netns: "site-N0",
        nodes: ["n0-1", "n0-2"],
        spare: "n0-3",
        port: "to-N0",
        router: "10.77.1.1",
        data: "10.77.1.2",
        wire: "mgmt-N0",
        controller: "10.78.1.1",
        management: "10.78.1.2",
    },
    Place {
        name: "N1",
        netns: "site-N1",
        nodes: ["n1-1", "n1-2"],
        spare: "n1-3",
        port: "to-N1",
        router: "10.77.2.1",
        data: "10.77.2.2",
        wire: "mgmt-N1",
        controller: "10.78.2.1",
        management: "10.78.2.2",
    },
];
/// The namespace between the sites.
const EXCHANGE: &str = "exchange";
/// The CPUs of a node.
const CPUS_EACH: u32 = 2;
/// What the link between the sites carries.
const CAPACITY_BPS: u64 = 1_000_000_000;
/// What the user of the story reserves of it.
const BOOKED_BPS: u64 = 300_000_000;
/// The user of the story.
const USER: &str = "alice";

/// Real equipment: two Slurm clusters and a shaped link are reserved, used by jobs, and given back
///
/// Starts two Slurm clusters of three nodes, a link of 1 Gbit/s between them, the resource managers of all three, and a
/// coordinator. Reserves two nodes of each cluster and 300 Mbit/s for a window of some seconds. Jobs that are in the queues start when the
/// window begins and measure the link with iperf3. When the window ends, jobs, reservations and rates have gone. At
/// the end everything is audited.
///
/// All runs in namespaces of its own and in one folder; nothing of this machine is changed. It works as root, and as a plain user
/// where the system allows user namespaces. Exit code 0: the jobs have started in the window, the rate is 90 to
/// 97 % of what is booked (the rest are headers), nothing is left, and the audit holds. Exit code 2: something that it needs
/// is missing here; the text says what.
#[derive(Debug, Clone, Args)]
pub struct EquipmentArgs {
    /// Folder for configurations, ledgers and logs, kept afterwards [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Kill a node of a running job instead, and see the reservation move onto another one
    #[arg(long)]
    kill_node: bool,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// The namespaces of whoever has started this process, which runs in others
    #[arg(long, hide = true, value_name = "NAMESPACES")]
    entered_from: Option<OsString>,
}

/// Runs `coalloc demo equipment`.
///
/// # Errors
/// When something is missing on this machine, the equipment or the federation does not come up, a step of the story does not
/// happen, or the demo is interrupted. Everything is stopped in each case.
pub async fn run(args: &EquipmentArgs) -> Result<Answer, Failure> {
    let Some(outside) = &args.entered_from else {
        enter::check_programs()?;
        return Err(enter::again()?);
    };
    enter::arrive(outside)?;
    let user = JobUser::find()?;
    let folder = Folder::new(args.dir.as_deref())?;
    let (mut daemons, mut sites) = (Daemons::default(), Vec::new());
    let outcome = tokio::select! {
        outcome = scenario(folder.path(), &user, args.kill_node, &mut sites, &mut daemons) => outcome,
        () = coalloc_net::server::stop_signal() => {
            Err(Failure::new(Exit::Interrupted, "interrupted; all daemons, clusters and jobs are stopped"))
        }
    };
    stop(&mut daemons);
    // The clusters go, with all jobs.
    drop(sites);
    match outcome {
        Ok(report) => {
            let exit = if report.is_proven() { Exit::Done } else { Exit::Failed };
            if exit == Exit::Failed || args.dir.is_some() {
                text::note(&format!(
                    "configurations, ledgers and logs are in {}",
                    folder.keep().display()
                ));
            }
            Ok(Answer { text: report.told(args.json)?, exit })
        }
        Err(failure) if failure.exit == Exit::Interrupted => Err(failure),
        Err(failure) => {
            let message = format!("{failure}\nlogs and ledgers are in {}", folder.keep().display());
            Err(Failure { message, ..failure })
        }
    }
}

/// What came of a story.
enum Outcome {
    Used(Box<Report>),
    Moved(Box<KillReport>),
}

impl Outcome {
    fn is_proven(&self) -> bool {
        match self {
            Self::Used(report) => report.is_proven(),
            Self::Moved(report) => report.is_proven(),
        }
    }

    fn told(&self, in_json: bool) -> Result<String, Failure> {
        Ok(match self {
            Self::Used(report) if in_json => report.json()?,
            Self::Used(report) => report.text(),
            Self::Moved(report) if in_json => report.json()?,
            Self::Moved(report) => report.text(),
        })
    }
}

async fn scenario(
    folder: &Path,
    user: &JobUser,
    kills_node: bool,
    sites: &mut Vec<Site>,
    daemons: &mut Daemons,
) -> Result<Outcome, Failure> {
    user.let_into(folder)?;
    let started = Instant::now();
    network::lay().await?;
    sites.extend(Site::start_all(folder, user)?);
    let seconds = started.elapsed().as_secs_f64();
    text::note(&format!(
        "two Slurm clusters of three nodes, and a link between them, run after {seconds:.1} s"
    ));
    let file = files::federation()?;
    let setup = Setup::new(folder, &file);
    let mut posts = layout::write(&setup)?;
    files::write(&mut posts, sites, user)?;
    start_posts(&setup, &posts, daemons, true).await?;
    let story = tokio::select! {
        story = async {
            Ok(match kills_node {
                false => Outcome::Used(Box::new(story::tell(folder, &posts, sites).await?)),
                true => Outcome::Moved(Box::new(kill_node::tell(folder, &posts, sites).await?)),
            })
        } => story,
        failure = first_death(daemons) => Err(failure),
    };
    // A daemon that died explains more than a step that failed.
    story.map_err(|failure| daemons.check_alive().err().unwrap_or(failure))
}
