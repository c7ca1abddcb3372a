//! Planner `ip`: the 0-1 integer program of Takefusa 2010, Eq. (1) to (11), for one frame.
//!
//! Each requested site gets a vertex of its own with enough free CPUs (Eq. 4 to 6). Each requested
//! link takes one simple route of at most N_max edges between its two sites and is not split (Eq.
//! 7, 9, 11). All links together stay within what is free on every edge (Eq. 8). The sum of values
//! is minimal (Eq. 3).
//!
//! Three solvers answer the same question. [`exact`] is our combinatorial branch and bound. [`mip`]
//! writes the model down and gives it to a MIP library, [`outside`] gives it to a program. They
//! share [`IpOptions`], the checks that need no search and the sentences of a refusal (both in
//! `admit`), and [`verify`], which checks every plan independently of the solvers.
//!
//! [`shared`] is the same program without Eq. (5), for demands that may share sites.
//!
//! Where the printed paper is ambiguous, we read it as follows:
//!
//! * The capacity of a shared edge bounds the SUM of its two directions (the sentence before Eq.
//!   8). A full-duplex edge has one capacity for each direction.
//! * The sign of Eq. (9) is outflow minus inflow.
//! * Eq. (11) is a hard limit in both `exact` and `mip`, so that they have the same feasible set.
//!
//! Left out: several frames (the caller plans each one and sorts, stages 2iii and 2iv), splitting a
//! link over several routes, and the administrator's options, which arrive as unit values.

pub(crate) mod admit;
#[doc(hidden)]
pub mod brute;
mod check;
pub mod exact;
pub mod handover;
pub(crate) mod islands;
pub mod mip;
pub mod outside;

pub use check::{feasible, verify};
pub use exact::{Exact, shared};
pub use handover::HandoverPlanner;
pub use mip::{Mip, MipBackend};
pub use outside::{Outside, Program};

use coalloc_common::topology::{Direction, Edge, FrameView};
use coalloc_common::{EdgeIndex, limits};

/// The options of the solvers of the integer program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpOptions {
    /// How many edges the route of a requested link may have: N_max of Eq. (11). Clamped to 1 to
    /// [`limits::ROUTE_EDGES_MAX`].
    pub route_edges_max: u32,
    /// Whether the model of [`mip`] has Eq. (10): no link uses an edge in both directions. It
    /// removes no optimum; it only saves the library some search. [`exact`] does not need it.
    pub exclude_opposite_arcs: bool,
}

impl Default for IpOptions {
    fn default() -> Self {
        Self { route_edges_max: limits::ROUTE_EDGES_DEFAULT, exclude_opposite_arcs: true }
    }
}

impl IpOptions {
    /// N_max, clamped to its bounds.
    #[must_use]
    pub fn route_edges(&self) -> usize {
        self.route_edges_max.clamp(1, limits::ROUTE_EDGES_MAX) as usize
    }
}

/// What is free on an edge in this direction, in bit/s. For a shared edge the view has the same
/// number twice. If the two differed, the smaller one would be safe, so that one is taken.
pub(crate) fn free_bps(
    edge: &Edge,
    index: EdgeIndex,
    direction: Direction,
    view: &FrameView,
) -> u64 {
    let [ab, ba] = view.free_bps[index.at()];
    match (edge.is_shared(), direction) {
        (true, _) => ab.0.min(ba.0),
        (false, Direction::AToB) => ab.0,
        (false, Direction::BToA) => ba.0,
    }
}
