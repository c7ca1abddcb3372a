//! Baselines: planners of other systems, for comparison with the integer program, live and in
//! experiments.
//!
//! Takefusa 2010, section 5, compares itself with two planners that search computers and paths
//! together. [`Backtrack`] reserves as it searches (Ando, Aida 2007). [`SlidingWindow`] fixes a
//! start, then picks computers first and the network second (Elmroth, Tordsson 2009, for
//! NorduGrid). Both take the first plan that they find, whatever it costs. So their plans have a
//! lower bound of zero and are never proven to be the cheapest. They are built only from what that
//! section says of them; the two papers themselves were not available to us.
//!
//! Left out: the other two planners that the section names, the MetaScheduling Service of VIOLA and
//! Roblitz 2008. They obtain whole timetables of all resource managers, which our resource managers
//! do not hand out, and they treat the network as one switch.

mod backtrack;
mod search;
mod sliding_window;

pub use backtrack::{Backtrack, order};
pub use sliding_window::{SlidingWindow, slide};
