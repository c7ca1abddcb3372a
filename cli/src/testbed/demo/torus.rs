//! `coalloc demo torus`: many schedulers over one network, as real processes, each with its own picture
//! that may be out of date (Christodoulopoulos 2008, section VII).
//!
//! A new federation is started for every update delay and every planner: a network resource manager for
//! each row of the torus, a compute resource manager for each cluster, and a distributed coordinator at
//! every point with users. [`workload`] draws the tasks. Each task is sent in real time, when it arrives,
//! to the coordinator at its source. [`report`] compares the runs. After each run everything is read back
//! and audited as in `coalloc demo`.
//!
//! The time that data take between schedulers and resource managers is left out: on one machine it is
//! negligible, and the added delay stands for it.

pub mod report;
pub mod workload;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use coalloc_common::{BitsPerSecond, Span, Time};
use coalloc_net::convert::{span_to_wire, time_to_wire};
use coalloc_plan::{Named as _, TaskPlannerName};
use coalloc_proto::file::{Document, parse};
use coalloc_proto::v1;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::readback;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::request::planner_parser;
use crate::kit::rpc::{self, Coordinator};
use crate::kit::text;
use crate::testbed::audit::rules::audit;
use crate::testbed::audit::testimony;
use crate::testbed::local::layout::{Setup, Shape};
use crate::testbed::local::{Folder, start};
use crate::user::daemons::{Daemons, PAUSE, first_death, stop};
use crate::user::offline::Federation;
use crate::user::serve::Kind;
use crate::user::task::submit::Reservation;
use report::{Report, ReportedTask, Run, UpdateTraffic};
use workload::{Arrival, Workload};

/// The paper's network.
const TORUS: &str = include_str!("../../../../deploy/federations/torus.yaml");
/// Slots of the paths' and clusters' availability vectors: a call between processes takes some milliseconds.
const LINK_SLOT: Span = Span::from_millis(10);
const CLUSTER_SLOT: Span = Span::from_millis(100);
/// How far plans may reach.
const HORIZON: Span = Span::from_secs(60);
/// The first part of a run, in percent, whose tasks do not count, because clusters fill first.
const WARM_UP_PERCENT: i64 = 25;
/// How long answers may take after the last task.
const ANSWERS_PATIENCE: Duration = Duration::from_secs(70);

/// Many schedulers with pictures that are out of date, as real processes: mc-t against ect and mc-b
///
/// The network of Christodoulopoulos 2008: a 5x5 torus with a scheduler at every node and four clusters, 34
/// processes. Tasks arrive at random (data that take a second to send and runs of ten seconds, on average)
/// and are planned with each scheduler's own picture, while updates are delayed. One table shows delay,
/// blocking and conflicts by planner and by how late updates are (ect looks at the first link only, as the
/// paper's does). Each run begins with new daemons and ends with the proof that nothing is overbooked.
#[derive(Debug, Clone, Args)]
pub struct TorusArgs {
    /// How long tasks arrive in each run, in seconds; the first quarter does not count
    #[arg(long, value_name = "S", default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..=3_600))]
    seconds: u32,
    /// Tasks per second, of all schedulers together
    #[arg(long, value_name = "L", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=200))]
    rate: u32,
    /// How late updates are, in milliseconds: one run each
    #[arg(long, value_name = "MS", value_delimiter = ',', default_values_t = [0, 1_000, 5_000],
          value_parser = clap::value_parser!(u32).range(0..=60_000))]
    delays: Vec<u32>,
    /// The planners: one run each
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values_t = ["mc-t".to_owned(), "ect-first-link".into(), "mc-b".into()],
          value_parser = planner_name())]
    planners: Vec<String>,
    /// How plans are reserved
    #[arg(long, value_enum, default_value = "one-way")]
    reservation: Reservation,
    /// How often a task may be planned
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=16))]
    tries: u32,
    /// Seed of the tasks, the same for every run
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Another federation, a FederationFile as YAML or JSON; every point of it gets a scheduler
    #[arg(long, value_name = "FILE")]
    federation: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Parses a planner's name, and returns it as text.
pub(crate) fn planner_name() -> impl clap::builder::TypedValueParser<Value = String> {
    use clap::builder::TypedValueParser as _;
    planner_parser().map(|planner: TaskPlannerName| planner.name().to_owned())
}

/// Runs `coalloc demo torus`.
///
/// # Errors
/// When a federation does not come up, a daemon does not answer, or the demo is interrupted.
pub async fn run(args: &TorusArgs) -> Result<Answer, Failure> {
    let file = match &args.federation {
        Some(path) => Federation::read(path)?.file,
        None => torus()?,
    };
    let mut runs = Vec::new();
    for delay in &args.delays {
        for planner in &args.planners {
            let setting = Setting { args, file: &file, delay_ms: *delay, planner };
            runs.push(setting.run().await?);
        }
    }
    let report = Report {
        federation: file.name.clone(),
        seconds: args.seconds,
        rate: args.rate,
        tries: args.tries,
        one_way: args.reservation == Reservation::OneWay,
        runs,
    };
    let text = if args.json { report.json()? } else { report.text() };
    let exit = if report.proven() { Exit::Done } else { Exit::Failed };
    Ok(Answer { text, exit })
}

/// The paper's network, with sites and resource managers.
///
/// # Errors
/// When the file that was compiled in is wrong; a test makes sure that it is not.
pub fn torus() -> Result<v1::FederationFile, Failure> {
    let document: Document<v1::FederationFile> = parse(Path::new("torus.yaml"), TORUS.to_owned())?;
    Ok(Federation::of(document)?.file)
}

/// The points with users: every site and every exchange point, in order.
pub(crate) fn points(file: &v1::FederationFile) -> Vec<String> {
    let sites = file.computes.iter().flat_map(|compute| &compute.sites);
    let names = sites.map(|site| site.name.clone()).chain(file.exchange_points.iter().cloned());
    let mut points: Vec<String> = names.collect();
    points.sort();
    points
}

/// One run of the demo.
struct Setting<'a> {
    args: &'a TorusArgs,
    file: &'a v1::FederationFile,
    delay_ms: u32,
    planner: &'a str,
}

impl Setting<'_> {
    async fn run(&self) -> Result<Run, Failure> {
        let folder = Folder::new(None)?;
        let mut daemons = Daemons::default();
        let outcome = tokio::select! {
            outcome = self.scenario(folder.path(), &mut daemons) => outcome,
            () = coalloc_net::server::stop_signal() => {
                Err(Failure::new(Exit::Interrupted, "interrupted; the daemons are stopped"))
            }
        };
        stop(&mut daemons);
        outcome.map_err(|failure| match failure.exit {
            Exit::Interrupted => failure,
            _ => {
                let kept = folder.keep();
                let message = format!("{failure}\nlogs and ledgers are in {}", kept.display());
                Failure { message, ..failure }
            }
        })
    }

    /// How every scheduler plans tasks.
    fn settings(&self) -> v1::TaskSettings {
        let updates = v1::UpdatePolicy {
            strategy: v1::UpdateStrategy::EveryChange.into(),
            delay: Some(span_to_wire(Span::from_millis(i64::from(self.delay_ms)))),
            ..v1::UpdatePolicy::default()
        };
        let planning = v1::TaskOptions {
            planner: Some(self.planner.to_owned()),
            link_slot: Some(span_to_wire(LINK_SLOT)),
            cluster_slot: Some(span_to_wire(CLUSTER_SLOT)),
            horizon: Some(span_to_wire(HORIZON)),
            ..v1::TaskOptions::default()
        };
        v1::TaskSettings {
            mode: v1::TaskMode::Distributed.into(),
            planning: Some(planning),
            reservation: v1::TaskReservation::from(self.args.reservation).into(),
            updates: Some(updates),
            lead: None,
        }
    }

    async fn scenario(&self, folder: &Path, daemons: &mut Daemons) -> Result<Run, Failure> {
        let points = points(self.file);
        let count = u32::try_from(points.len()).unwrap_or(u32::MAX);
        let setup = Setup {
            shape: Shape::Rivals(count),
            tasks: Some(self.settings()),
            ..Setup::new(folder, self.file)
        };
        let posts = start(&setup, daemons, true).await?;
        let schedulers = posts.iter().filter(|post| post.kind == Kind::Grc);
        let mut clients: Vec<Coordinator> = schedulers
            .map(|post| rpc::coordinator(&post.dialer, &post.address))
            .collect::<Result<_, _>>()?;
        for client in &mut clients {
            wait_picture(client).await?;
        }
        let Self { args, delay_ms, planner, .. } = self;
        text::note(&format!(
            "{planner}, updates {delay_ms} ms late: tasks arrive for {} s",
            args.seconds
        ));
        let arrivals = self.workload().arrivals(&points);
        let told = tokio::select! {
            told = self.send(&clients, &points, &arrivals) => told?,
            failure = first_death(daemons) => return Err(failure),
        };
        let traffic = traffic(&mut clients[0]).await?;
        let mut reservations = definite(&mut clients).await?;
        let heard = readback::hear(&mut clients, &posts, &[], &mut reservations).await?;
        let checks = audit(&heard.testimonies, &reservations);
        let managers = posts.iter().map(|post| (post.name.clone(), post.kind)).collect();
        let warm_up = i64::from(args.seconds) * 1_000_000 * WARM_UP_PERCENT / 100;
        let warm = told.partition_point(|told| told.at.as_us() < warm_up);
        Ok(Run::of(
            (*planner).to_owned(),
            self.delay_ms,
            &told[warm..],
            &managers,
            traffic,
            &checks,
        ))
    }

    fn workload(&self) -> Workload {
        Workload {
            seed: self.args.seed,
            rate: f64::from(self.args.rate),
            length: Span::from_secs(i64::from(self.args.seconds)),
        }
    }

    /// Sends every task when it arrives, and returns what was reported for each.
    async fn send(
        &self,
        clients: &[Coordinator],
        points: &[String],
        arrivals: &[Arrival],
    ) -> Result<Vec<ReportedTask>, Failure> {
        let at: BTreeMap<&str, usize> = points.iter().map(String::as_str).zip(0..).collect();
        let begun = Instant::now();
        let mut calls = JoinSet::new();
        for (index, arrival) in arrivals.iter().enumerate() {
            tokio::time::sleep_until(begun + arrival.at.to_std()).await;
            // Every source is one of the points.
            let Some(client) = at.get(arrival.source.as_str()).and_then(|at| clients.get(*at))
            else {
                continue;
            };
            let (mut client, arrival) = (client.clone(), arrival.clone());
            let request = v1::SubmitTaskRequest {
                request_id: format!("torus-{}-{}", self.args.seed, index + 1),
                task: Some(task(&arrival)),
                options: None,
                reservation: 0,
                tries: Some(self.args.tries),
            };
            calls.spawn(async move {
                let submitted = coalloc_net::clock::now().wall;
                let answer = client.submit_task(request).await;
                let answer = answer.map_err(|status| rpc::failure(&status))?;
                let empty = || Failure::internal("an answer without content");
                let receipt = answer.into_inner().task.ok_or_else(empty)?;
                Ok::<_, Failure>(ReportedTask { at: arrival.at, submitted, receipt })
            });
        }
        let mut told = Vec::with_capacity(arrivals.len());
        let all = async {
            while let Some(ended) = calls.join_next().await {
                let ended = ended.map_err(|error| {
                    Failure::internal(format!("a sending task failed: {error}"))
                })?;
                told.push(ended?);
            }
            Ok::<_, Failure>(())
        };
        let patient = tokio::time::timeout(ANSWERS_PATIENCE, all).await;
        let late = |_| Failure::internal("some tasks were not answered within 70 s");
        patient.map_err(late)??;
        told.sort_by_key(|told| told.at);
        Ok(told)
    }
}

/// A task as it is sent: to start as soon as possible, at the full rate of a link.
fn task(arrival: &Arrival) -> v1::TaskRequest {
    v1::TaskRequest {
        source: arrival.source.clone(),
        data_bytes: arrival.data_bytes,
        work_mi: arrival.work_mi,
        bandwidth_bps: workload::RATE.0,
        user: "torus".to_owned(),
        ..v1::TaskRequest::default()
    }
}

/// Asks for a scheduler's picture; the amounts in the request do not matter.
async fn picture(client: &mut Coordinator) -> Result<v1::ReadPictureResponse, Failure> {
    let now: Time = coalloc_net::clock::now().wall;
    let BitsPerSecond(bandwidth_bps) = workload::RATE;
    let request = v1::ReadPictureRequest {
        bandwidth_bps,
        cpus: 1,
        from: Some(time_to_wire(now)),
        slot: Some(span_to_wire(CLUSTER_SLOT)),
        slots: 1,
    };
    let answer = client.read_picture(request).await;
    Ok(answer.map_err(|status| rpc::failure(&status))?.into_inner())
}

/// Waits until a scheduler has heard from every resource manager: the first snapshots are delayed as all
/// updates are.
pub(crate) async fn wait_picture(client: &mut Coordinator) -> Result<(), Failure> {
    let end = Instant::now() + ANSWERS_PATIENCE;
    loop {
        let parts = picture(client).await?.parts;
        let missing: Vec<&str> = (parts.iter())
            .filter(|part| part.age.is_none())
            .map(|part| part.resource_manager.as_str())
            .collect();
        if missing.is_empty() && !parts.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            let text = format!("no profiles of {} arrived", missing.join(", "));
            return Err(Failure::internal(text));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Every reservation of every scheduler, once all are definite.
///
/// If the time runs out before that, this returns anyway, and the audit reports it.
async fn definite(clients: &mut [Coordinator]) -> Result<Vec<v1::Reservation>, Failure> {
    let end = Instant::now() + ANSWERS_PATIENCE;
    loop {
        let mut reservations = Vec::new();
        for client in clients.iter_mut() {
            let all = testimony::reservations(client).await;
            reservations.extend(all.map_err(|status| rpc::failure(&status))?);
        }
        if reservations.iter().all(|one| one.definite) || Instant::now() > end {
            return Ok(reservations);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The number of updates that a scheduler received, and their bytes.
async fn traffic(client: &mut Coordinator) -> Result<UpdateTraffic, Failure> {
    let parts = picture(client).await?.parts;
    let updates = parts.iter().map(|part| part.updates).sum();
    Ok(UpdateTraffic { updates, bytes: parts.iter().map(|part| part.bytes).sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_torus_is_the_papers() {
        let file = torus().unwrap();
        let points = points(&file);
        assert_eq!(points.len(), 25);
        let paths: Vec<&v1::Path> = file.networks.iter().flat_map(|nrm| &nrm.paths).collect();
        assert_eq!(paths.len(), 50);
        // Every node has four neighbours, 400 km away at 5 us/km.
        for point in &points {
            let ends = paths.iter().filter(|path| path.a == *point || path.b == *point);
            assert_eq!(ends.count(), 4, "{point}");
        }
        let latency = |path: &&&v1::Path| path.latency.as_ref().map(|span| span.nanos);
        assert!(paths.iter().all(|path| latency(&path) == Some(400 * 5_000)));
        assert!(paths.iter().all(|path| path.full_duplex && path.capacity_bps == 1_000_000_000));
        let sites: Vec<&v1::Site> = file.computes.iter().flat_map(|crm| &crm.sites).collect();
        assert_eq!(sites.len(), 4);
        assert!(sites.iter().all(|site| site.cpus == 25 && site.mips == Some(25_000)));
    }
}
