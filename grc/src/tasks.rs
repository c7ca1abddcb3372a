//! Tasks, whose input data travel to a cluster and are computed on there: planned on profiles, reserved by
//! the same protocol as everything else.
//!
//! In the order a task passes them:
//! * [`admission`]: who is it, are the numbers sane, what does the coordinator's setting add.
//! * [`pictures`]: what is believed of every resource manager's profiles. Mode `distributed`: kept young by
//!   the updates of [`follow`]; mode `central`: asked for anew, [`rounds`].
//! * [`planning`]: the believed cut into vectors, a plan on the planners' threads under a budget, and which
//!   candidate the coordinator of `protocol` gets to try.
//! * [`submit`]: one call from its arrival to its outcome; a refusal has brought facts by then (`shell`), with
//!   which it is planned again.
//! * [`receipt`]: what became of it, from what the ledger keeps.
//!
//! Beside it: [`settings`], what the configuration says; [`read`], the picture for people to look at.
//!
//! Left out: changing a task that is booked (release it, submit it again); service levels, which Hold meets.
//! Sources: Christodoulopoulos 2008, section II (distributed schedulers, update messages, one-way
//! reservation); Stevens 2009, section 4; docs/adr/0024-live-tasks.md.

pub mod admission;
pub mod believed;
pub mod follow;
pub mod pictures;
pub mod planning;
pub mod read;
pub mod receipt;
pub mod rounds;
pub mod settings;
pub mod submit;

pub use pictures::Pictures;
pub use settings::{Mode, TaskSettings};
