//! The commands for developers and for measurements on real processes: they start federations, load them,
//! disturb them, and judge what comes of it.
//!
//! * [`demo`] shows a federation on this machine (started by [`local`]), [`compose`] writes one for Docker and
//!   [`kubernetes`] one for Kubernetes; [`relay`] delays the messages between the domains of the former.
//! * [`equipment`] shows one whose bookings real equipment carries out: Slurm clusters, and a shaped link.
//! * [`bench`](mod@bench) measures how much a federation can do, [`compare`] measures solvers, and [`soak`]
//!   loads a federation for a long time.
//! * [`audit`] checks that what all daemons and clients say agrees. It shares no code with the daemons.
//!
//! Simulated federations are not here (`experiments`).

pub mod audit;
pub mod bench;
pub mod compare;
pub mod compose;
mod containers;
pub mod demo;
pub mod equipment;
pub mod kubernetes;
pub mod local;
pub mod relay;
pub mod soak;
