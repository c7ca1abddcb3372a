//! What cannot be promised where an old disk was put back (F11), or where a resource manager lies (F7) or has
//! its configuration changed (F12), or where somebody has stolen a key (F14). The checks leave out exactly this,
//! and require of everything else what they require without such faults.
//!
//! **F11.** A disk that was put back has lost its last records. Every reservation that one of them was about
//! is *lost*, and with it everything that belongs to it at parent and child coordinators. The users of a lost
//! reservation may be told "unknown" or another outcome than before; it may be booked at one RM and not at
//! another; its ids may be given again. Nothing is taken from reservations whose records are all there. I1
//! stays in force, because every RM keeps it by what it knows. I7 and I22 stay in force, because what is held
//! for a lost reservation ends like any other hold. A coordinator that has lost that it had an old version
//! released may try in vain to go back to that version until both versions are over; only until then is that
//! one reservation not at rest.
//!
//! **F7.** An RM that has lied about a transaction is believed, because a coordinator knows nothing else. Its
//! users may be told "confirmed" where every RM has *said* that it booked, and "nothing is held" where every
//! RM has said so. The exemption covers only what the lying RM itself has of that reservation. The honest RMs
//! of the same reservation owe everything: I1, I4, I5, I6 among themselves, and I7.
//!
//! **F12.** An RM whose configuration leaves a coordinator out denies that coordinator every transaction that
//! the RM does not know, and writes nothing down. A copy of a Hold that arrives after the coordinator is
//! named again is new to the RM, although the user was told in the meantime that nothing is held. If the RM
//! holds it in two phases, it asks for the outcome, and that ends the hold (I7, I22). Nobody asks about a
//! one-way booking: it stays, without an owner, until somebody compares. The exemption covers what the RM has
//! in this way of a transaction whose end it denied.
//!
//! **F14.** Whoever has a coordinator's key is that coordinator to everybody. If a rogue's message about a
//! reservation was taken in that name, the reservation is lost like one of which a disk has lost a record, with
//! everything that belongs to it at parent and child coordinators. In addition its transactions may be held without
//! an intent, and booked or aborted without a decision. The other reservations of the same coordinator, and those of
//! all others, owe everything.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{ReservationId, TransactionId};
use serde_json::Value;

/// The JSON keys of records whose values are ids of transactions or reservations.
const ID_KEYS: [&str; 4] = ["txn", "reservation", "replaces", "by"];

/// The reservations and transactions for which something cannot be promised.
#[derive(Debug, Default)]
pub struct Exempt {
    /// Reservations of which a record was lost, and the topmost reservations that they belong to.
    lost: BTreeSet<String>,
    /// Reservations of which a coordinator has lost that an old version was released.
    settled: BTreeSet<String>,
    /// Reservations of which somebody with a stolen key has sent a message that was taken.
    stolen: BTreeSet<String>,
    /// For each reservation of a child coordinator, the parent's transaction for which it was made.
    parents: BTreeMap<String, TransactionId>,
    /// Which RM has lied about which topmost reservation.
    lied: BTreeSet<(usize, String)>,
    /// Which RM has said that it booked which transaction.
    said_booked: BTreeSet<(usize, TransactionId)>,
    /// Which RM has denied the end of which transaction.
    denied: BTreeSet<(usize, TransactionId)>,
}

/// The reservation that a transaction is an attempt of.
fn reservation(txn: &str) -> &str {
    txn.rsplit_once('/').map_or(txn, |(reservation, _)| reservation)
}

impl Exempt {
    /// The topmost reservation that this one belongs to.
    fn root<'a>(&'a self, mut id: &'a str) -> &'a str {
        // An id that a child coordinator gives again could become its own ancestor, so the depth is bounded.
        for _ in 0..8 {
            match self.parents.get(id) {
                Some(upper) => id = reservation(upper.as_str()),
                None => break,
            }
        }
        id
    }

    /// A child coordinator has made a reservation for a transaction of its parent.
    pub fn note_parent(&mut self, below: &ReservationId, upper: &TransactionId) {
        self.parents.insert(below.as_str().to_owned(), upper.clone());
        if self.lost.contains(below.as_str()) {
            // A lost id is given again: what it belongs to now is lost, too.
            let root = self.root(below.as_str()).to_owned();
            self.lost.insert(root);
        }
    }

    /// These records are lost (F11).
    pub fn lose(&mut self, bodies: &[String]) {
        for body in bodies {
            let Ok(value) = serde_json::from_str::<Value>(body) else { continue };
            self.lose_ids(&value);
            if value["record"] == "settled"
                && let Some(txn) = value["txn"].as_str()
            {
                self.settled.insert(reservation(txn).to_owned());
            }
        }
    }

    /// A message with a stolen key, about a transaction of the key's coordinator, was taken (F14).
    pub fn steal(&mut self, txn: &TransactionId) {
        let id = reservation(txn.as_str()).to_owned();
        let root = self.root(&id).to_owned();
        self.lost.extend([id.clone(), root]);
        self.stolen.insert(id);
    }

    /// Has somebody with a stolen key sent a message about this transaction's reservation?
    pub fn is_stolen(&self, txn: &TransactionId) -> bool {
        !self.stolen.is_empty() && self.stolen.contains(reservation(txn.as_str()))
    }

    fn lose_ids(&mut self, value: &Value) {
        let Value::Object(fields) = value else { return };
        for (key, value) in fields {
            match value {
                Value::String(id) if ID_KEYS.contains(&key.as_str()) => {
                    let id = reservation(id).to_owned();
                    let root = self.root(&id).to_owned();
                    self.lost.extend([id, root]);
                }
                other => self.lose_ids(other),
            }
        }
    }

    /// Has a coordinator lost the record that RMs had released an old version of this reservation?
    pub fn is_mended_till_over(&self, id: &str) -> bool {
        self.settled.contains(id)
    }

    /// Has a disk lost a record of this reservation, or of the topmost one that it belongs to?
    pub fn is_lost(&self, id: &str) -> bool {
        !self.lost.is_empty() && (self.lost.contains(id) || self.lost.contains(self.root(id)))
    }

    /// Has a disk lost a record of this transaction's reservation?
    pub fn is_lost_txn(&self, txn: &TransactionId) -> bool {
        !self.lost.is_empty() && self.is_lost(reservation(txn.as_str()))
    }

    /// An RM lies about a transaction; `booked` says whether it claims to have booked it.
    pub fn lie(&mut self, rm: usize, txn: &TransactionId, booked: bool) {
        let root = self.root(reservation(txn.as_str())).to_owned();
        self.lied.insert((rm, root));
        if booked {
            self.said_booked.insert((rm, txn.clone()));
        }
    }

    /// Has this RM lied about the reservation of a transaction?
    pub fn has_lied(&self, rm: usize, txn: &TransactionId) -> bool {
        let root = || self.root(reservation(txn.as_str())).to_owned();
        !self.lied.is_empty() && self.lied.contains(&(rm, root()))
    }

    /// Has any RM lied about the reservation of a transaction, at any level of the tree?
    pub fn is_lied_about(&self, txn: &TransactionId) -> bool {
        let root = self.root(reservation(txn.as_str()));
        self.lied.iter().any(|(_, lied)| lied == root)
    }

    /// Has this RM said that it booked a transaction, and lied?
    pub fn said_booked(&self, rm: usize, txn: &TransactionId) -> bool {
        self.said_booked.contains(&(rm, txn.clone()))
    }

    /// An RM has denied the end of a transaction.
    pub fn deny(&mut self, rm: usize, txn: &TransactionId) {
        self.denied.insert((rm, txn.clone()));
    }

    /// Has this RM lied about a transaction, or denied its end?
    pub fn owes_nothing(&self, rm: usize, txn: &TransactionId) -> bool {
        self.has_lied(rm, txn) || self.denied.contains(&(rm, txn.clone()))
    }

    /// Do the checks require nothing of this RM for this transaction?
    pub fn is_free(&self, rm: usize, txn: &TransactionId) -> bool {
        self.is_lost_txn(txn) || self.owes_nothing(rm, txn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn txn(id: &str) -> TransactionId {
        TransactionId::composed(id)
    }

    #[test]
    fn a_lost_record_takes_its_reservation_on_every_level_and_no_other() {
        let mut exempt = Exempt::default();
        exempt.note_parent(&ReservationId::composed("mid-1-1"), &txn("top-1-7/2"));
        exempt.note_parent(&ReservationId::composed("low-1-1"), &txn("mid-1-1/1"));
        exempt.lose(&[r#"{"record":"held","order":{"txn":"low-1-1/1"},"by":{"x":"y"}}"#.into()]);
        for lost in ["low-1-1/3", "mid-1-1/1", "top-1-7/2", "top-1-7/3"] {
            assert!(exempt.is_lost_txn(&txn(lost)), "{lost}");
        }
        assert!(!exempt.is_lost("top-1-8") && !exempt.is_lost("mid-1-2"));
        // The id of the child's reservation is given again, for another reservation of the parent.
        exempt.note_parent(&ReservationId::composed("low-1-1"), &txn("top-1-9/1"));
        assert!(exempt.is_lost("top-1-9"));
    }

    #[test]
    fn a_stolen_key_takes_what_it_was_used_for_and_nothing_else_of_its_coordinator() {
        let mut exempt = Exempt::default();
        exempt.note_parent(&ReservationId::composed("low-1-1"), &txn("top-1-7/2"));
        exempt.steal(&txn("low-1-1/1"));
        assert!(exempt.is_stolen(&txn("low-1-1/2")) && exempt.is_lost("top-1-7"));
        assert!(!exempt.is_stolen(&txn("top-1-7/2")), "its parent still decides and intends");
        assert!(!exempt.is_stolen(&txn("low-1-2/1")) && !exempt.is_lost("low-1-2"));
        // A reservation that the rogue has guessed, and that is made later.
        exempt.steal(&txn("low-1-9/1"));
        exempt.note_parent(&ReservationId::composed("low-1-9"), &txn("top-1-8/1"));
        assert!(exempt.is_lost("top-1-8"));
    }

    #[test]
    fn a_liar_is_free_for_what_it_lied_about() {
        let mut exempt = Exempt::default();
        exempt.lie(3, &txn("a-1-1/1"), true);
        assert!(exempt.is_free(3, &txn("a-1-1/2")) && exempt.said_booked(3, &txn("a-1-1/1")));
        assert!(!exempt.said_booked(3, &txn("a-1-1/2")));
        assert!(!exempt.is_free(2, &txn("a-1-1/1")) && !exempt.is_free(3, &txn("a-1-2/1")));
    }
}
