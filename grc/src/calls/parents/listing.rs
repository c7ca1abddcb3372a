//! Pages of the transactions that parents have here, made as [`crate::views::listing`] makes pages of reservations: the
//! core's thread copies one slice at a time, between its inputs, and the rest is done where it holds up nobody.

use std::ops::Bound;

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, TransactionId, Window, limits};
use coalloc_net::{convert, machine, status};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::Coordinator;
use prost::Message as _;
use tonic::Status;

use super::bookings::ListedTransaction;
use crate::node::shell::Handle;

/// Which transactions a listing shows, checked.
#[derive(Debug, Clone)]
struct ListFilter {
    include_ended: bool,
    window: Option<Window>,
    size: usize,
    /// The last transaction of the previous page; empty for the first page.
    after: String,
}

impl ListFilter {
    fn parse(wire: v1::ListBookingsRequest) -> Result<Self, InvalidField> {
        let size = wire.page_size.unwrap_or(limits::PAGE_DEFAULT);
        let size = check_range("page_size", size, 1..=limits::PAGE_MAX, "entries")? as usize;
        let window = wire.window.as_ref();
        let window = window.map(|w| convert::window_from_wire("window", Some(w))).transpose()?;
        if !wire.page_token.is_empty() {
            TransactionId::parse("page_token", &wire.page_token)?;
        }
        Ok(Self { include_ended: wire.include_ended, window, size, after: wire.page_token })
    }

    fn shows(&self, one: &ListedTransaction) -> bool {
        (one.is_live() || self.include_ended)
            && self.window.is_none_or(|window| one.windows().any(|own| own.overlaps(window)))
    }
}

/// A part of the transactions for a page, as the core's thread copies it.
struct Slice {
    copies: Vec<ListedTransaction>,
    /// The transaction after which the next slice begins; `None` after the last slice.
    next: Option<String>,
}

impl Slice {
    fn copy(core: &Coordinator, after: &str, wanted: &ListFilter) -> Self {
        let (mut copies, mut last) = (Vec::new(), after);
        let rest = (Bound::Excluded(after), Bound::Unbounded);
        for (looked, (txn, entry)) in core.parent_entries().range::<str, _>(rest).enumerate() {
            if looked == limits::LIST_SLICE_LOOKS || copies.len() == limits::LIST_SLICE_COPIES {
                return Self { copies, next: Some(last.to_owned()) };
            }
            copies.extend(ListedTransaction::of(core, txn, entry).filter(|one| wanted.shows(one)));
            last = txn.as_str();
        }
        Self { copies, next: None }
    }
}

/// One page of transactions.
///
/// # Errors
/// INVALID_ARGUMENT for a size or a window out of range, or a token that is not one of a page; and as [`Handle::read`].
pub(super) async fn page(
    handle: &Handle,
    wire: v1::ListBookingsRequest,
) -> Result<v1::ListBookingsResponse, Status> {
    let wanted = ListFilter::parse(wire).map_err(|error| status::invalid(&error))?;
    let token = wanted.after.clone();
    let known = move |core: &Coordinator| core.parent_entries().contains_key(token.as_str());
    if !wanted.after.is_empty() && !handle.read(known).await? {
        let value = InvalidField::quoted(&wanted.after);
        let allowed = "the `next_page_token` of a page";
        return Err(status::invalid(&InvalidField::new("page_token", value, allowed)));
    }
    let (now, mut next) = (handle.now(), Some(wanted.after.clone()));
    let (mut bookings, mut bytes, mut more) = (Vec::<v1::Booking>::new(), 0, false);
    while let Some(after) = next.filter(|_| !more) {
        let looked = wanted.clone();
        let slice = handle.read(move |core| Slice::copy(core, &after, &looked)).await?;
        next = slice.next;
        let show = move || slice.copies.iter().map(|one| one.shown(now)).collect::<Vec<_>>();
        let shown = machine::off_the_runtime(handle.host(), show).await;
        for one in shown.ok_or_else(status::stopping)? {
            if bookings.len() == wanted.size || bytes >= limits::PAGE_BYTES {
                more = true;
                break;
            }
            bytes += one.encoded_len();
            bookings.push(one);
        }
    }
    let last = bookings.last().filter(|_| more);
    let next_page_token = last.map(|one| one.transaction.clone()).unwrap_or_default();
    Ok(v1::ListBookingsResponse { bookings, next_page_token })
}
