//! The planner `mip` with its library on another thread, so that it can be left behind when it
//! takes too long.
//!
//! A library keeps to its time limit only roughly: it checks the limit between its own steps, and a
//! step may take seconds. So the library gets a copy of the model and runs on a thread of the
//! shell, and the shell decides how long to wait. A library that has not finished by then is left
//! behind: its answer is lost, and the frame is answered as one whose time has ended.
//!
//! Left out: the threads and the clock, which belong to the shell.

use std::sync::{Arc, Mutex, PoisonError};

use coalloc_common::Span;

use super::model::Model;
use super::{Answer, Mip, MipBackend, Solve};
use crate::{Budget, FramePlanner, Instance, Outcome, Plan};

/// The work of a library, as a function of the time that it may take.
pub type LibraryJob = Box<dyn FnOnce(Span) + Send>;

/// Runs the work of a library, with at most this time for it. It returns when the work has ended or
/// when it stops waiting for it. It may also not begin the work at all.
pub type LibraryHost = Arc<dyn Fn(LibraryJob, Span) + Send + Sync>;

/// The planner `mip`, with its library on another thread.
#[derive(Clone)]
pub struct DetachedMip {
    /// The planner whose models and library are used.
    pub mip: Mip,
    /// Runs the library.
    pub elsewhere: LibraryHost,
}

impl DetachedMip {
    /// Runs the work on the calling thread, which waits as long as it takes.
    #[must_use]
    pub fn here() -> LibraryHost {
        Arc::new(|work, time| work(time))
    }

    /// Improves a plan within the budget. Returns it unchanged when nothing better was found.
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
