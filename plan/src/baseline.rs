//! Baselines: what others do, for comparison with the integer program, live and in experiments.
//!
//! Takefusa 2010, section 5, names two: greedy backtracking that reserves as it searches (Ando, Aida), here
//! [`Backtrack`], and a sliding window that fixes a start, then picks computers first and network second
//! (Elmroth, Tordsson). They find a plan, not the best one: a plan of theirs has a lower bound of
//! zero, and none is ever proven to be the cheapest.
//!
//! Left out: reserving, which is the coordinator's. It gives [`Backtrack`] what the federation has when it is
//! empty instead of asking what is free, holds at one resource manager after the other, and takes what each
//! refusal says into account when it goes on.

mod backtrack;

pub use backtrack::Backtrack;
