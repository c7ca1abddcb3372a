//! The vocabulary of Coalloc: what a request, a segment, a topology and a timetable are.
//!
//! All other crates use these types. The types carry their units in their names or types
//! (microseconds, bit/s, CPUs, milli-points). Windows are half open, and all arithmetic is checked
//! or saturating: a value of one of these types has passed the range checks of [`limits`].
//!
//! Left out on purpose: clocks, sockets, randomness, files and the wire format. Bytes are converted
//! to these types in `net::convert` and nowhere else. Source of the vocabulary: the table of terms
//! in the design, and Takefusa 2010, section 3.2 (graph notation).

pub mod amount;
pub mod amount_time;
pub mod disk_space;
pub mod id;
pub mod identity;
pub mod invalid;
pub mod kind;
pub mod limits;
pub mod map_places;
pub mod objective;
pub mod owners;
pub mod part_window;
pub mod plain_text;
pub mod planted;
pub mod price;
pub mod profile;
pub mod refusal;
pub mod request;
pub mod segment;
pub mod servers;
pub mod service_level;
pub mod suggest;
mod summary_tree;
pub mod time;
pub mod timetable;
pub mod topology;
pub mod vector;
pub mod workflow;

pub use amount::{Amount, BitsPerSecond, Cpus, UnitValue, Value};
pub use amount_time::{AmountTime, Exceeded, first_exceeded, show_hours};
pub use disk_space::DiskSpace;
pub use id::{
    ActivityName, CoordinatorName, DataName, DomainName, EdgeName, RequestId, ReservationId,
    ResourceId, RmName, SiteName, TransactionId, UserName, VertexName,
};
pub use identity::{Identity, Role, TrustDomain};
pub use invalid::InvalidField;
pub use kind::{ResourceKind, ResourceKinds};
pub use objective::{Objective, Ranking};
pub use owners::Owners;
pub use part_window::PartWindow;
pub use price::PriceSchedule;
pub use profile::Profile;
pub use refusal::{Bottleneck, BottleneckKind, NsiError, Reason, Refusal};
pub use request::{CoAllocation, LinkDemand, SiteDemand, Timing};
pub use segment::Segment;
pub use service_level::{CoordinatorLevels, Requester, ServiceLevels};
pub use time::{BootTime, Now, Span, Time, Window};
pub use topology::{EdgeIndex, Topology, VertexIndex};
pub use vector::{AvailabilityVector, Slot, SlotGrid};
