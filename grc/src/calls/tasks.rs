//! Tasks, whose input data travel to a cluster and are computed on there: planned on profiles, reserved by the same
//! protocol as everything else.
//!
//! In the order of a task's way:
//! * [`submit`]: one call from its arrival to its outcome. A refusal has brought facts by then (`shell`), with which the
//!   task is planned again.
//! * [`admission`]: who calls, are the numbers sane, and what does the coordinator's setting add?
//! * [`planning`]: the pictures cut into vectors, a plan on the planners' threads within a budget, and which candidate
//!   the core of `protocol` gets to try.
//!
//! What is believed of profiles is in [`crate::pictures`], what became of a task in [`crate::views::receipt`].
//!
//! Left out: changing a task that is booked (release it, submit it again); service levels, which Hold checks.
//! Sources: Christodoulopoulos 2008, section II (one-way reservation); Stevens 2009, section 4;
//! docs/adr/0024-live-tasks.md.

pub mod admission;
pub mod planning;
pub mod submit;
