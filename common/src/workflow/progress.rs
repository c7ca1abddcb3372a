//! What users report of a workflow's activities while it runs, and how far each activity is.
//!
//! A report is about the placement that its activity has when it is made: reports from before the start of an
//! activity's window are about an earlier placement and do not count. What nobody reports follows the clock:
//! an activity waits until its window begins, runs until its window ends, and has then finished.
//!
//! Source: issue "workflows", point 4; Decker 2007 plans and never hears of its activities again. Left out:
//! what a report changes in a plan, which is in `plan::workflow::revise`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::id::{ActivityName, VertexName};
use crate::time::{Time, Window};

/// What happened to an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActivityEvent {
    /// It has begun.
    Started,
    /// It has ended, and all its data are there.
    Finished,
    /// It has failed: its data are not there, and it has to run again.
    Failed,
    /// It runs, and will end at this instant.
    NeedsUntil(Time),
}

/// A report of one activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityReport {
    /// The activity.
    pub activity: ActivityName,
    /// What happened.
    pub event: ActivityEvent,
    /// When it happened; not before the window of the activity began.
    pub at: Time,
    /// Sites at which the activity must not run again. Only a failure has such.
    #[serde(skip_serializing_if = "BTreeSet::is_empty", default)]
    pub excluded: BTreeSet<VertexName>,
}

/// How far an activity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Its window has not begun.
    Waiting,
    /// It runs.
    Running,
    /// It has ended.
    Finished,
    /// It has failed, and was not placed again since.
    Failed,
}

/// What was reported of an activity in its present placement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportedProgress {
    /// When it began, if that was reported.
    pub started: Option<Time>,
    /// When it ended, if that was reported.
    pub finished: Option<Time>,
    /// When it failed, unless it was reported to run since.
    pub failed: Option<Time>,
    /// Until when it runs, if that was reported.
    pub needs_until: Option<Time>,
}

impl ReportedProgress {
    /// What the reports of one activity say of a placement. They count in the order of what happened, because a
    /// report may arrive after others of what happened later: a late "started" does not undo a failure.
    #[must_use]
    pub fn of<'a>(
        reports: impl IntoIterator<Item = &'a ActivityReport>,
        placement: Window,
    ) -> Self {
        let of_this = |report: &&ActivityReport| report.at >= placement.start();
        let mut reports: Vec<_> = reports.into_iter().filter(of_this).collect();
        reports.sort_by_key(|report| report.at);
        let mut state = Self::default();
        reports.into_iter().for_each(|report| state.add(report));
        state
    }

    fn add(&mut self, report: &ActivityReport) {
        let at = report.at;
        let started = Some(self.started.unwrap_or(at));
        *self = match report.event {
            ActivityEvent::Started => Self { started, failed: None, ..*self },
            ActivityEvent::Finished => Self { started, finished: Some(at), ..Self::default() },
            ActivityEvent::Failed => Self { failed: Some(at), ..Self::default() },
            ActivityEvent::NeedsUntil(until) => {
                Self { started, needs_until: Some(until), ..Self::default() }
            }
        };
    }

    /// Was anything reported from which it follows that the activity has begun?
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.started.is_some()
    }

    /// Until when the activity takes its window, if that was reported.
    #[must_use]
    pub const fn end(&self) -> Option<Time> {
        match self.finished {
            Some(at) => Some(at),
            None => self.needs_until,
        }
    }

    /// How far the activity is.
    #[must_use]
    pub fn progress(&self, placement: Window, now: Time) -> Progress {
        if self.failed.is_some() {
            Progress::Failed
        } else if self.finished.is_some() || now >= placement.end() {
            Progress::Finished
        } else if self.has_begun() || now >= placement.start() {
            Progress::Running
        } else {
            Progress::Waiting
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: i64) -> Time {
        Time::from_us(s * 1_000_000)
    }

    fn reports(events: &[(ActivityEvent, i64)]) -> Vec<ActivityReport> {
        let report = |(event, s): &(ActivityEvent, i64)| ActivityReport {
            activity: ActivityName::composed("a"),
            event: *event,
            at: at(*s),
            excluded: BTreeSet::new(),
        };
        events.iter().map(report).collect()
    }

    #[test]
    fn what_nobody_reports_follows_the_clock() {
        let window = Window::new(at(10), at(20)).unwrap();
        let progress = |now| ReportedProgress::default().progress(window, at(now));
        assert_eq!(
            [9, 10, 19].map(progress),
            [Progress::Waiting, Progress::Running, Progress::Running]
        );
        assert_eq!(progress(20), Progress::Finished);
    }

    #[test]
    fn the_last_report_of_the_present_placement_counts() {
        use ActivityEvent::{Failed, Finished, NeedsUntil, Started};
        let window = Window::new(at(10), at(20)).unwrap();
        let of = |events: &[(ActivityEvent, i64)]| ReportedProgress::of(&reports(events), window);
        let failed = of(&[(Started, 10), (Failed, 12)]);
        assert_eq!(failed.progress(window, at(30)), Progress::Failed);
        assert!(!failed.has_begun());
        let again = of(&[(Failed, 12), (Started, 13), (NeedsUntil(at(25)), 14)]);
        assert_eq!(
            (again.progress(window, at(15)), again.end()),
            (Progress::Running, Some(at(25)))
        );
        let done = of(&[(NeedsUntil(at(25)), 14), (Finished, 17)]);
        assert_eq!((done.progress(window, at(17)), done.end()), (Progress::Finished, Some(at(17))));
        // It began before it failed, whichever report came first.
        assert_eq!(of(&[(Failed, 12), (Started, 11)]), failed);
        assert_eq!(of(&[(NeedsUntil(at(25)), 13), (Started, 11)]).end(), Some(at(25)));
        // A placement that begins later knows nothing of it.
        let moved = Window::new(at(18), at(28)).unwrap();
        let of_moved = ReportedProgress::of(&reports(&[(Started, 10), (Failed, 12)]), moved);
        assert_eq!(of_moved, ReportedProgress::default());
    }
}
