//! How a plan is reserved: one-way or two-phase, and what becomes of a refusal.
//!
//! **One-way** (tell-and-go; JET with a cluster at the end, Christodoulopoulos 2008, section 7): the message
//! goes along the path and books each link at the node that keeps it, then the run at the cluster; the
//! data follow at the planned time. A link that another burst has taken ends it there (burst blocking); the
//! refusal goes back and frees what was booked for later on its way, and the source plans again. A
//! cluster that another task has taken (conflict) keeps the task until it fits, as it is set.
//!
//! **Two-phase** (tell-and-wait): every controller is asked to hold its piece; when all answers are back, it
//! is told to book or to let go. Data are planned to leave no sooner than that.
//!
//! Answers come back to the scheduler with what is free there now, see `belief`.

use coalloc_common::{Amount, Segment, Span, Time, TransactionId, Window};
use coalloc_plan::multicost::TaskPlan;

use super::settings::{OnConflict, Protocol};
use super::world::{Answered, Attempt, Event, TaskState, World};

/// One thing that a plan takes: a link for the data, or CPUs for the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) resource: usize,
    pub(super) window: Window,
    pub(super) amount: Amount,
    /// How long messages travel between scheduler and controller.
    pub(super) away: Span,
    /// By which transaction it is kept.
    kept: Option<TransactionId>,
}

impl Piece {
    pub(super) const fn new(resource: usize, window: Window, amount: Amount, away: Span) -> Self {
        Self { resource, window, amount, away, kept: None }
    }
}

impl World<'_> {
    /// Sends out what a plan takes.
    pub(super) fn begin(&mut self, attempt: Attempt, plan: &TaskPlan, deadline: Option<Time>) {
        let (number, _) = attempt;
        let pieces = self.pieces_of(number, plan);
        let links = plan.legs.len() as u64;
        if let Some(counts) = self.counts(number).filter(|_| links > 0) {
            counts.bursts += 1;
            counts.links += links;
        }
        let known = self.settings.planning.sizes_known;
        let belief = self.belief_of(self.tasks[number as usize].scheduler);
        self.beliefs[belief].count(plan.cluster);
        for (index, piece) in pieces.iter().enumerate() {
            let what = (piece.resource, piece.window, piece.amount);
            let by = (attempt, index);
            self.beliefs[belief].expect(&self.net, &self.controllers, by, what);
        }
        let arrival = self.arrival_of(number, plan);
        let state = &mut self.tasks[number as usize];
        state.arrival = arrival;
        state.open = pieces.len();
        state.all_yes = true;
        state.promised.get_or_insert(plan.completion());
        debug_assert!(!known || deadline.is_none_or(|by| plan.completion() <= by));
        let all: Vec<Span> = pieces.iter().map(|piece| piece.away).collect();
        state.pieces = pieces;
        match self.settings.reservation.protocol {
            Protocol::OneWay => self.go_on(attempt, 0),
            Protocol::TwoPhase => {
                for (index, away) in all.into_iter().enumerate() {
                    let handling = Span::from_us(self.settings.reservation.processing_us);
                    self.send(away.saturating_add(handling), Event::Meet(attempt, index));
                }
            }
        }
    }

    /// The message of a one-way reservation goes on to a piece. Where sizes are not known nothing is asked
    /// of a cluster before the data are there.
    fn go_on(&mut self, attempt: Attempt, piece: usize) {
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

    /// Is this attempt the one that its task is at?
    fn is_current(&self, (number, attempt): Attempt) -> bool {
        let task = &self.tasks[number as usize];
        !task.is_over && task.asked == attempt + 1
    }

    /// The message is at a controller.
    pub(super) fn meet(&mut self, attempt: Attempt, index: usize) {
        if !self.is_current(attempt) {
            return;
        }
        let number = attempt.0;
        let mut piece = self.tasks[number as usize].pieces[index].clone();
        let cluster = self.net.resources[piece.resource].cluster;
        if let Some(cluster) = cluster.filter(|_| !self.settings.planning.sizes_known) {
            // Known at last: how long it runs, from the next slot on.
            let slot = self.settings.planning.cluster_slot_us;
            let now = self.now().as_us();
            let start = Time::from_us((now + slot - 1).div_euclid(slot) * slot);
            let window = Window::starting(start, self.run_time(number, cluster));
            piece.window = window.unwrap_or(piece.window);
        }
        let one_way = self.settings.reservation.protocol == Protocol::OneWay;
        let txn = TransactionId::composed(format!("t{number}/{}", attempt.1));
        if cluster.is_some()
            && let Some(counts) = self.counts(number)
        {
            counts.runs += 1;
        }
        let planned = piece.window;
        let mut kept = self.hold(&piece, &txn, one_way);
        if !kept {
            self.count_refusal(attempt, &piece);
            let waits = one_way
                && self.settings.planning.sizes_known
                && self.settings.reservation.on_conflict == OnConflict::Queue;
            if waits && cluster.is_some() {
                kept = self.hold_later(&mut piece, attempt);
            }
        } else {
            piece.kept = Some(txn);
        }
        if kept {
            self.reserved(number, &piece);
        }
        // What is free there now, over what was asked and what was taken.
        let facts =
            (piece.window.start().min(planned.start()), piece.window.end().max(planned.end()));
        let (resource, away) = (piece.resource, piece.away);
        let done = kept && one_way && index + 1 == self.tasks[number as usize].pieces.len();
        let window = piece.window;
        self.tasks[number as usize].pieces[index] = piece;
        self.answer(attempt, index, (resource, away, kept, facts));
        if done {
            self.succeed(number, window.end());
        } else if kept && one_way {
            self.go_on(attempt, index + 1);
        } else if !kept && one_way {
            self.fall_back(attempt, index);
        }
    }

    fn hold(&mut self, piece: &Piece, txn: &TransactionId, one_way: bool) -> bool {
        let resource = &self.net.resources[piece.resource];
        let place = resource.controller;
        let id = resource.id.clone();
        let segment = Segment { resource: id, amount: piece.amount, window: piece.window };
        let now = self.now();
        let held = self.controllers[place].hold(txn, segment, one_way, now);
        if held {
            self.changed(piece.resource, piece.window);
        }
        held
    }

    /// Keeps a run as soon as it fits, within its deadline.
    fn hold_later(&mut self, piece: &mut Piece, attempt: Attempt) -> bool {
        let place = self.net.resources[piece.resource].controller;
        let deadline = self.tasks[attempt.0 as usize].deadline.unwrap_or(Time::MAX);
        let Some(within) = Window::new(piece.window.start(), deadline) else { return false };
        let length = piece.window.length();
        let fit = self.controllers[place].earliest(
            &self.net,
            piece.resource,
            piece.amount,
            (length, within),
        );
        let Some(window) = fit else { return false };
        piece.window = window;
        // Another transaction: the first one is refused for ever.
        let txn = TransactionId::composed(format!("t{}/{}/later", attempt.0, attempt.1));
        let held = self.hold(piece, &txn, true);
        piece.kept = held.then_some(txn);
        held
    }

    fn count_refusal(&mut self, attempt: Attempt, piece: &Piece) {
        let number = attempt.0;
        let is_run = self.net.resources[piece.resource].cluster.is_some();
        // In two phases several links may refuse one burst.
        let task = &mut self.tasks[number as usize];
        let met = !is_run && task.met_in != Some(attempt.1);
        if met {
            task.met_in = Some(attempt.1);
        }
        if let Some(counts) = self.counts(number) {
            counts.conflicts += u64::from(is_run);
            counts.met += u64::from(met);
        }
        let reason = if is_run { "conflict" } else { "blocked" };
        self.tell_refused(number, Some(piece.resource), reason);
    }

    /// A piece was kept: told, and counted as load.
    fn reserved(&mut self, number: u32, piece: &Piece) {
        self.tell_reserved(number, piece);
        self.load(number, piece, 1);
    }

    fn load(&mut self, number: u32, piece: &Piece, sign: i128) {
        let resource = &self.net.resources[piece.resource];
        let (is_run, links) = (resource.cluster.is_some(), resource.links.len());
        let us = i128::from(piece.window.length().as_us()) * sign;
        let cpus = i128::from(piece.amount.0);
        if let Some(counts) = self.counts(number) {
            if is_run {
                counts.cpu_us += us * cpus;
            } else {
                counts.link_us += us * links as i128;
            }
        }
    }

    /// What is free of a resource has changed: those who look at the timetables see it now, others are told.
    fn changed(&mut self, resource: usize, window: Window) {
        if self.beliefs[0].is_truth() {
            self.beliefs[0].cut(&self.net, &self.controllers, resource, window);
        }
        self.publish(self.net.resources[resource].controller);
    }

    /// An answer goes back to the scheduler.
    fn answer(
        &mut self,
        attempt: Attempt,
        index: usize,
        (resource, away, yes, facts): (usize, Span, bool, (Time, Time)),
    ) {
        let one_way = self.settings.reservation.protocol == Protocol::OneWay;
        if one_way && self.beliefs[0].is_truth() {
            return;
        }
        let (now, place) = (self.now(), self.net.resources[resource].controller);
        let wanted = self.settings.reservation.fresh_facts && !self.beliefs[0].is_truth();
        let window = Window::new(facts.0, facts.1).filter(|_| wanted);
        let controller = &self.controllers[place];
        let facts = window.map(|window| controller.facts(&self.net, resource, window, now));
        let revision = controller.revision();
        let answered = Box::new(Answered { yes, facts, revision });
        self.send(away, Event::Heard(attempt, index, answered));
    }

    /// A scheduler hears an answer.
    pub(super) fn heard(&mut self, attempt: Attempt, index: usize, answer: &Answered) {
        let number = attempt.0;
        let belief = self.belief_of(self.tasks[number as usize].scheduler);
        if !self.beliefs[belief].is_truth() {
            let resource = self.resource_of(attempt, index);
            let now = self.now();
            let (net, controllers) = (&self.net, self.controllers.as_slice());
            let belief = &mut self.beliefs[belief];
            let told = match (&answer.facts, resource) {
                (Some(facts), Some(resource)) => {
                    let place = net.resources[resource].controller;
                    belief.settle(net, controllers, (attempt, index), None);
                    belief.hear(net, controllers, (place, facts), now);
                    true
                }
                _ => false,
            };
            if !told {
                let until = answer.yes.then_some(answer.revision);
                belief.settle(net, controllers, (attempt, index), until);
            }
        }
        if self.settings.reservation.protocol == Protocol::TwoPhase && self.is_current(attempt) {
            self.one_answer_more(attempt, answer.yes);
        }
    }

    fn resource_of(&self, (number, attempt): Attempt, index: usize) -> Option<usize> {
        let task = &self.tasks[number as usize];
        let is_of_it = task.asked == attempt + 1;
        task.pieces.get(index).filter(|_| is_of_it).map(|piece| piece.resource)
    }

    /// Two-phase: all answers decide.
    fn one_answer_more(&mut self, attempt: Attempt, yes: bool) {
        let number = attempt.0;
        let state = &mut self.tasks[number as usize];
        state.open -= 1;
        state.all_yes &= yes;
        if state.open > 0 {
            return;
        }
        let all_yes = state.all_yes;
        let kept: Vec<(usize, Span)> = (state.pieces.iter().enumerate())
            .filter(|(_, piece)| piece.kept.is_some())
            .map(|(index, piece)| (index, piece.away))
            .collect();
        let end = state.pieces.last().map_or(state.created, |run| run.window.end());
        for (index, away) in kept {
            let event = match all_yes {
                true => Event::Commit(attempt, index),
                false => Event::Release(attempt, index),
            };
            self.send(away, event);
        }
        if all_yes {
            self.succeed(number, end);
        } else {
            // What was refused was told with what is free: there is nothing to wait for.
            let away = self.farthest(number);
            self.again(number, away.saturating_add(Span::from_us(1)));
        }
    }

    fn farthest(&self, number: u32) -> Span {
        let pieces = &self.tasks[number as usize].pieces;
        pieces.iter().map(|piece| piece.away).max().unwrap_or(Span::ZERO)
    }

    pub(super) fn commit(&mut self, attempt: Attempt, index: usize) {
        let piece = &self.tasks[attempt.0 as usize].pieces[index];
        let Some(txn) = piece.kept.clone() else { return };
        let place = self.net.resources[piece.resource].controller;
        let now = self.now();
        // A hold lasts ten seconds at the least, and answers are back in milliseconds.
        let booked = self.controllers[place].commit(&txn, now);
        debug_assert!(booked, "a hold of {txn} was lost");
    }

    /// A controller hears that a piece is not needed. What has begun flows on.
    pub(super) fn release(&mut self, attempt: Attempt, index: usize) {
        let (number, now) = (attempt.0, self.now());
        if self.tasks[number as usize].asked != attempt.1 + 1 {
            return;
        }
        let piece = self.tasks[number as usize].pieces[index].clone();
        let one_way = self.settings.reservation.protocol == Protocol::OneWay;
        let flows = one_way && piece.window.start() <= now;
        let Some(txn) = piece.kept.clone().filter(|_| !flows) else { return };
        self.tasks[number as usize].pieces[index].kept = None;
        let place = self.net.resources[piece.resource].controller;
        self.controllers[place].end(&txn, now);
        self.load(number, &piece, -1);
        self.tell_released(number, &piece);
        self.changed(piece.resource, piece.window);
    }

    /// One-way, and a piece was refused: the refusal travels back, and with it what was booked is freed.
    fn fall_back(&mut self, attempt: Attempt, index: usize) {
        let number = attempt.0;
        let pieces = self.tasks[number as usize].pieces.clone();
        let away = pieces[index].away;
        if self.settings.reservation.release {
            for before in (0..index).rev() {
                let back = away.saturating_sub(pieces[before].away);
                self.send(back, Event::Release(attempt, before));
            }
        }
        // What the message never came to is not taken.
        let belief = self.belief_of(self.tasks[number as usize].scheduler);
        for never in index + 1..pieces.len() {
            let by = (attempt, never);
            self.beliefs[belief].settle(&self.net, &self.controllers, by, None);
        }
        let is_run = self.net.resources[pieces[index].resource].cluster.is_some();
        let is_lost = is_run && self.settings.reservation.on_conflict == OnConflict::Drop;
        if is_lost || !self.settings.planning.sizes_known {
            return self.fail(number);
        }
        // Not before the scheduler has heard of it.
        let pause = self.retry_pause().saturating_add(Span::from_us(1));
        self.again(number, away.saturating_add(pause));
    }

    /// How long until a task is planned again.
    pub(super) fn retry_pause(&mut self) -> Span {
        let mean = self.settings.reservation.retry_after_ms;
        self.chance.exponential_span(mean as f64 * 1e3)
    }

    /// Plans a task again after a pause, if it may be.
    pub(super) fn again(&mut self, number: u32, pause: Span) {
        let state = &self.tasks[number as usize];
        let late = state.deadline.is_some_and(|by| self.now().saturating_add(pause) >= by);
        if state.asked >= self.settings.reservation.tries || late {
            return self.fail(number);
        }
        // Later than what is said at this instant, also by a scheduler that is nowhere.
        let at = self.now().saturating_add(pause.max(Span::from_us(1)));
        self.queue.at(at, Event::Plan(number));
    }

    fn fail(&mut self, number: u32) {
        self.tasks[number as usize].is_over = true;
        if let Some(counts) = self.counts(number) {
            counts.blocked += 1;
        }
        self.told_end(number, false);
    }

    /// A task has all it needs; its run ends then.
    fn succeed(&mut self, number: u32, end: Time) {
        let state = &mut self.tasks[number as usize];
        state.is_over = true;
        let (created, promised) = (state.created, state.promised);
        if let Some(counts) = self.counts(number) {
            counts.done += 1;
            counts.delay_us += i128::from(end.since(created).as_us());
            counts.as_planned += u64::from(promised == Some(end));
        }
        self.queue.at(end, Event::End(number));
    }
}
