//! Planner `ip`: the 0-1 integer program of Takefusa 2010, Eq. (1) to (11), for one frame.
//!
//! Each requested site lands on a vertex of its own with enough free CPUs (Eq. 4 to 6), each
//! requested link takes one unsplittable simple route of at most N_max edges between its two sites
//! (Eq. 7, 9, 11) and all links together stay within what is free on every edge (Eq. 8). The sum of
//! values is least (Eq. 3).
//!
//! Three solvers answer the same question: [`exact`] is our combinatorial branch and bound, [`mip`]
//! writes the model down and hands it to a MIP library, [`outside`] to a program. They share
//! [`IpOptions`], the checks that need no search and the words of a refusal (`admit`), and [`verify`],
//! which believes none of them.
//!
//! Where the paper's print is ambiguous: the capacity of a shared edge bounds the SUM of its two
//! directions (the sentence before Eq. 8), a full-duplex edge has one capacity a direction; the sign
//! of Eq. (9) is outflow less inflow; Eq. (11) is a hard limit in both solvers, so that they have
//! one feasible set.
//!
//! Left out: several frames (the caller plans each and sorts, stages 2iii and 2iv), splitting a link
//! over several routes, and the administrator's options, which come in as unit values.

pub(crate) mod admit;
#[doc(hidden)]
pub mod brute;
mod check;
pub mod exact;
pub mod handover;
pub mod mip;
pub mod outside;

pub use check::{feasible, verify};
pub use exact::Exact;
pub use handover::HandoverPlanner;
pub use mip::{Mip, MipBackend};
pub use outside::{Outside, Program};

use coalloc_common::topology::{Direction, Edge, FrameView};
use coalloc_common::{EdgeIndex, limits};

/// What both solvers of the integer program can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpOptions {
    /// Edges a requested link may take: N_max of Eq. (11). Held within
    /// 1 to [`limits::ROUTE_EDGES_MAX`].
    pub route_edges_max: u32,
    /// Write Eq. (10) into the model of [`mip`]: no link travels an edge in both directions. It
    /// removes no optimum, it only spares the library a search. [`exact`] has no use for it.
    pub exclude_opposite_arcs: bool,
}

impl Default for IpOptions {
    fn default() -> Self {
        Self { route_edges_max: limits::ROUTE_EDGES_DEFAULT, exclude_opposite_arcs: true }
    }
}

impl IpOptions {
    /// N_max within its bounds.
    #[must_use]
    pub fn route_edges(&self) -> usize {
        self.route_edges_max.clamp(1, limits::ROUTE_EDGES_MAX) as usize
    }
}

/// What is free on an edge for travelling this way, in bit/s. On a shared edge the view holds one
/// number twice; were the two to differ, the smaller is the safe one.
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
