//! gRPC servers and clients: the one place where bytes, types, clocks and status codes meet.
//!
//! * [`server`] and [`client`]: transport with every limit set (tonic's defaults bound nothing), health
//!   and reflection.
//! * [`convert`]: wire messages to the vocabulary of `common` and back, with the range checks.
//! * [`status`]: errors to gRPC status with `google.rpc` details, and what a failed call means.
//! * [`machine`]: what a daemon takes from the machine it runs on. [`clock`]: the two clocks of a real one.
//! * [`metrics`], [`traces`]: what Prometheus and OpenTelemetry get to see, off the hot path.
//! * [`telemetry`]: structured logs. [`daemon`]: configuration, signals and exit codes of every daemon.
//!   [`files`]: how many it may have open.
//! * [`node`]: a core at work: its ledger, its owner, and the handle that handlers post by.
//!   [`watch`]: streams of what has become durable. [`latest`]: a value that others wait for.
//!   [`waiters`]: callers that wait for its answers. [`turn`]: when its owner did what, for traces.
//!
//! Left out until the issues that bring them: TLS, identity and authorization. Until then a daemon
//! listens in plain text on loopback only, unless its configuration says otherwise.

mod allocator;
pub mod client;
pub mod clock;
pub mod convert;
pub mod daemon;
pub mod disk_space;
pub mod files;
pub mod latest;
pub mod machine;
pub mod metrics;
pub mod node;
pub mod server;
pub mod status;
pub mod telemetry;
pub mod traces;
pub mod turn;
pub mod waiters;
pub mod watch;

// Mistakes on purpose are for the simulator's tests. With them `is` is no constant: no daemon builds.
const _: () = assert!(!coalloc_common::planted::is(coalloc_common::planted::Bug::Canary));
