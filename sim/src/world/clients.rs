//! Users: each calls a coordinator, and calls again until there is an outcome. Every answer is compared with
//! earlier answers (I8), and with what the RMs have on disk (I6).

use std::collections::BTreeSet;

use coalloc_common::{Reason, RequestId, ReservationId, UserName, VertexName};
use coalloc_protocol::conversation::{
    ChangeEnd, ConversationInput, Opening, ReleaseReply, RequestEnd,
};
use coalloc_protocol::coordinator::{
    Candidate, ChangeState, ChangeTicket, CoordinatorInput, Reservation, State, Ticket,
};
use coalloc_protocol::message::Token;

use super::identity::{JudgedCall, Sender};
use super::reports::UserReport;
use super::workflows::WantedWorkflow;
use super::{Address, Event, Fault, Waiter, World, print};

/// One request of one user at one coordinator, with the plans that planning will find.
#[derive(Debug, Clone)]
pub struct Demand {
    pub grc: usize,
    pub ticket: Ticket,
    pub candidates: Vec<Candidate>,
    /// The same id is used elsewhere with other content. So "other content" is an outcome, too.
    pub impostor: bool,
    /// The time after which the user calls again if there is no outcome; zero if a story makes the calls.
    pub patience_us: i64,
    /// The reservation's id, once an answer has named it.
    pub id: Option<ReservationId>,
    pub outcome: Option<State>,
    pub told_other_content: bool,
    /// The user wants it released, once its id is known.
    pub release: bool,
    /// The user went away and calls no more (F8).
    pub vanished: bool,
    /// The coordinator has lost it, because an old disk was put back (F11).
    pub lost: bool,
    /// The changes of the reservation, in the order in which the user wants them.
    pub changes: Vec<WantedChange>,
    /// The workflow that is wanted; then there are no candidates.
    pub workflow: Option<WantedWorkflow>,
    /// What the user reports about the reservation, in the order in which it happened.
    pub reports: Vec<UserReport>,
    /// What the shell plans when something is reported about a reservation that is no workflow.
    pub follow: Vec<Candidate>,
}

/// A change that a user wants.
#[derive(Debug, Clone)]
pub struct WantedChange {
    pub id: RequestId,
    pub candidates: Vec<Candidate>,
    /// Sites that a workflow is to avoid from now on; then there are no candidates.
    pub avoid: BTreeSet<VertexName>,
    /// The outcome that was reported; `None` also if the change was turned away because the reservation was
    /// released or being changed.
    pub outcome: Option<ChangeState>,
}

impl Demand {
    pub fn new(grc: usize, request: &str, user: &str, candidates: Vec<Candidate>) -> Self {
        let ticket = Ticket {
            request: RequestId::composed(request),
            user: UserName::composed(user),
            content: "content".to_owned(),
        };
        Self {
            grc,
            ticket,
            candidates,
            impostor: false,
            patience_us: 0,
            id: None,
            outcome: None,
            told_other_content: false,
            release: false,
            vanished: false,
            lost: false,
            changes: Vec::new(),
            workflow: None,
            reports: Vec::new(),
            follow: Vec::new(),
        }
    }

    /// Does the user wait for nothing any more?
    pub fn is_content(&self) -> bool {
        if self.vanished || self.lost {
            return true;
        }
        match self.outcome {
            Some(State::Failed | State::Terminated) => true,
            Some(_) => !self.release,
            None => self.told_other_content,
        }
    }
}

/// Something that a user does.
#[derive(Debug, Clone)]
pub enum Visit {
    /// Sends the request.
    Open(usize),
    /// Sends the request again if there is no outcome yet, or else the release if one is wanted.
    Again(usize),
    /// Sends this change, if the reservation's id is known.
    Change { demand: usize, wish: usize },
    /// Looks at the workflow, and may report something. The report arrives so many microseconds later.
    Look { demand: usize, late_us: i64, twice: bool },
    /// Sends this report, if the reservation's id is known.
    Report { demand: usize, report: usize },
    /// From now on the user wants the reservation released.
    Release(usize),
    /// The user is gone for good, whatever it waits for.
    Vanish(usize),
}

#[derive(Debug, Default)]
pub struct Clients {
    pub demands: Vec<Demand>,
    /// How many of a thousand plannings break off.
    pub planning_fails: u64,
    pub planning_us: i64,
}

impl World {
    /// Adds a demand; the caller schedules its visits.
    pub fn add_demand(&mut self, demand: Demand) -> usize {
        self.clients.demands.push(demand);
        self.clients.demands.len() - 1
    }

    pub fn visit(&mut self, visit: Visit) -> Result<(), String> {
        match visit {
            Visit::Open(demand)
            | Visit::Again(demand)
            | Visit::Change { demand, .. }
            | Visit::Look { demand, .. }
            | Visit::Report { demand, .. }
            | Visit::Release(demand)
                if self.clients.demands[demand].vanished =>
            {
                Ok(())
            }
            Visit::Vanish(demand) => {
                self.say_user(demand, true, "(vanishes)");
                let known = &mut self.clients.demands[demand];
                known.vanished = true;
                let waits = known.outcome.is_none()
                    || (known.release && known.outcome == Some(State::Confirmed))
                    || known.changes.iter().any(|change| change.outcome.is_none())
                    || known.reports.iter().any(|report| report.recorded.is_none());
                if waits {
                    self.counts.fault(Fault::F8);
                }
                Ok(())
            }
            Visit::Open(demand) => self.open(demand),
            Visit::Again(demand) => self.again(demand),
            Visit::Change { demand, wish } => self.change(demand, wish),
            Visit::Look { demand, late_us, twice } => self.look(demand, late_us, twice),
            Visit::Report { demand, report } => self.report(demand, report),
            Visit::Release(demand) => {
                let known = &mut self.clients.demands[demand];
                known.release = true;
                let patience_us = known.patience_us;
                if patience_us > 0 {
                    self.after(patience_us, Event::Visit(Visit::Again(demand)));
                }
                self.release(demand)
            }
        }
    }

    fn open(&mut self, demand: usize) -> Result<(), String> {
        let Demand { grc, ticket, .. } = self.clients.demands[demand].clone();
        self.say_user(demand, true, &format!("Reserve {}", ticket.request));
        if !self.grcs[grc].is_up() {
            return Ok(());
        }
        let user = &ticket.user;
        self.check_admitted(grc, Sender::User(user), JudgedCall::Reserve(user))?;
        let token = self.fresh();
        self.waiters.insert(token, Waiter::User { demand });
        let opening = Opening::Request(ticket, Token::new(token));
        self.grcs[grc].post(ConversationInput::Open(opening).into());
        self.begin(Address::Grc(grc))
    }

    fn again(&mut self, demand: usize) -> Result<(), String> {
        let known = &self.clients.demands[demand];
        if known.is_content() {
            return Ok(());
        }
        let (patience_us, has_outcome) = (known.patience_us, known.outcome.is_some());
        self.after(patience_us, Event::Visit(Visit::Again(demand)));
        if has_outcome { self.release(demand) } else { self.open(demand) }
    }

    /// The reservation's id, from an answer or from the coordinator's list.
    pub(super) fn known_id(&self, demand: usize) -> Option<ReservationId> {
        let Demand { grc, ticket, id, .. } = &self.clients.demands[demand];
        let listed = || {
            let core = self.grcs[*grc].core.as_ref()?;
            let known = core.find(ticket.request.as_str())?;
            (known.ticket == *ticket).then(|| known.id.clone())
        };
        id.clone().or_else(listed)
    }

    /// Sends a change.
    fn change(&mut self, demand: usize, wish: usize) -> Result<(), String> {
        let Some(reservation) = self.known_id(demand) else { return Ok(()) };
        let grc = self.clients.demands[demand].grc;
        let change = self.clients.demands[demand].changes[wish].id.clone();
        self.say_user(demand, true, &format!("Modify {reservation} ({change})"));
        if !self.grcs[grc].is_up() {
            return Ok(());
        }
        let user = self.clients.demands[demand].ticket.user.clone();
        self.check_admitted(grc, Sender::User(&user), JudgedCall::Modify(&user))?;
        let token = self.fresh();
        self.waiters.insert(token, Waiter::Changer { demand, wish });
        let ticket = ChangeTicket { reservation, change, content: "content".to_owned() };
        let opening = Opening::Change(ticket, Token::new(token));
        self.grcs[grc].post(ConversationInput::Open(opening).into());
        self.begin(Address::Grc(grc))
    }

    /// A coordinator answers a user that wanted a change.
    pub(super) fn tell_changer(
        &mut self,
        grc: usize,
        demand: usize,
        wish: usize,
        end: &ChangeEnd,
    ) -> Result<(), String> {
        self.say_user(demand, false, &print::change_end(end));
        match end {
            ChangeEnd::Stands(known) => self.heard_of_change(demand, wish, known),
            ChangeEnd::UnderWay(_)
            | ChangeEnd::NotConfirmed(_)
            | ChangeEnd::Spent
            | ChangeEnd::BrokenOff => Ok(()),
            ChangeEnd::DiskFull => self.no_room(grc),
            ChangeEnd::Unknown if self.is_lost(demand) => Ok(()),
            ChangeEnd::Unknown | ChangeEnd::OtherContent => {
                Err(format!("demand {demand} wants a change, but is told {end:?}"))
            }
        }
    }

    /// Checks I8 for changes: the same change has the same outcome. If it is done, it is booked everywhere
    /// (I6).
    fn heard_of_change(
        &mut self,
        demand: usize,
        wish: usize,
        reservation: &Reservation,
    ) -> Result<(), String> {
        let known = &mut self.clients.demands[demand].changes[wish];
        let Some(change) = reservation.change.as_ref().filter(|change| change.id == known.id)
        else {
            // It was released before the change was recorded.
            return Ok(());
        };
        if !matches!(change.state, ChangeState::Done | ChangeState::Refused) {
            return Ok(());
        }
        let lost = self.watch.exempt.is_lost(reservation.id.as_str());
        if known.outcome.is_some_and(|before| before != change.state) && !lost {
            let (id, before) = (&known.id, known.outcome);
            return Err(format!("I8: change {id} was told {before:?}, now {:?}", change.state));
        }
        known.outcome = Some(change.state);
        self.counts.changed += u64::from(change.state == ChangeState::Done);
        self.counts.unchanged += u64::from(change.state == ChangeState::Refused);
        let last = reservation.change.as_ref().is_some_and(|last| last.id == change.id);
        if reservation.state == State::Confirmed && last {
            let released = self.clients.demands[demand].release;
            return self.check_confirmed(reservation, released);
        }
        Ok(())
    }

    /// Sends Release for the reservation's id, from an answer or from the coordinator's list.
    fn release(&mut self, demand: usize) -> Result<(), String> {
        let Some(reservation) = self.known_id(demand) else { return Ok(()) };
        let grc = self.clients.demands[demand].grc;
        self.say_user(demand, true, &format!("Release {reservation}"));
        if !self.grcs[grc].is_up() {
            return Ok(());
        }
        let user = self.clients.demands[demand].ticket.user.clone();
        let call = JudgedCall::Release(&reservation);
        if let Err(denied) = self.check_admitted(grc, Sender::User(&user), call) {
            // The id of a lost reservation may be given again, to somebody else (F11). Then it looks as if it were not
            // there.
            self.clients.demands[demand].lost = self.is_lost(demand);
            return if self.is_lost(demand) { Ok(()) } else { Err(denied) };
        }
        let token = self.fresh();
        self.waiters.insert(token, Waiter::User { demand });
        self.grcs[grc].post(CoordinatorInput::Release { reservation, token: Token::new(token) });
        self.begin(Address::Grc(grc))
    }

    /// A coordinator answers a user's request.
    pub(super) fn tell_end(
        &mut self,
        grc: usize,
        demand: usize,
        end: &RequestEnd,
    ) -> Result<(), String> {
        self.say_user(demand, false, &print::request_end(end));
        match end {
            RequestEnd::Stands(known) => self.tell_stands(demand, known),
            RequestEnd::OtherContent => {
                self.counts.stolen += 1;
                let known = &mut self.clients.demands[demand];
                known.told_other_content = true;
                let request = known.ticket.request.clone();
                let stole = |other: &Demand| other.impostor && other.ticket.request == request;
                if self.clients.demands.iter().any(stole) {
                    return Ok(());
                }
                Err(format!("I8: demand {demand} is told OtherContent, wrongly"))
            }
            RequestEnd::BrokenOff => Ok(()),
            RequestEnd::DiskFull => self.no_room(grc),
        }
    }

    /// A coordinator answers a user's release.
    pub(super) fn tell_released(
        &mut self,
        demand: usize,
        answer: &ReleaseReply,
    ) -> Result<(), String> {
        self.say_user(demand, false, &print::released(answer));
        match answer {
            ReleaseReply::Stands(known) => self.tell_stands(demand, known),
            ReleaseReply::Unknown if self.is_lost(demand) => {
                self.clients.demands[demand].lost = true;
                Ok(())
            }
            ReleaseReply::Unknown => Err(format!("demand {demand} is told {answer:?}")),
        }
    }

    fn tell_stands(&mut self, demand: usize, reservation: &Reservation) -> Result<(), String> {
        let was_content = self.clients.demands[demand].is_content();
        self.heard(demand, reservation)?;
        let known = &self.clients.demands[demand];
        // A user that waits for nothing has stopped calling. Here the answer to another call arrived late.
        if was_content && !known.is_content() && known.patience_us > 0 {
            self.after(known.patience_us, Event::Visit(Visit::Again(demand)));
        }
        Ok(())
    }

    /// Nothing was begun for want of disk space. The same call may succeed later (I17).
    pub(super) fn no_room(&mut self, grc: usize) -> Result<(), String> {
        self.counts.no_room += 1;
        self.counts.fault(Fault::F4);
        if self.grcs[grc].is_low() {
            return Ok(());
        }
        Err(format!("I17: {} reports a nearly full disk, but has space", self.grcs[grc].name))
    }

    /// Compares an outcome with what the same users were answered before.
    fn heard(&mut self, demand: usize, reservation: &Reservation) -> Result<(), String> {
        let request = self.clients.demands[demand].ticket.request.clone();
        if self.is_lost(demand) || self.watch.exempt.is_lost(reservation.id.as_str()) {
            self.heard_anything(demand, reservation);
            return Ok(());
        }
        if reservation.ticket != self.clients.demands[demand].ticket {
            return Err(format!("I8: {request} is answered with another ticket's reservation"));
        }
        let same = |other: &&mut Demand| other.ticket == reservation.ticket;
        let released = self.clients.demands.iter_mut().filter(same).any(|other| other.release);
        let same = |other: &&mut Demand| other.ticket == reservation.ticket;
        for other in self.clients.demands.iter_mut().filter(same) {
            if other.id.as_ref().is_some_and(|id| *id != reservation.id) {
                return Err(format!("I8: {request} was {:?}, is {}", other.id, reservation.id));
            }
            let state = reservation.state;
            let fits = match other.outcome {
                None => true,
                Some(State::Confirmed) => {
                    state == State::Confirmed
                        // A change may have a mixed outcome: both versions end, and the user is told.
                        || (reservation.refusal.as_ref().is_some_and(|r| r.reason == Reason::Mixed)
                            && reservation.change.is_some())
                        || (released && matches!(state, State::Terminating | State::Terminated))
                }
                Some(before) => before == state,
            };
            if !fits {
                return Err(format!("I8: {request} was told {:?}, now {state:?}", other.outcome));
            }
        }
        if !reservation.is_definite() {
            return Ok(());
        }
        let known = &mut self.clients.demands[demand];
        known.id = Some(reservation.id.clone());
        known.outcome = Some(reservation.state);
        match reservation.state {
            State::Confirmed => self.check_confirmed(reservation, released),
            State::Terminated => {
                self.counts.released += 1;
                self.check_gone(reservation)
            }
            _ => {
                self.counts.refused += 1;
                self.check_gone(reservation)
            }
        }
    }

    /// Was the reservation, as its user knows it, lost with a disk (F11)?
    /// Is it possible that the coordinator does not know the demand's reservation any more?
    fn is_lost(&self, demand: usize) -> bool {
        let grc = self.clients.demands[demand].grc;
        self.known_id(demand).is_some_and(|id| self.is_gone(grc, &id))
    }

    pub(super) fn is_gone(&self, grc: usize, id: &ReservationId) -> bool {
        let forgotten = self.watch.forgotten_by_grc.contains(&(grc, id.clone()));
        forgotten || self.watch.exempt.is_lost(id.as_str())
    }

    /// Takes over an outcome without any promise behind it. The user waits for nothing more.
    fn heard_anything(&mut self, demand: usize, reservation: &Reservation) {
        if !reservation.is_definite() {
            return;
        }
        let known = &mut self.clients.demands[demand];
        if reservation.ticket != known.ticket {
            known.lost = true;
            return;
        }
        known.id = Some(reservation.id.clone());
        known.outcome = Some(reservation.state);
    }

    pub(super) fn say_user(&mut self, demand: usize, asks: bool, what: &str) {
        self.say(
            |world| {
                let known = &world.clients.demands[demand];
                let (user, grc) = (&known.ticket.user, &world.grcs[known.grc].name);
                if asks { format!("{user} -> {grc}") } else { format!("{grc} -> {user}") }
            },
            |_| what.to_owned(),
        );
    }
}
