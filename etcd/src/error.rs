//! How a call of etcd fails.

use tonic::{Code, Status};

/// Why a call of etcd has no result.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// etcd has refused the call. Nothing was done, and sending it again is of no use until something changes.
    #[error("etcd at {member} refuses to {doing}: {why}")]
    Refused {
        /// The member that was called.
        member: String,
        /// What it was to do.
        doing: &'static str,
        /// etcd's reason.
        why: String,
    },
    /// There was no answer, or one that says nothing. What was to be changed may be changed, now or a little later.
    #[error("etcd at {member} was to {doing}, and does not say whether it did: {why}")]
    Unknown {
        /// The member that was called last.
        member: String,
        /// What it was to do.
        doing: &'static str,
        /// What happened instead of an answer.
        why: String,
    },
}

impl EtcdError {
    pub(crate) fn new(member: &str, doing: &'static str, status: &Status) -> Self {
        let (member, why) = (member.to_owned(), with_causes(status));
        match status.code() {
            // A member that has too much to do. The same code says that there is no space left.
            Code::ResourceExhausted if why.contains("too many requests") => {
                Self::Unknown { member, doing, why }
            }
            // etcd answers so before it proposes the call to its members, or when its database has no space left.
            Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::ResourceExhausted
            | Code::NotFound
            | Code::OutOfRange
            | Code::Unimplemented => Self::Refused { member, doing, why },
            code => Self::Unknown { member, doing, why: format!("{code:?}, {why}") },
        }
    }

    pub(crate) fn silent(member: &str, doing: &'static str, waited: std::time::Duration) -> Self {
        let why = format!("no answer within {} ms", waited.as_millis());
        Self::Unknown { member: member.to_owned(), doing, why }
    }

    pub(crate) fn odd(member: &str, doing: &'static str, why: &str) -> Self {
        Self::Unknown { member: member.to_owned(), doing, why: why.to_owned() }
    }

    /// Is it unknown whether it was done?
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }
}

/// What a status says, and why the transport says so.
fn with_causes(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
