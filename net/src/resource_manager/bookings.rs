//! Bookings as resource managers list them, page by page, and as they report them to those who watch.

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, Now, Refusal, TransactionId, Window, limits};
use coalloc_proto::v1;
use prost::Message as _;
use tonic::Status;

use crate::{convert, status};

/// Which bookings a listing shows.
#[derive(Debug, Clone)]
pub struct ListFilter {
    /// The last transaction of the previous page; `None` for the first page.
    pub after: Option<TransactionId>,
    include_ended: bool,
    window: Option<Window>,
    size: usize,
}

impl ListFilter {
    /// Reads what a listing is to show.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for the first field that is wrong.
    pub fn read(wire: &v1::ListBookingsRequest) -> Result<Self, Status> {
        Self::parse(wire).map_err(|error| status::invalid(&error))
    }

    fn parse(wire: &v1::ListBookingsRequest) -> Result<Self, InvalidField> {
        let window = wire.window.as_ref();
        let window = window.map(|w| convert::window_from_wire("window", Some(w))).transpose()?;
        let size = wire.page_size.unwrap_or(limits::PAGE_DEFAULT);
        let size = check_range("page_size", size, 1..=limits::PAGE_MAX, "entries")? as usize;
        let after = match wire.page_token.as_str() {
            "" => None,
            token => Some(TransactionId::parse("page_token", token)?),
        };
        Ok(Self { after, include_ended: wire.include_ended, window, size })
    }

    /// The status for a page that is to begin after a transaction which is not known here.
    #[must_use]
    pub fn unknown_token(token: &TransactionId) -> Status {
        let allowed = "the `next_page_token` of a page";
        status::invalid(&InvalidField::new("page_token", token, allowed))
    }

    /// Whether the listing shows a transaction. `windows` are those of its segments.
    pub fn shows(&self, is_live: bool, mut windows: impl Iterator<Item = Window>) -> bool {
        (is_live || self.include_ended)
            && self.window.is_none_or(|window| windows.any(|own| own.overlaps(window)))
    }

    /// The page that the listing fills.
    #[must_use]
    pub const fn page(&self) -> BookingPage {
        BookingPage { size: self.size, bookings: Vec::new(), bytes: 0, has_next: false }
    }
}

/// One page of a listing, with what has been read of it so far.
#[derive(Debug)]
pub struct BookingPage {
    size: usize,
    bookings: Vec<v1::Booking>,
    bytes: usize,
    has_next: bool,
}

impl BookingPage {
    /// Adds a booking and says whether it fits: after the first that does not, the page is complete.
    pub fn add(&mut self, booking: v1::Booking) -> bool {
        self.has_next = self.bookings.len() >= self.size || self.bytes >= limits::PAGE_BYTES;
        if !self.has_next {
            self.bytes += booking.encoded_len();
            self.bookings.push(booking);
        }
        !self.has_next
    }

    /// The page on the wire.
    #[must_use]
    pub fn into_answer(self) -> v1::ListBookingsResponse {
        let last = self.bookings.last().filter(|_| self.has_next);
        let next_page_token = last.map(|last| last.transaction.clone()).unwrap_or_default();
        v1::ListBookingsResponse { bookings: self.bookings, next_page_token }
    }
}

/// A change of a booking's state.
#[derive(Debug)]
pub struct BookingChange {
    /// The booking after it.
    pub booking: v1::Booking,
    /// Who or what caused it, in the words of the schema.
    pub cause: String,
    /// Why, if it is a refusal.
    pub refusal: Option<Refusal>,
    /// What has changed at the equipment, if nothing else has.
    pub data_plane: Option<v1::DataPlane>,
    /// When.
    pub at: Now,
}

impl BookingChange {
    /// The event for those who watch: the ledger's record of this number, after which `resume_token` goes on.
    #[must_use]
    pub fn into_event(self, sequence: u64, resume_token: String) -> v1::WatchBookingsResponse {
        let event = v1::BookingEvent {
            sequence,
            resume_token,
            time: Some(convert::time_to_wire(self.at.wall)),
            cause: self.cause,
            refusal: self.refusal.as_ref().map(convert::refusal_to_wire),
            booking: Some(self.booking),
            data_plane: self.data_plane,
        };
        let what = Some(v1::watch_bookings_response::What::Event(event));
        v1::WatchBookingsResponse { what }
    }
}

/// Tells those who watch how far they have been told everything.
#[must_use]
pub fn progress(resume_token: String) -> v1::WatchBookingsResponse {
    let progress = v1::WatchProgress { resume_token };
    let what = Some(v1::watch_bookings_response::What::Progress(progress));
    v1::WatchBookingsResponse { what }
}
