//! Giving up on a resource manager that does not acknowledge the end of reservations, as an operator asks for it; and
//! how much is owed to each resource manager, that is, sent until it is acknowledged.
//!
//! Left out: what giving up means, which is in the coordinator core (`coalloc_protocol`, `giving_up`). Here the calls
//! are checked and the answers put into words. Source: docs/adr/0033-giving-up-on-an-rm.md.

use std::collections::BTreeMap;

use coalloc_common::{InvalidField, ReservationId, RmName, UserName, limits};
use coalloc_net::convert::user_name;
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{
    Coordinator, CoordinatorInput, GiveUpReply, NotGivenUp, OfWhat, Owed, Repair,
};
use tonic::Status;

use crate::calls::service::{CallSubject, GrcService, patient};

/// How many names an error lists; the rest are only counted.
const NAMES_SHOWN: usize = 8;

/// A checked call.
struct ParsedCall {
    rm: RmName,
    /// The reservation; `None` for all reservations.
    id: Option<String>,
    by: UserName,
    why: String,
}

impl ParsedCall {
    fn parse(wire: v1::GiveUpRequest) -> Result<Self, InvalidField> {
        let v1::GiveUpRequest { resource_manager, id, all, by, why } = wire;
        let allowed = "the id of a reservation, or `all` and no id";
        if all != id.is_empty() {
            return Err(InvalidField::new("id", InvalidField::quoted(&id), allowed));
        }
        if why.trim().is_empty() || why.chars().count() > limits::WHY_MAX {
            let allowed = format!("1 to {} characters: its users are told", limits::WHY_MAX);
            return Err(InvalidField::new("why", InvalidField::quoted(&why), allowed));
        }
        Ok(Self {
            rm: RmName::parse("resource_manager", &resource_manager)?,
            id: Some(id).filter(|_| !all),
            by: user_name("by", &by)?,
            why,
        })
    }
}

fn names(all: &[RmName]) -> String {
    let shown: Vec<&str> = all.iter().take(NAMES_SHOWN).map(RmName::as_str).collect();
    match all.len().saturating_sub(NAMES_SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The status for an operator whose call was refused.
fn refused(rm: &RmName, id: &ReservationId, why_not: &NotGivenUp) -> Status {
    let other = |what: &str, owing: &[RmName]| {
        let allowed = match owing {
            [] => format!("none: no resource manager still has to end {id}"),
            _ => format!("one that still has to end {id}: {}", names(owing)),
        };
        let value = format!("{:?}, which {what},", rm.as_str());
        status::invalid(&InvalidField::new("resource_manager", value, allowed))
    };
    match why_not {
        NotGivenUp::NoPart(owing) => other("takes no part in it", owing),
        NotGivenUp::OwesNothing(owing) => other("has acknowledged everything of it", owing),
        NotGivenUp::Wanted => {
            let text = format!(
                "{rm} need not end anything: {id} is being held, booked or changed, or it is \
                 confirmed. Release it first"
            );
            status::not_now("reservation", id.as_str(), text)
        }
        NotGivenUp::OfParent => {
            let text = "it belongs to a parent coordinator; only that one may end it";
            status::denied(format!("{text}: give up on this coordinator there"))
        }
    }
}

/// Adds to each RM's status what the RM has not acknowledged, and removes that from `owed`.
pub(crate) fn with_owed(
    managers: Vec<v1::ResourceManagerStatus>,
    owed: &mut BTreeMap<RmName, Owed>,
) -> Vec<v1::ResourceManagerStatus> {
    let with = |manager: v1::ResourceManagerStatus| {
        let Owed { decisions, releases } = owed.remove(manager.name.as_str()).unwrap_or_default();
        let (owed, releases_owed) = (count(decisions), count(releases));
        v1::ResourceManagerStatus { owed, releases_owed, ..manager }
    };
    managers.into_iter().map(with).collect()
}

/// What is owed to RMs that are not configured.
pub(crate) fn elsewhere(owed: BTreeMap<RmName, Owed>) -> Vec<v1::OwedElsewhere> {
    let one = |(rm, Owed { decisions, releases }): (RmName, Owed)| v1::OwedElsewhere {
        name: rm.to_string(),
        owed: count(decisions),
        releases_owed: count(releases),
    };
    owed.into_iter().map(one).collect()
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl GrcService {
    /// Handles one call.
    pub(crate) async fn give_up_on(
        &self,
        wire: v1::GiveUpRequest,
    ) -> Result<v1::GiveUpResponse, Status> {
        let asked = ParsedCall::parse(wire).map_err(|error| status::invalid(&error))?;
        let ParsedCall { rm, id, by, why } = asked;
        match id {
            Some(id) => self.give_up_one(rm, &id, by, why).await,
            None => self.give_up_all(rm, by, why).await,
        }
    }

    async fn give_up_one(
        &self,
        rm: RmName,
        id: &str,
        by: UserName,
        why: String,
    ) -> Result<v1::GiveUpResponse, Status> {
        let wanted = id.to_owned();
        let find = move |core: &Coordinator| core.find(&wanted).map(|known| known.id.clone());
        let found = self.handle.read(find).await?;
        let own = found.ok_or_else(|| status::not_found("reservation", id))?;
        let of = OfWhat::Reservation(own.clone());
        match self.gave_up(CallSubject("reservation", id), &rm, of, by, why).await? {
            GiveUpReply::GaveUp(_) => {}
            GiveUpReply::NotGivenUp(why_not) => return Err(refused(&rm, &own, &why_not)),
            GiveUpReply::Unknown => return Err(status::not_found("reservation", id)),
        }
        let reservation = Some(self.still(own.as_str()).await?);
        Ok(v1::GiveUpResponse { reservation, ..v1::GiveUpResponse::default() })
    }

    async fn give_up_all(
        &self,
        rm: RmName,
        by: UserName,
        why: String,
    ) -> Result<v1::GiveUpResponse, Status> {
        let name = rm.clone();
        let known = self.handle.read(move |core| core.owed().contains_key(&name)).await?;
        // A mistyped name owes nothing either, so it has to be told from an RM that is known.
        if !known && !self.federation.names().contains(&rm) {
            return Err(status::not_found("resource manager", rm.as_str()));
        }
        let about = CallSubject("resource manager", rm.as_str());
        let GiveUpReply::GaveUp(on) = self.gave_up(about, &rm, OfWhat::All, by, why).await? else {
            return Err(status::internal("of all reservations together nothing is refused"));
        };
        Ok(v1::GiveUpResponse {
            reservation: None,
            given_up: on.reservations.iter().map(ToString::to_string).collect(),
            more: count(on.more),
            wanted: count(on.wanted),
        })
    }

    async fn gave_up(
        &self,
        about: CallSubject<'_>,
        rm: &RmName,
        of: OfWhat,
        by: UserName,
        why: String,
    ) -> Result<GiveUpReply, Status> {
        let (service, own, said) = (self.clone(), rm.clone(), (by.clone(), why.clone()));
        let call = async move {
            let input = |token| Repair::GiveUp { rm: own, of, by, why, token };
            service
                .handle
                .call(&service.causer, |token| CoordinatorInput::Repair(input(token)))
                .await
        };
        // The call waits only for the disk.
        let reply = patient(about, call).await?;
        let reply = reply.ok_or_else(|| status::outcome_unknown(about.0, about.1))?;
        if let GiveUpReply::GaveUp(on) = &reply {
            let ((by, why), reservations) = (said, on.reservations.len());
            tracing::warn!(%rm, id = about.1, reservations, %by, why, "given up on; the Release goes on");
        }
        Ok(reply)
    }
}
