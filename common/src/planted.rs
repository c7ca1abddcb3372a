//! Planted bugs: mistakes that a review could let through, behind a switch that only tests have.
//!
//! The fault runs are worth what they find. Each [`Bug`] is one line of wrong code at the place where
//! somebody might write it; `coalloc-sim`'s test `planted` turns one on at a time and counts the seeds
//! until the harness finds it. The table is in `docs/PROTOCOL.md`.
//!
//! Without the feature `planted`, [`is`] is a constant `false`: the switch costs nothing and nothing can be
//! turned on. No shipped build has the feature; `coalloc-sim` alone turns it on, for its tests. The switch
//! is of the thread, since a simulated world lives on one, so that bugs are looked for side by side.
//!
//! To add one: a variant here, its line at its place, the test, `COALLOC_BLESS=1`; see CONTRIBUTING.md.
//! Source: etcd's robustness tests, which keep every bug that was found reproducible.

/// One mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// The ledger says that a record is durable when it is only written.
    SkippedSync,
    /// A failed append is logged, and the effects behind it leave all the same.
    SentWithoutSync,
    /// A replay leaves out the last record.
    ReplayMissesLast,
    /// An Abort of an unknown transaction is acknowledged without a record.
    NoTombstone,
    /// A window's end counts as inside it: adjacent windows are in each other's way.
    EndInclusive,
    /// What overlaps a window is summed, whether or not it overlaps one another.
    SumForMinimum,
    /// An expiry changes the memory and not the log.
    ExpiryUnrecorded,
    /// A hold of an earlier boot keeps its deadlines, which that boot's clock counted.
    StaleBoot,
    /// After a reboot a hold's interval begins anew.
    ExpiryFromRestart,
    /// A Commit of what has expired is acknowledged: it has ended, so that nothing is left to do.
    CommitOfExpired,
    /// An Abort gives back all segments but the last.
    SegmentKept,
    /// A refusal of a Hold is answered and not recorded.
    RefusalForgotten,
    /// A hold of a new version releases the old one at once.
    OldReleasedAtHold,
    /// A Release is acknowledged before there is a record of it.
    ReleaseUnrecorded,
    /// Commit goes out to an RM that holds while others have not answered yet.
    CommitBeforeDecision,
    /// Ids leave out the tag of the ledger that they were made with.
    IdReused,
    /// The same request id with other content is taken for the same request.
    OtherContentTaken,
    /// It is decided although a hold is about to run out.
    MarginIgnored,
    /// A hold's interval is counted from when its answer came, not from before it was asked for.
    ExpiryFromAnswer,
    /// A restart aborts what was decided and not finished.
    DecisionForgotten,
    /// An RM that asks about an undecided transaction is told "abort", and nothing is recorded.
    ResolveUnrecorded,
    /// A question about an unknown transaction is answered "abort": no decision means abort.
    StrangerAborts,
    /// A Hold without an answer is taken for refused, so that its RM is not told to abort.
    LostForRefused,
    /// "Confirmed" is said when all acknowledgements but one are there.
    ConfirmedEarly,
    /// A coordinator below promises when the first of its RMs holds.
    PromisedEarly,
    /// A short hold is asked about when it ends, which is too late.
    ShortHoldUnasked,
    /// A foreign status in answer to Commit is taken for the RM's final answer.
    StatusForAnswer,
    /// A denied Abort is taken for an acknowledged one.
    DeniedForDone,
    /// A change that one RM is too late to book is released everywhere, the old version too.
    ChangeDestroyed,
    /// Ids are not bound to their coordinator: a message about another's is obeyed where nothing of it is known.
    AnybodysId,
    /// The pause between two questions does not shrink towards the end of a hold.
    AskPauseFixed,
    /// A promise to a coordinator above is not asked about before its end when it is short.
    PromiseUnasked,
    /// What is there for a coordinator that the configuration leaves out is denied to it.
    LeftOutDenied,
    /// A denied Commit is taken for an acknowledged one.
    DeniedForBooked,
    /// A refusal for a reason that is not known is taken for no answer.
    UnknownForLost,
    /// Not a bug of the protocol: every run with it fails, which shows that failures are reported.
    Canary,
}

impl Bug {
    /// All of them, the canary last.
    pub const ALL: [Self; 36] = [
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
        Self::Canary,
    ];

    /// What is wrong, in a sentence for people; and whose side it is on.
    #[must_use]
    pub const fn what(self) -> (&'static str, &'static str) {
        match self {
            Self::SkippedSync => ("ledger", "says a record is durable that is only written"),
            Self::SentWithoutSync => ("shell", "a failed append does not keep its effects back"),
            Self::ReplayMissesLast => ("ledger", "a replay leaves out the last record"),
            Self::NoTombstone => ("RM", "Abort of an unknown transaction leaves no tombstone"),
            Self::EndInclusive => ("RM", "a window's end counts as inside it"),
            Self::SumForMinimum => {
                ("RM", "sums all that overlaps a window, for what is free in it")
            }
            Self::ExpiryUnrecorded => ("RM", "an expiry is not recorded"),
            Self::StaleBoot => ("RM", "deadlines of an earlier boot are compared with this one's"),
            Self::ExpiryFromRestart => ("RM", "a hold's interval begins anew at a reboot"),
            Self::CommitOfExpired => ("RM", "acknowledges a Commit of what has expired"),
            Self::SegmentKept => ("RM", "Abort gives back all segments but the last"),
            Self::RefusalForgotten => ("RM", "a refusal is answered and not recorded"),
            Self::OldReleasedAtHold => ("RM", "Hold of a new version releases the old one"),
            Self::ReleaseUnrecorded => ("RM", "acknowledges a Release before its record"),
            Self::CommitBeforeDecision => ("GRC", "sends Commit to whoever holds, undecided"),
            Self::IdReused => ("GRC", "ids leave out the tag of the ledger"),
            Self::OtherContentTaken => ("GRC", "takes other content under a known id for a retry"),
            Self::MarginIgnored => ("GRC", "decides although a hold is about to run out"),
            Self::ExpiryFromAnswer => ("GRC", "counts a hold's interval from its answer"),
            Self::DecisionForgotten => ("GRC", "a restart aborts what was decided"),
            Self::ResolveUnrecorded => ("GRC", "answers Resolve with abort, unrecorded"),
            Self::StrangerAborts => ("GRC", "answers abort for what it never opened"),
            Self::LostForRefused => ("GRC", "takes a Hold without an answer for refused"),
            Self::ConfirmedEarly => ("GRC", "confirms when one acknowledgement is missing"),
            Self::PromisedEarly => ("GRC below", "promises when the first of its RMs holds"),
            Self::ShortHoldUnasked => ("RM", "asks about a short hold only when it has ended"),
            Self::StatusForAnswer => ("GRC", "takes a foreign status for an answer to Commit"),
            Self::DeniedForDone => ("GRC", "takes a denied Abort for an acknowledged one"),
            Self::ChangeDestroyed => ("GRC", "releases both versions when one RM books too late"),
            Self::AnybodysId => ("RM", "obeys a coordinator about an id that is another's"),
            Self::AskPauseFixed => ("RM", "asks no more often when a hold is about to end"),
            Self::PromiseUnasked => ("GRC below", "does not ask about a promise before its end"),
            Self::LeftOutDenied => ("RM", "denies what it has for one that is left out by now"),
            Self::DeniedForBooked => ("GRC", "takes a denied Commit for an acknowledged one"),
            Self::UnknownForLost => ("GRC", "takes a refusal it does not understand for none"),
            Self::Canary => ("harness", "every run fails: failures are reported"),
        }
    }
}

/// Is this bug planted, on this thread?
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

    /// Is this bug planted, on this thread?
    #[must_use]
    pub fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Runs something with a bug planted on this thread.
    pub fn with<T>(bug: Bug, run: impl FnOnce() -> T) -> T {
        PLANTED.set(Some(bug));
        let result = run();
        PLANTED.set(None);
        result
    }
}

#[cfg(feature = "planted")]
pub use switch::{is, with};
