//! What of the equipment cannot be used now: nodes that are down, links that fail.
//!
//! The reconciler says it after each look ([`ParticipantInput::Unusable`](super::super::ParticipantInput)), and says it again
//! after a restart, so it is not recorded. Two things follow:
//!
//! * **Nothing new is given out of it**, whatever the window: nobody knows when it can be used again. A booking that has
//!   it keeps it, and a change that takes no more than the booking has is not refused for it.
//! * **A booking that has it is told so** ([`EquipmentState::unusable`]), so that its coordinator can move it. Of a booking in its
//!   window, only what it has now counts, and not what goes on for those who have it, as a node that is draining.
//!
//! Left out: moving it, which is a change by the coordinator; and profiles, which go on to show it as free, so that a
//! coordinator which plans on them may be refused.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{Now, ResourceId, Time};

use super::{EquipmentKey, EquipmentState, Share, Unusable, Want};
use crate::durable::Unsynced;
use crate::participant::{Participant, ParticipantRecord, Step};

impl Participant {
    /// What cannot be used now, by the whole names of servers and the names of resources.
    #[must_use]
    pub const fn unusable(&self) -> &BTreeMap<ResourceId, Unusable> {
        &self.equipment.unusable
    }

    /// Does the participant know what cannot be used now, and of which bookings it is? Of the latter it may know from before
    /// a restart, and a booking's window may have begun since.
    #[must_use]
    pub fn knows_unusable(
        &self,
        unusable: &BTreeMap<ResourceId, Unusable>,
        wanted: &BTreeMap<EquipmentKey, Want>,
        now: Time,
    ) -> bool {
        let of = |key| wanted.get(key).map(|want| self.unusable_of(key, want, now));
        self.equipment.unusable == *unusable
            && self
                .equipment
                .states
                .iter()
                .all(|(key, state)| of(key).unwrap_or_default() == state.unusable)
    }

    /// Takes over what cannot be used now, and records of which bookings it is.
    pub(in super::super) fn now_unusable(
        &mut self,
        unusable: BTreeMap<ResourceId, Unusable>,
        now: Now,
    ) -> Step {
        self.equipment.unusable = unusable;
        let mut changed: Vec<(EquipmentKey, EquipmentState)> = Vec::new();
        for (key, state) in self.equipment.states.iter() {
            let wanted = self.wanted_of(&key.chain, now.wall);
            let unusable = wanted.get(key).map(|want| self.unusable_of(key, want, now.wall));
            let unusable = unusable.unwrap_or_default();
            if unusable != state.unusable {
                let state = EquipmentState { unusable, since: now.wall, ..state.clone() };
                changed.push((key.clone(), state));
            }
        }
        let mut records = Vec::new();
        for (key, state) in changed {
            let (txn, state) = (state.version.clone(), Some(state));
            let record = ParticipantRecord::Equipped { key, txn, state, at: now };
            self.must_apply(&record);
            records.push(record);
        }
        Unsynced::new(records, vec![])
    }

    /// What of this cannot be used: of what the user has now, or else of what is still to come.
    pub(super) fn unusable_of(
        &self,
        key: &EquipmentKey,
        want: &Want,
        now: Time,
    ) -> BTreeSet<ResourceId> {
        if self.equipment.unusable.is_empty() {
            return BTreeSet::new();
        }
        let booked = want.versions.iter().rfind(|version| version.is_booked);
        let all = booked.or(want.versions.last()).map_or(&[][..], |version| &version.shares);
        let is_now = |share: &&Share| share.window.start() <= now && now < share.window.end();
        let has_begun = all.iter().any(|share| is_now(&share));
        let shares = all.iter().filter(|share| !has_begun || is_now(share));
        let names = shares.flat_map(|share| &share.servers).chain([&key.resource]);
        let is_out = |name: &&ResourceId| {
            let reason = self.equipment.unusable.get(*name);
            reason.is_some_and(|reason| !(has_begun && reason.goes_on))
        };
        names.filter(is_out).cloned().collect()
    }
}
