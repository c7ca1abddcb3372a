//! Why a certificate, an authority or a folder cannot be made, read or changed.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use coalloc_common::{Identity, InvalidField, TrustDomain};

use crate::kit::exit::{Exit, Failure};

/// What can go wrong with certificates and their folders.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file or folder cannot be read or written.
    #[error("{path}: {doing} failed: {source}")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A file does not have what it should have.
    #[error("{path}: {problem}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Something is there that must not be overwritten.
    #[error("{path} is there already; {instead}")]
    Exists {
        /// The file.
        path: PathBuf,
        /// What to do instead.
        instead: &'static str,
    },
    /// A value from outside is not allowed.
    #[error(transparent)]
    Field(#[from] InvalidField),
    /// An authority was asked to vouch for somebody of another domain.
    #[error("identity: {identity} is not allowed; allowed: identities of the domain {domain}")]
    ForeignDomain {
        /// Whom it should vouch for.
        identity: Identity,
        /// The authority's domain.
        domain: TrustDomain,
    },
    /// The authority has no certificate that fits.
    #[error("the authority of {domain} has not issued {what}")]
    NotIssued {
        /// The authority's domain.
        domain: TrustDomain,
        /// What was looked for, in words.
        what: String,
    },
    /// The authority keeps as many records as it can.
    #[error(
        "the authority of {domain} has issued {records} certificates that have not ended for long, and keeps \
         records of no more; wait until some have ended, or make another authority"
    )]
    Full {
        /// The authority's domain.
        domain: TrustDomain,
        /// How many certificates it has records of.
        records: usize,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
    /// The library that makes certificates refuses.
    #[error("making {what} failed: {source}")]
    Making {
        /// What was made.
        what: &'static str,
        /// The library's error.
        source: rcgen::Error,
    },
}

impl AuthorityError {
    pub(super) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, doing, source }
    }

    pub(super) fn content(path: &Path, problem: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), problem: problem.into() }
    }

    pub(super) fn making(what: &'static str) -> impl FnOnce(rcgen::Error) -> Self {
        move |source| Self::Making { what, source }
    }
}

impl From<AuthorityError> for Failure {
    fn from(error: AuthorityError) -> Self {
        let exit = match &error {
            AuthorityError::Io { source, .. } => match source.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => {
                    Exit::BadInput
                }
                _ => Exit::Failed,
            },
            AuthorityError::Content { .. }
            | AuthorityError::Exists { .. }
            | AuthorityError::Field(_)
            | AuthorityError::ForeignDomain { .. } => Exit::BadInput,
            AuthorityError::Full { .. } => Exit::Refused,
            AuthorityError::NotIssued { .. } => Exit::NotFound,
            AuthorityError::Random(_) | AuthorityError::Making { .. } => Exit::Failed,
        };
        Self::new(exit, error.to_string())
    }
}
