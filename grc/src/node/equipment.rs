//! Follows what resource managers tell of the equipment behind their bookings, and passes it to the coordinator core, from
//! which the usage of reservations follows.
//!
//! One stream for each RM that has equipment. A stream begins with all that there is, which replaces what was told before;
//! so a stream that breaks, and news that the core was too busy for, are made up for by the next stream. Of an RM that has
//! no equipment the core is told just that, once for each of its processes.
//!
//! Left out: what follows from it, see `protocol`'s `coordinator::usage`.

use std::sync::Arc;

use coalloc_common::{InvalidField, ResourceId, RmName, TransactionId, limits};
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_proto::v1::watch_equipment_response::What;
use coalloc_protocol::coordinator::{
    CoordinatorInput, EquipmentFound, EquipmentNews, ResourceUsage,
};
use tonic::Status;

use crate::availability::federation::{Federation, RmClient, Snapshot};
use crate::node::shell::Handle;

/// Follows every configured RM, each in a task of its own, for as long as the runtime lives.
pub fn follow(name: &str, federation: &Federation, handle: &Handle) {
    for rm in federation.names() {
        let (federation, handle) = (federation.clone(), handle.clone());
        let follower = Follower { coordinator: name.to_owned(), rm, federation, handle };
        tokio::spawn(follower.run());
    }
}

struct Follower {
    coordinator: String,
    rm: RmName,
    federation: Federation,
    handle: Handle,
}

impl Follower {
    async fn run(self) {
        let mut pause = limits::PROFILES_RETRY;
        let mut told = None;
        while !self.handle.is_stopping() {
            let (snapshot, client, said) = self.described().await;
            if !said.has_equipment {
                if told.as_ref() == Some(&said) || self.tell_all(None) {
                    told = Some(said);
                    self.federation.after(&snapshot).await;
                } else {
                    tokio::time::sleep(limits::PROFILES_RETRY.to_std()).await;
                }
                continue;
            }
            told = None;
            let (error, is_complete) = self.stream(client).await;
            if is_complete {
                pause = limits::PROFILES_RETRY;
            }
            tracing::debug!(rm = %self.rm, error = error.message(), "the stream of equipment has ended");
            tokio::time::sleep(pause.to_std()).await;
            pause = pause.saturating_mul(2).min(limits::PROFILES_RETRY_MAX);
        }
    }

    /// Waits until the RM has described itself.
    async fn described(&self) -> (Arc<Snapshot>, RmClient, Arc<v1::DescribeResponse>) {
        let mut snapshot = self.federation.snapshot();
        loop {
            if let Some((client, said)) = snapshot.members.get(&self.rm) {
                return (Arc::clone(&snapshot), client.clone(), Arc::clone(said));
            }
            snapshot = self.federation.after(&snapshot).await;
        }
    }

    /// Reads one stream to its end. Returns why it has ended, and whether all that there was has arrived.
    async fn stream(&self, mut client: RmClient) -> (Status, bool) {
        let request = v1::WatchEquipmentRequest {
            coordinator: self.coordinator.clone(),
            resource_manager: self.rm.to_string(),
        };
        let silence = limits::PROFILES_SILENCE_MAX.to_std();
        let silent = || Status::unavailable("nothing was received for too long");
        let answer = tokio::time::timeout(silence, client.watch_equipment(request)).await;
        let mut news = match answer.unwrap_or_else(|_| Err(silent())) {
            Ok(answer) => answer.into_inner(),
            Err(error) => return (error, false),
        };
        // All that there is, until it is complete.
        let mut all = Some(Vec::new());
        let mut entries = 0;
        loop {
            let next = tokio::time::timeout(silence, news.message()).await;
            let what = match next.unwrap_or_else(|_| Err(silent())) {
                Ok(Some(next)) => next.what,
                Ok(None) => return (Status::unavailable("the stream ended"), all.is_none()),
                Err(error) => return (error, all.is_none()),
            };
            let taken = match what {
                Some(What::DataPlane(one)) => match (found(&one), &mut all) {
                    (Ok(_), Some(_)) if entries >= limits::EQUIPMENT_FOUND_MAX => {
                        let text = format!("more of its equipment than {entries} entries");
                        return (Status::resource_exhausted(text), false);
                    }
                    (Ok(found), Some(all)) => {
                        entries += 1 + found.usage.as_ref().map_or(0, |usage| usage.unusable.len());
                        all.push(found);
                        true
                    }
                    (Ok(found), None) => {
                        self.tell(EquipmentNews::Changed { rm: self.rm.clone(), found })
                    }
                    (Err(error), _) => return (status::invalid(&error), all.is_none()),
                },
                Some(What::Complete(_)) => all.take().is_none_or(|all| self.tell_all(Some(all))),
                Some(What::Progress(_)) | None => true,
            };
            if !taken {
                return (status::busy(), all.is_none());
            }
        }
    }

    fn tell_all(&self, found: Option<Vec<EquipmentFound>>) -> bool {
        self.tell(EquipmentNews::All { rm: self.rm.clone(), found })
    }

    /// Returns whether the core takes the news.
    fn tell(&self, news: EquipmentNews) -> bool {
        let by = self.federation.shown(&self.rm).causer();
        self.handle.tell_from(by, CoordinatorInput::Equipment(news))
    }
}

/// What the equipment of an RM has of one resource.
fn found(wire: &v1::BookingDataPlane) -> Result<EquipmentFound, InvalidField> {
    let txn = TransactionId::parse("data_plane.transaction", &wire.transaction)?;
    let of = wire.data_plane.as_ref();
    let of = of.ok_or_else(|| InvalidField::missing("data_plane", "what the equipment has"))?;
    let resource = ResourceId::parse("data_plane.resource", &of.resource)?;
    let unusable = of.unusable.iter().take(limits::EQUIPMENT_UNUSABLE_MAX);
    let unusable = unusable.map(|name| ResourceId::parse("data_plane.unusable", name));
    let unusable = unusable.collect::<Result<_, _>>()?;
    let has_something = of.provision_state() != v1::ProvisionState::Unspecified;
    let usage = has_something.then(|| ResourceUsage {
        // Equipment of which a part cannot be used is of no use.
        is_active: of.active && of.unusable.is_empty(),
        trouble: (!of.trouble.is_empty())
            .then(|| of.trouble.chars().take(limits::EQUIPMENT_TROUBLE_CHARS_MAX).collect()),
        unusable,
    });
    Ok(EquipmentFound { txn, resource, usage })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(transaction: &str, data_plane: Option<v1::DataPlane>) -> v1::BookingDataPlane {
        v1::BookingDataPlane { transaction: transaction.to_owned(), data_plane }
    }

    #[test]
    fn what_an_rm_tells_is_read_and_what_no_rm_tells_names_its_field() {
        let of = v1::DataPlane {
            resource: "N0".into(),
            provision_state: v1::ProvisionState::Provisioned.into(),
            active: true,
            trouble: "node n3 is down".into(),
            ..v1::DataPlane::default()
        };
        let told = found(&wire("grc-1a2b3c4d-7/1", Some(of.clone()))).unwrap();
        let usage = told.usage.unwrap();
        assert!(usage.is_active && told.resource.as_str() == "N0");
        assert_eq!(usage.trouble.as_deref(), Some("node n3 is down"));
        let gone = v1::DataPlane { resource: "N0".into(), ..v1::DataPlane::default() };
        assert_eq!(found(&wire("grc-1a2b3c4d-7/1", Some(gone))).unwrap().usage, None);
        for (bad, field) in [
            (wire("", Some(of.clone())), "data_plane.transaction"),
            (wire("grc-1a2b3c4d-7/1", None), "data_plane"),
            (wire("grc-1a2b3c4d-7/1", Some(v1::DataPlane::default())), "data_plane.resource"),
        ] {
            assert_eq!(found(&bad).unwrap_err().field, field);
        }
    }
}
