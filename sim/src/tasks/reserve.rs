//! How a plan is reserved, what is counted, and what happens after a refusal.
//!
//! * `one-way`: the tell-and-go of the papers, passed on from node to node, see `one_way`.
//! * `two-phase` and `one-way-in-turn`: the live coordinator asks the resource managers, see `coordinated`.

use coalloc_common::{Reason, Refusal, Span, Time, Window};
use coalloc_plan::multicost::TaskPlan;

use super::belief::{ClaimPart, PendingClaim};
use super::events::{Answered, Attempt, Event, Piece};
use super::settings::Protocol;
use super::world::World;

impl World<'_> {
    /// Begins to reserve the pieces of a plan.
    pub(super) fn begin(
        &mut self,
        attempt: Attempt,
        plan: &TaskPlan,
        deadline: Option<Time>,
    ) -> Result<(), String> {
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
            let claim = PendingClaim {
                attempt,
                piece: index,
                resource: piece.resource,
                window: piece.window,
                amount: piece.amount,
                revision: None,
            };
            self.beliefs[belief].expect(&self.net, &self.controllers, claim);
        }
        let arrival = self.arrival_of(number, plan);
        let state = &mut self.tasks[number as usize];
        state.arrival = arrival;
        state.promised.get_or_insert(plan.completion());
        debug_assert!(!known || deadline.is_none_or(|by| plan.completion() <= by));
        state.pieces = pieces;
        match self.settings.reservation.protocol {
            Protocol::OneWay => self.go_on(attempt, 0),
            Protocol::OneWayInTurn | Protocol::TwoPhase => return self.order(attempt),
        }
        Ok(())
    }

    /// A resource has refused a piece: counts and traces the refusal.
    pub(super) fn count_refusal(&mut self, attempt: Attempt, piece: &Piece) {
        let number = attempt.0;
        let is_run = self.net.resources[piece.resource].cluster.is_some();
        // In two phases several links may refuse one burst; the burst counts once.
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

    /// A piece was reserved: traces it and adds it to the load.
    pub(super) fn reserved(&mut self, number: u32, piece: &Piece) {
        self.tell_reserved(number, piece);
        self.load(number, piece, 1);
    }

    /// A reserved piece was freed: traces it and subtracts it from the load.
    pub(super) fn freed(&mut self, number: u32, piece: &Piece) {
        self.load(number, piece, -1);
        self.tell_released(number, piece);
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

    /// The free amounts of a resource have changed. Schedulers that look at the timetables see it now; others
    /// get updates.
    pub(super) fn changed(&mut self, resource: usize, window: Window) {
        if self.beliefs[0].is_truth() {
            self.beliefs[0].cut(&self.net, &self.controllers, resource, window);
        }
        self.publish(self.net.resources[resource].controller);
    }

    /// A scheduler gets the answer of a place to something that it had sent there.
    pub(super) fn learn(
        &mut self,
        number: u32,
        which: ClaimPart,
        place: Option<usize>,
        answer: &Answered,
    ) {
        let belief = self.belief_of(self.tasks[number as usize].scheduler);
        if self.beliefs[belief].is_truth() {
            return;
        }
        let now = self.now();
        let (net, controllers) = (&self.net, self.controllers.as_slice());
        let belief = &mut self.beliefs[belief];
        if let (Some(facts), Some(place)) = (&answer.facts, place) {
            belief.settle(net, controllers, which, None);
            belief.hear(net, controllers, place, facts, now);
        } else {
            let until = answer.yes.then_some(answer.revision);
            belief.settle(net, controllers, which, until);
        }
    }

    /// The random time after which a task is planned again.
    pub(super) fn retry_pause(&mut self) -> Span {
        let mean = self.settings.reservation.retry_after_ms;
        self.chance.exponential_span(mean as f64 * 1e3)
    }

    /// Plans a task again after `pause`, if its tries and its deadline allow it.
    pub(super) fn again(&mut self, number: u32, pause: Span) -> Result<(), String> {
        let state = &self.tasks[number as usize];
        let late = state.deadline.is_some_and(|by| self.now().saturating_add(pause) >= by);
        if state.asked >= self.settings.reservation.tries || late {
            return self.give_up(number);
        }
        // Later than all messages of this instant, also for a central scheduler, whose messages take no time.
        let at = self.now().saturating_add(pause.max(Span::from_us(1)));
        self.queue.at(at, Event::Plan(number));
        Ok(())
    }

    /// A task is not planned again. If a coordinator has its request, that ends the request.
    fn give_up(&mut self, number: u32) -> Result<(), String> {
        if self.settings.reservation.protocol != Protocol::OneWay {
            let text = "all tries of the task are used, or its deadline is near";
            return self.refuse(number, Refusal::new(Reason::NoRoute, text));
        }
        self.fail(number);
        Ok(())
    }

    pub(super) fn fail(&mut self, number: u32) {
        self.tasks[number as usize].is_over = true;
        if let Some(counts) = self.counts(number) {
            counts.blocked += 1;
        }
        self.told_end(number, false);
    }

    /// A task has everything it needs; its run ends at `end`.
    pub(super) fn succeed(&mut self, number: u32, end: Time) {
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
