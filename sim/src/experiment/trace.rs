//! What a model reports while it runs, event by event: for a file (`--trace`), a picture (`coalloc sim
//! gantt`) or a clock.
//!
//! Each event is one line of JSON. Times are microseconds of the simulated clock, from 0. Texts are borrowed,
//! so that an event that nobody reads costs next to nothing. A model that would have to build a text asks
//! [`Trace::is_wanted`] first.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Something that happened at `at`, in simulated microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum TraceEvent<'a> {
    /// A resource that later events name, and for which a picture draws a row.
    Resource {
        /// The name of the resource.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// The kind of the resource.
        kind: TracedResource,
        /// The largest amount that can be reserved at once, in its unit (CPUs, bit/s, servers, one link).
        capacity: u64,
    },
    /// A request or a task arrived.
    Arrived {
        /// When it arrived.
        at: i64,
        /// The number of the request, from 0.
        request: u64,
        /// The user of the request.
        #[serde(borrow)]
        user: Cow<'a, str>,
    },
    /// Planning begins for a request, or for one of its frames. A caller with a clock reads it now.
    PlanningBegins {
        /// When planning begins; it takes no simulated time unless the model says so.
        at: i64,
        /// The number of the request.
        request: u64,
    },
    /// The planning of the last [`TraceEvent::PlanningBegins`] has ended.
    PlanningEnds {
        /// When planning ended.
        at: i64,
        /// The number of the request.
        request: u64,
        /// Number of plans that it found.
        plans: u64,
    },
    /// An amount of a resource was reserved.
    Reserved {
        /// When it was reserved; `start` says from when on.
        at: i64,
        /// The number of the request.
        request: u64,
        /// The name of the resource.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// The amount, in the resource's unit.
        amount: u64,
        /// Start of the window, microseconds.
        start: i64,
        /// End of the window, microseconds, exclusive.
        end: i64,
    },
    /// A reservation of a resource was ended (an abort or a release).
    Released {
        /// When it was ended.
        at: i64,
        /// The number of the request.
        request: u64,
        /// The name of the resource.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// Start of the window, as it was reserved.
        start: i64,
    },
    /// A resource refused what a scheduler had planned on it.
    Refused {
        /// When it refused.
        at: i64,
        /// The number of the request.
        request: u64,
        /// The resource that refused; empty when there was no plan at all.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// The reason in a word or two: `blocked`, `conflict`, `no plan`.
        #[serde(borrow)]
        reason: Cow<'a, str>,
    },
    /// A request ended.
    Ended {
        /// When it ended.
        at: i64,
        /// The number of the request.
        request: u64,
        /// Was the request accepted?
        accepted: bool,
    },
    /// An update about a resource was sent to a scheduler.
    UpdateSent {
        /// When it was sent.
        at: i64,
        /// The resource that the update is about.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// The scheduler that it was sent to.
        #[serde(borrow)]
        to: Cow<'a, str>,
    },
    /// An update reached a scheduler's picture.
    UpdateMerged {
        /// When it was merged.
        at: i64,
        /// The resource that the update is about.
        #[serde(borrow)]
        resource: Cow<'a, str>,
        /// The scheduler whose picture it is.
        #[serde(borrow)]
        by: Cow<'a, str>,
        /// The age of the information in the update, microseconds.
        age: i64,
    },
    /// The trace ends here. A trace file without this event was cut off.
    TraceEnds {
        /// Number of events before this one.
        events: u64,
    },
}

/// The kind of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TracedResource {
    /// Computers of a site; the unit is CPUs or servers.
    Site,
    /// A link or path; the unit is bit/s, or 1 for a link that is taken whole.
    Link,
}

/// A receiver of trace events.
pub trait Trace {
    /// Takes an event.
    fn event(&mut self, event: TraceEvent<'_>);

    /// Will the events be read? If not, a model may leave out events that would cost it something. It always
    /// reports the begin and end of planning.
    fn is_wanted(&self) -> bool {
        true
    }
}

/// A trace that nobody reads.
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
    /// The same event with owned texts.
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
