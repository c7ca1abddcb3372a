//! Pages of reservations. The core's thread only copies what a page may show, one slice at a time between its inputs.
//! Plans and requests, which are kept as text, are read on other threads, where that holds up nobody.
//!
//! Left out: an index by user or state. A client that lists few of many reservations waits until all have been looked
//! at; nobody else waits.

use std::collections::BTreeSet;

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, Now, limits};
use coalloc_net::convert::check_series;
use coalloc_net::{machine, status};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{Coordinator, Reservation};
use prost::Message as _;
use tonic::Status;

use crate::node::shell::Handle;
use crate::views::view::{self, RunningState};

/// Which reservations a listing shows, checked.
#[derive(Debug, Clone)]
struct ListFilter {
    /// Only reservations of this user; empty: of every user.
    user: String,
    /// Only what was asked for here, and not what is reserved for a parent coordinator.
    own: bool,
    /// Only reservations in these states; empty: in any state.
    states: BTreeSet<i32>,
    /// Only reservations of this series; empty: of any, and of none.
    series: String,
    size: usize,
}

impl ListFilter {
    fn parse(wire: &v1::ListRequest, own: bool) -> Result<Self, InvalidField> {
        let size = wire.page_size.unwrap_or(limits::PAGE_DEFAULT);
        let size = check_range("page_size", size, 1..=limits::PAGE_MAX, "entries")? as usize;
        let states = wire.states.iter().copied().collect();
        check_series(&wire.series)?;
        Ok(Self { user: wire.user.clone(), own, states, series: wire.series.clone(), size })
    }

    /// May the reservation be shown? Its series, and its state if it depends on the time, are known when its texts are read.
    fn may_show(&self, one: &Reservation) -> bool {
        !(self.own && one.parent_transaction.is_some())
            && (self.user.is_empty() || one.ticket.user.as_str() == self.user)
            && (self.states.is_empty()
                || view::states(one).any(|state| self.states.contains(&state)))
    }

    fn shows(&self, one: &v1::Reservation) -> bool {
        let series = one.request.as_ref().map_or("", |request| request.series.as_str());
        (self.states.is_empty() || self.states.contains(&one.state))
            && (self.series.is_empty() || series == self.series)
    }
}

/// A part of the reservations for a page, as the core's thread copies it.
struct Slice {
    copies: Vec<(Reservation, RunningState)>,
    /// The place at which the next slice begins; `None` after the last reservation.
    next: Option<usize>,
}

impl Slice {
    /// One slice: the reservations from the place `from` on that may be shown.
    fn copy(core: &Coordinator, from: usize, wanted: &ListFilter) -> Self {
        let mut copies = Vec::new();
        for (looked, (place, one)) in core.reservations_from(from).enumerate() {
            if looked == limits::LIST_SLICE_LOOKS || copies.len() == limits::LIST_SLICE_COPIES {
                return Self { copies, next: Some(place) };
            }
            if wanted.may_show(one) {
                copies.push((one.clone(), RunningState::of(core, one)));
            }
        }
        Self { copies, next: None }
    }

    /// Reads the texts of the copies.
    fn show(self, wanted: &ListFilter, now: Now) -> Vec<v1::Reservation> {
        let copies = self.copies.iter();
        let shown = copies.map(|(one, running)| view::shown(one, running, now));
        shown.filter(|one| wanted.shows(one)).collect()
    }
}

/// One page of reservations; with `own`, none that is reserved for a parent coordinator.
///
/// # Errors
/// INVALID_ARGUMENT for a size out of range or a token that is not one of a page; and as [`Handle::read`].
pub async fn page(
    handle: &Handle,
    wire: v1::ListRequest,
    own: bool,
) -> Result<v1::ListResponse, Status> {
    let wanted = ListFilter::parse(&wire, own).map_err(|error| status::invalid(&error))?;
    let mut next = match wire.page_token.as_str() {
        "" => Some(0),
        token => Some(after(handle, token).await?),
    };
    let now = handle.now();
    let (mut reservations, mut bytes, mut more) = (Vec::<v1::Reservation>::new(), 0, false);
    while let Some(from) = next.filter(|_| !more) {
        let looked = wanted.clone();
        let slice = handle.read(move |core| Slice::copy(core, from, &looked)).await?;
        next = slice.next;
        let shows = wanted.clone();
        let shown = machine::off_the_runtime(handle.host(), move || slice.show(&shows, now)).await;
        for one in shown.ok_or_else(status::stopping)? {
            if reservations.len() == wanted.size || bytes >= limits::PAGE_BYTES {
                more = true;
                break;
            }
            bytes += one.encoded_len();
            reservations.push(one);
        }
    }
    let last = reservations.last().filter(|_| more);
    let next_page_token = last.map(|one| one.id.clone()).unwrap_or_default();
    Ok(v1::ListResponse { reservations, next_page_token })
}

/// The place after the reservation that a page token names.
async fn after(handle: &Handle, token: &str) -> Result<usize, Status> {
    let id = token.to_owned();
    let place = handle.read(move |core| core.place_of(&id)).await?;
    let bad = || {
        let value = InvalidField::quoted(token);
        status::invalid(&InvalidField::new("page_token", value, "the `next_page_token` of a page"))
    };
    Ok(place.ok_or_else(bad)? + 1)
}
