//! The naive model of versions: every instant is counted by itself.

use proptest::prelude::*;

use super::{CAPACITY, INSTANTS};

/// One transaction, as the model sees it.
#[derive(Debug, Clone)]
pub(super) struct Known {
    new: [u64; INSTANTS],
    extra: [u64; INSTANTS],
    pub(super) held: bool,
    pub(super) booked: bool,
    replaces: Option<usize>,
    keeps_old: bool,
    /// What is kept of the transaction after it was replaced.
    kept: [u64; INSTANTS],
}

/// What can happen to a participant.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Hold {
        guest: bool,
        parts: Vec<(u64, usize, usize)>,
        replaces: Option<prop::sample::Index>,
        keeps_old: bool,
    },
    Commit(prop::sample::Index),
    Abort(prop::sample::Index),
    Release(prop::sample::Index),
}

pub(super) fn act() -> impl Strategy<Value = Act> {
    let part = (1..=CAPACITY + 2, 0..INSTANTS - 1, 1..INSTANTS)
        .prop_map(|(amount, from, length)| (amount, from, (from + length).min(INSTANTS)));
    let parts = prop::collection::vec(part, 0..4);
    let index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (any::<bool>(), parts, prop::option::of(index()), any::<bool>()).prop_map(
            |(guest, parts, replaces, keeps_old)| Act::Hold { guest, parts, replaces, keeps_old }
        ),
        3 => index().prop_map(Act::Commit),
        1 => index().prop_map(Act::Abort),
        1 => index().prop_map(Act::Release),
    ]
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) known: Vec<Known>,
}

impl Model {
    pub(super) fn total(&self, instant: usize) -> u64 {
        let of = |known: &Known| match (known.held, known.booked) {
            (true, _) => known.extra[instant],
            (_, true) => known.new[instant],
            _ => known.kept[instant],
        };
        self.known.iter().map(of).sum()
    }

    pub(super) fn own(&self, replaces: Option<usize>) -> [u64; INSTANTS] {
        let Some(old) = replaces else { return [0; INSTANTS] };
        let before = self.known[old].replaces.map_or([0; INSTANTS], |old| self.known[old].kept);
        std::array::from_fn(|t| self.known[old].new[t] + before[t])
    }

    pub(super) fn allowed(&self, instant: usize, own: u64, guest: bool) -> u64 {
        let share = if guest { 35 } else { 100 };
        own.max((CAPACITY - self.total(instant) + own) * share / 100)
    }

    fn may_replace(&self, old: usize) -> bool {
        self.known[old].booked
            && !self.known.iter().any(|known| known.held && known.replaces == Some(old))
    }

    /// Holds the transaction if it would be admitted.
    pub(super) fn hold(
        &mut self,
        guest: bool,
        new: [u64; INSTANTS],
        replaces: Option<usize>,
        keeps_old: bool,
    ) -> bool {
        let kept = [0; INSTANTS];
        let mut known =
            Known { new, extra: new, held: false, booked: false, replaces, keeps_old, kept };
        if replaces.is_none_or(|old| self.may_replace(old)) {
            let own = self.own(replaces);
            known.held =
                (0..INSTANTS).all(|t| new[t] == 0 || new[t] <= self.allowed(t, own[t], guest));
            for (t, extra) in known.extra.iter_mut().enumerate() {
                *extra = new[t].saturating_sub(own[t]);
            }
        }
        let held = known.held;
        self.known.push(known);
        held
    }

    pub(super) fn commit(&mut self, number: usize) {
        if !self.known[number].held {
            return;
        }
        self.known[number].held = false;
        match self.known[number].replaces {
            Some(old) if !self.known[old].booked => {}
            old => {
                self.known[number].booked = true;
                if let Some(old) = old {
                    let (own, new) = (self.own(Some(old)), self.known[number].new);
                    if let Some(before) = self.known[old].replaces {
                        self.known[before].kept = [0; INSTANTS];
                    }
                    self.known[old].booked = false;
                    if self.known[number].keeps_old {
                        self.known[old].kept =
                            std::array::from_fn(|t| own[t].saturating_sub(new[t]));
                    }
                }
            }
        }
    }

    pub(super) fn release(&mut self, number: usize) {
        let known = &mut self.known[number];
        (known.held, known.booked, known.kept) = (false, false, [0; INSTANTS]);
        // A hold that counted on what was kept takes it now.
        for held in 0..self.known.len() {
            let old = self.known[held].replaces.filter(|old| self.known[*old].booked);
            if self.known[held].held && old.is_some() {
                let own = self.own(old);
                let new = self.known[held].new;
                self.known[held].extra = std::array::from_fn(|t| new[t].saturating_sub(own[t]));
            }
        }
    }
}
