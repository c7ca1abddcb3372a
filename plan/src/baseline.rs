//! Baselines: what others do, for comparison with the integer program, live and in experiments.
//!
//! Takefusa 2010, section 5, names two: greedy backtracking that reserves as it searches (Ando, Aida), of which
//! [`Backtrack`] is the search, and a sliding window that fixes a start, then picks computers first and
//! network second (Elmroth, Tordsson). They find a plan, not the best one: a plan of theirs has a lower
//! bound of zero, and none is ever proven to be the cheapest.
//!
//! Left out: the sliding window, and the reserving on the way: it looks at what is free, as every planner does, and
//! the coordinator reserves what it found.

mod backtrack;

pub use backtrack::Backtrack;
