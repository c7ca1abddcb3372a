//! Baselines: what others do, for comparison with the integer program, live and in experiments.
//!
//! Takefusa 2010, section 5, compares itself with two that search computers and paths together:
//! [`Backtrack`], which reserves as it searches (Ando, Aida 2007), and [`SlidingWindow`], which fixes a
//! start, then picks computers first and network second (Elmroth, Tordsson 2009, for NorduGrid). Both take
//! what they find first, whatever it costs: a plan of theirs has a lower bound of zero, and none is ever
//! proven to be the cheapest. Only what that section says of them is known here; the two papers
//! themselves were not at hand.
//!
//! Left out: the other two that the section names, the MetaScheduling Service of VIOLA and Roblitz 2008. They
//! obtain whole timetables of all resource managers, which nobody here is given, and know the network as
//! one switch.

mod backtrack;
mod search;
mod sliding_window;

pub use backtrack::{Backtrack, order};
pub use sliding_window::{SlidingWindow, slide};
