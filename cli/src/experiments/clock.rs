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
    ("plan_sites_ms", "curve over the sites of a request: mean of their frames, ms"),
    ("plan_load_ms", "curve over load (%): mean of the frames of each tenth of the day, ms"),
    ("plan_request_ms", "curve over the number of the request: mean of its frames, ms"),
    ("run_ms", "time that the whole run took, ms"),
];

/// Reads the clock when planning begins and ends.
#[derive(Debug, Default)]
pub struct Clock {
    begun: Option<Instant>,
    /// Numbers of requests, each with its milliseconds.
    took: Vec<(u64, f64)>,
}

impl Trace for Clock {
    fn event(&mut self, event: TraceEvent<'_>) {
        match event {
            TraceEvent::PlanningBegins { .. } => self.begun = Some(Instant::now()),
            TraceEvent::PlanningEnds { request, .. } => {
                let took = self.begun.take().map(|begun| begun.elapsed().as_secs_f64() * 1e3);
                self.took.extend(took.map(|took| (request, took)));
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
        let times: Vec<f64> = self.took.iter().map(|(_, took)| *took).collect();
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares: f64 = times.iter().map(|took| (took - mean).powi(2)).sum();
        measures.put("plan_ms", mean);
        measures.put("plan_max_ms", times.iter().copied().fold(f64::NAN, f64::max));
        let deviation = (squares / count).sqrt();
        measures.put("plan_sd_ms", deviation);
        measures.put("plan_cv", deviation / mean);
        self.put_by_kind(asked, &mut measures);
        for of_one in self.took.chunk_by(|one, other| one.0 == other.0) {
            let sum: f64 = of_one.iter().map(|(_, took)| took).sum();
            // The numbers of requests are far below 2^53.
            let number = of_one[0].0 as f64;
            measures.put_at("plan_request_ms", number, sum / of_one.len() as f64);
        }
        Ok(measures)
    }

    /// Adds the means by number of sites, and by how full the day was.
    fn put_by_kind(&self, asked: &[RequestShape], measures: &mut Measures) {
        let (mut by_sites, mut by_load) = (BTreeMap::new(), BTreeMap::new());
        for (request, took) in &self.took {
            let known = usize::try_from(*request).ok().and_then(|number| asked.get(number));
            if let Some(RequestShape { sites, load }) = known {
                by_sites.entry(*sites).or_insert_with(Vec::new).push(*took);
                by_load.entry(*load).or_insert_with(Vec::new).push(*took);
            }
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
            Clock::default().watch(&[RequestShape { sites: 3, load: 10 }], |clock| {
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
            "plan_load_ms@10",
            "plan_max_ms",
            "plan_ms",
            "plan_request_ms@0",
            "plan_request_ms@1",
            "plan_sd_ms",
            "plan_sites_ms@3",
            "run_ms",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_run_without_plannings_has_no_times_of_them() {
        let ran: Result<Measures, ()> = Clock::default().watch(&[], |_| Ok(Measures::new()));
        let measures = ran.unwrap();
        let names: Vec<&str> = measures.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["run_ms"]);
    }
}
