//! Tasks: the input data of a task travel to a cluster, where a computation runs on them. A task is planned on profiles
//! and reserved by the same protocol as everything else.
//!
//! A task passes through these modules in this order:
//! * [`submit`]: one call from its arrival to its outcome. The refusal of a try brings facts about what is free
//!   ([`crate::node::shell`]), on which the task is planned again.
//! * [`admission`]: who calls, are the numbers sane, and which settings of the coordinator apply?
//! * [`planning`]: cuts the pictures into vectors, searches a plan on the planners' threads within a budget, and makes
//!   the candidate that the core of `protocol` tries.
//!
//! What is believed of profiles is in [`crate::pictures`]; what became of a task is in [`crate::views::receipt`].
//!
//! Left out: changing a task that is booked (release it and submit it again); service levels, which Hold checks.
//! Sources: Christodoulopoulos 2008, section II (one-way reservation); Stevens 2009, section 4;
//! docs/adr/0024-live-tasks.md.

pub mod admission;
pub mod planning;
pub mod submit;
