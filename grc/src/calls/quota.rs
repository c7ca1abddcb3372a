//! How much a user may have reserved here, and has.
//!
//! Left out: what counts (`coalloc_protocol::coordinator`), and what resource managers let a user hold.

use std::collections::BTreeSet;

use coalloc_common::{ResourceKind, UserName};
use coalloc_net::authorization::{Caller, Proof};
use coalloc_net::convert::{hours_to_wire, user_name};
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::Coordinator;
use tonic::Status;

use crate::calls::service::GrcService;

/// The user whom a caller names in `user`, and of whom it may know: itself if it names nobody.
///
/// # Errors
/// As [`GrcService::quota`].
pub(crate) fn seen_user(caller: &Caller, wire: &str) -> Result<UserName, Status> {
    let user = match (caller.user(), caller.proof()) {
        (Some(own), _) if wire.is_empty() => Ok(own.clone()),
        (None, Proof::PlainText) => user_name("user", wire),
        _ => UserName::parse("user", wire),
    };
    let user = user.map_err(|error| status::invalid(&error))?;
    if !caller.reads_all() {
        caller.check_acts_for("user", user.as_str())?;
    }
    Ok(user)
}

impl GrcService {
    /// The quota of a user, for itself or for those who may read what belongs to all.
    ///
    /// # Errors
    /// PERMISSION_DENIED for a user who asks for another; INVALID_ARGUMENT when no user is named and the caller is none.
    pub(crate) async fn quota(
        &self,
        caller: &Caller,
        wire: &v1::GetQuotaRequest,
    ) -> Result<v1::GetQuotaResponse, Status> {
        let user = seen_user(caller, &wire.user)?;
        let (now, wanted) = (self.handle.now().wall, user.clone());
        let look = move |core: &Coordinator| {
            (core.reserved_by(&wanted, now), core.quotas().of(&wanted).clone())
        };
        let (reserved, quota) = self.handle.read(look).await?;
        let kinds: BTreeSet<ResourceKind> =
            reserved.ahead.keys().chain(quota.ahead.keys()).copied().collect();
        let hours = kinds.into_iter().map(|kind| {
            let taken = reserved.ahead.get(&kind).copied().unwrap_or_default();
            hours_to_wire(kind, taken, quota.ahead.get(&kind).copied())
        });
        Ok(v1::GetQuotaResponse {
            reservations: reserved.live,
            reservations_max: quota.live,
            hours: hours.collect(),
            calls_per_second_max: self.calls_per_second(&user),
            user: user.to_string(),
        })
    }

    /// The most calls a second of a user; 0 where they are not counted.
    fn calls_per_second(&self, user: &UserName) -> u32 {
        self.calls.as_ref().map_or(0, |calls| calls.of(user))
    }
}
