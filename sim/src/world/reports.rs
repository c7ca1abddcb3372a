//! Users who report what happens to their reservations, and what coordinators' shells make of it.
//!
//! A user sends a report until it is acknowledged. A coordinator's shell then asks for the change that follows
//! from all reports so far. It asks again after a backoff when another change is under way, and looks at every
//! reservation with reports when its process starts. What it remembers ends with the process. A change that was refused
//! for another reason than a restart is not tried again before something new is reported.
//!
//! Checked here: an acknowledged report is on the disk of its coordinator, now and after every restart, and the same
//! report gets the same answer (I8). What a new version must keep to is checked in
//! [`revisions`](super::revisions).

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::workflow::{ActivityEvent, ActivityReport};
use coalloc_common::{Reason, RequestId, ReservationId, Span, Time};
use coalloc_protocol::conversation::{ChangeEnd, ConversationInput, Opening, Planned};
use coalloc_protocol::coordinator::{
    Candidate, ChangeState, ChangeTicket, CoordinatorInput, Report, ReportEnd, Reservation, State,
};
use coalloc_protocol::message::Token;

use super::clients::{Demand, Visit};
use super::identity::{JudgedCall, Sender};
use super::node::WALL_START;
use super::revisions::Said;
use super::workflows::report_text;
use super::{Address, Event, Waiter, World, print};

/// How long a shell waits before it asks for a change again, in microseconds.
const BACKOFF_US: i64 = 3_000_000;
/// When a new process looks at the reservations with reports, in microseconds after its start.
const LOOK_US: i64 = 1_000_000;

/// Time left to an activity that is too short to ask for more.
const SHORT: Span = Span::from_secs(3);

/// A report of a user.
#[derive(Debug, Clone)]
pub struct UserReport {
    pub report: Report,
    /// The number that its acknowledgement gave it.
    pub recorded: Option<usize>,
    /// It was turned away for good.
    pub turned_away: bool,
}

impl UserReport {
    pub const fn new(report: Report) -> Self {
        Self { report, recorded: None, turned_away: false }
    }
}

/// What a shell remembers of a reservation with reports.
#[derive(Debug, Default)]
pub(super) struct Following {
    /// It is asking for a change, or will do so after a backoff.
    is_busy: bool,
    /// How many reports the last change that had an outcome followed from.
    considered: Option<usize>,
}

/// Has a reservation booked just what a candidate takes?
fn has_booked(known: &Reservation, wanted: &Candidate) -> bool {
    let booked = known.candidate.iter().flat_map(|booked| &booked.segments);
    let booked = booked.filter(|(_, segments)| !segments.is_empty());
    known.state == State::Confirmed && booked.eq(&wanted.segments)
}

/// Was the last change that followed from so many reports refused, for another reason than a restart?
fn is_refused_for_good(known: &Reservation, reports: usize) -> bool {
    let round = format!("reports-{reports}.");
    let last = known.change.as_ref().filter(|change| change.id.as_str().starts_with(&round));
    let refused = last.filter(|change| change.state == ChangeState::Refused);
    let refusal = refused.and_then(|change| change.refusal.as_ref());
    refusal.is_some_and(|refusal| refusal.reason != Reason::CoordinatorRestarted)
}

/// By coordinator and reservation.
pub(super) type AllFollowing = BTreeMap<(usize, ReservationId), Following>;

impl Demand {
    /// Does its user know what became of every report?
    pub fn has_reported(&self) -> bool {
        let settled = |of: &UserReport| of.recorded.is_some() || of.turned_away;
        self.vanished || self.lost || self.reports.iter().all(settled)
    }

    fn is_followed(&self) -> bool {
        self.workflow.is_some() || !self.follow.is_empty()
    }
}

impl World {
    /// The demand that a reservation of this coordinator was made for.
    pub(super) fn demand_of(&self, grc: usize, known: &Reservation) -> Option<usize> {
        let of = |demand: &Demand| demand.grc == grc && demand.ticket == known.ticket;
        self.clients.demands.iter().position(of)
    }

    /// The report of this name about a demand. The same name is the same report.
    pub fn add_report(&mut self, demand: usize, name: &str) -> usize {
        let reports = &mut self.clients.demands[demand].reports;
        let known = reports.iter().position(|of| of.report.id.as_str() == name);
        known.unwrap_or_else(|| {
            let (id, text) = (RequestId::composed(name), format!("what {name} says"));
            reports.push(UserReport::new(Report { id, content: text.clone(), text }));
            reports.len() - 1
        })
    }

    /// The user looks at the workflow, and may report about an activity that runs. The report arrives now, or
    /// `late_us` microseconds later, and now and then twice.
    pub(super) fn look(&mut self, demand: usize, late_us: i64, twice: bool) -> Result<(), String> {
        let now = WALL_START.saturating_add(Span::from_us(self.now_us));
        let Some(said) = self.draw_report(demand, now) else { return Ok(()) };
        let reports = &mut self.clients.demands[demand].reports;
        let id = RequestId::composed(format!("p{}", reports.len() + 1));
        let text = report_text(&said);
        reports.push(UserReport::new(Report { id, content: text.clone(), text }));
        let report = self.clients.demands[demand].reports.len() - 1;
        if twice {
            self.after(late_us / 2, Event::Visit(Visit::Report { demand, report }));
        }
        if late_us > 0 {
            self.counts.late_reports += 1;
            self.after(late_us, Event::Visit(Visit::Report { demand, report }));
            return Ok(());
        }
        self.report(demand, report)
    }

    /// Something that happens to an activity that runs according to the booked version. Users tell the truth: an
    /// activity ends once, and not later than its user has said.
    fn draw_report(&mut self, demand: usize, now: Time) -> Option<ActivityReport> {
        let known = &self.clients.demands[demand];
        let id = self.known_id(demand)?;
        let booked = self.grcs[known.grc].shadow.find(id.as_str())?;
        let candidate = booked.candidate.as_ref().filter(|_| booked.state == State::Confirmed)?;
        let version = &self.workflows.versions[self.workflows.version_of(candidate)?];
        let own = |of: &UserReport| serde_json::from_str(&of.report.text).ok();
        let told: Vec<ActivityReport> = known.reports.iter().filter_map(own).collect();
        let activities = version.workflow.activities.iter().zip(&version.schedule.activities);
        let runs = activities.filter_map(|(activity, placed)| {
            let said = Said::of(&told, &activity.name, placed.window.start());
            let until = said.end.unwrap_or(placed.window.end());
            let runs = placed.window.start() <= now && now < until && !said.failed;
            let site = self.workflows.topology.vertex(placed.site).name.clone();
            (runs && !said.finished).then(|| (activity.name.clone(), site, until))
        });
        let runs: Vec<_> = runs.collect();
        if runs.is_empty() {
            return None;
        }
        let (activity, site, until) = self.dice.pick(&runs).clone();
        // It is too late to ask for more time when little is left; few users do.
        let is_late = until.since(now) < SHORT && self.dice.per_mille(900);
        let event = match self.dice.below(10) {
            0 | 1 => ActivityEvent::Started,
            2..=3 => ActivityEvent::Finished,
            4 => ActivityEvent::Failed,
            _ if is_late => ActivityEvent::Finished,
            _ => {
                let more = Span::from_secs(self.dice.between(-5, 40));
                ActivityEvent::NeedsUntil(until.saturating_add(more).max(now))
            }
        };
        let avoids = event == ActivityEvent::Failed && self.dice.per_mille(500);
        let excluded = avoids.then_some(site).into_iter().collect();
        Some(ActivityReport { activity, event, at: now, excluded })
    }

    /// The user sends a report, and sends it again until there is an answer.
    pub(super) fn report(&mut self, demand: usize, report: usize) -> Result<(), String> {
        let known = &self.clients.demands[demand];
        let UserReport { report: sent, recorded, turned_away } = known.reports[report].clone();
        let (grc, by, patience_us) = (known.grc, known.ticket.user.clone(), known.patience_us);
        if patience_us > 0 && recorded.is_none() && !turned_away {
            self.after(patience_us, Event::Visit(Visit::Report { demand, report }));
        }
        let Some(reservation) = self.known_id(demand) else { return Ok(()) };
        self.say_user(demand, true, &format!("Report {} of {reservation}", sent.id));
        if !self.grcs[grc].is_up() {
            return Ok(());
        }
        self.check_admitted(grc, Sender::User(&by), JudgedCall::Report(&by))?;
        let token = self.fresh();
        self.waiters.insert(token, Waiter::Reporter { demand, report });
        let token = Token::new(token);
        self.grcs[grc].post(CoordinatorInput::Report { reservation, report: sent, by, token });
        self.begin(Address::Grc(grc))
    }

    /// A coordinator answers a report.
    pub(super) fn tell_reporter(
        &mut self,
        grc: usize,
        demand: usize,
        report: usize,
        end: &ReportEnd,
    ) -> Result<(), String> {
        self.say_user(demand, false, &print::report_end(end));
        let id = self.known_id(demand).ok_or("a report of no reservation is answered")?;
        let lost = self.is_gone(grc, &id);
        let known = &mut self.clients.demands[demand].reports[report];
        match end {
            ReportEnd::Recorded(number) => {
                if known.recorded.is_some_and(|before| before != *number) && !lost {
                    let (id, before) = (&known.report.id, known.recorded);
                    return Err(format!("I8: report {id} was number {before:?}, now {number}"));
                }
                self.counts.reported += u64::from(known.recorded.is_none());
                self.counts.reported_again += u64::from(known.recorded.is_some());
                known.recorded = Some(*number);
                self.check_reported(grc, demand)?;
                self.follow(grc, &id)
            }
            ReportEnd::DiskFull => self.no_room(grc),
            ReportEnd::NotConfirmed(now) if now.state != State::Confirmed || lost => {
                known.turned_away = true;
                Ok(())
            }
            ReportEnd::Spent | ReportEnd::Unknown | ReportEnd::OtherContent if lost => {
                known.turned_away = true;
                Ok(())
            }
            other => Err(format!("I8: report {} is answered {other:?}", known.report.id)),
        }
    }

    /// Every acknowledged report of a demand is on the disk of its coordinator, at its place (I8).
    fn check_reported(&self, grc: usize, demand: usize) -> Result<(), String> {
        let known = &self.clients.demands[demand];
        let Some(id) = self.known_id(demand) else { return Ok(()) };
        if known.reports.is_empty() || self.watch.exempt.is_lost(id.as_str()) {
            return Ok(());
        }
        if self.watch.forgotten_by_grc.contains(&(grc, id.clone())) {
            return Ok(());
        }
        let core = self.grcs[grc].core.as_ref().filter(|_| self.grcs[grc].is_settled());
        for of in known.reports.iter() {
            let Some(number) = of.recorded else { continue };
            let has = |all: &[Report]| all.get(number - 1) == Some(&of.report);
            let (grc, report) = (&self.grcs[grc], &of.report.id);
            if !has(grc.shadow.reports(&id)) {
                let name = &grc.name;
                return Err(format!(
                    "I8: report {report} of {id} is acknowledged, but is not on the disk of {name}"
                ));
            }
            if core.is_some_and(|core| !has(core.reports(&id))) {
                let name = &grc.name;
                return Err(format!("I12: {name} has forgotten report {report} of {id}"));
            }
        }
        Ok(())
    }

    /// The same for every demand at a coordinator; of all coordinators at rest, of one after its restart.
    pub(super) fn check_all_reported(&self, grc: usize) -> Result<(), String> {
        let demands = self.clients.demands.iter().enumerate();
        let mut of = demands.filter(|(_, demand)| demand.grc == grc && !demand.reports.is_empty());
        of.try_for_each(|(demand, _)| self.check_reported(grc, demand))
    }

    /// A new process of a coordinator will look at every booked reservation with reports.
    pub(super) fn follow_all(&mut self, grc: usize) {
        let Some(core) = self.grcs[grc].core.as_ref() else { return };
        let reported = core
            .reservations()
            .filter(|known| known.state == State::Confirmed && !core.reports(&known.id).is_empty());
        let reported: Vec<ReservationId> = reported.map(|known| known.id.clone()).collect();
        for id in reported {
            self.follow_later(grc, id, LOOK_US);
        }
    }

    fn follow_later(&mut self, grc: usize, reservation: ReservationId, us: i64) {
        let life = self.grcs[grc].life;
        self.following.entry((grc, reservation.clone())).or_default().is_busy = true;
        self.after(us, Event::Follow { grc, life, reservation });
    }

    /// A backoff has passed.
    pub(super) fn follow_now(
        &mut self,
        grc: usize,
        life: u64,
        reservation: &ReservationId,
    ) -> Result<(), String> {
        if self.grcs[grc].life != life {
            return Ok(());
        }
        self.following.entry((grc, reservation.clone())).or_default().is_busy = false;
        self.follow(grc, reservation)
    }

    /// The shell asks for the change that follows from the reports so far, unless it has done so.
    fn follow(&mut self, grc: usize, id: &ReservationId) -> Result<(), String> {
        let Some(core) = self.grcs[grc].core.as_ref() else { return Ok(()) };
        let Some(known) = core.find(id.as_str()) else { return Ok(()) };
        let Some(demand) = self.demand_of(grc, known) else { return Ok(()) };
        let (reports, state) = (core.reports(id).len(), known.state);
        let number = known.changes + 1;
        let refused = is_refused_for_good(known, reports);
        let following = self.following.entry((grc, id.clone())).or_default();
        let is_known = following.considered == Some(reports) || refused;
        if following.is_busy
            || is_known
            || state != State::Confirmed
            || !self.clients.demands[demand].is_followed()
        {
            return Ok(());
        }
        following.is_busy = true;
        let change = RequestId::composed(format!("reports-{reports}.{number}"));
        self.say(
            |world| format!("shell -> {}", world.grcs[grc].name),
            |_| format!("Modify {id} ({change})"),
        );
        let token = self.fresh();
        let (reservation, content) = (id.clone(), format!("{reports} reports"));
        let waiter = Waiter::Follower { demand, reservation: id.clone(), reports };
        self.waiters.insert(token, waiter);
        let ticket = ChangeTicket { reservation, change, content };
        let opening = Opening::Change(ticket, Token::new(token));
        self.grcs[grc].post(ConversationInput::Open(opening).into());
        self.begin(Address::Grc(grc))
    }

    /// The shell plans the change that follows from so many reports. `None`: nothing changes.
    pub(super) fn plan_following(
        &mut self,
        grc: usize,
        demand: usize,
        id: &ReservationId,
        reports: usize,
    ) -> Option<Planned> {
        let candidates = self.clients.demands[demand].follow.clone();
        if candidates.is_empty() {
            return self.plan_revision(grc, id, reports, &BTreeSet::new());
        }
        let known = self.grcs[grc].core.as_ref()?.find(id.as_str())?;
        candidates.iter().all(|one| !has_booked(known, one)).then(|| Ok(candidates).into())
    }

    /// Does the reservation of a demand have what its shell wants after a report?
    ///
    /// # Errors
    /// When there is no such reservation.
    pub fn has_booked(&self, demand: usize, wanted: &Candidate) -> Result<bool, String> {
        let id = self.known_id(demand).ok_or("it has no reservation")?;
        let grc = &self.grcs[self.clients.demands[demand].grc];
        let known = grc.shadow.find(id.as_str()).ok_or("it has no reservation")?;
        Ok(has_booked(known, wanted))
    }

    /// There was nothing to change.
    pub(super) fn nothing_follows(
        &mut self,
        grc: usize,
        id: &ReservationId,
        reports: usize,
    ) -> Result<(), String> {
        self.counts.unchanging += 1;
        let following = self.following.entry((grc, id.clone())).or_default();
        *following = Following { is_busy: false, considered: Some(reports) };
        self.follow(grc, id)
    }

    /// A coordinator answers its shell, which wanted a change.
    pub(super) fn tell_follower(
        &mut self,
        grc: usize,
        id: &ReservationId,
        reports: usize,
        end: &ChangeEnd,
    ) -> Result<(), String> {
        self.say(|world| format!("{} -> shell", world.grcs[grc].name), |_| print::change_end(end));
        let lost = self.is_gone(grc, id);
        let key = (grc, id.clone());
        let following = self.following.entry(key).or_default();
        match end {
            ChangeEnd::Stands(known) => {
                let change = known.change.as_ref().ok_or("a change has no outcome")?;
                match change.state {
                    ChangeState::Done => self.counts.followed += 1,
                    ChangeState::Refused => self.counts.not_followed += 1,
                    // It is still becoming so.
                    _ => {
                        self.follow_later(grc, id.clone(), BACKOFF_US);
                        return Ok(());
                    }
                }
                *following = Following { is_busy: false, considered: Some(reports) };
                self.follow(grc, id)
            }
            ChangeEnd::UnderWay(_) | ChangeEnd::DiskFull | ChangeEnd::BrokenOff => {
                self.counts.follow_waited += 1;
                self.follow_later(grc, id.clone(), BACKOFF_US);
                if *end == ChangeEnd::DiskFull { self.no_room(grc) } else { Ok(()) }
            }
            ChangeEnd::NotConfirmed(_) | ChangeEnd::Spent => {
                following.is_busy = false;
                following.considered = Some(reports);
                Ok(())
            }
            ChangeEnd::Unknown | ChangeEnd::OtherContent if lost => {
                following.is_busy = false;
                following.considered = Some(reports);
                Ok(())
            }
            ChangeEnd::Unknown | ChangeEnd::OtherContent => {
                Err(format!("the shell wants a change of {id}, but is told {end:?}"))
            }
        }
    }

    /// What a process remembers ends with it.
    pub(super) fn forget_following(&mut self, grc: usize) {
        self.following.retain(|(of, _), _| *of != grc);
    }

    /// Does no shell ask for a change, or wait before it asks again?
    pub(super) fn is_nothing_followed(&self) -> bool {
        self.following.values().all(|of| !of.is_busy)
    }
}
