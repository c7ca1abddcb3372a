//! What a model tells while it runs, event by event: for a file (`--trace`), a picture
//! (`coalloc sim gantt`) or a clock.
//!
//! One line of JSON an event; times are microseconds of the simulated clock, from 0. Texts are borrowed:
//! an event that nobody reads costs next to nothing. A model that would have to build a text asks
//! [`Trace::is_wanted`] first.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Something that happened at `at`, in simulated microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum TraceEvent<'a> {
    /// A resource that the following events speak of: what a picture draws a row for.
    Resource {
        /// Its name.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// What it is.
        kind: ResourceKind,
        /// Most that can be taken at once, in its unit (CPUs, bit/s, servers, one link).
        capacity: u64,
    },
    /// A request or a task arrived.
    Arrived {
        /// When.
        at: i64,
        /// Its number, from 0.
        request: u64,
        /// Who asks.
        #[serde(borrow)]
        user: Cow<'a, str>,
    },
    /// Planning for a request begins, or for one of its frames. Whoever has a clock looks at it now.
    PlanningBegins {
        /// When; planning takes no simulated time unless the model says so.
        at: i64,
        /// Which request.
        request: u64,
    },
    /// That planning has ended.
    PlanningEnds {
        /// When.
        at: i64,
        /// Which request.
        request: u64,
        /// Plans that it gave.
        plans: u64,
    },
    /// An amount of a resource was reserved.
    Reserved {
        /// When it was reserved, not from when on.
        at: i64,
        /// For which request.
        request: u64,
        /// What of.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// How much, in the resource's unit.
        amount: u64,
        /// From when, microseconds.
        start: i64,
        /// Until when, microseconds, exclusive.
        end: i64,
    },
    /// A reservation of a resource was taken back (an abort, a release).
    Released {
        /// When.
        at: i64,
        /// Of which request.
        request: u64,
        /// What.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// The window's begin, as it was reserved.
        start: i64,
    },
    /// A resource refused what a scheduler had planned on it.
    Refused {
        /// When.
        at: i64,
        /// Of which request.
        request: u64,
        /// Who refused; empty when there was no plan to begin with.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// In a word or two: `blocked`, `conflict`, `no plan`.
        #[serde(borrow)]
        reason: Cow<'a, str>,
    },
    /// A request ended.
    Ended {
        /// When.
        at: i64,
        /// Which.
        request: u64,
        /// Did it get what it asked for?
        accepted: bool,
    },
    /// An update about a resource left for a scheduler.
    UpdateSent {
        /// When.
        at: i64,
        /// About what.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// To whom.
        #[serde(borrow)]
        to: Cow<'a, str>,
    },
    /// An update reached a scheduler's picture.
    UpdateMerged {
        /// When.
        at: i64,
        /// About what.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// Whose picture.
        #[serde(borrow)]
        by: Cow<'a, str>,
        /// How old what it says is, microseconds.
        age: i64,
    },
    /// The trace ends here. A file without it was cut off.
    TraceEnds {
        /// How many events stand before it.
        events: u64,
    },
}

/// What a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// Computers of a site; the unit is CPUs or servers.
    Site,
    /// A link or path; the unit is bit/s, or 1 for a link that is taken whole.
    Link,
}

/// Who is told.
pub trait Trace {
    /// Takes an event.
    fn event(&mut self, event: TraceEvent<'_>);

    /// Will it be read? A model need not tell what would cost it something otherwise; planning's begin
    /// and end it tells always.
    fn is_wanted(&self) -> bool {
        true
    }
}

/// Nobody is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct SilentTrace;

impl Trace for SilentTrace {
    fn event(&mut self, _: TraceEvent<'_>) {}

    fn is_wanted(&self) -> bool {
        false
    }
}

/// Keeps every event, for tests.
impl Trace for Vec<TraceEvent<'static>> {
    fn event(&mut self, event: TraceEvent<'_>) {
        self.push(event.into_owned());
    }
}

impl TraceEvent<'_> {
    /// The same event with texts of its own.
    #[must_use]
    pub fn into_owned(self) -> TraceEvent<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self {
            Self::Resource { resource, kind, capacity } => {
                TraceEvent::Resource { resource: own(resource), kind, capacity }
            }
            Self::Arrived { at, request, user } => {
                TraceEvent::Arrived { at, request, user: own(user) }
            }
            Self::PlanningBegins { at, request } => TraceEvent::PlanningBegins { at, request },
            Self::PlanningEnds { at, request, plans } => {
                TraceEvent::PlanningEnds { at, request, plans }
            }
            Self::Reserved { at, request, resource, amount, start, end } => {
                TraceEvent::Reserved { at, request, resource: own(resource), amount, start, end }
            }
            Self::Released { at, request, resource, start } => {
                TraceEvent::Released { at, request, resource: own(resource), start }
            }
            Self::Refused { at, request, resource, reason } => {
                TraceEvent::Refused { at, request, resource: own(resource), reason: own(reason) }
            }
            Self::Ended { at, request, accepted } => TraceEvent::Ended { at, request, accepted },
            Self::UpdateSent { at, resource, to } => {
                TraceEvent::UpdateSent { at, resource: own(resource), to: own(to) }
            }
            Self::UpdateMerged { at, resource, by, age } => {
                TraceEvent::UpdateMerged { at, resource: own(resource), by: own(by), age }
            }
            Self::TraceEnds { events } => TraceEvent::TraceEnds { events },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_and_is_read_back() {
        let event = TraceEvent::Reserved {
            at: 5,
            request: 7,
            resource: "cpus:N0".into(),
            amount: 4,
            start: 10,
            end: 20,
        };
        let line = serde_json::to_string(&event).unwrap();
        let expected = r#"{"event":"reserved","at":5,"request":7,"resource":"cpus:N0","amount":4,"start":10,"end":20}"#;
        assert_eq!(line, expected);
        let read: TraceEvent<'_> = serde_json::from_str(&line).unwrap();
        assert_eq!(read, event);
        let cut = &line[..line.len() - 3];
        assert!(serde_json::from_str::<TraceEvent<'_>>(cut).is_err(), "a line cut off is no event");
    }
}
