//! The clock that models do not have: measures how long planning takes, for experiments with metrics of time.

use std::collections::BTreeMap;
use std::time::Instant;

use coalloc_sim::experiment::{Experiment, Measures, Trace, TraceEvent};

use super::models::RequestShape;

/// The metrics that the clock adds to those of a model, for experiments that ask for them.
pub const TIMES: &[(&str, &str)] = &[
    ("plan_ms", "mean time that planning one frame took, ms"),
    ("plan_max_ms", "longest time that planning one frame took, ms"),
    ("plan_sd_ms", "standard deviation"),
    ("plan_cv", "standard deviation of that time over its mean"),
    ("plan_median_ms", "median of that time, ms"),
    ("plan_p99_ms", "time that 99 % of all plannings did not exceed, ms"),
    ("plan_found_ms", "mean time of plannings that found a plan, ms"),
    ("plan_sites_ms", "curve over the sites of a request: mean of their frames, ms"),
    ("plan_load_ms", "curve over load (%): mean of the frames of each tenth of the day, ms"),
    ("plan_request_ms", "curve over the number of the co-allocation: mean of its frames, ms"),
    ("run_ms", "time that the whole run took, ms"),
];

/// Those of them that are curves.
pub const TIME_CURVES: &[&str] = &["plan_sites_ms", "plan_load_ms", "plan_request_ms"];

/// Reads the clock when planning begins and ends.
#[derive(Debug, Default)]
pub struct Clock {
    begun: Option<Instant>,
    took: Vec<Planning>,
}

/// One planning.
#[derive(Debug)]
struct Planning {
    /// The number of the request.
    request: u64,
    ms: f64,
    found: bool,
}

impl Trace for Clock {
    fn event(&mut self, event: TraceEvent<'_>) {
        match event {
            TraceEvent::PlanningBegins { .. } => self.begun = Some(Instant::now()),
            TraceEvent::PlanningEnds { request, plans, .. } => {
                let took = self.begun.take().map(|begun| begun.elapsed().as_secs_f64() * 1e3);
                self.took.extend(took.map(|ms| Planning { request, ms, found: plans > 0 }));
            }
            _ => {}
        }
    }

    fn is_wanted(&self) -> bool {
        false
    }
}

impl Clock {
    /// Watches a run, and adds times to what it measured; `asked` are its requests, indexed by number.
    ///
    /// # Errors
    /// The error of the run.
    pub fn watch<E>(
        mut self,
        asked: &[RequestShape],
        run: impl FnOnce(&mut dyn Trace) -> Result<Measures, E>,
    ) -> Result<Measures, E> {
        let begun = Instant::now();
        let mut measures = run(&mut self)?;
        measures.put("run_ms", begun.elapsed().as_secs_f64() * 1e3);
        // If nothing was planned, mean and maximum are not numbers, and are left out.
        let mut times: Vec<f64> = self.took.iter().map(|planning| planning.ms).collect();
        times.sort_by(f64::total_cmp);
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares: f64 = times.iter().map(|took| (took - mean).powi(2)).sum();
        measures.put("plan_ms", mean);
        measures.put("plan_max_ms", times.last().copied().unwrap_or(f64::NAN));
        measures.put("plan_median_ms", quantile(&times, 50));
        measures.put("plan_p99_ms", quantile(&times, 99));
        let found = self.took.iter().filter(|planning| planning.found);
        let (sum, count_found) =
            found.fold((0.0, 0), |(sum, count), planning| (sum + planning.ms, count + 1));
        measures.put("plan_found_ms", sum / f64::from(count_found));
        let deviation = (squares / count).sqrt();
        measures.put("plan_sd_ms", deviation);
        measures.put("plan_cv", deviation / mean);
        self.put_by_kind(asked, &mut measures);
        Ok(measures)
    }

    /// Adds the means by request, by number of sites, and by how full the day was. Requests of unknown shape, of
    /// which there may be a hundred thousand, have no point of their own.
    fn put_by_kind(&self, asked: &[RequestShape], measures: &mut Measures) {
        let (mut by_sites, mut by_load) = (BTreeMap::new(), BTreeMap::new());
        for of_one in self.took.chunk_by(|one, other| one.request == other.request) {
            let number = of_one[0].request;
            let known = usize::try_from(number).ok().and_then(|number| asked.get(number));
            let Some(RequestShape { sites, load }) = known else { continue };
            let times = of_one.iter().map(|planning| planning.ms);
            by_sites.entry(*sites).or_insert_with(Vec::new).extend(times.clone());
            by_load.entry(*load).or_insert_with(Vec::new).extend(times.clone());
            // The numbers of requests are far below 2^53.
            let mean = times.sum::<f64>() / of_one.len() as f64;
            measures.put_at("plan_request_ms", number as f64, mean);
        }
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
        for (sites, all) in &by_sites {
            measures.put_at("plan_sites_ms", *sites as f64, mean(all));
        }
        for (load, all) in &by_load {
            measures.put_at("plan_load_ms", *load as f64, mean(all));
        }
    }
}

/// The least of the sorted times that so many percent of them do not exceed; not a number if there are none.
fn quantile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Does an experiment have metrics of time?
#[must_use]
pub fn is_timed(experiment: &Experiment) -> bool {
    experiment.metrics.iter().any(|metric| TIMES.iter().any(|(own, _)| *own == metric.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_counts_what_planning_takes() {
        let ran: Result<Measures, ()> =
            Clock::default().watch(&[RequestShape { sites: 3, load: 10 }; 2], |clock| {
                for request in [0, 0, 1] {
                    clock.event(TraceEvent::PlanningBegins { at: 0, request });
                    clock.event(TraceEvent::PlanningEnds { at: 0, request, plans: 1 });
                }
                Ok(Measures::new())
            });
        let measures = ran.unwrap();
        let names: Vec<&str> = measures.iter().map(|(name, _)| name).collect();
        let expected = [
            "plan_cv",
            "plan_found_ms",
            "plan_load_ms@10",
            "plan_max_ms",
            "plan_median_ms",
            "plan_ms",
            "plan_p99_ms",
            "plan_request_ms@0",
            "plan_request_ms@1",
            "plan_sd_ms",
            "plan_sites_ms@3",
            "run_ms",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_quantile_is_one_of_the_times() {
        let times: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((quantile(&times, 50), quantile(&times, 99)), (100.0, 198.0));
        assert_eq!((quantile(&times[..1], 99), quantile(&times[..3], 50)), (1.0, 2.0));
        assert!(quantile(&[], 50).is_nan());
    }

    #[test]
    fn a_run_without_plannings_has_no_times_of_them() {
        let ran: Result<Measures, ()> = Clock::default().watch(&[], |_| Ok(Measures::new()));
        let measures = ran.unwrap();
        let names: Vec<&str> = measures.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["run_ms"]);
    }
}
