//! Whose ledger a file is, and how such a file is recognised.

/// The format that this binary writes, and the newest that it reads.
///
/// It rises with every release whose records, or parts of a snapshot, an earlier one does not know; the tables may be the same. So an
/// earlier release refuses the file as a whole, and says why, where it would otherwise stop at a record that it cannot read.
pub(crate) const FORMAT_VERSION: i64 = 4;
/// The meta datum that names the program which has brought a ledger to its format.
pub(crate) const WRITTEN_BY: &str = "written_by";
/// This program and its release.
pub(crate) const PROGRAM: &str = concat!("coalloc ", env!("CARGO_PKG_VERSION"));
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
