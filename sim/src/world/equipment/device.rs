//! A naive device: equipment that has what it was told to have, and what strangers have put there.
//!
//! Left out: what goes wrong on the way to it, and what people do to it, see [`super`].

use std::collections::BTreeMap;

use coalloc_common::{Reason, Refusal, ResourceId};
use coalloc_protocol::participant::equipment::reconciler::{Command, CommandOutcome};
use coalloc_protocol::participant::equipment::{
    EquipmentKey, EquipmentTrouble, Observed, Presence, Unusable, Want,
};

/// Something that an RM has made at its device.
#[derive(Debug)]
pub(super) struct Thing {
    pub(super) key: EquipmentKey,
    pub(super) want: Want,
    /// The process has been told of it since its start.
    pub(super) is_known: bool,
}

/// Equipment that has what it was told to have.
#[derive(Debug, Default)]
pub(super) struct Device {
    /// What the RM has made, by name.
    pub(super) things: BTreeMap<String, Thing>,
    /// What others have made, by name, and the resource in whose way it is.
    pub(super) strangers: BTreeMap<String, Option<ResourceId>>,
    /// The resources that cannot be used, and until when.
    pub(super) unusable: BTreeMap<ResourceId, i64>,
    pub(super) names: u64,
    pub(super) down_until_us: i64,
}

impl Device {
    /// Has its effect on the device.
    pub(super) fn carry_out(
        &mut self,
        command: &Command,
        now_us: i64,
    ) -> Result<CommandOutcome, String> {
        self.unusable.retain(|_, until_us| *until_us > now_us);
        Ok(match command {
            Command::Observe(wanted) => CommandOutcome::Observed(Ok(self.seen(wanted))),
            Command::Make { key, want } => CommandOutcome::Made(self.make(key, want)),
            Command::Remove { reference, .. } => {
                if self.strangers.contains_key(reference) {
                    return Err(format!("I23: {reference} is removed, which is a stranger's"));
                }
                self.things.remove(reference);
                CommandOutcome::Removed(Ok(()))
            }
        })
    }

    pub(super) fn named(&self, key: &EquipmentKey) -> Option<&String> {
        self.things.iter().find(|(_, thing)| thing.key == *key).map(|(name, _)| name)
    }

    fn make(&mut self, key: &EquipmentKey, want: &Want) -> Result<String, EquipmentTrouble> {
        if let Some(name) = self.named(key).cloned() {
            if let Some(thing) = self.things.get_mut(&name) {
                thing.want = want.clone();
            }
            return Ok(name);
        }
        let in_way = |of: &&Option<ResourceId>| of.as_ref() == Some(&key.resource);
        if self.strangers.values().any(|of| in_way(&of)) {
            let refusal = Refusal::new(Reason::Equipment, "a stranger's thing is in the way");
            return Err(EquipmentTrouble::Refused(Box::new(refusal)));
        }
        if self.unusable.contains_key(&key.resource) {
            let refusal = Refusal::new(Reason::Equipment, "it cannot be used");
            return Err(EquipmentTrouble::Refused(Box::new(refusal)));
        }
        self.names += 1;
        let name = format!("thing-{}", self.names);
        let thing = Thing { key: key.clone(), want: want.clone(), is_known: false };
        self.things.insert(name.clone(), thing);
        Ok(name)
    }

    fn seen(&self, wanted: &BTreeMap<EquipmentKey, Want>) -> Observed {
        let mut observed = Observed::default();
        for (name, Thing { key, want: has, .. }) in &self.things {
            let Some(want) = wanted.get(key) else {
                observed.orphans.insert(name.clone());
                continue;
            };
            let differs = (!is_as_wanted(has, want)).then(|| "it is something else".to_owned());
            let presence = Presence { reference: name.clone(), differs, trouble: None };
            observed.present.insert(key.clone(), presence);
        }
        let unusable = self.unusable.keys();
        let reason =
            |name: &ResourceId| Unusable { sentence: format!("{name} is out"), goes_on: false };
        observed.unusable = unusable.map(|name| (name.clone(), reason(name))).collect();
        observed.intruders = self.strangers.keys().map(|name| format!("{name} is there")).collect();
        observed
    }
}

pub(super) fn is_as_wanted(has: &Want, want: &Want) -> bool {
    has.stage == want.stage && has.versions == want.versions && has.user == want.user
}
