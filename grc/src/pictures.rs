//! What a coordinator believes of every resource manager's profiles: the pictures on which tasks are planned.
//!
//! * [`store`]: the pictures. In mode `distributed` the updates of [`follow`] keep them up to date. In mode `central`
//!   the profiles are queried anew for every task, in [`rounds`].
//! * [`believed`]: a picture as planners take it.
//! * [`read`]: a picture as people look at it.
//!
//! Left out: planning and reserving of tasks, which are calls ([`crate::calls::tasks`]).
//! Sources: Christodoulopoulos 2008, section II (distributed schedulers, update messages); docs/adr/0024-live-tasks.md.

pub mod believed;
pub mod follow;
pub mod read;
pub mod rounds;
pub mod store;

pub use store::Pictures;
