//! A segment: one amount of one resource at one RM over one window. Left out: the RM, see
//! [`Segment`].

use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::id::ResourceId;
use crate::time::Window;

/// One amount of one resource over one window. The RM that owns the resource is known from where
/// the segment is kept: a plan keeps its segments by RM, and a hold is at one RM.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Segment {
    /// The resource that is taken.
    pub resource: ResourceId,
    /// The amount that is taken, in the resource's unit; positive.
    pub amount: Amount,
    /// The window during which it is taken.
    pub window: Window,
}
