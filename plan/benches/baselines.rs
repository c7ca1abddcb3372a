//! Compares the baselines with `exact` on the paper's federation, frame by frame: how often each
//! finds a plan, how far its cost is above the least, and how long it takes.
//!
//! Seeded instances of ELGL (`fixtures::random_loads`), the paper's request types, links of 1 to 4
//! Gbit/s. Costs are compared where every solver found a plan. A search that has opened 100,000
//! nodes is given up, which never happens to `exact`. A plain program that prints a table.
//!
//! `cargo bench -p coalloc-plan --bench baselines`

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]
#![allow(clippy::expect_used, reason = "a bench that meets nonsense ends")]

#[path = "../tests/planners/fixtures/mod.rs"]
mod fixtures;

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use coalloc_common::{BitsPerSecond, Reason, Span};
use coalloc_plan::ip::IpOptions;
use coalloc_plan::{Budget, FramePlanner, Instance, Outcome, Solver};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

const INSTANCES: u64 = 1_000;
const SOLVERS: [Solver; 3] = [Solver::Exact, Solver::Backtrack, Solver::SlidingWindow];

static GO: AtomicBool = AtomicBool::new(false);
const BUDGET: Budget<'static> = Budget { nodes: 100_000, solver_time: Span::ZERO, stop: &GO };

/// The results of one solver on all instances.
struct Column {
    planner: Box<dyn FramePlanner>,
    /// The cost for each instance; `None` where there is no plan.
    costs: Vec<Option<u64>>,
    gave_up: usize,
    times: Vec<Duration>,
}

impl Column {
    fn new(solver: Solver) -> Self {
        let planner = solver.planner(IpOptions::default(), None);
        Self { planner, costs: Vec::new(), gave_up: 0, times: Vec::new() }
    }

    fn solve(&mut self, instance: &Instance<'_>) {
        let begin = Instant::now();
        let outcome = black_box(self.planner.plan(instance, &BUDGET));
        self.times.push(begin.elapsed());
        self.costs.push(match outcome {
            Outcome::Planned(plan) => Some(plan.cost),
            Outcome::Refused(refusal) => {
                self.gave_up += usize::from(refusal.reason == Reason::BudgetExhausted);
                None
            }
        });
    }

    fn row(&self, gbps: u64, common: &[usize], least: f64) {
        let found = self.costs.iter().flatten().count();
        let cost: u64 = common.iter().filter_map(|at| self.costs[*at]).sum();
        let mut times = self.times.clone();
        times.sort_unstable();
        let us = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
        println!(
            "{gbps:>6} {:<16} {found:>7} {:>9} {:>10.3} {:>10.1} {:>10.1} {:>10.1}",
            self.planner.name(),
            self.gave_up,
            cost as f64 / least,
            us(50),
            us(99),
            us(100)
        );
    }
}

fn main() {
    let topology = fixtures::elgl();
    println!("{INSTANCES} frames of ELGL for each rate; times in us");
    println!(
        "{:>6} {:<16} {:>7} {:>9} {:>10} {:>10} {:>10} {:>10}",
        "Gbit/s", "solver", "found", "gave up", "cost", "median", "p99", "largest"
    );
    for gbps in 1..=4 {
        let mut columns = SOLVERS.map(Column::new);
        for seed in 0..INSTANCES {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let shape = fixtures::paper_shape(&mut rng);
            let mut request = fixtures::paper_request(shape, &mut rng);
            for link in &mut request.links {
                link.bandwidth = BitsPerSecond(gbps * 1_000_000_000);
            }
            let view = fixtures::random_loads(&topology, &mut rng);
            let instance = Instance::new(&topology, &request, &view);
            columns.iter_mut().for_each(|column| column.solve(&instance));
        }
        let all = |at: &usize| columns.iter().all(|column| column.costs[*at].is_some());
        let common: Vec<usize> = (0..INSTANCES as usize).filter(all).collect();
        let least: u64 = common.iter().filter_map(|at| columns[0].costs[*at]).sum();
        columns.iter().for_each(|column| column.row(gbps, &common, least as f64));
    }
}
