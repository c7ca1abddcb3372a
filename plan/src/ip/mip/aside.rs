//! The planner `mip` with its library on a thread of the shell's, which need not come back in time.
//!
//! A library keeps the time it is given by itself, more or less: between two steps of its own it hears
//! nobody, and a step may take seconds. So it is not called but handed out with a model of its own, and
//! whoever waits for it decides how long. What has not ended by then is left behind: its answer is lost, and
//! the frame is answered as one whose time is over.
//!
//! Left out: the threads, and the clock, which are the shell's.

use std::sync::{Arc, Mutex, PoisonError};

use coalloc_common::Span;

use super::model::Model;
use super::{Answer, Mip, MipBackend, Solve};
use crate::{Budget, FramePlanner, Instance, Outcome, Plan};

/// What a library is to do, once it is told how long that may take.
pub type LibraryJob = Box<dyn FnOnce(Span) + Send>;

/// Where a library works: begins what it is given, with at most this time for it, and comes back when that has
/// ended or when nobody waits for it any more. It need not begin at all.
pub type LibraryHost = Arc<dyn Fn(LibraryJob, Span) + Send + Sync>;

/// The planner `mip`, with its library elsewhere.
#[derive(Clone)]
pub struct DetachedMip {
    /// Which models, and which library.
    pub mip: Mip,
    /// Where that one works.
    pub elsewhere: LibraryHost,
}

impl DetachedMip {
    /// On the calling thread, which waits for as long as it takes.
    #[must_use]
    pub fn here() -> LibraryHost {
        Arc::new(|work, time| work(time))
    }

    /// Improves a plan within the budget; it comes back as it was when nothing better was found.
    #[must_use]
    pub fn improve(&self, instance: &Instance<'_>, budget: &Budget<'_>, plan: Plan) -> Plan {
        self.mip.improve_by(self, instance, budget, plan)
    }
}

impl FramePlanner for DetachedMip {
    fn name(&self) -> &'static str {
        self.mip.name()
    }

    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome {
        self.mip.plan_by(self, instance, budget)
    }
}

impl Solve for DetachedMip {
    fn name(&self) -> &'static str {
        Solve::name(&self.mip.backend)
    }

    fn called(&self) -> &'static str {
        self.mip.backend.called()
    }

    fn solve(&self, model: &Model, time: Span) -> Answer {
        let answer = Arc::new(Mutex::new(None));
        let (model, told) = (model.clone(), Arc::clone(&answer));
        let backend: MipBackend = self.mip.backend;
        let work = move |time| {
            let solved = backend.solve(&model, time);
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(solved);
        };
        (self.elsewhere)(Box::new(work), time);
        let mut told = answer.lock().unwrap_or_else(PoisonError::into_inner);
        told.take().unwrap_or(Answer::OutOfTime)
    }
}
