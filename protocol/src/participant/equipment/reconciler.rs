//! Compares the equipment with what is wanted, and says what to do next.
//!
//! A shell owns one reconciler for each participant with a driver. It tells the reconciler what has changed, asks it for
//! the next [`Command`], carries that out, and tells the outcome, both to the reconciler and to the participant. One
//! command is under way at a time.
//!
//! * After a start, and after an outcome that nobody knows, the first command is to look ([`Command::Observe`]).
//!   Nothing is changed before that.
//! * What is not wanted is removed before anything is made. While a removal fails, nothing new is claimed of the same
//!   resource, because it may be in the way.
//! * What made trouble is tried again after a pause, which doubles. If the equipment cannot be reached, everything
//!   waits.
//! * It looks again now and then, and more often after a change, and while something cannot be used: equipment may lose what
//!   it has acknowledged, and people change it by hand.
//! * What bears the RM's name and is wanted by nobody is removed after a while. What belongs to others is never touched.
//!
//! The reconciler has no state that must survive: after a restart a look shows what is there.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::planted::{self, Bug};
use coalloc_common::{BootTime, Now, ResourceId, Span, TransactionId, limits};

use super::{EquipmentKey, EquipmentTrouble, Observed, Participant, Unusable, Want};
use crate::participant::ParticipantInput;

/// What a shell has to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Look at the equipment, and compare it with all that is wanted.
    Observe(BTreeMap<EquipmentKey, Want>),
    /// Make the equipment as wanted under one key.
    Make {
        /// The key.
        key: EquipmentKey,
        /// What is wanted.
        want: Box<Want>,
    },
    /// Remove something.
    Remove {
        /// The key that it had; `None` when nobody knows.
        key: Option<EquipmentKey>,
        /// Its name at the equipment.
        reference: String,
    },
}

/// The outcome of a [`Command`], of the same kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// What was seen.
    Observed(Result<Observed, EquipmentTrouble>),
    /// How what was made is named.
    Made(Result<String, EquipmentTrouble>),
    /// It is gone.
    Removed(Result<(), EquipmentTrouble>),
}

/// What the equipment has under a key, as far as is known.
#[derive(Debug, Clone)]
struct Known {
    reference: String,
    /// As what it was made or seen last; `None` when it is not as wanted.
    want: Option<Want>,
    /// What was wrong with it at the last look.
    trouble: Option<String>,
}

/// When something that made trouble is tried again.
#[derive(Debug, Clone, Copy)]
struct Pause {
    until: BootTime,
    length: Span,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Reconciler {
    known: BTreeMap<EquipmentKey, Known>,
    /// What has to be made or, when `None`, removed.
    todo: BTreeMap<EquipmentKey, Option<Want>>,
    /// What was seen that nobody wants, and since when.
    orphans: BTreeMap<String, BootTime>,
    /// The chains that have changed.
    changed: BTreeSet<TransactionId>,
    /// Has it been looked at since the start, and since the last outcome that nobody knows?
    is_sure: bool,
    /// When to look again, and until when often.
    look_at: Option<BootTime>,
    closely_until: Option<BootTime>,
    /// The pauses of keys and of orphans.
    pauses: BTreeMap<EquipmentKey, Pause>,
    /// What cannot be used now, as the last look has shown.
    unusable: BTreeMap<ResourceId, Unusable>,
    /// Does the participant know that?
    is_unusable_told: bool,
    /// The pause of the equipment as a whole.
    down: Option<Pause>,
    report: EquipmentReport,
}

/// What an operator is told of the equipment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EquipmentReport {
    /// Why the equipment cannot be looked at; `None` when it can.
    pub trouble: Option<String>,
    /// What was not as wanted at the last look, in a sentence for each.
    pub drift: Vec<String>,
    /// The names of what bears the RM's name and is wanted by nobody.
    pub orphans: Vec<String>,
    /// What there is of others, in a sentence for each.
    pub intruders: Vec<String>,
    /// What cannot be used now, in a sentence for each.
    pub unusable: Vec<String>,
}

impl Reconciler {
    /// Chains that have changed.
    pub fn changed(&mut self, chains: impl IntoIterator<Item = TransactionId>) {
        self.changed.extend(chains);
    }

    /// What an operator is told, as of the last look.
    #[must_use]
    pub const fn report(&self) -> &EquipmentReport {
        &self.report
    }

    /// When [`Reconciler::next`] is to be asked again, if nothing happens before. In the past: now.
    #[must_use]
    pub fn due(&self) -> BootTime {
        let now = BootTime::from_us(0);
        if let Some(pause) = &self.down {
            return pause.until;
        }
        if !self.is_sure || !self.changed.is_empty() {
            return now;
        }
        let pause = |key| self.pauses.get(key).map_or(now, |pause: &Pause| pause.until);
        let todo = self.todo.keys().map(pause);
        let is_old = |since: &BootTime| since.saturating_add(limits::EQUIPMENT_ORPHAN_GRACE);
        let orphans = self.orphans.values().map(is_old);
        todo.chain(orphans).chain(self.look_at).min().unwrap_or(now)
    }

    /// The next command; `None` when there is nothing to do now.
    pub fn next(&mut self, participant: &Participant, now: Now) -> Option<Command> {
        if self.down.is_some_and(|pause| pause.until > now.boot) {
            return None;
        }
        for chain in std::mem::take(&mut self.changed) {
            let mut wanted = participant.wanted_of(&chain, now.wall);
            let first = EquipmentKey::first_of(&chain);
            let is_of_chain = |key: &&EquipmentKey| key.chain == chain;
            let known = self.known.range(first.clone()..).map(|(key, _)| key);
            let todo = self.todo.range(first..).map(|(key, _)| key);
            let there = known.take_while(is_of_chain).chain(todo.take_while(is_of_chain));
            let keys: BTreeSet<EquipmentKey> = there.chain(wanted.keys()).cloned().collect();
            for key in keys {
                let want = wanted.remove(&key);
                self.compare(key, want);
            }
        }
        let must_look = !self.is_sure || self.look_at.is_none_or(|at| at <= now.boot);
        let acts_blindly = planted::is(Bug::MakeBeforeObserve) && !self.todo.is_empty();
        if must_look && !acts_blindly {
            return Some(self.look(participant, now));
        }
        self.next_removal(now.boot).or_else(|| self.next_make(now.boot))
    }

    /// Notes what has to be done under one key.
    fn compare(&mut self, key: EquipmentKey, want: Option<Want>) {
        if !same(self.todo.get(&key).and_then(Option::as_ref), want.as_ref()) {
            // Something else is wanted now, so there is nothing to wait for.
            self.pauses.remove(&key);
        }
        let known = self.known.get(&key);
        match want {
            Some(want) if known.is_some_and(|known| same(known.want.as_ref(), Some(&want))) => {
                self.todo.remove(&key);
            }
            Some(want) => drop(self.todo.insert(key, Some(want))),
            None if known.is_some() => drop(self.todo.insert(key, None)),
            None => drop(self.todo.remove(&key)),
        }
    }

    fn look(&mut self, participant: &Participant, now: Now) -> Command {
        let wanted = participant.wanted(now.wall);
        self.is_unusable_told = participant.knows_unusable(&self.unusable, &wanted, now.wall);
        for (key, want) in &wanted {
            // What the participant was too busy to be told is told again after the look.
            let state = participant.equipment_states().get(key);
            let newest = want.versions.last().map(|version| &version.txn);
            if let Some(known) = self.known.get_mut(key)
                && state.is_none_or(|state| {
                    state.stage != Some(want.stage)
                        || Some(&state.version) != newest
                        || state.trouble != known.trouble
                        || state.reference != known.reference
                })
            {
                known.want = None;
            }
        }
        for (key, reference) in participant.unwanted(&wanted) {
            // It may have been removed before the restart, but its record says that it is there.
            self.known.entry(key).or_insert(Known { reference, want: None, trouble: None });
        }
        Command::Observe(wanted)
    }

    fn next_removal(&self, now: BootTime) -> Option<Command> {
        let is_due =
            |key: &EquipmentKey| self.pauses.get(key).is_none_or(|pause| pause.until <= now);
        let unwanted = self.todo.iter().find(|(key, want)| want.is_none() && is_due(key));
        if let Some((key, _)) = unwanted {
            let reference = self.known.get(key).map(|known| known.reference.clone());
            return Some(Command::Remove {
                key: Some(key.clone()),
                reference: reference.unwrap_or_default(),
            });
        }
        let is_old = |since: &BootTime| now.since(*since) >= limits::EQUIPMENT_ORPHAN_GRACE;
        let orphan = self.orphans.iter().find(|(_, since)| is_old(since));
        orphan.map(|(reference, _)| Command::Remove { key: None, reference: reference.clone() })
    }

    fn next_make(&self, now: BootTime) -> Option<Command> {
        let is_due =
            |key: &EquipmentKey| self.pauses.get(key).is_none_or(|pause| pause.until <= now);
        // Removals come first. So one that is still to be made has failed.
        let is_removed = |(key, want): (&EquipmentKey, &Option<Want>)| {
            want.is_none().then(|| key.resource.clone())
        };
        let behind: BTreeSet<ResourceId> = self.todo.iter().filter_map(is_removed).collect();
        let is_free =
            |key: &EquipmentKey| self.known.contains_key(key) || !behind.contains(&key.resource);
        let may = |(key, want): &(&EquipmentKey, &Option<Want>)| {
            want.is_some() && is_due(key) && is_free(key)
        };
        let (key, want) = self.todo.iter().find(may)?;
        let mut want = Box::new(want.clone()?);
        if let Some(known) = self.known.get(key) {
            want.reference = Some(known.reference.clone());
        }
        Some(Command::Make { key: key.clone(), want })
    }

    /// Notes the outcome of a command. Returns what the participant is to be told.
    pub fn done(
        &mut self,
        command: Command,
        outcome: CommandOutcome,
        now: BootTime,
    ) -> Vec<ParticipantInput> {
        match (command, outcome) {
            (Command::Observe(wanted), CommandOutcome::Observed(observed)) => {
                self.observed(wanted, observed, now)
            }
            (Command::Make { key, want }, CommandOutcome::Made(outcome)) => {
                match &outcome {
                    Ok(reference) => {
                        self.succeeded(Some(&key), now);
                        let mut made = (*want).clone();
                        made.reference = Some(reference.clone());
                        // What was wrong with another version may not be wrong with this one. The next look shows it.
                        let before = self.known.get(&key).and_then(|known| known.want.as_ref());
                        let first = |want: &Want| Some(want.versions.first()?.txn.clone());
                        let is_other = before.is_some_and(|before| first(before) != first(&want));
                        let trouble = self.trouble_of(&key).filter(|_| !is_other);
                        let reference = reference.clone();
                        let known = Known { reference, want: Some(made), trouble };
                        if same(self.todo.get(&key).and_then(Option::as_ref), Some(&want)) {
                            self.todo.remove(&key);
                        }
                        self.known.insert(key.clone(), known);
                    }
                    Err(trouble) => self.failed(Some(&key), trouble, now),
                }
                let trouble = self.trouble_of(&key);
                vec![ParticipantInput::Equipped { key, asked: Some(want), outcome, trouble }]
            }
            (Command::Remove { key, reference }, CommandOutcome::Removed(outcome)) => {
                self.removed(key, reference, outcome, now)
            }
            // The shell answers each command in kind.
            _ => Vec::new(),
        }
    }

    fn removed(
        &mut self,
        key: Option<EquipmentKey>,
        reference: String,
        outcome: Result<(), EquipmentTrouble>,
        now: BootTime,
    ) -> Vec<ParticipantInput> {
        let mut told = Vec::new();
        match &outcome {
            Ok(()) => {
                self.succeeded(key.as_ref(), now);
                self.orphans.remove(&reference);
                if let Some(key) = &key {
                    self.known.remove(key);
                    if self.todo.get(key).is_some_and(Option::is_none) {
                        self.todo.remove(key);
                    }
                }
            }
            Err(trouble) => {
                self.failed(key.as_ref(), trouble, now);
                match &key {
                    Some(key) => told = self.those_behind(key, trouble),
                    // It is tried again after a while.
                    None => drop(self.orphans.insert(reference, now)),
                }
            }
        }
        let outcome = outcome.map(|()| String::new());
        let trouble = None;
        told.extend(key.map(|key| ParticipantInput::Equipped {
            key,
            asked: None,
            outcome,
            trouble,
        }));
        told
    }

    fn trouble_of(&self, key: &EquipmentKey) -> Option<String> {
        self.known.get(key).and_then(|known| known.trouble.clone())
    }

    /// What is told to those that wait for the removal under `key`.
    fn those_behind(&self, key: &EquipmentKey, why: &EquipmentTrouble) -> Vec<ParticipantInput> {
        let waiting = self.todo.iter().filter(|(other, _)| {
            other.resource == key.resource && !self.known.contains_key(*other)
        });
        let told = |(other, want): (&EquipmentKey, &Option<Want>)| {
            let why = format!("what was there before could not be removed: {why}");
            Some(ParticipantInput::Equipped {
                key: other.clone(),
                asked: Some(Box::new(want.clone()?)),
                outcome: Err(EquipmentTrouble::Down(why)),
                trouble: None,
            })
        };
        waiting.filter_map(told).collect()
    }

    fn observed(
        &mut self,
        wanted: BTreeMap<EquipmentKey, Want>,
        observed: Result<Observed, EquipmentTrouble>,
        now: BootTime,
    ) -> Vec<ParticipantInput> {
        let observed = match observed {
            Ok(observed) => observed,
            Err(trouble) => return self.not_observed(wanted, &trouble, now),
        };
        (self.is_sure, self.down) = (true, None);
        // What cannot be used may be back soon, and until it is, reservations are about to move.
        let is_broken = !observed.unusable.is_empty();
        let closely = is_broken || self.closely_until.is_some_and(|until| now < until);
        let pause =
            if closely { limits::EQUIPMENT_LOOK_SOON } else { limits::EQUIPMENT_LOOK_EVERY };
        self.look_at = Some(now.saturating_add(pause));
        self.report = EquipmentReport {
            intruders: observed.intruders,
            unusable: observed.unusable.values().map(|one| one.sentence.clone()).collect(),
            ..EquipmentReport::default()
        };
        let mut told = Vec::new();
        if self.unusable != observed.unusable || !self.is_unusable_told {
            self.unusable.clone_from(&observed.unusable);
            told.push(ParticipantInput::Unusable(observed.unusable));
        }
        self.known.retain(|key, _| !wanted.contains_key(key) || observed.present.contains_key(key));
        let is_wanted: BTreeSet<EquipmentKey> = wanted.keys().cloned().collect();
        let mut present = observed.present;
        for (key, mut want) in wanted {
            if let Some(seen) = present.remove(&key) {
                want.reference = Some(seen.reference.clone());
                let is_there = seen.differs.is_none().then(|| want.clone());
                let was_there = self.known.get(&key).and_then(|known| known.want.as_ref());
                let is_new = !same(was_there, Some(&want)) || self.trouble_of(&key) != seen.trouble;
                if is_there.is_some() && is_new {
                    // It was made by a call whose outcome was not known, or before a restart; or its trouble has changed.
                    let (key, asked) = (key.clone(), Some(Box::new(want.clone())));
                    let (outcome, trouble) = (Ok(seen.reference.clone()), seen.trouble.clone());
                    told.push(ParticipantInput::Equipped { key, asked, outcome, trouble });
                }
                if let Some(differs) = seen.differs {
                    self.report.drift.push(format!("{}: {differs}", seen.reference));
                }
                self.known.insert(
                    key.clone(),
                    Known { reference: seen.reference, want: is_there, trouble: seen.trouble },
                );
            }
            self.compare(key, Some(want));
        }
        let is_left =
            |key: &&EquipmentKey| !is_wanted.contains(*key) && !self.todo.contains_key(*key);
        let unwanted: Vec<EquipmentKey> = self.known.keys().filter(is_left).cloned().collect();
        unwanted.into_iter().for_each(|key| self.compare(key, None));
        let named = |name: &String| self.known.values().any(|known| known.reference == *name);
        let orphans = observed.orphans.into_iter().filter(|name| !named(name));
        let since = |name: &String| self.orphans.get(name).copied().unwrap_or(now);
        let orphans: BTreeMap<String, BootTime> =
            orphans.map(|name| (name.clone(), since(&name))).collect();
        self.orphans = orphans;
        self.report.orphans = self.orphans.keys().cloned().collect();
        told
    }

    /// The equipment cannot be looked at. Those that are not as wanted, as far as is known, are told why: holds that wait, and
    /// bookings that were committed, changed or begun since.
    fn not_observed(
        &mut self,
        wanted: BTreeMap<EquipmentKey, Want>,
        trouble: &EquipmentTrouble,
        now: BootTime,
    ) -> Vec<ParticipantInput> {
        self.report.trouble = Some(trouble.to_string());
        let length = longer(self.down);
        self.down = Some(Pause { until: now.saturating_add(length), length });
        let is_as_wanted = |key: &EquipmentKey, want: &Want| {
            let known = self.known.get(key).and_then(|known| known.want.as_ref());
            same(known, Some(want))
        };
        let open = wanted.into_iter().filter(|(key, want)| !is_as_wanted(key, want));
        let told = |(key, want)| {
            let outcome = Err(EquipmentTrouble::Down(trouble.to_string()));
            ParticipantInput::Equipped { key, asked: Some(Box::new(want)), outcome, trouble: None }
        };
        open.map(told).collect()
    }

    fn succeeded(&mut self, key: Option<&EquipmentKey>, now: BootTime) {
        self.down = None;
        if let Some(key) = key {
            self.pauses.remove(key);
        }
        self.closely_until = Some(now.saturating_add(limits::EQUIPMENT_LOOK_CLOSELY));
        let soon = now.saturating_add(limits::EQUIPMENT_LOOK_SOON);
        self.look_at = self.look_at.map(|at| at.min(soon));
    }

    fn failed(&mut self, key: Option<&EquipmentKey>, trouble: &EquipmentTrouble, now: BootTime) {
        match trouble {
            EquipmentTrouble::Lost(_) if planted::is(Bug::DoubleClaim) => {}
            EquipmentTrouble::Lost(_) => self.is_sure = false,
            EquipmentTrouble::Down(_) => {
                let length = longer(self.down);
                self.down = Some(Pause { until: now.saturating_add(length), length });
            }
            EquipmentTrouble::Refused(_) => {}
        }
        if let Some(key) = key {
            let length = longer(self.pauses.get(key).copied());
            self.pauses.insert(key.clone(), Pause { until: now.saturating_add(length), length });
        }
    }
}

/// The pause after one more failure.
fn longer(before: Option<Pause>) -> Span {
    let twice = |pause: Pause| Span::from_us(pause.length.as_us().saturating_mul(2));
    before.map_or(limits::EQUIPMENT_RETRY_MIN, twice).min(limits::EQUIPMENT_RETRY_MAX)
}

/// Is the same wanted, however it is named?
fn same(one: Option<&Want>, other: Option<&Want>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => {
            one.stage == other.stage
                && one.user == other.user
                && one.coordinator == other.coordinator
                && one.versions == other.versions
        }
        (None, None) => true,
        _ => false,
    }
}
