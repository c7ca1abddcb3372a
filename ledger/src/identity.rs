//! Whose ledger a file is, and how such a file is recognised.

/// The format that this binary writes, and the newest that it reads.
pub(crate) const FORMAT_VERSION: i64 = 2;
/// The oldest format that this binary reads. A ledger of it becomes one of the newest when its node opens it.
pub(crate) const OLDEST_FORMAT: i64 = 1;
/// SQLite's application id of a ledger: "CoAL". `file` and `PRAGMA application_id` show it.
pub(crate) const APPLICATION_ID: i32 = 0x436f_414c;

/// The node that a ledger belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The kind of node: `nrm`, `crm` or `grc`.
    pub kind: String,
    /// The node's name.
    pub name: String,
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)
    }
}
