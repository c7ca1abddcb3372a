//! Compares solvers, for people and as JSON.
//!
//! Costs and starts are compared over the requests that every solver confirmed. A mean over the requests
//! that each solver happened to confirm would favour a solver that confirms the cheap ones.

use coalloc_plan::{Named as _, Solver};
use coalloc_proto::v1;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

use crate::kit::exit::Failure;
use crate::kit::text;
use crate::testbed::bench::counts::Counts;
use crate::testbed::bench::load::percentile;

/// The outcome of the requests with one solver.
#[derive(Debug, Clone)]
pub struct SolverRun {
    /// The solver.
    pub solver: Solver,
    /// The answers, in the order of the requests.
    pub reservations: Vec<v1::Reservation>,
    /// Time to each answer, in the same order.
    pub times: Vec<Duration>,
    /// The counters of the daemons for this run.
    pub counted: Counts,
}

/// All results of a comparison.
#[derive(Debug, Clone)]
pub struct Report {
    /// The federation's name.
    pub federation: String,
    /// Number of requests sent to each solver.
    pub requests: u32,
    /// Rate of each requested link, in Gbit/s.
    pub gbps: u64,
    /// Seed of the requests.
    pub seed: u64,
    /// Requests in flight.
    pub concurrency: u32,
    /// The run of each solver, in the order in which they ran.
    pub ran: Vec<SolverRun>,
}

/// One solver's line.
#[derive(Debug, Clone, PartialEq)]
struct SolverRow {
    solver: &'static str,
    confirmed: usize,
    /// Mean cost of the requests that all solvers confirmed, in points.
    cost: f64,
    /// Mean delay of the same requests, in minutes after the earliest start.
    late_min: f64,
    /// Total number of transactions.
    attempts: u32,
    /// Transactions that a resource manager refused.
    refused: usize,
    /// Hold, Commit, Abort and Release calls per request.
    messages: f64,
    p50: Duration,
    p99: Duration,
}

impl Report {
    /// The requests that every solver has confirmed, by their indexes, in order.
    fn common(&self) -> Vec<usize> {
        let confirmed = |at: usize| {
            self.ran.iter().all(|ran| ran.reservations.get(at).is_some_and(is_confirmed))
        };
        (0..self.requests as usize).filter(|at| confirmed(*at)).collect()
    }

    fn lines(&self) -> Vec<SolverRow> {
        let common = self.common();
        self.ran.iter().map(|ran| line(ran, &common)).collect()
    }

    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let requests = text::count(self.requests as usize, "request");
        let mut out = format!(
            "{requests} to {}, links of {} Gbit/s, seed {}, {} in flight; all solvers confirmed the same {}\n\n",
            self.federation,
            self.gbps,
            self.seed,
            self.concurrency,
            self.common().len()
        );
        let head = ["solver", "confirmed", "cost", "later by", "attempts", "refused", "messages"];
        let [solver, rest @ ..] = head;
        // Writing to a String cannot fail, here and below.
        let _ = write!(out, "{solver:<16}");
        rest.iter().for_each(|name| out += &format!("{name:>10}"));
        let _ = writeln!(out, "{:>11}{:>11}", "p50", "p99");
        for line in self.lines() {
            let SolverRow {
                solver, confirmed, cost, late_min, attempts, refused, messages, ..
            } = line;
            let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
            let late = format!("{late_min:.1} min");
            let _ = writeln!(
                out,
                "{solver:<16}{confirmed:>10}{cost:>10.2}{late:>10}{attempts:>10}{refused:>10}\
                 {messages:>10.2}{:>11}{:>11}",
                ms(line.p50),
                ms(line.p99)
            );
        }
        out += "\ncost: points of a request, by Eq. (3); later by: how long after its earliest \
                start a request starts;\nboth are means over the requests that all solvers \
                confirmed. attempts: transactions in total;\nrefused: attempts that a resource \
                manager refused; messages: Hold, Commit and Abort for one request;\np50, p99: \
                time from a request to its answer\n";
        out
    }

    /// The report for programs; times are in milliseconds.
    ///
    /// # Errors
    /// Never: every value is representable.
    pub fn json(&self) -> Result<String, Failure> {
        let solver = |line: SolverRow| -> Value {
            json!({
                "solver": line.solver,
                "confirmed": line.confirmed,
                "cost_points_common": line.cost,
                "start_after_earliest_minutes_common": line.late_min,
                "attempts": line.attempts,
                "attempts_refused": line.refused,
                "messages_per_request": line.messages,
                "p50_ms": line.p50.as_secs_f64() * 1e3,
                "p99_ms": line.p99.as_secs_f64() * 1e3,
            })
        };
        text::json(&json!({
            "federation": self.federation,
            "requests": self.requests,
            "link_gbps": self.gbps,
            "seed": self.seed,
            "in_flight": self.concurrency,
            "confirmed_by_all": self.common().len(),
            "solvers": self.lines().into_iter().map(solver).collect::<Vec<_>>(),
        }))
    }
}

fn line(ran: &SolverRun, common: &[usize]) -> SolverRow {
    let plans = common.iter().filter_map(|at| ran.reservations.get(*at)?.plan.as_ref());
    let mean = |sum: f64, count: usize| sum / count.max(1) as f64;
    let cost = plans.map(|plan| plan.cost_millipoints as f64 / 1e3).sum();
    let late = common.iter().filter_map(|at| late_min(ran.reservations.get(*at)?)).sum();
    let mut times = ran.times.clone();
    times.sort_unstable();
    SolverRow {
        solver: ran.solver.name(),
        confirmed: ran.reservations.iter().filter(|one| is_confirmed(one)).count(),
        cost: mean(cost, common.len()),
        late_min: mean(late, common.len()),
        attempts: ran.reservations.iter().map(|one| one.attempts).sum(),
        refused: ran.reservations.iter().map(|one| one.attempt_refusals.len()).sum(),
        messages: mean(ran.counted.messages as f64, ran.reservations.len()),
        p50: percentile(&times, 0.5),
        p99: percentile(&times, 0.99),
    }
}

fn is_confirmed(reservation: &v1::Reservation) -> bool {
    reservation.state().is_booked()
}

/// How many minutes a reservation begins after its earliest start.
fn late_min(reservation: &v1::Reservation) -> Option<f64> {
    let start = reservation.plan.as_ref()?.window.as_ref()?.start.as_ref()?;
    let earliest = reservation.request.as_ref()?.earliest_start.as_ref()?;
    Some(text::time(Some(start))?.since(text::time(Some(earliest))?).as_us() as f64 / 60e6)
}

#[cfg(test)]
mod tests {
    use coalloc_plan::Solver;
    use coalloc_proto::Timestamp;

    use super::*;
    use crate::testbed::bench::counts::Counts;

    fn reservation(confirmed: bool, points: u64, late_s: i64) -> v1::Reservation {
        use v1::ReservationState as S;
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let window = Some(v1::Window { start: at(1_000 + late_s), end: at(9_000) });
        let plan = v1::Plan { cost_millipoints: points * 1_000, window, ..Default::default() };
        let request = v1::CoAllocationRequest { earliest_start: at(1_000), ..Default::default() };
        v1::Reservation {
            state: if confirmed { S::Confirmed } else { S::Failed }.into(),
            plan: Some(plan),
            request: Some(request),
            attempts: 1,
            ..Default::default()
        }
    }

    #[test]
    fn costs_are_compared_over_what_all_have_confirmed() {
        let ran = |solver, reservations: Vec<v1::Reservation>| SolverRun {
            solver,
            times: vec![Duration::from_millis(20); reservations.len()],
            reservations,
            counted: Counts { messages: 12, ..Counts::default() },
        };
        let mut refused = reservation(false, 7, 0);
        refused.attempt_refusals = vec![v1::Refusal::default(); 2];
        refused.attempts = 2;
        let exact = vec![reservation(true, 10, 0), reservation(true, 30, 60), refused.clone()];
        let slid = vec![reservation(true, 14, 120), refused, reservation(true, 1, 0)];
        let report = Report {
            federation: "elgl".to_owned(),
            requests: 3,
            gbps: 1,
            seed: 1,
            concurrency: 1,
            ran: vec![ran(Solver::Exact, exact), ran(Solver::SlidingWindow, slid)],
        };
        assert_eq!(report.common(), [0]);
        let lines = report.lines();
        assert_eq!((lines[0].cost, lines[0].late_min, lines[0].confirmed), (10.0, 0.0, 2));
        assert_eq!((lines[1].cost, lines[1].late_min, lines[1].confirmed), (14.0, 2.0, 2));
        assert_eq!((lines[1].attempts, lines[1].refused, lines[1].messages), (4, 2, 4.0));
        let text = report.text();
        assert!(text.contains("all solvers confirmed the same 1\n"), "{text}");
        assert!(text.contains("sliding-window           2     14.00   2.0 min"), "{text}");
        assert!(report.json().unwrap().contains("\"attempts_refused\": 2"));
    }
}
