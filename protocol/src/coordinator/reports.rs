//! Reports of what happens to a reservation while it is used: a part of it has begun, has ended, has failed.
//!
//! The coordinator keeps the reports of each reservation in the order in which they arrived, and never looks at
//! their texts. What follows from a report is a change of the reservation, which the shell plans and asks for.
//! The record comes before the acknowledgement, so what was acknowledged is still there after a restart.
//!
//! Left out: who may report what, and what a text says; the shell decides both. Source: issue "workflows",
//! point 4; docs/adr/0041-workflows-that-live.md.

use std::collections::BTreeMap;

use coalloc_common::planted::{self, Bug};
use coalloc_common::{Now, RequestId, ReservationId, UserName, limits};
use serde::{Deserialize, Serialize};

use super::record::{CoordinatorRecord, stamped};
use super::reservation::{Reservation, State};
use super::{Coordinator, Reply, StepOutput};
use crate::core::ReplayError;
use crate::message::Token;
use crate::tracked::TrackedMap;

/// One report of what happened to a reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The client's id of the report.
    pub id: RequestId,
    /// Digest of what the client sent: the same id with another digest is another report (I8).
    pub content: String,
    /// What the shell keeps of it. The coordinator never looks at it.
    pub text: String,
}

/// The reports of all reservations, each in the order in which they arrived.
#[derive(Debug, Clone, Default)]
pub(super) struct Reports {
    pub(super) of: TrackedMap<ReservationId, ReservationReports>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct ReservationReports {
    pub(super) all: Vec<Report>,
    by_id: BTreeMap<RequestId, usize>,
}

impl FromIterator<Report> for ReservationReports {
    fn from_iter<I: IntoIterator<Item = Report>>(reports: I) -> Self {
        let mut own = Self::default();
        reports.into_iter().for_each(|report| own.add(report));
        own
    }
}

impl ReservationReports {
    fn add(&mut self, report: Report) {
        self.by_id.insert(report.id.clone(), self.all.len());
        self.all.push(report);
    }
}

/// The answer to a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportEnd {
    /// It is recorded, now or before. It is the report of this number of its reservation, counted from 1.
    Recorded(usize),
    /// The id of the report is known with other content.
    OtherContent,
    /// There is no reservation of that id.
    Unknown,
    /// The reservation is not booked; nothing was done.
    NotConfirmed(Box<Reservation>),
    /// The reservation has as many reports as it may have; nothing was done.
    Spent,
    /// There is no disk space to record it. Nothing was done, and the same id may be sent again.
    DiskFull,
}

impl Coordinator {
    /// The reports of a reservation, in the order in which they arrived.
    #[must_use]
    pub fn reports(&self, reservation: &ReservationId) -> &[Report] {
        self.reports.of.get(reservation).map_or(&[], |reports| &reports.all)
    }

    /// A report arrives. Once it is recorded, it is acknowledged.
    pub(super) fn report(
        &mut self,
        reservation: ReservationId,
        report: Report,
        by: UserName,
        token: Token<ReportEnd>,
        now: Now,
        out: &mut StepOutput,
    ) {
        if let Some(end) = self.end_of_report(&reservation, &report) {
            return out.reply(Reply::Report(token, end));
        }
        // Nothing can fail from here on.
        let number = self.reports(&reservation).len() + 1;
        if planted::is(Bug::ReportUnrecorded) {
            self.reports.of.get_or_default(reservation).add(report);
        } else {
            let (version, active) = (stamped::VERSION, stamped::ACTIVE);
            let record =
                CoordinatorRecord::Reported { reservation, report, by, version, active, at: now };
            self.record(record, out);
        }
        out.reply(Reply::Report(token, ReportEnd::Recorded(number)));
    }

    /// The answer to a report that is not recorded now; `None` when it is new and may be recorded.
    fn end_of_report(&self, id: &ReservationId, report: &Report) -> Option<ReportEnd> {
        let Some(known) = self.reservations.get(id) else { return Some(ReportEnd::Unknown) };
        if let Some(reports) = self.reports.of.get(id)
            && let Some(place) = reports.by_id.get(&report.id)
        {
            let is_same = reports.all[*place].content == report.content;
            return Some(match is_same {
                true => ReportEnd::Recorded(place + 1),
                false => ReportEnd::OtherContent,
            });
        }
        // Only the parent may change what it has booked here (I21).
        if known.state != State::Confirmed || known.parent_transaction.is_some() {
            return Some(ReportEnd::NotConfirmed(Box::new(known.clone())));
        }
        if self.reports(id).len() >= limits::REPORTS_MAX {
            return Some(ReportEnd::Spent);
        }
        self.room.is_low().then_some(ReportEnd::DiskFull)
    }

    pub(super) fn fold_reported(
        &mut self,
        id: &ReservationId,
        report: &Report,
    ) -> Result<(), ReplayError> {
        if self.reservation_mut(id)?.state != State::Confirmed {
            return Err(ReplayError(format!("{id} is reported about but is not confirmed")));
        }
        let reports = self.reports.of.get_or_default(id.clone());
        if reports.by_id.contains_key(&report.id) {
            return Err(ReplayError(format!("report {} of {id} arrives twice", report.id)));
        }
        reports.add(report.clone());
        Ok(())
    }
}
