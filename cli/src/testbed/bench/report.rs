//! The results of a bench, for people and as JSON.
//!
//! A ceiling is what the machine could do if a co-allocation took nothing but its gRPC calls, or nothing
//! but its fsyncs. How many calls and fsyncs that is depends on the protocol, not on this implementation:
//! one request, one query to every resource manager (Takefusa 2010, section 3.1), Hold and Commit to each
//! resource manager that takes part; and one fsync at each durability point (D1, D3 and the end at the
//! coordinator, D2 and D4 at each resource manager). The calls and fsyncs that were really made are counted
//! and shown as well: requests in flight share both.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::counts::Counts;
use super::holds::Holds;
use super::load::{Outcome, percentile};
use crate::kit::exit::Failure;
use crate::kit::text;

/// All results of a bench.
#[derive(Debug, Clone)]
pub struct Report {
    /// The load.
    pub load: Outcome,
    /// The other figures, which exist only if the bench started the federation itself.
    pub here: Option<LocalFigures>,
}

/// The figures that can only be measured in a federation that the bench started itself.
#[derive(Debug, Clone)]
pub struct LocalFigures {
    /// The federation's name.
    pub federation: String,
    /// Number of its resource managers.
    pub managers: usize,
    /// Bare gRPC calls per second.
    pub calls: f64,
    /// Bare fsyncs per second, over as many files as there are daemons.
    pub syncs: f64,
    /// Counters of the daemons for the load, including warm-up and end.
    pub counted: Counts,
    /// Times of Hold with idle and with busy planners.
    pub holds: Holds,
}

/// The cost of one co-allocation, and the rates that the ceilings would allow.
struct Costs {
    /// Counted figures, per request of the load.
    syncs: f64,
    records: f64,
    messages: f64,
    queries: f64,
    /// Figures that the protocol needs if requests share nothing.
    calls_needed: f64,
    syncs_needed: f64,
    /// Co-allocations per second if there were nothing but these calls, or these fsyncs.
    calls_allow: f64,
    syncs_allow: f64,
}

/// Calls of a co-allocation apart from those to resource managers: the client's call.
const OWN_CALLS: f64 = 1.0;
/// Durability points of a coordinator: the intent, the decision, the end.
const COORDINATOR_SYNCS: f64 = 3.0;
/// Calls to each resource manager that takes part, and durability points there: Hold and Commit.
const PHASES: f64 = 2.0;

impl Report {
    /// Co-allocations per second.
    fn rate(&self) -> f64 {
        self.load.confirmed.len() as f64 / self.load.seconds
    }

    /// Mean number of resource managers of a confirmed co-allocation.
    fn managers_each(&self) -> f64 {
        self.load.managers as f64 / self.load.confirmed.len().max(1) as f64
    }

    fn costs(&self, here: &LocalFigures) -> Costs {
        // Every request counts, whatever its outcome: refused requests are few, and cost less.
        let per = |count: u64| count as f64 / self.load.sent.max(1) as f64;
        let counted = here.counted;
        let each = self.managers_each();
        let calls_needed = OWN_CALLS + here.managers as f64 + PHASES * each;
        let syncs_needed = COORDINATOR_SYNCS + PHASES * each;
        Costs {
            syncs: per(counted.syncs),
            records: per(counted.records),
            messages: per(counted.messages),
            queries: per(counted.queries),
            calls_needed,
            syncs_needed,
            calls_allow: here.calls / calls_needed,
            syncs_allow: here.syncs / syncs_needed,
        }
    }

    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let load = &self.load;
        let mut text = String::new();
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "{:>9.1} co-allocations/s, each durable everywhere", self.rate());
        let _ = writeln!(text, "          {}, {:.0} s", load.pace, load.seconds);
        let times = |list: &[Duration]| {
            let of = |share| ms(percentile(list, share));
            format!("p50 {}, p99 {}, longest {}", of(0.5), of(0.99), of(1.0))
        };
        let each = self.managers_each();
        let _ = writeln!(
            text,
            "{:>9} confirmed: {}; {each:.2} resource managers each",
            load.confirmed.len(),
            times(&load.confirmed)
        );
        let _ = writeln!(text, "{:>9} refused: {}", load.refused.len(), times(&load.refused));
        if load.failed > 0 {
            let _ = writeln!(text, "{:>9} failed: {}", load.failed, load.first_failure);
        }
        if let Some(here) = &self.here {
            text += &self.here_text(here);
        }
        text
    }

    fn here_text(&self, here: &LocalFigures) -> String {
        let costs = self.costs(here);
        let mut text = String::new();
        let _ = writeln!(text, "\nOne request took");
        let Costs { syncs, records, messages, queries, calls_needed, syncs_needed, .. } = costs;
        let calls = OWN_CALLS + messages + queries;
        let _ = writeln!(
            text,
            "{syncs:>9.2} fsyncs for {records:.2} records, all ledgers together; the protocol \
             needs {syncs_needed:.2} when no fsync is shared"
        );
        let _ = writeln!(
            text,
            "{calls:>9.2} gRPC calls: {queries:.2} queries, {messages:.2} of the protocol, 1 from \
             its user; {calls_needed:.2} when no call is shared"
        );
        let _ = writeln!(text, "\nThis machine in the same run");
        for (count, what, allowed) in [
            (here.calls, "bare gRPC calls/s", costs.calls_allow),
            (here.syncs, "bare fsyncs/s", costs.syncs_allow),
        ] {
            let share = 100.0 * self.rate() / allowed;
            let _ = writeln!(
                text,
                "{count:>9.0} {what} would allow {allowed:.0} co-allocations/s; we reach \
                 {share:.0} % of that"
            );
        }
        let Holds { idle, busy, plans } = here.holds;
        let _ = writeln!(text, "\nHold");
        let _ = writeln!(text, "          planners idle  p50 {}, p99 {}", ms(idle.0), ms(idle.1));
        let ratio = busy.1.as_secs_f64() / idle.1.as_secs_f64().max(f64::MIN_POSITIVE);
        let _ = writeln!(
            text,
            "          planners busy  p50 {}, p99 {} ({ratio:.2} times; {} being made all the \
             time)",
            ms(busy.0),
            ms(busy.1),
            text::count(plans, "plan")
        );
        text
    }

    /// The report for programs; times are in milliseconds.
    ///
    /// # Errors
    /// Never: every value is representable.
    pub fn json(&self) -> Result<String, Failure> {
        let load = &self.load;
        let times = |list: &[Duration]| {
            let of = |share| percentile(list, share).as_secs_f64() * 1e3;
            json!({"count": list.len(), "p50_ms": of(0.5), "p99_ms": of(0.99), "max_ms": of(1.0)})
        };
        let mut value = json!({
            "co_allocations_per_s": self.rate(),
            "pace": load.pace.to_string(),
            "seconds": load.seconds,
            "confirmed": times(&load.confirmed),
            "refused": times(&load.refused),
            "failed": load.failed,
            "resource_managers": load.managers,
        });
        if let Some(here) = &self.here {
            value["here"] = self.here_json(here);
        }
        text::json(&value)
    }

    fn here_json(&self, here: &LocalFigures) -> Value {
        let costs = self.costs(here);
        let pair = |(p50, p99): (Duration, Duration)| json!({"p50_ms": p50.as_secs_f64() * 1e3, "p99_ms": p99.as_secs_f64() * 1e3});
        json!({
            "federation": here.federation,
            "bare_calls_per_s": here.calls,
            "bare_fsyncs_per_s": here.syncs,
            "resource_managers": here.managers,
            "fsyncs_per_request": costs.syncs,
            "records_per_request": costs.records,
            "messages_per_request": costs.messages,
            "queries_per_request": costs.queries,
            "calls_needed_per_co_allocation": costs.calls_needed,
            "fsyncs_needed_per_co_allocation": costs.syncs_needed,
            "calls_allow_per_s": costs.calls_allow,
            "fsyncs_allow_per_s": costs.syncs_allow,
            "hold_planners_idle": pair(here.holds.idle),
            "hold_planners_busy": pair(here.holds.busy),
            "plans_in_flight": here.holds.plans,
        })
    }
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::bench::load::Pace;

    #[test]
    fn the_share_of_a_ceiling_is_of_what_one_request_takes() {
        let load = Outcome {
            pace: Pace::ClosedLoop { in_flight: 4 },
            seconds: 10.0,
            confirmed: vec![Duration::from_millis(20); 1_000],
            refused: Vec::new(),
            failed: 0,
            first_failure: String::new(),
            managers: 3_000,
            sent: 1_000,
        };
        let counted = Counts { syncs: 4_000, records: 9_000, messages: 6_000, queries: 13_000 };
        let here = LocalFigures {
            federation: "elgl".to_owned(),
            managers: 13,
            calls: 4_000.0,
            syncs: 1_800.0,
            counted,
            holds: Holds::default(),
        };
        let report = Report { load, here: Some(here) };
        let text = report.text();
        assert!(text.contains("100.0 co-allocations/s"), "{text}");
        assert!(text.contains("20.00 gRPC calls: 13.00 queries, 6.00 of the protocol"), "{text}");
        // With 3 resource managers each, 1 + 13 + 2 x 3 calls and 3 + 2 x 3 fsyncs are needed.
        assert!(text.contains("would allow 200 co-allocations/s; we reach 50 % of that"), "{text}");
        assert_eq!(text.matches("would allow 200 co-allocations/s").count(), 2, "{text}");
        assert!(report.json().unwrap().contains("\"fsyncs_per_request\": 4.0"));
    }
}
