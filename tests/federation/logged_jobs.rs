//! Live and simulated are the same: the jobs of a log, allocated one after the other by real daemons, start when the
//! model `jobs` of `coalloc sim` starts them, after as many attempts.
//!
//! The simulator does not tell which servers a job has. So a reference says that: a timetable of servers that is fed
//! with the same jobs. It must start every job when the simulator does.
//!
//! The daemons know nothing of a past: every job is an advance request, and its submission is its earliest start.
//! Most of the time goes to the checks that debug builds make after each record, of everything that is booked.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use coalloc_cli::experiments::swf::{NoTrace, TraceFolders};
use coalloc_common::servers::{Choice, FirstStart, PeriodTree, ServerIndex, ServerTimetable};
use coalloc_common::{Span, Time, Window};
use coalloc_proto::v1;
use coalloc_proto::{Duration, Timestamp};
use coalloc_sim::jobs::workload::{Job, SelectedJobs};
use coalloc_sim::jobs::{JobsSettings, SwfTrace, place};
use serde_json::json;

use crate::harness::{Federation, seconds_from_now};
use crate::servers::{holders, names, starts, try_allocate};

/// The first jobs that are allocated, at most.
const JOBS: usize = 500;
const STEP_S: i64 = 900;
const HORIZON_DAYS: i64 = 60;
/// The resource manager books this far ahead: the horizon of the last job, and the submissions of all of them.
const BOOKABLE_DAYS: i64 = 120;
const DAY_S: i64 = 86_400;

/// The jobs of a log on so many servers.
struct LoggedJobs {
    servers: u32,
    jobs: Vec<Job>,
    settings: JobsSettings,
}

/// What a job gets; times are those of the log.
#[derive(Debug, PartialEq, Eq)]
struct Allocated {
    start: i64,
    /// The starts that the paper tries until one fits.
    attempts: u64,
    /// The names of its servers, in the order of the configuration.
    servers: Vec<String>,
}

impl LoggedJobs {
    fn of(trace: &SwfTrace) -> Self {
        let settings = json!({
            "trace": "", "planner": "online", "index": "tree", "choice": "paper", "jobs": JOBS,
            "step_s": STEP_S, "horizon_days": HORIZON_DAYS,
        });
        let settings: JobsSettings = serde_json::from_value(settings).unwrap();
        let selected = SelectedJobs::of(trace, &settings.selection()).unwrap();
        let servers = u32::try_from(selected.servers).unwrap();
        Self { servers, jobs: selected.jobs(&settings, 1), settings }
    }

    /// The last start that the simulator tries for a job: all of it is within the horizon, and there are only so
    /// many attempts.
    fn latest_start(&self, job: &Job) -> i64 {
        let attempts = i64::try_from(self.settings.attempts()).unwrap();
        let of_horizon = job.submitted + self.settings.horizon_s() - job.run;
        of_horizon.min(job.earliest + (attempts - 1) * STEP_S)
    }

    /// The start of each job in the simulator, and the attempts.
    fn simulated(&self) -> Vec<Option<(i64, u64)>> {
        let placements = place(&self.settings, &self.jobs, self.servers.into()).unwrap();
        placements.iter().map(|placed| placed.start.zip(placed.attempts)).collect()
    }

    /// What each job gets in the reference.
    fn expected(&self) -> Vec<Option<Allocated>> {
        let mut timetable = ServerTimetable::new(self.servers, PeriodTree::new());
        let instant = |s: i64| Time::from_us(s * 1_000_000);
        let allocate = |job: &Job| {
            let (count, length) = (usize::try_from(job.servers).unwrap(), Span::from_secs(job.run));
            let last = instant(self.latest_start(job) + job.run);
            let within = Window::new(instant(job.earliest), last).unwrap();
            let FirstStart { start, attempts } =
                timetable.first_start(count, length, within, Span::from_secs(STEP_S))?;
            let window = Window::starting(start, length).unwrap();
            let mut servers = timetable.find(window, count, Choice::Paper).unwrap();
            servers.sort_unstable();
            timetable.take_all(&servers, window).unwrap();
            let name = |server: &ServerIndex| format!("S/{}", server.0 + 1);
            let servers = servers.iter().map(name).collect();
            Some(Allocated { start: start.as_us() / 1_000_000, attempts, servers })
        };
        self.jobs.iter().map(allocate).collect()
    }

    /// The request for a job; second 0 of the log is at `origin`.
    fn request(&self, at: usize, origin: i64) -> v1::AllocateRequest {
        let job = &self.jobs[at];
        let instant = |s: i64| Some(Timestamp { seconds: origin + s, nanos: 0 });
        let span = |seconds: i64| Some(Duration { seconds, nanos: 0 });
        v1::AllocateRequest {
            request_id: format!("job-{at}"),
            user: "UserA".to_owned(),
            servers: u32::try_from(job.servers).unwrap(),
            duration: span(job.run),
            earliest_start: instant(job.earliest),
            latest_start: instant(self.latest_start(job)),
            step: span(STEP_S),
            choice: v1::ServerChoice::Paper.into(),
            ..v1::AllocateRequest::default()
        }
    }

    /// How many starts the coordinator looks at for a job: it asks for 16 of them, then 64, then 256 in each call,
    /// until one fits or none is left.
    fn looked_at(&self, job: &Job, attempts: u64) -> u64 {
        let rungs = 1 + (self.latest_start(job) - job.earliest).unsigned_abs() / STEP_S as u64;
        let calls = [16, 64].into_iter().chain(std::iter::repeat(256));
        let sums = calls.scan(0, |sum, call| {
            *sum += call;
            Some(*sum)
        });
        sums.take_while(|sum| *sum < rungs).find(|sum| *sum >= attempts).unwrap_or(rungs)
    }
}

/// A coordinator, and a resource manager with so many servers of one CPU.
async fn start(servers: u32) -> Federation {
    let mut federation = Federation::prepare();
    federation.addresses.retain(|name, _| ["crm-A", "grc"].contains(&name.as_str()));
    let (crm, grc) = (&federation.addresses["crm-A"], &federation.addresses["grc"]);
    let text = format!(
        "daemon: {{insecure_plaintext: true, listen: \"{crm}\", ledger: crm-A.ledger}}\n\
         coordinators: [{{name: grc, address: \"{grc}\"}}]\n\
         policy: {{horizon: {}s}}\n\
         inventory:\n  name: crm-A\n  domain: D\n  \
           sites: [{{name: S, servers: {{cpus_each: 1, groups: [{{count: {servers}}}]}}}}]\n",
        BOOKABLE_DAYS * DAY_S
    );
    federation.write("crm-A.yaml", &text);
    let text = format!(
        "daemon: {{insecure_plaintext: true, listen: \"{grc}\", ledger: grc.ledger}}\nname: grc\n\
         resource_managers: [{{name: crm-A, address: \"{crm}\"}}]\n"
    );
    federation.write("grc.yaml", &text);
    federation.spawn("crm-A");
    federation.spawn("grc");
    federation.complete().await;
    federation
}

/// Allocates the jobs through daemons, and compares each with the simulator and the reference. Returns how many jobs
/// there are, and how many of them needed several calls for their start.
async fn compare(log: &LoggedJobs) -> (usize, usize) {
    let expected = log.expected();
    let starts_of = |all: &[Option<Allocated>]| -> Vec<Option<(i64, u64)>> {
        all.iter().map(|one| one.as_ref().map(|one| (one.start, one.attempts))).collect()
    };
    assert_eq!(starts_of(&expected), log.simulated(), "the reference is not the simulator");

    let federation = start(log.servers).await;
    let origin = seconds_from_now(3_600).seconds;
    let (begun, mut booked) = (Instant::now(), Vec::new());
    let (mut waited, mut several_calls) = (0, 0);
    for (at, (job, expected)) in log.jobs.iter().zip(&expected).enumerate() {
        let answer = try_allocate(&federation, log.request(at, origin)).await;
        let (reservation, looked_at) = answer.unwrap_or_else(|error| panic!("{job:?}: {error:?}"));
        let live = (reservation.state().is_booked()).then(|| {
            let start = starts(&reservation) - origin;
            Allocated {
                start,
                attempts: (start - job.earliest).unsigned_abs() / STEP_S as u64 + 1,
                servers: names(&reservation).into_iter().map(str::to_owned).collect(),
            }
        });
        assert_eq!(&live, expected, "job {at}: {job:?}: {reservation:?}");
        let attempts = live.as_ref().map_or(u64::MAX, |live| live.attempts);
        assert_eq!(looked_at, log.looked_at(job, attempts), "job {at}: {job:?}: {attempts}");
        if let Some(live) = live {
            assert_eq!(reservation.attempts, 1, "job {at}: its first hold was refused");
            waited += usize::from(live.attempts > 1);
            booked.push((reservation.transaction, live.servers));
        }
        several_calls += usize::from(looked_at > 16);
    }
    println!(
        "{} jobs on {} servers in {:?}: {waited} of them waited, {several_calls} for more than 16 starts",
        log.jobs.len(),
        log.servers,
        begun.elapsed()
    );
    let held = holders(&federation, &["crm-A"]).await;
    assert_eq!(held.len(), booked.len(), "what is booked is not what was confirmed");
    for (transaction, servers) in booked {
        assert_eq!(held[&transaction], servers.into_iter().collect::<BTreeSet<_>>());
    }
    (log.jobs.len(), several_calls)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_our_tiny_log_get_the_same_starts_and_servers_live_and_simulated() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders = TraceFolders::new(Some(&root.join("docs/examples/jobs")), None);
    let tiny = LoggedJobs::of(&folders.find("tiny.swf").unwrap().trace);
    let (jobs, several_calls) = compare(&tiny).await;
    assert!(jobs == 56 && several_calls > 0, "{jobs} jobs, {several_calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_500_jobs_of_kth_get_the_same_starts_and_servers_live_and_simulated() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    // It looks there, else in the folder of COALLOC_TRACES.
    let folders = TraceFolders::new(Some(&root.join("../shared/data/traces")), None);
    let kth = match folders.find("KTH-SP2-1996-2-raw.swf.gz") {
        Ok(file) => LoggedJobs::of(&file.trace),
        Err(NoTrace::Missing(problem)) => {
            println!("skipped the log of KTH; our tiny log has a test of its own: {problem}");
            return;
        }
        Err(NoTrace::Bad(problem)) => panic!("{problem}"),
    };
    let (jobs, several_calls) = compare(&kth).await;
    assert!(jobs == JOBS && several_calls > 0, "{jobs} jobs, {several_calls}");
}
