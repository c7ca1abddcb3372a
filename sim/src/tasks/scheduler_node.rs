//! The place of work of a simulated scheduler: its coordinator, the one that runs live. Left out: what its messages
//! do, see `coordinated`.

use coalloc_common::{CoordinatorName, Time};
use coalloc_protocol::Core;
use coalloc_protocol::coordinator::{Coordinator, CoordinatorConfig};

use super::net::Net;
use super::settings::{Schedulers, TasksSettings};

/// The coordinator of a scheduler.
pub(super) struct SchedulerNode {
    pub(super) name: CoordinatorName,
    pub(super) core: Coordinator,
    /// When it will be woken; `None` if no wake-up is in the queue.
    pub(super) wakes: Option<Time>,
}

impl SchedulerNode {
    /// The coordinators of a run, one for each scheduler.
    pub(super) fn all(net: &Net, settings: &TasksSettings) -> Vec<Self> {
        let office = |name: &str| {
            let name = CoordinatorName::composed(name);
            let config = CoordinatorConfig {
                name: name.clone(),
                tag: "sim".to_owned(),
                hold_for: None,
                forgets: None,
            };
            Self { name, core: Coordinator::new(config), wakes: None }
        };
        match settings.planning.schedulers {
            Schedulers::Central => vec![office("central")],
            Schedulers::Distributed => {
                net.topology.vertices().iter().map(|node| office(node.name.as_str())).collect()
            }
        }
    }

    pub(super) const fn name(&self) -> &CoordinatorName {
        &self.name
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.core.check_invariants()
    }
}
