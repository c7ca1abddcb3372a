//! One-way reservation as in the papers: tell-and-go, JET with a cluster at the end (Christodoulopoulos 2008,
//! section 7).
//!
//! The message travels along the path. It books each link at the node that keeps the link's timetable, then
//! the run at the cluster; the data follow at the planned time. If another burst has taken a link, the
//! message ends there (burst blocking): the refusal travels back and frees what was booked for later, and the
//! source plans again. If another task has taken the cluster (conflict), the setting `on_conflict` says what
//! happens.
//!
//! No coordinator is involved: each node passes the message on to the next, and nobody waits for answers.
//!
//! Answers go back to the scheduler with what is free at the place now, see `belief`.

use coalloc_common::{Segment, Span, Time, TransactionId, Window};
use coalloc_protocol::message::Message;

use super::belief::ClaimPart;
use super::events::Piece;
use super::events::{Answered, Attempt, Event};
use super::settings::OnConflict;
use super::world::{TaskState, World};

impl World<'_> {
    /// Sends the message on to a piece. Where sizes are not known, the cluster gets no message before the
    /// data are there.
    pub(super) fn go_on(&mut self, attempt: Attempt, piece: usize) {
        let TaskState { pieces, arrival, .. } = &self.tasks[attempt.0 as usize];
        let before = piece.checked_sub(1).map_or(Span::ZERO, |before| pieces[before].away);
        let is_run = piece + 1 == pieces.len();
        let handling = Span::from_us(self.settings.reservation.processing_us);
        let travel = pieces[piece].away.saturating_sub(before).saturating_add(handling);
        let wait = match is_run && !self.settings.planning.sizes_known {
            true => arrival.since(self.now()).max(travel),
            false => travel,
        };
        self.send(wait, Event::Meet(attempt, piece));
    }

    /// Is this the current attempt of its task?
    fn is_current(&self, attempt: Attempt) -> bool {
        let (number, attempt) = attempt;
        let task = &self.tasks[number as usize];
        !task.is_over && task.asked == attempt + 1
    }

    /// The message has arrived at a controller.
    pub(super) fn meet(&mut self, attempt: Attempt, index: usize) -> Result<(), String> {
        if !self.is_current(attempt) {
            return Ok(());
        }
        let number = attempt.0;
        let mut piece = self.tasks[number as usize].pieces[index].clone();
        let cluster = self.net.resources[piece.resource].cluster;
        if let Some(cluster) = cluster.filter(|_| !self.settings.planning.sizes_known) {
            // Only now is the length of the run known. The run begins at the next slot.
            let slot = self.settings.planning.cluster_slot_us;
            let now = self.now().as_us();
            let start = Time::from_us((now + slot - 1).div_euclid(slot) * slot);
            let window = Window::starting(start, self.run_time(number, cluster));
            piece.window = window.unwrap_or(piece.window);
        }
        let txn = self.txn_of(number, u64::from(attempt.1) << 1);
        if cluster.is_some()
            && let Some(counts) = self.counts(number)
        {
            counts.runs += 1;
        }
        let planned = piece.window;
        let mut kept = self.book(&piece, &txn, number);
        if !kept {
            self.count_refusal(attempt, &piece);
            let waits = self.settings.planning.sizes_known
                && self.settings.reservation.on_conflict == OnConflict::Queue;
            if waits && cluster.is_some() {
                kept = self.book_later(&mut piece, attempt);
            }
        } else {
            piece.kept = Some(txn);
        }
        if kept {
            self.reserved(number, &piece);
        }
        // The facts say what is free there now, over the requested and the booked window.
        let facts =
            (piece.window.start().min(planned.start()), piece.window.end().max(planned.end()));
        let (resource, away) = (piece.resource, piece.away);
        let is_last = index + 1 == self.tasks[number as usize].pieces.len();
        let window = piece.window;
        self.tasks[number as usize].pieces[index] = piece;
        self.answer(attempt, index, resource, away, kept, facts);
        match (kept, is_last) {
            (true, true) => self.succeed(number, window.end()),
            (true, false) => self.go_on(attempt, index + 1),
            (false, _) => return self.fall_back(attempt, index),
        }
        Ok(())
    }

    /// The id of one booking of a task. It begins with the name of a coordinator, because every resource
    /// manager requires that.
    fn txn_of(&self, task: u32, booking: u64) -> TransactionId {
        TransactionId::composed(format!("{}-t-{task}/{booking}", self.coordinator_of(task)))
    }

    fn book(&mut self, piece: &Piece, txn: &TransactionId, number: u32) -> bool {
        let resource = &self.net.resources[piece.resource];
        let place = resource.controller;
        let id = resource.id.clone();
        let segment = Segment { resource: id, amount: piece.amount, window: piece.window };
        let (by, now) = (self.coordinator_of(number).clone(), self.now());
        let booked = self.controllers[place].book(by, txn.clone(), segment, now);
        if booked {
            self.changed(piece.resource, piece.window);
        }
        booked
    }

    /// Books a run for the earliest time at which it fits, within the task's deadline.
    fn book_later(&mut self, piece: &mut Piece, attempt: Attempt) -> bool {
        let place = self.net.resources[piece.resource].controller;
        let deadline = self.tasks[attempt.0 as usize].deadline.unwrap_or(Time::MAX);
        let Some(within) = Window::new(piece.window.start(), deadline) else { return false };
        let length = piece.window.length();
        let fit = self.controllers[place].earliest(
            &self.net,
            piece.resource,
            piece.amount,
            length,
            within,
        );
        let Some(window) = fit else { return false };
        piece.window = window;
        // Another transaction, because a refused transaction stays refused.
        let txn = self.txn_of(attempt.0, u64::from(attempt.1) << 1 | 1);
        let booked = self.book(piece, &txn, attempt.0);
        piece.kept = booked.then_some(txn);
        booked
    }

    /// Sends an answer back to the scheduler.
    fn answer(
        &mut self,
        attempt: Attempt,
        index: usize,
        resource: usize,
        away: Span,
        yes: bool,
        facts: (Time, Time),
    ) {
        if self.beliefs[0].is_truth() {
            return;
        }
        let (now, place) = (self.now(), self.net.resources[resource].controller);
        let window = Window::new(facts.0, facts.1);
        let window = window.filter(|_| self.settings.reservation.fresh_facts);
        let controller = &self.controllers[place];
        let facts = window.map(|window| controller.facts(&self.net, resource, window, now));
        let revision = controller.revision();
        let answered = Box::new(Answered { yes, facts, revision });
        self.send(away, Event::Heard(attempt, index, answered));
    }

    /// An answer has arrived at the scheduler.
    pub(super) fn heard(&mut self, attempt: Attempt, index: usize, answer: &Answered) {
        let resource = self.resource_of(attempt, index);
        let place = resource.map(|resource| self.net.resources[resource].controller);
        self.learn(attempt.0, ClaimPart::Piece(attempt, index), place, answer);
    }

    fn resource_of(&self, attempt: Attempt, index: usize) -> Option<usize> {
        let (number, attempt) = attempt;
        let task = &self.tasks[number as usize];
        let is_of_it = task.asked == attempt + 1;
        task.pieces.get(index).filter(|_| is_of_it).map(|piece| piece.resource)
    }

    /// A controller gets the message that a piece is not needed. A piece that has begun stays booked.
    pub(super) fn release(&mut self, attempt: Attempt, index: usize) {
        let (number, now) = (attempt.0, self.now());
        if self.tasks[number as usize].asked != attempt.1 + 1 {
            return;
        }
        let piece = self.tasks[number as usize].pieces[index].clone();
        let flows = piece.window.start() <= now;
        let Some(txn) = piece.kept.clone().filter(|_| !flows) else { return };
        self.tasks[number as usize].pieces[index].kept = None;
        let place = self.net.resources[piece.resource].controller;
        let by = self.coordinator_of(number).clone();
        self.controllers[place].hear(by, txn, Message::Release, now);
        self.freed(number, &piece);
        self.changed(piece.resource, piece.window);
    }

    /// A piece was refused: the refusal travels back, and what was booked is freed on its way.
    fn fall_back(&mut self, attempt: Attempt, index: usize) -> Result<(), String> {
        let number = attempt.0;
        let pieces = self.tasks[number as usize].pieces.clone();
        let away = pieces[index].away;
        if self.settings.reservation.release {
            for before in (0..index).rev() {
                let back = away.saturating_sub(pieces[before].away);
                self.send(back, Event::Release(attempt, before));
            }
        }
        // The message never reached the later pieces, so they are not taken.
        let belief = self.belief_of(self.tasks[number as usize].scheduler);
        for never in index + 1..pieces.len() {
            let which = ClaimPart::Piece(attempt, never);
            self.beliefs[belief].settle(&self.net, &self.controllers, which, None);
        }
        let is_run = self.net.resources[pieces[index].resource].cluster.is_some();
        let is_lost = is_run && self.settings.reservation.on_conflict == OnConflict::Drop;
        if is_lost || !self.settings.planning.sizes_known {
            self.fail(number);
            return Ok(());
        }
        // Not before the scheduler has received the refusal.
        let pause = self.retry_pause().saturating_add(Span::from_us(1));
        self.again(number, away.saturating_add(pause))
    }
}
