//! The format of a log: which releases read it.
//!
//! It is in a key of its own, which the first leader of a later release raises before it appends anything. A member whose release does not
//! know the format does not open the log, and says so when it meets a record that it cannot read.
//!
//! Left out: the format of ledgers in files, which rises with it (`crate::identity`). Source: docs/adr/0050-versions.md.

use super::SharedLog;
use crate::identity::{FORMAT_VERSION, PROGRAM};
use crate::shared::error::SharedLogError;
use crate::shared::store::Store;

impl<S: Store> SharedLog<S> {
    /// Checks that this release reads what is in the log.
    ///
    /// # Errors
    /// [`SharedLogError::NewerFormat`] when a later release has led; or the store does not answer.
    pub fn check_format(&mut self) -> Result<(), SharedLogError> {
        let Some((found, by)) = self.format(&mut 0)? else { return Ok(()) };
        if found <= FORMAT_VERSION {
            return Ok(());
        }
        Err(SharedLogError::NewerFormat { prefix: self.prefix.clone(), found, by })
    }

    /// Brings the log to the format of this release, whose member leads. Call this before the first append.
    ///
    /// # Errors
    /// [`SharedLogError`] when this member does not lead any more, or the store does not answer.
    pub fn raise_format(&mut self) -> Result<(), SharedLogError> {
        let mut tries = 0;
        if self.format(&mut tries)?.is_some_and(|(found, _)| found >= FORMAT_VERSION) {
            return Ok(());
        }
        let epoch = self.epoch.ok_or_else(|| self.not_leading("it was not elected".to_owned()))?;
        let value = format!("{FORMAT_VERSION} {PROGRAM}").into_bytes();
        self.write_as_leader(self.keys.format(), &value, epoch, &mut tries)
    }

    /// The format of the log, and the program that has brought it there; `None` if that was before format 3.
    fn format(&mut self, tries: &mut u32) -> Result<Option<(i64, String)>, SharedLogError> {
        let Some(known) = self.get(&self.keys.format(), tries)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&known.value).into_owned();
        let parsed = text.split_once(' ').and_then(|(format, by)| Some((format.parse().ok()?, by)));
        let (format, by) = parsed.ok_or_else(|| self.damaged(format!("its format is {text:?}")))?;
        Ok(Some((format, by.to_owned())))
    }
}
