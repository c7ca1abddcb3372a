//! Real daemons on loopback: bad input, races and faults, each followed by an audit of every resource
//! manager over the public API.
//!
//! `harness` has the audit: nothing overbooked, nothing held at rest, nothing booked that no confirmed
//! reservation owns, nothing confirmed that is not booked.
//!
//! `middle` makes faults exactly between two messages. It is a gRPC relay in front of a resource manager
//! that stops, delays or kills at the message that a test names.

// clippy allows unwrap in test functions only; the helpers of this file are test code all through.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bad_input;
mod baselines;
mod competing;
mod dashboard;
mod disk;
mod etcd_tls;
mod events;
mod faults;
mod giving_up;
// Each test target uses a part of it.
#[allow(dead_code)]
#[path = "../harness/mod.rs"]
mod harness;
mod hold_quotas;
mod identity;
mod inner;
mod inventory;
mod living_workflows;
mod logged_jobs;
mod looking;
mod middle;
mod modify;
mod options;
mod owners;
mod part_windows;
mod races;
mod reconcile;
mod refusals;
mod releases;
mod series;
mod server_faults;
mod servers;
mod serving;
mod shared_ledger;
mod strange_texts;
mod tasks;
mod telemetry;
#[allow(dead_code, reason = "other tests take the rest")]
#[path = "../tmpfs.rs"]
mod tmpfs;
mod tree_changes;
mod trees;
mod watch;
mod web;
mod web_calendar;
mod web_change;
mod web_experiments;
mod web_pages;
mod web_request;
mod workflows;
mod workflows_simulated;
