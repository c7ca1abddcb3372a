//! Workflows: activities at several sites, data between them, and sets of activities that run at the same time. A
//! workflow is planned on profiles, and reserved whole by the same protocol as everything else: one transaction, in
//! which all segments of a resource manager travel in one Hold.
//!
//! A workflow passes through these modules in this order:
//! * [`handlers`]: the Workflows service of gRPC, whose messages may be larger than those of other calls.
//! * [`submit`]: one call from its arrival to its outcome. The refusal of a try brings facts about what is free, on
//!   which the workflow is planned again.
//! * [`planning`]: is the message sane? Then timetables of what is believed to be free, a plan on the planners' threads
//!   within a budget, and the candidate that the core of `protocol` tries.
//!
//! Resource managers see amounts and windows, never the graph. What became of a workflow is in
//! [`crate::views::workflow`].
//!
//! A booked workflow lives on in these:
//! * [`report`]: what happens to its activities, recorded; what follows from it, in one task for each workflow.
//! * [`revise`]: a revision that a user asks for.
//! * [`revision`]: one revision, planned as a change of the reservation, on the [`version`] that is booked.
//!
//! Left out: whole servers, to which a by-server site rounds up (a plan that needs them exactly may be refused by the
//! site); resources of child coordinators, which tell no profiles.

pub mod handlers;
pub mod planning;
pub mod report;
pub mod revise;
pub mod revision;
pub mod submit;
pub mod version;
