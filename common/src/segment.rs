//! A segment: one amount of one resource at one RM over one window.

use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::id::ResourceId;
use crate::time::Window;

/// One amount of one resource over one window. Which RM owns the resource is said by whoever holds
/// the segment: a plan keeps its segments by RM, a hold is at one RM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Segment {
    /// What is taken.
    pub resource: ResourceId,
    /// How much of it, in the resource's unit; positive.
    pub amount: Amount,
    /// When.
    pub window: Window,
}
