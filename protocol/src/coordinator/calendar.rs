//! Secret addresses of calendars: whoever knows the secret of one may read what its owner has reserved.
//!
//! The secret is never here. A shell draws it, passes in its digest, and tells it to the owner once that is durable. A user has
//! at most one address, and a new one takes its place. One whose time is over is not found any more. Its entry goes when the
//! next address is made, so there are never more than [`limits::CALENDARS_MAX`].
//!
//! Left out: the secret, and whether the owner may still list its reservations, which the shell judges by the
//! [`OwnerProof`] at each reading. Source: docs/adr/0059-calendar-addresses.md.

use std::collections::BTreeMap;

use coalloc_common::{Now, Time, UserName, limits};
use serde::{Deserialize, Serialize};

use super::record::CoordinatorRecord;
use super::{Coordinator, Reply, StepOutput};
use crate::core::ReplayError;
use crate::message::Token;
use crate::tracked::TrackedMap;

/// By what the owner of an address had proven who it is when it made the address. The core never looks at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerProof {
    /// By nothing, because the coordinator served in plain text.
    PlainText,
    /// By this certificate, and those of its issuers: DER in base64.
    Certificate(Vec<String>),
    /// By a token of this issuer.
    Token(String),
}

/// The secret address of a user's calendar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalendarAddress {
    /// SHA-256 of the secret, in hexadecimal digits.
    pub digest: String,
    /// When it was made.
    pub made: Time,
    /// When its time is over.
    pub expires: Time,
    /// By what its owner had proven who it is.
    pub proof: OwnerProof,
}

/// What a user wants of the address of its calendar.
#[derive(Debug, Clone)]
pub enum CalendarInput {
    /// This address in place of the one before, if there is one.
    Make {
        /// The user.
        user: UserName,
        /// The address.
        address: CalendarAddress,
        /// The caller that waits for the answer.
        token: Token<CalendarReply>,
    },
    /// No address any more.
    Revoke {
        /// The user.
        user: UserName,
        /// Only the address with this digest; `None`: whichever it is.
        digest: Option<String>,
        /// The caller that waits for the answer.
        token: Token<CalendarReply>,
    },
}

/// The answer to a [`CalendarInput`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalendarReply {
    /// It is recorded.
    Done,
    /// There was no address to revoke.
    NothingToRevoke,
    /// There are as many addresses as there may be; nothing was done.
    Full,
    /// There is no disk space to record it; nothing was done.
    DiskFull,
}

/// The addresses of all users.
#[derive(Debug, Clone, Default)]
pub(super) struct Calendars {
    pub(super) of: TrackedMap<UserName, CalendarAddress>,
    by_digest: BTreeMap<String, UserName>,
}

impl Calendars {
    /// Puts an entry of a snapshot back. False when it was there already.
    pub(super) fn restore(&mut self, user: UserName, address: CalendarAddress) -> bool {
        let is_new = self.by_digest.insert(address.digest.clone(), user.clone()).is_none();
        self.of.restore(user, address).is_none() && is_new
    }
}

impl Coordinator {
    /// The address of a user's calendar, if it has one at this time.
    #[must_use]
    pub fn calendar_of(&self, user: &UserName, now: Time) -> Option<&CalendarAddress> {
        self.calendars.of.get(user).filter(|address| address.expires > now)
    }

    /// Whose calendar has the secret with this digest, if there is one at this time.
    #[must_use]
    pub fn calendar_by_digest(
        &self,
        digest: &str,
        now: Time,
    ) -> Option<(&UserName, &CalendarAddress)> {
        let user = self.calendars.by_digest.get(digest)?;
        Some((user, self.calendar_of(user, now)?))
    }

    pub(super) fn calendar_input(&mut self, input: CalendarInput, now: Now, out: &mut StepOutput) {
        let (token, reply) = match input {
            CalendarInput::Make { user, address, token } => {
                (token, self.make_calendar(user, address, now, out))
            }
            CalendarInput::Revoke { user, digest, token } => {
                (token, self.revoke_calendar(user, digest.as_deref(), now, out))
            }
        };
        out.reply(Reply::Calendar(token, reply));
    }

    fn make_calendar(
        &mut self,
        user: UserName,
        address: CalendarAddress,
        now: Now,
        out: &mut StepOutput,
    ) -> CalendarReply {
        if self.room.is_low() {
            return CalendarReply::DiskFull;
        }
        let is_over = |other: &CalendarAddress| other.expires <= now.wall;
        let over = self.calendars.of.iter().filter(|(other, it)| **other != user && is_over(it));
        let over: Vec<UserName> =
            over.map(|(other, _)| other.clone()).take(limits::FORGET_BATCH).collect();
        for user in over {
            self.record(CoordinatorRecord::CalendarChanged { user, address: None, at: now }, out);
        }
        let is_another = !self.calendars.of.contains_key(&user);
        if is_another && self.calendars.of.len() >= limits::CALENDARS_MAX {
            return CalendarReply::Full;
        }
        let address = Some(address);
        self.record(CoordinatorRecord::CalendarChanged { user, address, at: now }, out);
        CalendarReply::Done
    }

    fn revoke_calendar(
        &mut self,
        user: UserName,
        digest: Option<&str>,
        now: Now,
        out: &mut StepOutput,
    ) -> CalendarReply {
        let is_meant =
            |address: &CalendarAddress| digest.is_none_or(|digest| digest == address.digest);
        let is_known = self.calendar_of(&user, now.wall).is_some_and(is_meant);
        if self.calendars.of.get(&user).is_some_and(is_meant) {
            self.record(CoordinatorRecord::CalendarChanged { user, address: None, at: now }, out);
        }
        if is_known { CalendarReply::Done } else { CalendarReply::NothingToRevoke }
    }

    pub(super) fn fold_calendar_changed(
        &mut self,
        user: &UserName,
        address: Option<&CalendarAddress>,
    ) -> Result<(), ReplayError> {
        let calendars = &mut self.calendars;
        let old = calendars.of.remove(user);
        if let Some(old) = &old {
            calendars.by_digest.remove(&old.digest);
        }
        let Some(address) = address else {
            let missing = || ReplayError(format!("{user} has no calendar address to end"));
            return old.map(drop).ok_or_else(missing);
        };
        if calendars.by_digest.insert(address.digest.clone(), user.clone()).is_some() {
            return Err(ReplayError(format!("the calendar of {user} has the address of another")));
        }
        calendars.of.insert(user.clone(), address.clone());
        Ok(())
    }

    /// Checks that each address is found by its digest, and nothing else is.
    pub(super) fn check_calendars(&self) -> Result<(), String> {
        let Calendars { of, by_digest } = &self.calendars;
        let is_found =
            |(user, it): (&UserName, &CalendarAddress)| by_digest.get(&it.digest) == Some(user);
        if of.len() != by_digest.len() || !of.iter().all(is_found) {
            return Err("I12: calendars are not found by the digests that they have".to_owned());
        }
        if of.len() > limits::CALENDARS_MAX {
            return Err(format!("there are {} addresses of calendars", of.len()));
        }
        Ok(())
    }
}
