//! What the equipment behind an RM is to have at a moment, and what the RM knows of it.
//!
//! A booking is a line in a timetable. If the RM has a driver ([`Participant::with_equipment`]), something real follows
//! each line: a reservation of a cluster, a class of a shaped link. Nobody calls the equipment back and forth along the
//! protocol. The participant says what is wanted ([`Participant::wanted`]), a [`reconciler`] compares that with
//! what is there, and its shell mends what differs. So a restart, a lost call and a change by hand are all mended
//! in the same way.
//!
//! ```text
//! Held ----------> Claimed: certain at the equipment, and of no use to the user yet
//! Booked --------> Granted: the user may use it in its window
//! in its window -> Active:  the user uses it now
//! ended, or over -> nothing
//! ```
//!
//! A version that is booked with [`manual_provision`](crate::message::HoldOrder::manual_provision) stays Claimed, also in its
//! window, until it is replaced by one without.
//!
//! * **A Hold is answered after its claim.** The hold is recorded first (D2). The answer waits until the equipment has
//!   the claim, which is a record of its own ([`ParticipantRecord::Claimed`]). What the equipment refuses is refused
//!   for good ([`ParticipantRecord::ClaimRefused`]). A repeated Hold joins those that wait.
//! * **A Commit does not ask the equipment**, because a claim is final there. So a Commit cannot fail (D4).
//! * **All versions of a booking are one thing to the equipment.** Its key ([`EquipmentKey`]) has the first
//!   transaction of the chain of versions, so a change is made in place. While a change is open, what is claimed is that of both
//!   versions, and what is granted is that of the old one.
//! * **What became of it is recorded** ([`ParticipantRecord::Equipped`]) when it differs from what was recorded before.
//!   So it survives a restart, and those who watch bookings are told.
//!
//! Left out: how the equipment is talked to, see the crate `rm` and the drivers in `nrm` and `crm`. Source: the states
//! of data planes in NSI Connection Service 2.1; docs/adr/0052-equipment.md.

pub mod reconciler;
#[cfg(test)]
mod tests;
mod unusable;
mod want;

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::planted::{self, Bug};
use coalloc_common::{
    Amount, BootTime, Now, Reason, Refusal, ResourceId, Span, Time, TransactionId, Window, limits,
};

pub use self::want::{
    Claim, EquipmentKey, EquipmentState, EquipmentTrouble, Observed, Presence, Share, Stage,
    Unusable, Want, WantedVersion,
};
use super::record::ParticipantRecord;
use super::{Entry, Participant, ParticipantEffect, Phase, Step};
use crate::core::ReplayError;
use crate::durable::Unsynced;
use crate::message::{Answer, Cause, Token};
use crate::tracked::TrackedMap;

/// A hold whose claim is open.
#[derive(Debug, Clone, Default)]
struct OpenClaim {
    /// The callers that wait for the answer to its Hold. Lost at a restart.
    waiting: Vec<Token<Answer>>,
    /// The resources that are certain at the equipment, and how they are named there. Lost at a restart, after which they are
    /// made once more.
    made: BTreeMap<ResourceId, String>,
    /// Why the claim is not made yet. Lost at a restart.
    trouble: Option<String>,
}

/// A chain of versions.
#[derive(Debug, Clone)]
struct Chain {
    /// Those that are held or booked. One whose windows are over stays, because the clock may be set back.
    members: BTreeSet<TransactionId>,
    /// The end of the last window that any of them ever had.
    until: Time,
}

/// What a participant keeps for its equipment. Only `states` is in its records; the rest follows from the entries, or is
/// lost at a restart.
#[derive(Debug, Clone, Default)]
pub(super) struct Equipment {
    /// Is there a driver?
    is_driven: bool,
    /// What is known of the equipment.
    pub(super) states: TrackedMap<EquipmentKey, EquipmentState>,
    /// The chains of which something is held or booked.
    chains: BTreeMap<TransactionId, Chain>,
    /// The starts and ends of their windows that are still to come.
    edges: BTreeSet<(Time, TransactionId)>,
    /// The chains about which something has changed since the last step.
    changed: BTreeSet<TransactionId>,
    /// The holds whose claims are open.
    open: BTreeMap<TransactionId, OpenClaim>,
    /// What cannot be used now. Lost at a restart, after which the first look says it again.
    unusable: BTreeMap<ResourceId, Unusable>,
    /// When the edges were last compared with the clock.
    looked_at: Option<Now>,
}

impl Entry {
    /// The first transaction of its chain of versions. `txn` is its own.
    pub(super) fn chain<'a>(&'a self, txn: &'a TransactionId) -> &'a TransactionId {
        self.chain.as_ref().unwrap_or(txn)
    }

    /// Is it a hold that is not certain at the equipment yet?
    #[must_use]
    pub fn waits_for_claim(&self) -> bool {
        self.claim == Claim::Open && matches!(self.phase, Phase::Held(_))
    }

    /// What it takes of each resource in windows that end later than `now`.
    fn shares(&self, sites: &dyn Fn(&ResourceId) -> Option<ResourceId>, now: Time) -> Shares {
        let mut shares = Shares::new();
        let is_over = |window: Window| is_over(window.end(), now);
        if matches!(self.phase, Phase::Ended(_)) {
            // What is kept of a replaced version. A server stands for the CPUs of its site, which are listed, too.
            for segment in self.kept.iter().filter(|segment| !is_over(segment.window)) {
                let site = sites(&segment.resource);
                let servers = site.iter().map(|_| segment.resource.clone()).collect();
                let resource = site.unwrap_or_else(|| segment.resource.clone());
                let (window, amount) = (segment.window, segment.amount);
                let share = Share { window, amount, servers, route: Vec::new() };
                shares.entry(resource).or_default().push(share);
            }
            return shares;
        }
        let segments = self.order.as_ref().map_or(&[][..], |order| &order.segments);
        for (index, segment) in segments.iter().enumerate() {
            if is_over(segment.window) {
                continue;
            }
            let servers = self.servers.get(index).map(|of| of.servers.clone()).unwrap_or_default();
            let route = self.inner.as_ref().and_then(|inner| inner.get(index)).cloned();
            let (window, amount) = (segment.window, segment.amount);
            let share = Share { window, amount, servers, route: route.unwrap_or_default() };
            shares.entry(segment.resource.clone()).or_default().push(share);
        }
        shares
    }

    /// The windows of all that it takes.
    fn windows(&self) -> impl Iterator<Item = Window> + '_ {
        let order = self.order.iter().flat_map(|order| &order.segments);
        let is_ended = matches!(self.phase, Phase::Ended(_));
        let segments = order.filter(move |_| !is_ended).chain(&self.kept);
        segments.map(|segment| segment.window)
    }
}

type Shares = BTreeMap<ResourceId, Vec<Share>>;

impl Participant {
    /// The same participant, of an RM with a driver.
    #[must_use]
    pub fn with_equipment(mut self) -> Self {
        self.equipment.is_driven = true;
        self
    }

    /// What is known of the equipment.
    #[must_use]
    pub fn equipment_states(&self) -> &BTreeMap<EquipmentKey, EquipmentState> {
        &self.equipment.states
    }

    /// What is known of the equipment for a booking, through all of its versions.
    pub fn equipment_of<'a>(
        &'a self,
        txn: &'a TransactionId,
        entry: &'a Entry,
    ) -> impl Iterator<Item = (&'a EquipmentKey, &'a EquipmentState)> {
        let chain = entry.chain(txn);
        let is_live = entry.in_timetables().is_some();
        let states = self.equipment.states.range(EquipmentKey::first_of(chain)..);
        states.take_while(move |(key, _)| is_live && key.chain == *chain)
    }

    /// What the equipment is to have now. What it has beside this it is not to have.
    #[must_use]
    pub fn wanted(&self, now: Time) -> BTreeMap<EquipmentKey, Want> {
        // Bookings stay for long after their windows, so most chains may be over.
        let left = self.equipment.chains.iter().filter(|(_, chain)| !is_over(chain.until, now));
        left.flat_map(|(first, _)| self.wanted_of(first, now)).collect()
    }

    /// The same for all versions of one booking.
    #[must_use]
    pub fn wanted_of(&self, chain: &TransactionId, now: Time) -> BTreeMap<EquipmentKey, Want> {
        let members = self.equipment.chains.get(chain).into_iter().flat_map(|of| &of.members);
        let mut members: Vec<(&TransactionId, &Entry)> =
            members.filter_map(|txn| self.entries.get_key_value(txn)).collect();
        // The oldest first: there is at most one of each.
        members.sort_by_key(|(_, entry)| match entry.phase {
            Phase::Refused(_) | Phase::Ended(_) => 0,
            Phase::Booked => 1,
            Phase::Held(_) => 2,
        });
        let mut wanted: BTreeMap<EquipmentKey, Want> = BTreeMap::new();
        for (txn, entry) in members {
            let Some(order) = &entry.order else { continue };
            let is_booked = entry.phase == Phase::Booked;
            for (resource, shares) in entry.shares(&|name| self.servers.site_of(name), now) {
                let key = EquipmentKey { chain: chain.clone(), resource };
                let reference = self.equipment.states.get(&key).map(|state| &state.reference);
                let reference = reference.filter(|reference| !reference.is_empty()).cloned();
                let want = wanted.entry(key).or_insert_with(|| Want {
                    stage: Stage::Claimed,
                    user: order.user.clone(),
                    coordinator: order.coordinator.clone(),
                    versions: Vec::new(),
                    reference,
                });
                let is_granted =
                    is_booked && (!order.manual_provision || planted::is(Bug::UnprovisionedActive));
                if is_granted {
                    want.stage = granted(&shares, now);
                }
                let txn = txn.clone();
                want.versions.push(WantedVersion { txn, is_booked, is_granted, shares });
            }
        }
        wanted
    }

    /// What is known to be at the equipment although it is not wanted: its reference by its key.
    #[must_use]
    pub fn unwanted(
        &self,
        wanted: &BTreeMap<EquipmentKey, Want>,
    ) -> BTreeMap<EquipmentKey, String> {
        let states = self.equipment.states.iter();
        let unwanted = states.filter(|(key, _)| !wanted.contains_key(key));
        unwanted.map(|(key, state)| (key.clone(), state.reference.clone())).collect()
    }

    /// Does a hold of these segments have to be claimed at the equipment?
    pub(super) fn claim_of(&self, order: &crate::message::HoldOrder) -> Claim {
        let is_needed = self.equipment.is_driven && !order.segments.is_empty();
        if is_needed { Claim::Open } else { Claim::NotNeeded }
    }

    /// Answers a Hold now, or when its claim is made.
    pub(super) fn answer_or_wait(
        &mut self,
        txn: &TransactionId,
        token: Token<Answer>,
        answer: Answer,
    ) -> Vec<ParticipantEffect> {
        match self.equipment.open.get_mut(txn) {
            Some(claim) if !planted::is(Bug::ClaimAfterYes) => {
                claim.waiting.push(token);
                Vec::new()
            }
            _ => vec![ParticipantEffect::Reply { token, answer }],
        }
    }

    /// The equipment's answer to what it was told: what it was told, or that it should remove what it has under this
    /// key; and the name that it has there.
    pub(super) fn equipped(
        &mut self,
        key: EquipmentKey,
        asked: Option<&Want>,
        outcome: Result<String, EquipmentTrouble>,
        trouble: Option<String>,
        now: Now,
    ) -> Step {
        let mut records = Vec::new();
        let before = self.equipment.states.get(&key).cloned();
        let newest = asked.and_then(|want| Some(want.versions.last()?.txn.clone()));
        let known = before.as_ref().map(|state| state.version.clone());
        let txn = newest.or(known).unwrap_or_else(|| key.chain.clone());
        let state = match (asked, outcome) {
            (Some(want), Ok(reference)) => {
                let state = EquipmentState {
                    stage: Some(want.stage),
                    version: txn.clone(),
                    reference: reference.clone(),
                    trouble,
                    unusable: self.unusable_of(&key, want, now.wall),
                    since: now.wall,
                };
                for version in &want.versions {
                    records.extend(self.claimed(&version.txn, &key.resource, &reference, now));
                }
                // What is claimed is not known to be so before all of the hold is.
                let is_known =
                    self.equipment.states.contains_key(&key) || want.stage != Stage::Claimed;
                is_known.then_some(state)
            }
            (None, Ok(_)) => None,
            (Some(want), Err(trouble)) => {
                for version in &want.versions {
                    records.extend(self.claim_failed(&version.txn, &trouble, now));
                }
                let unusable = self.unusable_of(&key, want, now.wall);
                let is_booked = want.versions.iter().any(|version| version.is_booked);
                let blank = is_booked.then(|| EquipmentState {
                    stage: None,
                    version: txn.clone(),
                    reference: String::new(),
                    trouble: None,
                    unusable: BTreeSet::new(),
                    since: now.wall,
                });
                let troubled = |state| EquipmentState {
                    trouble: Some(trouble.to_string()),
                    unusable,
                    since: now.wall,
                    ..state
                };
                before.or(blank).map(troubled)
            }
            (None, Err(trouble)) => before.map(|state| EquipmentState {
                trouble: Some(trouble.to_string()),
                since: now.wall,
                ..state
            }),
        };
        if !is_same(self.equipment.states.get(&key), state.as_ref()) {
            let record = ParticipantRecord::Equipped { key, txn, state, at: now };
            self.must_apply(&record);
            records.push(record);
        }
        Unsynced::new(records, vec![])
    }

    /// A resource of a hold is certain at the equipment. When all of them are, so is the hold.
    fn claimed(
        &mut self,
        txn: &TransactionId,
        resource: &ResourceId,
        reference: &str,
        now: Now,
    ) -> Vec<ParticipantRecord> {
        let entry = self.entries.get(txn).filter(|entry| entry.waits_for_claim());
        let order = entry.and_then(|entry| entry.order.as_ref());
        let Some((claim, order)) = self.equipment.open.get_mut(txn).zip(order) else {
            return Vec::new();
        };
        claim.made.insert(resource.clone(), reference.to_owned());
        let lacks = |name: &&ResourceId| !claim.made.contains_key(*name);
        if order.segments.iter().map(|segment| &segment.resource).any(|name| lacks(&name)) {
            return Vec::new();
        }
        let references = claim.made.clone();
        let by = order.one_way.then(|| Cause::Coordinator(order.coordinator.clone()));
        let txn = txn.clone();
        let booked = by.map(|by| ParticipantRecord::Booked { txn: txn.clone(), by, at: now });
        let claimed = ParticipantRecord::Claimed { txn, references, at: now };
        let records: Vec<ParticipantRecord> = std::iter::once(claimed).chain(booked).collect();
        records.iter().for_each(|record| self.must_apply(record));
        records
    }

    /// A claim was not made. What the equipment refuses is refused for good; anything else is tried until the claim's
    /// time is over.
    fn claim_failed(
        &mut self,
        txn: &TransactionId,
        trouble: &EquipmentTrouble,
        now: Now,
    ) -> Option<ParticipantRecord> {
        self.entries.get(txn).filter(|entry| entry.waits_for_claim())?;
        let claim = self.equipment.open.get_mut(txn)?;
        let EquipmentTrouble::Refused(refusal) = trouble else {
            claim.trouble = Some(trouble.to_string());
            return None;
        };
        let refusal = (**refusal).clone().at(&self.config.name);
        let record = ParticipantRecord::ClaimRefused { txn: txn.clone(), refusal, at: now };
        self.must_apply(&record);
        Some(record)
    }

    /// Refuses the holds whose claims take too long.
    pub(super) fn refuse_late_claims(&mut self, now: Now) -> Vec<ParticipantRecord> {
        let open = self.equipment.open.iter();
        let late =
            open.filter(|(txn, _)| self.claim_until(txn).is_some_and(|until| until <= now.boot));
        let late = late.map(|(txn, claim)| {
            let silent = || format!("it did not answer within {}", limits::CLAIM_PATIENCE);
            let trouble = claim.trouble.clone().unwrap_or_else(silent);
            let detail = format!("the equipment could not be reserved: {trouble}");
            (txn.clone(), Refusal::new(Reason::Equipment, detail).at(&self.config.name))
        });
        let records: Vec<ParticipantRecord> = late
            .map(|(txn, refusal)| ParticipantRecord::ClaimRefused { txn, refusal, at: now })
            .collect();
        records.iter().for_each(|record| self.must_apply(record));
        records
    }

    fn claim_until(&self, txn: &TransactionId) -> Option<BootTime> {
        let entry = self.entries.get(txn).filter(|entry| entry.waits_for_claim())?;
        let Phase::Held(held) = &entry.phase else { return None };
        Some(held.since.boot.saturating_add(limits::CLAIM_PATIENCE))
    }

    /// When the clock must be looked at for the equipment.
    pub(super) fn equipment_due(&self) -> Option<BootTime> {
        let Equipment { edges, open, looked_at, .. } = &self.equipment;
        let claims = open.keys().filter_map(|txn| self.claim_until(txn)).min();
        let edge = edges.first().zip(*looked_at).map(|((at, _), looked_at)| {
            // The wall clock may jump meanwhile.
            let left = at.since(looked_at.wall);
            looked_at.boot.saturating_add(left.clamp(Span::ZERO, limits::EQUIPMENT_CLOCK_CHECK))
        });
        [claims, edge].into_iter().flatten().min()
    }

    /// Ends a step: the windows that began or ended, the callers that need not wait any more, and what the shell has to
    /// look at.
    pub(super) fn with_equipment_effects(&mut self, step: Step, now: Now) -> Step {
        if !self.equipment.is_driven && self.equipment.open.is_empty() {
            return step;
        }
        let mut effects = self.settled_claims();
        self.look_at_clock(now);
        let chains = std::mem::take(&mut self.equipment.changed);
        if !chains.is_empty() {
            effects.push(ParticipantEffect::Reconcile { chains });
        }
        step.with_effects(effects)
    }

    /// The answers to those that wait for a claim which is made, or is not needed any more.
    fn settled_claims(&mut self) -> Vec<ParticipantEffect> {
        let entries = &self.entries;
        let waits = |txn: &TransactionId| entries.get(txn).is_some_and(Entry::waits_for_claim);
        let settled = self.equipment.open.extract_if(.., |txn, _| !waits(txn));
        let mut effects = Vec::new();
        for (txn, claim) in settled {
            let entry = entries.get(&txn);
            let answer = entry.and_then(|entry| Some(entry.answer_hold(entry.order.as_ref()?)));
            let Some(answer) = answer else { continue };
            let reply = |token| ParticipantEffect::Reply { token, answer: answer.clone() };
            effects.extend(claim.waiting.into_iter().map(reply));
        }
        effects
    }

    /// Forgets what changed before the start: the shell then looks at everything.
    pub(super) fn equipment_starts(&mut self, now: Now) {
        self.look_at_clock(now);
        self.equipment.changed.clear();
        let entries = &self.entries;
        let waits = |txn: &TransactionId| entries.get(txn).is_some_and(Entry::waits_for_claim);
        self.equipment.open.retain(|txn, _| waits(txn));
    }

    /// Notes the chains of which some window has begun or ended.
    fn look_at_clock(&mut self, now: Now) {
        if self.equipment.looked_at.is_some_and(|before| now.wall < before.wall) {
            // The clock was set back, so what had begun or was over may be still to come.
            let chains = self.equipment.chains.values().flat_map(|chain| &chain.members);
            let all: Vec<TransactionId> = chains.cloned().collect();
            all.iter().for_each(|txn| self.note_equipment(txn));
        }
        self.equipment.looked_at = Some(now);
        while let Some((at, chain)) = self.equipment.edges.first().cloned()
            && at <= now.wall
        {
            self.equipment.edges.remove(&(at, chain.clone()));
            self.equipment.changed.insert(chain);
        }
        // What has ended before its windows needs no look at the clock.
        let Equipment { edges, chains, .. } = &mut self.equipment;
        while edges.first().is_some_and(|(_, chain)| !chains.contains_key(chain)) {
            edges.pop_first();
        }
    }

    /// Notes that a transaction's phase, or what it takes, has changed.
    pub(super) fn note_equipment(&mut self, txn: &TransactionId) {
        let Some(entry) = self.entries.get(txn) else { return };
        let Equipment { is_driven, chains, edges, changed, open, .. } = &mut self.equipment;
        if entry.waits_for_claim() {
            open.entry(txn.clone()).or_default();
        }
        if !*is_driven {
            // Nobody claims what waits for its claim, and after a while it is refused.
            return;
        }
        let first = entry.chain(txn);
        changed.insert(first.clone());
        if entry.in_timetables().is_some() {
            let until = entry.windows().map(Window::end).max().unwrap_or(Time::MIN);
            for window in entry.windows() {
                edges.extend([window.start(), window.end()].map(|at| (at, first.clone())));
            }
            let nothing = || Chain { members: BTreeSet::new(), until };
            let chain = chains.entry(first.clone()).or_insert_with(nothing);
            chain.members.insert(txn.clone());
            chain.until = chain.until.max(until);
        } else if let Some(chain) = chains.get_mut(first) {
            chain.members.remove(txn);
            if chain.members.is_empty() {
                chains.remove(first);
            }
        }
    }

    pub(super) fn fold_claimed(
        &mut self,
        txn: &TransactionId,
        references: &BTreeMap<ResourceId, String>,
        at: Now,
    ) -> Result<(), ReplayError> {
        let waits = self.entries.get(txn).is_some_and(Entry::waits_for_claim);
        let Some(entry) = self.entries.get_mut(txn).filter(|_| waits) else {
            return Err(ReplayError(format!("{txn} is claimed but waits for no claim")));
        };
        entry.claim = Claim::Made;
        let chain = entry.chain(txn).clone();
        for (resource, reference) in references {
            let key = EquipmentKey { chain: chain.clone(), resource: resource.clone() };
            if self.equipment.states.contains_key(&key) {
                // It has an older version, too. What has changed about it is a record of its own, of which others are told.
                continue;
            }
            let state = EquipmentState {
                stage: Some(Stage::Claimed),
                version: txn.clone(),
                reference: reference.clone(),
                trouble: None,
                // What cannot be used is not claimed.
                unusable: BTreeSet::new(),
                since: at.wall,
            };
            self.equipment.states.insert(key, state);
        }
        self.note_equipment(txn);
        Ok(())
    }

    pub(super) fn fold_equipped(&mut self, key: &EquipmentKey, state: Option<&EquipmentState>) {
        match state {
            Some(state) => drop(self.equipment.states.insert(key.clone(), state.clone())),
            None => drop(self.equipment.states.remove(key)),
        }
    }

    /// Checks that the chains have exactly the transactions that take something, and that every claim that is open is being made.
    pub(super) fn check_equipment(&self) -> Result<(), String> {
        let takes = |txn| self.entries.get(txn).filter(|entry| entry.in_timetables().is_some());
        for (first, chain) in &self.equipment.chains {
            for txn in &chain.members {
                if takes(txn).is_none_or(|entry| entry.chain(txn) != first) {
                    let text = format!("{txn} is at the equipment in {first} and takes nothing");
                    return Err(format!("I23: {text}"));
                }
            }
        }
        for (txn, entry) in &self.entries {
            let chain = self.equipment.chains.get(entry.chain(txn));
            let is_there = chain.is_some_and(|chain| chain.members.contains(txn));
            if self.equipment.is_driven && entry.in_timetables().is_some() && !is_there {
                return Err(format!("I23: {txn} takes something and is not at the equipment"));
            }
            if entry.waits_for_claim() && !self.equipment.open.contains_key(txn) {
                return Err(format!("I23: nobody claims what {txn} holds"));
            }
        }
        Ok(())
    }
}

fn is_over(end: Time, now: Time) -> bool {
    end <= now && !planted::is(Bug::ForgottenStop)
}

/// How far a booked version is: active in its windows, otherwise granted.
fn granted(shares: &[Share], now: Time) -> Stage {
    let of_now = shares
        .iter()
        .filter(|share| share.window.start() <= now && !is_over(share.window.end(), now));
    let amount = of_now.map(|share| share.amount.0).fold(0, u64::saturating_add);
    if amount == 0 { Stage::Granted } else { Stage::Active(Amount(amount)) }
}

/// Are two states the same but for the instant since when they are so?
fn is_same(one: Option<&EquipmentState>, other: Option<&EquipmentState>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => {
            let since = other.since;
            EquipmentState { since, ..one.clone() } == *other
        }
        (None, None) => true,
        _ => false,
    }
}
