//! Planted bugs: mistakes that could pass a review, behind a switch that only tests have.
//!
//! Fault runs are only useful if they find bugs. Each [`Bug`] is one line of wrong code at the place where
//! somebody might write it. The test `planted` of `coalloc-sim` turns on one bug at a time and counts the seeds
//! until the harness finds it. The table of results is in `docs/PROTOCOL.md`.
//!
//! Without the feature `planted`, [`is`] is a constant `false`: the switch costs nothing, and no bug can be
//! turned on. No shipped build has the feature; only `coalloc-sim` turns it on, for its tests. The switch
//! belongs to a thread, because each simulated world lives on one thread; so several bugs can be searched for at
//! the same time.
//!
//! To add a bug, add a variant here and its line of wrong code at its place, and run the test with
//! `COALLOC_BLESS=1`; see CONTRIBUTING.md. Left out: the checks that find the bugs, which are the simulator's.
//! Source: etcd's robustness tests, which keep every bug that was found reproducible.

/// One mistake that can be turned on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// The ledger reports a record as durable when it is only written.
    SkippedSync,
    /// A failed append is logged, but the effects that depend on it are sent all the same.
    SentWithoutSync,
    /// A replay leaves out the last record.
    ReplayMissesLast,
    /// An Abort of an unknown transaction is acknowledged without a record.
    NoTombstone,
    /// A window's end counts as part of the window, so adjacent windows block each other.
    EndInclusive,
    /// All reservations that overlap a window are summed, even those that do not overlap each other.
    SumForMinimum,
    /// An expiry changes the state in memory without a record in the log.
    ExpiryUnrecorded,
    /// A hold from an earlier boot keeps its deadlines, which were counted by that boot's clock.
    StaleBoot,
    /// After a reboot, the interval of a hold begins anew.
    ExpiryFromRestart,
    /// A Commit of an expired hold is acknowledged, as if nothing were left to do because the hold has ended.
    CommitOfExpired,
    /// An Abort frees all segments but the last.
    SegmentKept,
    /// A refusal of a Hold is sent but not recorded.
    RefusalForgotten,
    /// A hold of a new version releases the old version at once.
    OldReleasedAtHold,
    /// A Release is acknowledged before it is recorded.
    ReleaseUnrecorded,
    /// A Commit is sent to an RM that holds while other RMs have not answered yet.
    CommitBeforeDecision,
    /// Ids leave out the tag of the ledger under which they were made.
    IdReused,
    /// A known request id with different content is treated as the same request.
    OtherContentTaken,
    /// The coordinator decides to commit although a hold is about to expire.
    MarginIgnored,
    /// A hold's interval is counted from the arrival of its answer, not from before the Hold was sent.
    ExpiryFromAnswer,
    /// After a restart, decided but unfinished transactions are aborted.
    DecisionForgotten,
    /// An RM that asks about an undecided transaction gets the answer "abort", but nothing is recorded.
    ResolveUnrecorded,
    /// An RM that asks about an unknown transaction gets the answer "abort", as if no decision meant abort.
    StrangerAborts,
    /// A Hold without an answer counts as refused, so no Abort is sent to its RM.
    LostForRefused,
    /// A reservation is reported as confirmed when one acknowledgement is still missing.
    ConfirmedEarly,
    /// A child coordinator answers its parent's Hold with yes when the first of its RMs holds.
    PromisedEarly,
    /// An RM asks about a short hold only when the hold ends, which is too late.
    ShortHoldUnasked,
    /// A foreign status in answer to Commit counts as the RM's final answer.
    StatusForAnswer,
    /// A denied Abort counts as an acknowledged one.
    DeniedForDone,
    /// If one RM is too late to book a change, the reservation is released everywhere, including its old
    /// version.
    ChangeDestroyed,
    /// Ids are not bound to their coordinator: an RM that does not know a transaction obeys any coordinator's
    /// message about it.
    AnybodysId,
    /// The backoff between two questions about a hold does not shrink towards the end of the hold.
    AskPauseFixed,
    /// A child coordinator does not ask about a short promise to its parent before the promise ends.
    PromiseUnasked,
    /// When the configuration no longer lists a coordinator, an RM denies that coordinator's messages about what
    /// it already has there.
    LeftOutDenied,
    /// A denied Commit counts as an acknowledged one.
    DeniedForBooked,
    /// A refusal with an unknown reason counts as no answer.
    UnknownForLost,
    /// A server that is given back does not join the idle periods around it.
    ServersUnmerged,
    /// Replay chooses the servers of a hold again, without what the hold wished.
    ServersChosenAgain,
    /// A server is not idle until the very end of its idle period.
    ServerEndInclusive,
    /// A hold of a new version gives back the servers of the old version that it does not take.
    OldServersFreed,
    /// An activity of a synchronous set that has finished is freed before the rest of the set has.
    MemberFreedEarly,
    /// When an activity of a synchronous set takes longer, only its own window becomes longer.
    WidenedForSome,
    /// Data are sent when they were planned to be sent, although the activity that produces them ends later.
    TransferTooEarly,
    /// A report of an activity is acknowledged before it is recorded.
    ReportUnrecorded,
    /// A hold counts towards its quota only when it is booked, so that nobody is ever refused.
    HoldsUncounted,
    /// The row of one method is missing, and what has no row is allowed to everybody.
    MissingRow,
    /// A coordinator may speak for another one whose name begins with its own.
    PrefixComparison,
    /// A denial is given after the core has taken the message.
    CheckAfterEffect,
    /// A snapshot lacks what has changed of a transaction, or of a reservation, that an earlier snapshot has.
    SnapshotMissesChange,
    /// An RM forgets the tombstone of a transaction whose Hold may still be on the way.
    TombstoneForgotten,
    /// A coordinator releases what is long over without telling its RMs.
    RetentionUnsent,
    /// A coordinator gives the number of a forgotten reservation again.
    NumberReused,
    /// A Hold is answered with yes before the equipment has its claim.
    ClaimAfterYes,
    /// After a restart the equipment is told what to have before anybody has looked at it.
    MakeBeforeObserve,
    /// Nothing happens at the end of a window.
    ForgottenStop,
    /// A claim whose outcome is unknown is made again without a look at what is there.
    DoubleClaim,
    /// A reservation is active as soon as its window begins, whatever its equipment says.
    ActiveUnheard,
    /// Nobody notices that the window of a reservation is over.
    EndUnnoticed,
    /// The equipment lets the user in to what the user has not provisioned.
    UnprovisionedActive,
    /// Not a bug of the protocol: every run with it fails, which shows that the harness reports failures.
    Canary,
}

impl Bug {
    /// All bugs, the canary last.
    pub const ALL: [Self; 59] = [
        Self::SkippedSync,
        Self::SentWithoutSync,
        Self::ReplayMissesLast,
        Self::NoTombstone,
        Self::EndInclusive,
        Self::SumForMinimum,
        Self::ExpiryUnrecorded,
        Self::StaleBoot,
        Self::ExpiryFromRestart,
        Self::CommitOfExpired,
        Self::SegmentKept,
        Self::RefusalForgotten,
        Self::OldReleasedAtHold,
        Self::ReleaseUnrecorded,
        Self::CommitBeforeDecision,
        Self::IdReused,
        Self::OtherContentTaken,
        Self::MarginIgnored,
        Self::ExpiryFromAnswer,
        Self::DecisionForgotten,
        Self::ResolveUnrecorded,
        Self::StrangerAborts,
        Self::LostForRefused,
        Self::ConfirmedEarly,
        Self::PromisedEarly,
        Self::ShortHoldUnasked,
        Self::StatusForAnswer,
        Self::DeniedForDone,
        Self::ChangeDestroyed,
        Self::AnybodysId,
        Self::AskPauseFixed,
        Self::PromiseUnasked,
        Self::LeftOutDenied,
        Self::DeniedForBooked,
        Self::UnknownForLost,
        Self::ServersUnmerged,
        Self::ServersChosenAgain,
        Self::ServerEndInclusive,
        Self::OldServersFreed,
        Self::MemberFreedEarly,
        Self::WidenedForSome,
        Self::TransferTooEarly,
        Self::ReportUnrecorded,
        Self::HoldsUncounted,
        Self::MissingRow,
        Self::PrefixComparison,
        Self::CheckAfterEffect,
        Self::SnapshotMissesChange,
        Self::TombstoneForgotten,
        Self::RetentionUnsent,
        Self::NumberReused,
        Self::ClaimAfterYes,
        Self::MakeBeforeObserve,
        Self::ForgottenStop,
        Self::DoubleClaim,
        Self::ActiveUnheard,
        Self::EndUnnoticed,
        Self::UnprovisionedActive,
        Self::Canary,
    ];

    /// The side that has the bug, and what is wrong in a sentence for people.
    #[must_use]
    pub const fn what(self) -> (&'static str, &'static str) {
        match self {
            Self::SkippedSync => ("ledger", "reports a record as durable when it is only written"),
            Self::SentWithoutSync => ("shell", "sends the effects of a failed append"),
            Self::ReplayMissesLast => ("ledger", "a replay leaves out the last record"),
            Self::NoTombstone => ("RM", "Abort of an unknown transaction leaves no tombstone"),
            Self::EndInclusive => ("RM", "counts a window's end as part of the window"),
            Self::SumForMinimum => {
                ("RM", "sums all reservations that overlap a window, even at different times")
            }
            Self::ExpiryUnrecorded => ("RM", "an expiry is not recorded"),
            Self::StaleBoot => {
                ("RM", "compares deadlines of an earlier boot with this boot's clock")
            }
            Self::ExpiryFromRestart => ("RM", "starts a hold's interval anew at a reboot"),
            Self::CommitOfExpired => ("RM", "acknowledges the Commit of an expired hold"),
            Self::SegmentKept => ("RM", "Abort frees all segments but the last"),
            Self::RefusalForgotten => ("RM", "sends a refusal without recording it"),
            Self::OldReleasedAtHold => ("RM", "the Hold of a new version releases the old one"),
            Self::ReleaseUnrecorded => ("RM", "acknowledges a Release before recording it"),
            Self::CommitBeforeDecision => {
                ("GRC", "sends Commit to an RM that holds before it has decided")
            }
            Self::IdReused => ("GRC", "leaves the ledger's tag out of ids"),
            Self::OtherContentTaken => ("GRC", "treats other content under a known id as a retry"),
            Self::MarginIgnored => ("GRC", "decides to commit although a hold is about to expire"),
            Self::ExpiryFromAnswer => {
                ("GRC", "counts a hold's interval from the arrival of the answer")
            }
            Self::DecisionForgotten => ("GRC", "a restart aborts transactions that were decided"),
            Self::ResolveUnrecorded => ("GRC", "answers Resolve with abort without recording it"),
            Self::StrangerAborts => ("GRC", "answers abort for a transaction it never opened"),
            Self::LostForRefused => ("GRC", "counts a Hold without an answer as refused"),
            Self::ConfirmedEarly => ("GRC", "confirms while one acknowledgement is missing"),
            Self::PromisedEarly => ("child GRC", "promises as soon as the first of its RMs holds"),
            Self::ShortHoldUnasked => ("RM", "asks about a short hold only when it has ended"),
            Self::StatusForAnswer => ("GRC", "counts a foreign status as an answer to Commit"),
            Self::DeniedForDone => ("GRC", "counts a denied Abort as acknowledged"),
            Self::ChangeDestroyed => ("GRC", "releases both versions when one RM books too late"),
            Self::AnybodysId => ("RM", "obeys a coordinator about another coordinator's id"),
            Self::AskPauseFixed => ("RM", "does not ask more often when a hold is about to end"),
            Self::PromiseUnasked => ("child GRC", "does not ask about a promise before its end"),
            Self::LeftOutDenied => ("RM", "denies what it has for a coordinator that was removed"),
            Self::DeniedForBooked => ("GRC", "counts a denied Commit as acknowledged"),
            Self::UnknownForLost => ("GRC", "counts a refusal it does not understand as no answer"),
            Self::ServersUnmerged => ("RM", "keeps idle periods of a server apart that touch"),
            Self::ServersChosenAgain => ("RM", "chooses a hold's servers again when it replays"),
            Self::ServerEndInclusive => {
                ("RM", "takes no server whose idle period ends just when the window ends")
            }
            Self::OldServersFreed => {
                ("RM", "frees servers of the old version at the Hold of the new one")
            }
            Self::MemberFreedEarly => {
                ("planner", "frees an activity of a set that has ended before the set has")
            }
            Self::WidenedForSome => {
                ("planner", "prolongs one activity of a set and not the others")
            }
            Self::TransferTooEarly => {
                ("planner", "sends data at the planned time although they are produced later")
            }
            Self::ReportUnrecorded => ("GRC", "acknowledges a report before recording it"),
            Self::HoldsUncounted => {
                ("RM", "counts a hold towards its quota only when it is booked")
            }
            Self::MissingRow => {
                ("matrix", "has no row for GiveUp, and allows what has no row to everybody")
            }
            Self::PrefixComparison => {
                ("caller", "lets a coordinator speak for one whose name begins with its own")
            }
            Self::CheckAfterEffect => ("shell", "denies a message when its core has taken it"),
            Self::SnapshotMissesChange => {
                ("ledger", "writes a snapshot without what has changed of a known transaction")
            }
            Self::RetentionUnsent => ("GRC", "releases what is long over without telling its RMs"),
            Self::NumberReused => ("GRC", "gives the number of a forgotten reservation again"),
            Self::ClaimAfterYes => ("RM", "says yes to a Hold before the equipment has its claim"),
            Self::MakeBeforeObserve => {
                ("RM", "changes the equipment after a restart without a look")
            }
            Self::ForgottenStop => ("RM", "leaves a booking active when its window ends"),
            Self::DoubleClaim => ("RM", "repeats a lost claim without a look at what is there"),
            Self::ActiveUnheard => {
                ("GRC", "calls a reservation active before its equipment has let the user in")
            }
            Self::EndUnnoticed => ("GRC", "does not notice that a window is over"),
            Self::UnprovisionedActive => {
                ("RM", "lets the user in to what the user has not provisioned")
            }
            Self::TombstoneForgotten => {
                ("RM", "forgets that a transaction has ended while its Hold may be on the way")
            }
            Self::Canary => ("harness", "fails every run, to show that failures are reported"),
        }
    }
}

/// Is this bug turned on in this thread?
#[cfg(not(feature = "planted"))]
#[must_use]
pub const fn is(_: Bug) -> bool {
    false
}

#[cfg(feature = "planted")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    std::thread_local! {
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Is this bug turned on in this thread?
    #[must_use]
    pub fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Runs a closure with one bug turned on in this thread.
    pub fn with<T>(bug: Bug, run: impl FnOnce() -> T) -> T {
        PLANTED.set(Some(bug));
        let result = run();
        PLANTED.set(None);
        result
    }
}

#[cfg(feature = "planted")]
pub use switch::{is, with};
