//! What is kept of a reservation that was refused.
//!
//! A refused reservation is on record so that its repetitions get the same answer (I8). Nothing is booked for it, but its
//! request may be as long as any other, and whoever is refused may send the next one at once. So of a long one only a few
//! words are kept besides the refusals: what the shell makes of its notes. The digest of the request's content stands in
//! its ticket. Of a parent's Hold the first segments and a digest are kept, as at a resource manager.
//!
//! | refused | long notes | last candidate |
//! |---|---|---|
//! | by planning | never recorded | none |
//! | a change, by planning | never recorded | none |
//! | after attempts | until the end of the last attempt | until the end of the last attempt |
//!
//! Left out: the records of attempts. They stay in the ledger's file until they are archived.

use coalloc_common::limits;

use super::reservation::Reservation;
use super::{Candidate, Coordinator};

/// Makes of the notes of a refused reservation what is kept of them.
pub type ShortNotes = fn(&str) -> String;

/// Nothing is kept, unless the shell says otherwise.
pub(super) const NO_NOTES: ShortNotes = |_| String::new();

impl Coordinator {
    /// Sets what is kept of the notes of a refused reservation that are longer than
    /// [`limits::REFUSED_NOTES_BYTES_MAX`]. If they are still longer, nothing is kept of them.
    pub fn set_short_notes(&mut self, short: ShortNotes) {
        self.short_notes = short;
    }

    /// What is recorded of the notes of a request or a change that planning has refused.
    pub(super) fn notes_of_refused(&self, notes: String) -> String {
        if is_long(notes.len()) { self.shortened(&notes) } else { notes }
    }

    /// What is kept of the notes of a reservation whose last attempt was refused; `None` if it is kept as it is.
    pub(super) fn notes_after_attempts(&self, reservation: &Reservation) -> Option<String> {
        let details = |candidate: &Candidate| candidate.details.text().len();
        let bytes = reservation.notes.len() + reservation.candidate.as_ref().map_or(0, details);
        let is_long = is_long(bytes)
            || self.parent_order(reservation).is_some_and(crate::participant::refused::is_long);
        is_long.then(|| self.shortened(&reservation.notes))
    }

    fn shortened(&self, notes: &str) -> String {
        let short = (self.short_notes)(notes);
        if is_long(short.len()) { String::new() } else { short }
    }
}

const fn is_long(bytes: usize) -> bool {
    bytes > limits::REFUSED_NOTES_BYTES_MAX
}
