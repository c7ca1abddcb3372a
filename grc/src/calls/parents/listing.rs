//! Pages of the transactions that parents have here, made as [`crate::views::listing`] makes pages of reservations: the
//! core's thread copies one slice at a time, between its inputs, and the rest is done where it holds up nobody.

use std::ops::Bound;

use coalloc_common::limits;
use coalloc_net::resource_manager::ListFilter;
use coalloc_net::{machine, status};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::Coordinator;
use tonic::Status;

use super::bookings::ListedTransaction;
use crate::node::shell::Handle;

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
            copies.extend(
                ListedTransaction::of(core, txn, entry)
                    .filter(|one| wanted.shows(one.is_live(), one.windows())),
            );
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
    wire: &v1::ListBookingsRequest,
) -> Result<v1::ListBookingsResponse, Status> {
    let wanted = ListFilter::read(wire)?;
    if let Some(token) = wanted.after.clone() {
        let looked = token.clone();
        let known = move |core: &Coordinator| core.parent_entries().contains_key(&looked);
        if !handle.read(known).await? {
            return Err(ListFilter::unknown_token(&token));
        }
    }
    let (now, mut page) = (handle.now(), wanted.page());
    let mut next = Some(wanted.after.as_ref().map(ToString::to_string).unwrap_or_default());
    while let Some(after) = next {
        let looked = wanted.clone();
        let slice = handle.read(move |core| Slice::copy(core, &after, &looked)).await?;
        next = slice.next;
        let show = move || slice.copies.iter().map(|one| one.shown(now)).collect::<Vec<_>>();
        let shown = machine::off_the_runtime(handle.host(), show).await;
        if !shown.ok_or_else(status::stopping)?.into_iter().all(|one| page.add(one)) {
            break;
        }
    }
    Ok(page.into_answer())
}
