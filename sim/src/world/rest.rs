//! When a world is at rest, and what keeps it from being at rest.

use coalloc_protocol::coordinator::Reservation;
use coalloc_protocol::participant::Phase;

use super::World;

impl World {
    /// Is everything ended, and does every user know the outcome?
    pub fn is_quiet(&self) -> bool {
        self.are_nodes_quiet()
            && self.clients.demands.iter().all(|of| of.is_content() && of.has_reported())
            && self.is_nothing_followed()
            && self.equipment_unrest().is_none()
            && self.usage_unrest().is_none()
    }

    /// Is nothing unfinished or held, and is no node down?
    pub fn are_nodes_quiet(&self) -> bool {
        let grcs = self.grcs.iter().all(|node| {
            node.core.as_ref().is_some_and(|core| {
                let rests = |known: &Reservation| {
                    known.is_definite() || self.watch.exempt.is_mended_till_over(known.id.as_str())
                };
                core.unfinished() == 0 && core.reservations().all(rests)
            }) && node.is_settled()
        });
        let held = |phase: &Phase| matches!(phase, Phase::Held(_));
        let rms = self.rms.iter().all(|node| {
            node.is_settled() && !node.shadow.entries().values().any(|entry| held(&entry.phase))
        });
        grcs && rms
    }

    /// Lists what is not at rest, in words.
    pub fn why_not_quiet(&self) -> String {
        let mut why = Vec::new();
        for node in &self.grcs {
            let Some(core) = &node.core else {
                why.push(format!("{} is down", node.name));
                continue;
            };
            let open = core.reservations().filter(|reservation| !reservation.is_definite());
            why.extend(open.map(|open| format!("{} is {:?}", open.id, open.state)));
            why.push(format!("{} has {} unfinished", node.name, core.unfinished()));
        }
        for node in &self.rms {
            for (txn, entry) in node.shadow.entries() {
                if matches!(entry.phase, Phase::Held(_)) {
                    why.push(format!("{txn} is held at {}", node.name));
                }
            }
        }
        for (index, demand) in self.clients.demands.iter().enumerate() {
            if !demand.is_content() || !demand.has_reported() {
                why.push(format!(
                    "the user of demand {index} does not know the outcome: {demand:?}"
                ));
            }
        }
        if !self.is_nothing_followed() {
            why.push("a shell asks for what follows from reports".to_owned());
        }
        why.extend(self.equipment_unrest());
        why.extend(self.usage_unrest());
        why.join("; ")
    }
}
