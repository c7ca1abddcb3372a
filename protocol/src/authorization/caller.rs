//! What is known of a caller at a daemon, and whose things its messages may be about.
//!
//! The matrix knows methods only. Whether a message speaks of the caller's own things is seen by its handler, which asks
//! the [`CallerFacts`].
//!
//! Left out: how the caller has proven who it is. Source: docs/adr/0042-identity.md.

use coalloc_common::planted::{self, Bug};
use coalloc_common::{CoordinatorName, InvalidField, Requester, RmName, TransactionId, UserName};

use super::matrix::{Parties, row};
use super::{Denial, Party};
use crate::message::MessageKind;

/// How many characters of a path without a row a denial repeats.
const PATH_SHOWN_MAX: usize = 100;

/// What a caller has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownProof {
    /// It cannot show anything, because the daemon serves in plain text. Everything is allowed, on loopback.
    PlainText,
    /// Nothing, although it could.
    Nothing,
    /// An identity, or a token that stands for a user.
    Proof,
}

/// What is known of a caller at one daemon: what it is here, and its names in each role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerFacts {
    shown: ShownProof,
    /// What the caller is here; it may be several things.
    parties: Parties,
    user: Option<UserName>,
    coordinator: Option<CoordinatorName>,
    rm: Option<RmName>,
}

impl CallerFacts {
    const fn shown(shown: ShownProof) -> Self {
        let parties = Parties::of(&[]);
        Self { shown, parties, user: None, coordinator: None, rm: None }
    }

    /// A caller at a daemon that serves in plain text: it may be anybody.
    #[must_use]
    pub const fn plain_text() -> Self {
        Self::shown(ShownProof::PlainText)
    }

    /// A caller who has shown nothing.
    #[must_use]
    pub const fn nobody() -> Self {
        Self::shown(ShownProof::Nothing)
    }

    /// A user who is nothing else here, by a token.
    #[must_use]
    pub const fn user_only(user: UserName) -> Self {
        let parties = Parties::of(&[Party::User, Party::Identified]);
        Self { shown: ShownProof::Proof, parties, user: Some(user), coordinator: None, rm: None }
    }

    /// Somebody who has proven an identity. The names are those that it has here.
    pub(super) fn identified(
        user: Option<UserName>,
        coordinator: Option<CoordinatorName>,
        rm: Option<RmName>,
        others: Parties,
    ) -> Self {
        let facts = [
            (user.is_some(), Party::User),
            (coordinator.is_some(), Party::Coordinator),
            (rm.is_some(), Party::ResourceManager),
        ];
        let own = facts.iter().filter(|(is, _)| *is);
        let parties = own.fold(others, |parties, (_, party)| parties.with(*party));
        let parties = parties.with(Party::Identified);
        Self { shown: ShownProof::Proof, parties, user, coordinator, rm }
    }

    /// Whether the caller is of this kind here.
    #[must_use]
    pub const fn is(&self, party: Party) -> bool {
        self.parties.has(party)
    }

    /// Everything that the caller is here.
    #[must_use]
    pub const fn parties(&self) -> Parties {
        self.parties
    }

    /// The name that the caller has here as a user; `None` when it is no user.
    #[must_use]
    pub const fn user(&self) -> Option<&UserName> {
        self.user.as_ref()
    }

    /// Whether nothing is judged, because the daemon serves in plain text.
    #[must_use]
    pub const fn is_unjudged(&self) -> bool {
        matches!(self.shown, ShownProof::PlainText)
    }

    /// Whether the caller is an operator of this daemon, or anybody in plain text.
    #[must_use]
    pub const fn is_operator(&self) -> bool {
        self.is_unjudged() || self.is(Party::Operator)
    }

    /// Whether the caller may read what belongs to all: an operator or an auditor, or anybody in plain text.
    #[must_use]
    pub const fn reads_all(&self) -> bool {
        self.is_operator() || self.is(Party::Auditor)
    }

    /// Checks that the caller may call a method at all. `path` is the path of the method, with its service.
    ///
    /// # Errors
    /// When the method has no row, or its row has nothing that the caller is.
    pub fn check_calls(&self, path: &str) -> Result<(), Denial> {
        if self.is_unjudged() {
            return Ok(());
        }
        if planted::is(Bug::MissingRow) && path.ends_with("/GiveUp") {
            return Ok(());
        }
        let Some(parties) = row(path) else {
            return Err(Denial::NoRow(path.chars().take(PATH_SHOWN_MAX).collect()));
        };
        if parties.has(Party::Anybody) || parties.admits(self.parties) {
            return Ok(());
        }
        let method = path.rsplit('/').next().unwrap_or_default().to_owned();
        Err(match self.shown {
            ShownProof::Nothing => Denial::Unproven { method, parties },
            ShownProof::PlainText | ShownProof::Proof => Denial::OtherParty { method, parties },
        })
    }

    /// Checks that the caller has shown who it is, or that nothing is judged here. `path` is the path of a method.
    ///
    /// # Errors
    /// When it has shown nothing.
    pub fn check_has_shown(&self, path: &str) -> Result<(), Denial> {
        if !matches!(self.shown, ShownProof::Nothing) {
            return Ok(());
        }
        let method = path.rsplit('/').next().unwrap_or_default().to_owned();
        Err(Denial::Unproven { method, parties: Parties::of(&[Party::Identified]) })
    }

    /// Checks that the caller may act for a user: a user for itself, an operator for anybody.
    ///
    /// # Errors
    /// For any other caller. `field` is the field that names the user.
    pub fn check_acts_for(&self, field: &str, user: &str) -> Result<(), Denial> {
        let own = self.user.as_ref().map(UserName::as_str);
        if self.is_operator() || own == Some(user) {
            return Ok(());
        }
        let (field, own) = (field.to_owned(), own.unwrap_or("nobody").to_owned());
        Err(Denial::OtherUser { field, user: InvalidField::quoted(user), own })
    }

    /// Whether the caller may see what belongs to a user.
    #[must_use]
    pub fn sees(&self, user: &str) -> bool {
        self.reads_all() || self.user.as_ref().is_some_and(|own| own.as_str() == user)
    }

    /// The only user whose things the caller may see; `None` when it may see everybody's.
    ///
    /// # Errors
    /// When the caller is no user and may not read what belongs to all.
    pub fn only_user(&self) -> Result<Option<&UserName>, Denial> {
        if self.reads_all() {
            return Ok(None);
        }
        self.user.as_ref().map(Some).ok_or(Denial::NoUser)
    }

    /// Checks that the caller is this coordinator.
    ///
    /// # Errors
    /// For any other caller. `field` is the field that names the coordinator.
    pub fn check_is_coordinator(&self, field: &str, name: &CoordinatorName) -> Result<(), Denial> {
        if self.is_unjudged() || self.coordinator.as_ref() == Some(name) {
            return Ok(());
        }
        if planted::is(Bug::PrefixComparison)
            && self.coordinator.as_ref().is_some_and(|own| name.as_str().starts_with(own.as_str()))
        {
            return Ok(());
        }
        let (field, name) = (field.to_owned(), name.as_str().to_owned());
        Err(Denial::OtherCoordinator { field, name })
    }

    /// Checks that the caller may send a message of this kind in the name of this coordinator: the coordinator itself,
    /// and what ends a transaction also an operator of this daemon (I21).
    ///
    /// # Errors
    /// For any other caller. `field` is the field that names the coordinator.
    pub fn check_sends(
        &self,
        kind: MessageKind,
        field: &str,
        name: &CoordinatorName,
    ) -> Result<(), Denial> {
        match kind {
            MessageKind::Abort | MessageKind::Release if self.is_operator() => Ok(()),
            MessageKind::Hold | MessageKind::Commit | MessageKind::Abort | MessageKind::Release => {
                self.check_is_coordinator(field, name)
            }
        }
    }

    /// Whose service level counts for what this caller is shown. Operators and auditors see all, and in plain text
    /// nobody knows which coordinator it is.
    #[must_use]
    pub fn requester(&self) -> Requester {
        match &self.coordinator {
            Some(own) => Requester::Coordinator(own.clone()),
            None if self.is(Party::Operator) || self.is(Party::Auditor) => Requester::Staff,
            None => Requester::Unknown,
        }
    }

    /// Checks that a transaction which a query would replace is one of the caller's own, if the caller is a
    /// coordinator.
    ///
    /// # Errors
    /// When it is another coordinator's.
    pub fn check_replaces(&self, replaced: Option<&TransactionId>) -> Result<(), Denial> {
        match (replaced, &self.coordinator) {
            (Some(txn), Some(own)) if !self.reads_all() && !txn.is_of(own) => {
                Err(Denial::OthersTransaction(txn.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the caller is this resource manager.
    ///
    /// # Errors
    /// For any other caller. `field` is the field that names the resource manager.
    pub fn check_is_rm(&self, field: &str, name: &str) -> Result<(), Denial> {
        if self.is_unjudged() || self.rm.as_ref().is_some_and(|rm| rm.as_str() == name) {
            return Ok(());
        }
        Err(Denial::OtherRm { field: field.to_owned(), name: InvalidField::quoted(name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_judges_nothing_and_nobody_may_do_nothing() {
        let (anybody, nobody) = (CallerFacts::plain_text(), CallerFacts::nobody());
        let grc = CoordinatorName::composed("grc");
        assert_eq!(anybody.check_calls("/no.Such/Method"), Ok(()));
        assert_eq!(anybody.check_sends(MessageKind::Hold, "coordinator", &grc), Ok(()));
        assert!(anybody.sees("alice") && !nobody.sees("alice"));
        let denied = nobody.check_calls("/coalloc.v1.Resolver/Resolve").unwrap_err();
        assert_eq!(
            denied.to_string(),
            "Resolve is for resource managers of its configuration; prove who you are with a client \
             certificate or a token"
        );
        assert!(!nobody.is(Party::Identified));
    }

    #[test]
    fn a_path_without_a_row_is_denied_and_repeated_only_in_part() {
        let long = format!("/coalloc.v1.Coordinator/{}", "x".repeat(500));
        let alice = CallerFacts::user_only(UserName::composed("alice"));
        let Err(Denial::NoRow(shown)) = alice.check_calls(&long) else { panic!("{long}") };
        assert_eq!(shown, long[..PATH_SHOWN_MAX]);
    }
}
