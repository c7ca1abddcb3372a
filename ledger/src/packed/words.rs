//! The words that packed records have numbers for: names of fields and variants, and words that users of the ledger write
//! often. The table is part of the format.
//!
//! A word never changes its place, and none is removed: new ones are added at the end. A release that does not know a
//! number refuses the record, which is what it has to do with a record of a newer release anyway.

/// The words by their numbers. The first sixteen take one byte each, the next 48 two bytes, and the others three.
#[rustfmt::skip]
pub(super) static WORDS: &[&str] = &[
    "record", "at", "wall", "boot", "txn", "window", "start", "end", "resource", "amount",
    "coordinator", "segments", "state", "reservation", "version", "by", "order", "user", "servers",
    "soft", "hard", "hold_for", "replaces", "keeps_old", "one_way", "choice", "picked", "site",
    "inner", "moves", "whole", "refusal", "ending", "cpus", "held", "moved", "refused", "booked",
    "ended", "opened", "aborted", "expired", "released", "replaced", "resolve", "resource_manager",
    "expiry", "restart", "ticket", "request", "content", "notes", "candidate", "details", "kinds",
    "left_out", "decision", "commit", "abort", "expires_in", "rm", "why", "until", "report", "text",
    "id", "change", "mends", "anew", "differs", "usual", "further", "intent", "decided", "mixed",
    "split", "releasing", "change_opened", "change_refused", "reported", "finished",
    "parent_hold_opened", "prepared", "parent_tombstone", "replaced_for_parent", "superseded",
    "settled", "disowned", "disown_ended", "gave_up", "concluded", "checking", "committing",
    "confirmed", "aborting", "failed", "terminating", "terminated", "new", "old", "missing_there",
    "unknown_here", "other_content", "reason", "requested", "available", "detail", "bottleneck",
    "kind", "demands", "resources", "resource_kind", "insufficient_capacity", "beyond_capacity",
    "unknown_resource", "outside_horizon", "no_route", "budget_exhausted", "unreachable",
    "not_held", "coordinator_restarted", "timed_out", "denied", "plan_outdated", "service_level",
    "disk_full", "quota", "unknown", "sites", "path", "cut", "length", "latency", "paths",
    "packing", "combination", "storage", "bandwidth", "peer", "issuer", "subject", "from",
    "unproven", "paper", "first", "best-fit", "worst-fit", "started", "needs_until", "activity",
    "event", "excluded", "price", "quality", "load", "preference", "entry", "phase", "kept",
    "since", "soft_at", "hard_at", "taken", "transaction", "parties", "goal", "done", "granted",
    "given_up", "turn", "wish", "one_by_one", "promise", "created", "attempts", "attempt_refusals",
    "changes", "parent_transaction", "past_changes", "reports", "mending", "parent", "replacing",
    "disowning", "differing", "transactions", "all", "by_id", "old_candidate", "new_candidate",
    "parts", "attempt", "forgotten", "oldest_open", "replaced_by", "ledger", "number",
    "retention_ended", "at_rest_since", "reservations", "tombstones",
    "leader_elected", "leader_changed", "epoch", "member", "leader",
    "parent_leader_changed", "parent_leader", "unsupported",
    "claim", "open", "made", "claimed", "claim_refused", "equipped", "references", "reference", "key",
    "chain", "stage", "active", "trouble", "equipment",
    "usage_changed", "usage", "ahead", "over",
    "unusable", "avoided",
    "manual_provision",
    "calendar_changed", "calendar", "address", "digest", "expires", "proof", "certificate", "token", "plain_text",
];
