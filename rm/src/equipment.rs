//! The shell around a driver: one task that carries out what the reconciler of the equipment says.
//!
//! Left out: what is done next, which is decided in [`coalloc_protocol::participant::equipment::reconciler`]; and how a
//! piece of equipment is talked to, which a [`Driver`] knows.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_common::{TransactionId, limits};
use coalloc_net::metrics;
use coalloc_proto::v1;
use coalloc_protocol::participant::equipment::EquipmentTrouble;
use coalloc_protocol::participant::equipment::reconciler::{
    Command, CommandOutcome, EquipmentReport, Reconciler,
};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::driver::Driver;
use crate::shell::Handle;

/// The chains of versions about which something has changed.
pub type ChangedChains = BTreeSet<TransactionId>;

/// Most sentences of each kind that an operator is told.
const SENTENCES_MAX: usize = 20;

/// What was seen at the last look at the equipment, for whoever asks. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct LastReport(Arc<Mutex<EquipmentReport>>);

impl LastReport {
    /// The report in the schema.
    #[must_use]
    pub fn to_wire(&self) -> v1::EquipmentReport {
        let report = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let few = |all: &[String]| all.iter().take(SENTENCES_MAX).cloned().collect();
        v1::EquipmentReport {
            trouble: report.trouble.clone().unwrap_or_default(),
            drift: few(&report.drift),
            orphans: few(&report.orphans),
            intruders: few(&report.intruders),
            unusable: few(&report.unusable),
        }
    }

    fn set(&self, report: &EquipmentReport) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(report);
    }
}

/// Keeps the equipment as wanted until the participant is stopped. `changed` says of what something has changed, and `last` is
/// told what every look shows.
pub async fn keep(
    driver: Arc<dyn Driver>,
    handle: Handle,
    mut changed: UnboundedReceiver<ChangedChains>,
    last: LastReport,
) {
    let reconciler = Arc::new(Mutex::new(Reconciler::default()));
    let mut reported = EquipmentReport::default();
    while !handle.is_stopping() {
        while let Ok(chains) = changed.try_recv() {
            locked(&reconciler).changed(chains);
        }
        if let Some(command) = next(&handle, &reconciler).await {
            let outcome = carry_out(&*driver, &command).await;
            note(&command, &outcome);
            let told = locked(&reconciler).done(command, outcome, handle.now().boot);
            for input in told {
                // If the participant is too busy for this, the next look says it again.
                handle.tell(input);
            }
            report(locked(&reconciler).report(), &mut reported);
            last.set(&reported);
            continue;
        }
        let left = locked(&reconciler).due().since(handle.now().boot);
        let left = left.clamp(limits::EQUIPMENT_RETRY_MIN, limits::EQUIPMENT_LOOK_EVERY);
        tokio::select! {
            chains = changed.recv() => match chains {
                Some(chains) => locked(&reconciler).changed(chains),
                None => return,
            },
            () = tokio::time::sleep(left.to_std()) => {}
        }
    }
}

/// Asks the reconciler what to do, beside the participant as it is on the disk. `None` also when the participant is too
/// busy to be read.
async fn next(handle: &Handle, reconciler: &Arc<Mutex<Reconciler>>) -> Option<Command> {
    let (now, shared) = (handle.now(), Arc::clone(reconciler));
    handle.read(move |participant| locked(&shared).next(participant, now)).await.ok().flatten()
}

/// The reconciler. Only [`keep`] uses it, and a read that [`keep`] waits for.
fn locked(reconciler: &Mutex<Reconciler>) -> MutexGuard<'_, Reconciler> {
    reconciler.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn carry_out(driver: &dyn Driver, command: &Command) -> CommandOutcome {
    // A driver ends its own programs in time. This is for one that does not.
    let patience = limits::EQUIPMENT_PATIENCE.to_std() * 2;
    let silent = |_| EquipmentTrouble::Lost("the driver did not come back in time".to_owned());
    match command {
        Command::Observe(wanted) => {
            let observed = tokio::time::timeout(patience, driver.observe(wanted)).await;
            CommandOutcome::Observed(observed.map_err(silent).and_then(|observed| observed))
        }
        Command::Make { key, want } => {
            let made = tokio::time::timeout(patience, driver.make(key, want)).await;
            CommandOutcome::Made(made.map_err(silent).and_then(|made| made))
        }
        Command::Remove { reference, .. } => {
            let removed = tokio::time::timeout(patience, driver.remove(reference)).await;
            CommandOutcome::Removed(removed.map_err(silent).and_then(|removed| removed))
        }
    }
}

/// Logs a change of the equipment, and counts it.
fn note(command: &Command, outcome: &CommandOutcome) {
    let (action, trouble) = match outcome {
        CommandOutcome::Observed(outcome) => ("observe", outcome.as_ref().err()),
        CommandOutcome::Made(outcome) => ("make", outcome.as_ref().err()),
        CommandOutcome::Removed(outcome) => ("remove", outcome.as_ref().err()),
    };
    let word = match trouble {
        None => "done",
        Some(EquipmentTrouble::Refused(_)) => "refused",
        Some(EquipmentTrouble::Lost(_)) => "lost",
        Some(EquipmentTrouble::Down(_)) => "down",
    };
    metrics::rm().equipment.with([action, word]).inc();
    match (command, trouble) {
        (Command::Observe(_), _) => {}
        (Command::Make { key, want }, None) => {
            tracing::info!(chain = %key.chain, resource = %key.resource, stage = ?want.stage, "made");
        }
        (Command::Remove { reference, .. }, None) => tracing::info!(reference, "removed"),
        (Command::Make { key, .. }, Some(trouble)) => {
            tracing::warn!(chain = %key.chain, resource = %key.resource, %trouble, "not made");
        }
        (Command::Remove { reference, .. }, Some(trouble)) => {
            tracing::warn!(reference, %trouble, "not removed");
        }
    }
}

/// Logs what has changed in the report, and sets its gauges.
fn report(report: &EquipmentReport, before: &mut EquipmentReport) {
    if report == before {
        return;
    }
    let rm = metrics::rm();
    let gauges = [
        ("drift", report.drift.len()),
        ("orphans", report.orphans.len()),
        ("intruders", report.intruders.len()),
        ("unusable", report.unusable.len()),
        ("down", usize::from(report.trouble.is_some())),
    ];
    for (what, count) in gauges {
        rm.equipment_problems.with([what]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    match (&report.trouble, &before.trouble) {
        (Some(trouble), now) if Some(trouble) != now.as_ref() => {
            tracing::warn!(%trouble, "the equipment cannot be looked at; new holds are refused");
        }
        (None, Some(_)) => tracing::info!("the equipment can be looked at again"),
        _ => {}
    }
    let new = |now: &[String], before: &[String]| -> Vec<String> {
        now.iter().filter(|text| !before.contains(text)).cloned().collect()
    };
    for drift in new(&report.drift, &before.drift) {
        tracing::warn!(%drift, "the equipment is not as it was left; it is mended");
    }
    for orphan in new(&report.orphans, &before.orphans) {
        tracing::warn!(%orphan, "this is ours and nobody wants it; it is removed after a while");
    }
    for intruder in new(&report.intruders, &before.intruders) {
        tracing::warn!(%intruder, "this is not ours and is left alone");
    }
    for unusable in new(&report.unusable, &before.unusable) {
        tracing::warn!(%unusable, "this cannot be used now; nobody is given it");
    }
    before.clone_from(report);
}
