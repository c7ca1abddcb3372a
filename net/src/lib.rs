//! gRPC servers and clients: the one place where bytes, types, clocks and status codes meet.
//!
//! * [`server`] and [`client`]: transport with every limit set (tonic by default sets none), health and
//!   reflection.
//! * [`comparison`]: what differs between several plans.
//! * [`written`]: amounts and times as people write them, in flags and in forms of the page.
//! * [`convert`]: wire messages to the vocabulary of `common` and back, with the range checks.
//! * [`resource_manager`]: what all servers of the ResourceManager service share.
//! * [`status`]: errors to gRPC status with `google.rpc` details, and what a failed call means.
//! * [`machine`]: what a daemon takes from the machine it runs on. [`clock`]: the two clocks of a real
//!   machine.
//! * [`metrics`], [`traces`]: what Prometheus and OpenTelemetry can see, kept off the hot path.
//! * [`telemetry`]: structured logs, and [`log_filter`]: what of them is written. [`daemon`]: configuration, signals and exit codes of every daemon.
//!   [`files`]: the number of files that it may have open. [`disk_space`]: whether its disk has space for
//!   anything new.
//! * [`secret`]: a secret that is a credential by itself.
//! * [`tokens`]: users who prove by a token of their login service who they are.
//! * [`node`]: a running core, with its ledger, its owner, and the handle by which RPC handlers post to it.
//!   [`watch`]: streams of what has become durable. [`latest`]: a value that others wait for. [`waiters`]:
//!   callers that wait for the core's answers. [`turn`]: what the core's owner did when, for traces.
//! * [`needs`]: which release answers, and what a caller needs it to know.
//! * [`shared_ledger`]: a node whose ledger is shared with other processes. [`leadership`]: whether it may answer.
//!
//! * [`identity`]: who is at the other end of a connection. [`authorization`]: who may make which call. A daemon
//!   without an identity serves in plain text, on loopback only. [`tips`]: what a daemon says, with its key, of the end
//!   of its ledger.

mod allocator;
pub mod authorization;
pub mod client;
pub mod clock;
pub mod comparison;
pub mod convert;
pub mod daemon;
pub mod disk_space;
pub mod files;
pub mod identity;
pub mod latest;
pub mod leadership;
pub mod log_filter;
pub mod machine;
pub mod metrics;
pub mod needs;
pub mod node;
pub mod resource_manager;
pub mod secret;
pub mod server;
pub mod shared_ledger;
pub mod status;
pub mod telemetry;
pub mod tips;
pub mod tokens;
pub mod traces;
pub mod turn;
pub mod waiters;
pub mod watch;
pub mod written;

// Planted bugs are for the simulator's tests only. When they are compiled in, `is` is not constant, and no
// daemon builds.
const _: () = assert!(!coalloc_common::planted::is(coalloc_common::planted::Bug::Canary));
