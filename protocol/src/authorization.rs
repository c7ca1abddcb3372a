//! Who may make which call, as values: the rows of the matrix, who is who at a daemon, and whose things a message may be
//! about.
//!
//! * [`matrix`]: every method, and the kinds of callers that may use it. A method without a row is denied to all.
//! * [`roster`]: what a proven identity is at this daemon.
//! * [`caller`]: what is known of a caller, and what follows for the fields of its message.
//!
//! Nothing here knows connections, certificates or tokens. So the daemons' layer (`coalloc_net::authorization`) and the
//! simulated nodes run the same code.
//!
//! Left out: how an identity is proven, and how a denial is told, counted and logged; that is the shell's. Source:
//! docs/adr/0042-identity.md.

pub mod caller;
pub mod matrix;
pub mod roster;

use coalloc_common::TransactionId;

pub use self::caller::CallerFacts;
pub use self::matrix::Parties;
pub use self::roster::Roster;

/// A kind of caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A user, for itself.
    User,
    /// An operator of this daemon.
    Operator,
    /// An auditor of this daemon.
    Auditor,
    /// A coordinator that this daemon's configuration names.
    Coordinator,
    /// A resource manager that this daemon's configuration names.
    ResourceManager,
    /// Anybody who has proven an identity, whichever it is.
    Identified,
    /// Anybody at all. What such a call may see is said by something in its message.
    Anybody,
}

impl Party {
    /// All kinds of callers.
    pub const ALL: [Self; 7] = [
        Self::User,
        Self::Operator,
        Self::Auditor,
        Self::Coordinator,
        Self::ResourceManager,
        Self::Identified,
        Self::Anybody,
    ];

    const fn words(self) -> &'static str {
        match self {
            Self::User => "users",
            Self::Operator => "operators",
            Self::Auditor => "auditors",
            Self::Coordinator => "coordinators of its configuration",
            Self::ResourceManager => "resource managers of its configuration",
            Self::Identified => "everybody with an identity",
            Self::Anybody => "everybody",
        }
    }
}

/// Why a call is denied. Each text is for the caller, and repeats only what the caller has sent or may know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The method has no row. The path is the caller's own text, cut to a sensible length.
    #[error("{0:?} is no method that anybody may call")]
    NoRow(String),
    /// The caller has shown nothing.
    #[error("{method} is for {parties}; prove who you are with a client certificate or a token")]
    Unproven {
        /// The name of the method, without its service.
        method: String,
        /// The kinds of callers that may use it.
        parties: Parties,
    },
    /// The method is for other kinds of callers.
    #[error("{method} is for {parties}")]
    OtherParty {
        /// The name of the method, without its service.
        method: String,
        /// The kinds of callers that may use it.
        parties: Parties,
    },
    /// A field names a user for whom the caller may not act.
    #[error("{field}: {user} is somebody else; your name here is {own}")]
    OtherUser {
        /// The field.
        field: String,
        /// What it says, quoted.
        user: String,
        /// The caller's own name; `nobody` when it is no user.
        own: String,
    },
    /// What is asked for belongs to users, and the caller is none.
    #[error("it belongs to users")]
    NoUser,
    /// A field names another coordinator.
    #[error("{field}: {name:?} is another coordinator")]
    OtherCoordinator {
        /// The field.
        field: String,
        /// What it says.
        name: String,
    },
    /// A transaction that would be replaced belongs to another coordinator.
    #[error("replaces: {0} is a transaction of somebody else")]
    OthersTransaction(TransactionId),
    /// A field names another resource manager.
    #[error("{field}: {name} is another resource manager")]
    OtherRm {
        /// The field.
        field: String,
        /// What it says, quoted.
        name: String,
    },
}
