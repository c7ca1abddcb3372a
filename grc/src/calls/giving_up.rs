//! An operator gives up on a resource manager that does not acknowledge the end of reservations, and what is owed to
//! whom. What giving up means is the core's (`coalloc_protocol`, `giving_up`); here its calls are checked and its
//! answers put into words.

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

/// Names that an error lists before it counts the rest.
const NAMES_SHOWN: usize = 8;

/// A call, checked.
struct ParsedCall {
    rm: RmName,
    /// Of one reservation, or of all.
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

/// Why not, for whoever asked.
fn refused(rm: &RmName, id: &ReservationId, why_not: &NotGivenUp) -> Status {
    let other = |what: &str, owing: &[RmName]| {
        let allowed = match owing {
            [] => format!("nobody: no resource manager owes the end of {id}"),
            _ => format!("one that owes the end of {id}: {}", names(owing)),
        };
        let value = format!("{:?}, which {what},", rm.as_str());
        status::invalid(&InvalidField::new("resource_manager", value, allowed))
    };
    match why_not {
        NotGivenUp::NoPart(owing) => other("takes no part in it", owing),
        NotGivenUp::OwesNothing(owing) => other("has acknowledged everything of it", owing),
        NotGivenUp::Wanted => {
            let text = format!(
                "no end is wanted of {rm}: {id} is being held, booked or changed, or it is confirmed. Release it first"
            );
            status::not_now("reservation", id.as_str(), text)
        }
        NotGivenUp::OfParent => {
            let text = "it belongs to a coordinator above; only that one may end it";
            status::denied(format!("{text}: give up on this coordinator there"))
        }
    }
}

/// Beside how each is, what it has not acknowledged; that is taken out of `owed`.
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
    /// The whole way of one call.
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
        match self.gave_up(CallSubject("reservation", id), (&rm, of), by, why).await? {
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
        // A name that is mistyped owes nothing, either.
        if !known && !self.federation.names().contains(&rm) {
            return Err(status::not_found("resource manager", rm.as_str()));
        }
        let about = CallSubject("resource manager", rm.as_str());
        let GiveUpReply::GaveUp(on) = self.gave_up(about, (&rm, OfWhat::All), by, why).await?
        else {
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
        (rm, of): (&RmName, OfWhat),
        by: UserName,
        why: String,
    ) -> Result<GiveUpReply, Status> {
        let (service, own, said) = (self.clone(), rm.clone(), (by.clone(), why.clone()));
        let call = async move {
            let input = |token| Repair::GiveUp { rm: own, of, by, why, token };
            service.handle.call(|token| CoordinatorInput::Repair(input(token))).await
        };
        // It waits for nobody but the disk.
        let reply = patient(about, call).await?;
        let reply = reply.ok_or_else(|| status::outcome_unknown(about.0, about.1))?;
        if let GiveUpReply::GaveUp(on) = &reply {
            let ((by, why), reservations) = (said, on.reservations.len());
            tracing::warn!(%rm, id = about.1, reservations, %by, why, "given up on; the Release goes on");
        }
        Ok(reply)
    }
}
