//! Hop 2: who calls, and are the numbers sane? Bytes become types here, and nothing malformed gets any further.
//!
//! Left out: whether anything is free, which the resource managers are asked afterwards ([`crate::availability`]).

use std::fmt::Write as _;

use coalloc_common::{CoAllocation, InvalidField, RequestId, Time, UserName, limits};
use coalloc_net::convert::{
    RequestOptions, check_references, plan_options, request_from_wire, user_name,
};
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::Ticket;
use sha2::{Digest as _, Sha256};
use tonic::Status;

use crate::availability::federation::Snapshot;
use crate::planning::plan_cache::check_digest;

/// An admitted request.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The sites, links and times that are wanted.
    pub request: CoAllocation,
    /// The user it is for.
    pub user: UserName,
    /// How plans are searched: the request's options, and the coordinator's defaults for the rest.
    pub options: RequestOptions,
}

/// Reads the request and its options. `now` sets the earliest start of a request that names none.
///
/// # Errors
/// INVALID_ARGUMENT naming field, value and allowed range.
pub fn read(
    request: Option<&v1::CoAllocationRequest>,
    options: Option<&v1::PlanOptions>,
    defaults: RequestOptions,
    now: Time,
) -> Result<Admitted, Status> {
    let inner = || {
        let missing = || InvalidField::missing("request", "what is wanted");
        let wire = request.ok_or_else(missing)?;
        let soonest = now.saturating_add(limits::SOONEST_LEAD).next_second();
        Ok(Admitted {
            request: request_from_wire(wire, soonest).map_err(in_request)?,
            user: user_name("request.user", &wire.user)?,
            options: plan_options(options, defaults)?,
        })
    };
    inner().map_err(|error: InvalidField| status::invalid(&error))
}

/// Checks that the sites and places that a request names are known in the federation.
///
/// # Errors
/// UNAVAILABLE when no RM has described itself yet, or when a site is unknown while some RM has not described itself,
/// because the site may belong to that RM; otherwise INVALID_ARGUMENT.
pub fn check_places(admitted: &Admitted, federation: &Snapshot) -> Result<(), Status> {
    on(federation, || check_references(&federation.topology, &admitted.request).map_err(in_request))
}

/// The path of a field of the request in the message of a call.
fn in_request(error: InvalidField) -> InvalidField {
    error.within("request")
}

/// What a check of names makes of the federation.
///
/// # Errors
/// As [`check_places`].
pub fn on<T>(
    federation: &Snapshot,
    check: impl FnOnce() -> Result<T, InvalidField>,
) -> Result<T, Status> {
    let missing: Vec<&str> = federation.missing.iter().map(|rm| rm.as_str()).collect();
    if federation.members.is_empty() && !missing.is_empty() {
        return Err(status::nobody_heard(&missing));
    }
    check().map_err(|error| {
        if missing.is_empty() {
            return status::invalid(&error);
        }
        status::not_known_yet(&error, &missing)
    })
}

/// Admits a request: [`read`], then [`check_places`].
///
/// # Errors
/// As [`read`] and [`check_places`].
pub fn admit(
    request: Option<&v1::CoAllocationRequest>,
    options: Option<&v1::PlanOptions>,
    defaults: RequestOptions,
    federation: &Snapshot,
    now: Time,
) -> Result<Admitted, Status> {
    let admitted = read(request, options, defaults, now)?;
    check_places(&admitted, federation)?;
    Ok(admitted)
}

/// The ticket of a reserve call: its id, its user, and a digest of the message as it came over the wire. The digest
/// does not depend on default values, so a request without a start time is the same request when it is sent again.
/// `own_ids` is the prefix of the ids of this coordinator's reservations.
///
/// # Errors
/// INVALID_ARGUMENT when the id or the user is not a name, when the id begins with `own_ids`, or when the plan digest
/// is malformed.
pub fn ticket(wire: &v1::ReserveRequest, own_ids: &str) -> Result<Ticket, Status> {
    let user = wire.request.as_ref().map_or("", |request| request.user.as_str());
    let inner = || {
        let request = request_id(&wire.request_id, own_ids)?;
        if !wire.plan_digest.is_empty() {
            check_digest(&wire.plan_digest)?;
        }
        Ok(Ticket { request, user: user_name("request.user", user)?, content: digest(wire) })
    };
    inner().map_err(|error: InvalidField| status::invalid(&error))
}

/// Reads the client's id of a request. `own_ids` is the prefix of the ids of this coordinator's reservations.
///
/// # Errors
/// [`InvalidField`] when the id is not a name, or begins with `own_ids`.
pub fn request_id(id: &str, own_ids: &str) -> Result<RequestId, InvalidField> {
    if id.starts_with(own_ids) {
        // Get and Release take both kinds of id, so a request must not have an id that looks like a reservation's.
        let allowed = format!("an id that does not begin with {own_ids}");
        return Err(InvalidField::new("request_id", InvalidField::quoted(id), allowed));
    }
    RequestId::parse("request_id", id)
}

/// Digest of a request as it came over the wire. It tells for which request a plan was shown.
#[must_use]
pub fn request_digest(request: Option<&v1::CoAllocationRequest>) -> String {
    request.map_or_else(|| digest(&()), digest)
}

/// SHA-256 over a message as it came over the wire, in hexadecimal.
pub(crate) fn digest(wire: &impl prost::Message) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(wire.encode_to_vec()) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
