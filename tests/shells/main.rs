//! The real services and shells of one GRC, one NRM and two CRMs over a simulated network, on simulated
//! time.
//!
//! What runs is what the daemons run: `coalloc_grc::daemon::serve_on`, `coalloc_rm::daemon::serve_on`, tonic,
//! the schema, the owners, the watches. Only the machine under them is simulated ([`machine`], [`disk`]):
//! clocks, connections, and a ledger that forgets what was not synced. turmoil is the network and the time.
//! Seeds draw [`faults`]; [`clients`] write down what they are told; [`verdict`] asks everybody over the public
//! API and has the auditor of `coalloc audit` judge.
//!
//! Left out: TCP itself (a message that is dropped breaks its connection, as turmoil has it), the threads of
//! owners and planners, SQLite. The protocol under far more faults and seeds is `sim/`; real
//! processes are `tests/federation` and `tests/blackbox`.
//!
//! `COALLOC_SHELL_SEEDS=n` runs so many seeds, `COALLOC_SEED=n` this one alone, with its log.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are not seen as tests.

mod clients;
mod disk;
mod faults;
mod federation;
mod machine;
mod profiles;
mod run;
mod seeds;
mod single;
mod trace;
mod verdict;
mod watching;
