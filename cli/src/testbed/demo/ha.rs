//! `coalloc demo ha`: two processes of one coordinator share its ledger in three members of etcd. Whoever leads is killed,
//! stopped or cut off from etcd, again and again, while customers reserve, change and release. The other one takes over each time, and
//! at the end everything is audited against what the customers were told.
//!
//! Left out: members of etcd that fail (`docs/guide/high-availability.md` says what happens then).

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use coalloc_net::client::Dialer;
use coalloc_proto::v1;
use serde_json::json;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc;
use crate::kit::text;
use crate::testbed::audit::{Audit, Places, hear, journal, judge};
use crate::testbed::local::etcd::{EtcdCluster, EtcdLine};
use crate::testbed::local::layout::{Post, Setup};
use crate::testbed::local::{Folder, elgl, start};
use crate::testbed::soak::meter::Outcome;
use crate::testbed::soak::{self, Soak};
use crate::user::daemons::{Daemons, stop};
use crate::user::serve::Kind;

/// The members of etcd: one of them may fail.
const ETCD_MEMBERS: usize = 3;
/// How long a takeover may take.
const TAKEOVER_MAX: Duration = Duration::from_secs(10);
/// How long a takeover is waited for, and the end of a leader that was replaced.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two questions who leads.
const PAUSE: Duration = Duration::from_millis(20);
/// Patience for one question.
const ASK_PATIENCE: Duration = Duration::from_millis(500);
/// How long the audit may wait until nothing moves.
const REST_PATIENCE: Duration = Duration::from_secs(120);

/// Kill the leading coordinator while customers reserve: another process takes over, and nothing is lost
///
/// Three members of etcd, two processes of one coordinator that share its ledger there, and the 13 resource managers of
/// the paper's federation. Customers reserve, change and release all the time. Whoever leads is killed (SIGKILL), stopped
/// for longer than its lease lasts and then let go on (SIGSTOP, SIGCONT), or cut off from etcd while its callers still reach
/// it. The other process takes over; the one that has failed comes back and stands by. At the end every answer that a customer got is compared with what all daemons
/// say. Exit code 0: all is as customers were told, and no takeover took longer than 10 s. Needs the program etcd.
#[derive(Debug, Clone, Args)]
pub struct HaArgs {
    /// How often the leader fails
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    failures: u32,
    /// New customers per second
    #[arg(long, value_name = "R", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// Seconds of load before the first failure, and between two of them
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pause: u64,
    /// Seed of what customers ask for and do
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The program etcd [default: the one in the path]
    #[arg(long, value_name = "FILE")]
    etcd: Option<PathBuf>,
    /// Folder for configurations, ledgers and logs, kept afterwards [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// How a leader fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailureKind {
    /// The process is killed.
    Killed,
    /// The process is stopped for longer than its lease lasts, and goes on then.
    Stopped,
    /// Nothing passes between the process and etcd; its callers reach it all the time.
    CutOff,
}

impl FailureKind {
    /// The kinds take turns.
    const fn of(round: u32) -> Self {
        match round % 3 {
            0 => Self::Killed,
            1 => Self::Stopped,
            _ => Self::CutOff,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::CutOff => "cut off",
        }
    }
}

/// One takeover.
#[derive(Debug, Clone)]
struct Takeover {
    kind: FailureKind,
    from: String,
    to: String,
    took: Duration,
}

/// What happened.
struct Report {
    takeovers: Vec<Takeover>,
    load: Outcome,
    audit: Audit,
}

/// Runs `coalloc demo ha`.
///
/// # Errors
/// When etcd or the federation does not come up, nobody takes over, or the demo is interrupted.
pub async fn run(args: &HaArgs) -> Result<Answer, Failure> {
    let folder = Folder::new(args.dir.as_deref())?;
    let mut daemons = Daemons::default();
    let etcd = EtcdCluster::start(folder.path(), args.etcd.as_deref(), ETCD_MEMBERS).await?;
    let outcome = tokio::select! {
        outcome = scenario(args, folder.path(), &etcd, &mut daemons) => outcome,
        () = coalloc_net::server::stop_signal() => {
            Err(Failure::new(Exit::Interrupted, "interrupted; the daemons are stopped"))
        }
    };
    stop(&mut daemons);
    drop(etcd);
    match outcome {
        Ok(report) => {
            let exit = if report.is_proven() { Exit::Done } else { Exit::Failed };
            if exit == Exit::Failed {
                text::note(&format!("logs and ledgers are in {}", folder.keep().display()));
            }
            let text = if args.json { report.json()? } else { report.text() };
            Ok(Answer { text, exit })
        }
        Err(failure) if failure.exit == Exit::Interrupted => Err(failure),
        Err(failure) => {
            let kept = folder.keep();
            let message = format!("{failure}\nlogs and ledgers are in {}", kept.display());
            Err(Failure { message, ..failure })
        }
    }
}

async fn scenario(
    args: &HaArgs,
    folder: &Path,
    etcd: &EtcdCluster,
    daemons: &mut Daemons,
) -> Result<Report, Failure> {
    let file = elgl()?;
    let etcd_lines = [EtcdLine::lay(&etcd.addresses).await?, EtcdLine::lay(&etcd.addresses).await?];
    let addresses = [etcd_lines[0].addresses.clone(), etcd_lines[1].addresses.clone()];
    let setup = Setup { etcd: Some(addresses), ..Setup::new(folder, &file) };
    let posts = start(&setup, daemons, true).await?;
    let members: Vec<Post> = posts.into_iter().filter(|post| post.kind == Kind::Grc).collect();
    let all: Vec<&str> = members.iter().map(|post| post.address.as_str()).collect();
    let address = all.join(",");
    let dialer = members.first().map(|post| post.dialer.clone()).unwrap_or_default();
    let told = folder.join("told.jsonl");
    let lines = File::create(&told)
        .map_err(|error| Failure::internal(format!("{}: {error}", told.display())))?;
    let soak = Soak { seed: args.seed, rate: args.rate, frames: 4, dialer: dialer.clone() };
    let (end_load, ended) = tokio::sync::oneshot::channel::<()>();
    let targets = [address.clone()];
    let load = async {
        let until = async {
            // The sender is dropped when the failures are over.
            let _ = ended.await;
        };
        soak.run(&targets, journal::Writer::new(Box::new(lines)), until).await
    };
    text::note(&format!(
        "{} new customers a second; the leader fails every {} s",
        args.rate, args.pause
    ));
    let failures = async {
        let mut takeovers = Vec::new();
        for round in 0..args.failures {
            tokio::time::sleep(Duration::from_secs(args.pause)).await;
            takeovers.push(fail(FailureKind::of(round), &members, &etcd_lines, daemons).await?);
        }
        tokio::time::sleep(Duration::from_secs(args.pause)).await;
        drop(end_load);
        Ok::<_, Failure>(takeovers)
    };
    let (load, takeovers) = tokio::try_join!(load, failures)?;
    let places = Places { coordinators: vec![address], managers: Vec::new(), dialer };
    let heard = hear(&places, REST_PATIENCE).await?;
    let audit = judge(&heard, Some(&journal::read(&told)?));
    Ok(Report { takeovers, load, audit })
}

/// Lets the leader fail, waits until another process serves, and brings the one that failed back.
async fn fail(
    kind: FailureKind,
    members: &[Post],
    etcd_lines: &[EtcdLine; 2],
    daemons: &mut Daemons,
) -> Result<Takeover, Failure> {
    let from = leader(members, None).await?;
    let place = members.iter().position(|member| member.name == from.name);
    let line = &etcd_lines[place.unwrap_or_default()];
    let begun = Instant::now();
    let killed = match kind {
        FailureKind::Killed => Some(daemons.kill(&from.name)?),
        FailureKind::Stopped => {
            daemons.pause(&from.name)?;
            None
        }
        FailureKind::CutOff => {
            line.cut()?;
            None
        }
    };
    let to = leader(members, Some(&from.name)).await?;
    serve(&to).await?;
    let took = begun.elapsed();
    if kind == FailureKind::Stopped {
        daemons.go_on(&from.name)?;
    }
    let post = match killed {
        Some(post) => post,
        // It finds out that it was replaced, or does not reach etcd for too long, and ends.
        None => daemons.wait_end(&from.name, PATIENCE).await?,
    };
    line.mend()?;
    daemons.start(post, true)?;
    let seconds = took.as_secs_f64();
    let (from, to) = (from.name.clone(), to.name.clone());
    text::note(&format!("{from} was {}; {to} answers after {seconds:.1} s", kind.word()));
    Ok(Takeover { kind, from, to, took })
}

/// The process that serves, other than this one.
async fn leader(members: &[Post], other_than: Option<&str>) -> Result<Post, Failure> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        for post in members.iter().filter(|post| Some(post.name.as_str()) != other_than) {
            if is_serving(&post.dialer, &post.address).await {
                return Ok(post.clone());
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    let seconds = PATIENCE.as_secs();
    Err(Failure::internal(format!("no coordinator has taken over within {seconds} s")))
}

async fn is_serving(dialer: &Dialer, address: &str) -> bool {
    let Ok(channel) = dialer.channel("address", address) else { return false };
    let mut client = HealthClient::new(channel);
    let answer = client.check(HealthCheckRequest::default());
    let answer = tokio::time::timeout(ASK_PATIENCE, answer).await;
    answer.is_ok_and(|answer| {
        answer.is_ok_and(|answer| answer.get_ref().status() == ServingStatus::Serving)
    })
}

/// Waits until a process answers a call.
async fn serve(post: &Post) -> Result<(), Failure> {
    let end = Instant::now() + PATIENCE;
    let mut client = rpc::coordinator(&post.dialer, &post.address)?;
    loop {
        let request = v1::ListRequest { page_size: Some(1), ..v1::ListRequest::default() };
        match client.list(request).await {
            Ok(_) => return Ok(()),
            Err(status) if Instant::now() > end => return Err(rpc::failure(&status)),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Report {
    fn longest(&self) -> Duration {
        self.takeovers.iter().map(|takeover| takeover.took).max().unwrap_or_default()
    }

    fn is_proven(&self) -> bool {
        self.audit.holds() && self.longest() <= TAKEOVER_MAX
    }

    fn text(&self) -> String {
        let mut out =
            String::from("The leader has failed, and another process has answered after:\n");
        for Takeover { kind, from, to, took } in &self.takeovers {
            let (kind, seconds) = (kind.word(), took.as_secs_f64());
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {from} {kind:<8} {to} {seconds:>5.1} s");
        }
        let (longest, most) = (self.longest().as_secs_f64(), TAKEOVER_MAX.as_secs());
        let _ = writeln!(out, "  longest {longest:.1} s, of {most} s that are allowed\n");
        out += "What customers did meanwhile:\n";
        out += &soak::describe(&self.load);
        out += "\n";
        out += &self.audit.text();
        out
    }

    fn json(&self) -> Result<String, Failure> {
        let takeover = |Takeover { kind, from, to, took }: &Takeover| json!({"failure": kind.word(), "from": from, "to": to, "seconds": took.as_secs_f64()});
        text::json(&json!({
            "proven": self.is_proven(),
            "longestSeconds": self.longest().as_secs_f64(),
            "takeovers": self.takeovers.iter().map(takeover).collect::<Vec<_>>(),
            "offered": self.load.offered(),
            "violations": self.audit.violations().map(ToString::to_string).collect::<Vec<_>>(),
            "restless": self.audit.restless,
        }))
    }
}
