//! The real services and shells of one GRC, one NRM and two CRMs over a simulated network, in simulated time.
//!
//! The tests run the same code as the daemons: `coalloc_grc::daemon::serve_on`,
//! `coalloc_rm::daemon::serve_on`, tonic, the schema, the owners, the watches. Only the machine below is
//! simulated ([`machine`], [`disk`]): clocks, connections, and a ledger that forgets what was not synced.
//! turmoil simulates the network and the time. Seeds determine the [`faults`]; [`clients`] write down what
//! they are told; [`verdict`] asks every daemon over the public API and lets the auditor of `coalloc audit`
//! judge.
//!
//! TCP itself is left out (in turmoil, a dropped message breaks its connection), and so are the threads of
//! owners and planners, and SQLite. Most runs are over TLS, with [`identities`] that are judged by simulated
//! time, and with a [`rogue`] who has a stolen key. `sim/` tests the protocol under far more faults and seeds;
//! `tests/federation` and `tests/blackbox` use real processes.
//!
//! `COALLOC_SHELL_SEEDS=n` runs n seeds, `COALLOC_SEED=n` runs only seed n, with its log.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are not seen as tests.

mod clients;
mod disk;
mod faults;
mod federation;
mod identities;
mod machine;
mod profiles;
mod provision;
mod relocation;
mod rogue;
mod run;
mod seeds;
mod single;
mod trace;
mod verdict;
mod watching;
