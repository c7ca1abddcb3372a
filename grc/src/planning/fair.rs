//! Places and turns of planning, shared fairly between users. The number of requests that are planned or wait for it is
//! limited, and long searches take turns, round robin by user. So a user with many hard requests makes only that user
//! wait.
//!
//! When all places are taken, a newcomer gets the latest place of the user who has most, if that user has more places
//! than the newcomer's user would have. The request that loses its place is answered "busy". A request that has its
//! turn keeps it.
//!
//! Of plans that hold nothing and of searches for alternatives, no user has all turns.
//!
//! Left out: proof of who a user is. Whoever makes the call has proven it ([`coalloc_net::authorization`]); in plain text
//! the name is whatever the request says. Operators act for anybody, and take the places of whom they act for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_common::{UserName, limits};
use coalloc_net::status;
use tokio::sync::oneshot;
use tonic::Status;

use crate::round_robin::RoundRobin;

/// The queues in which long searches wait for their turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TurnQueue {
    /// Searches of our own planners.
    Search,
    /// Calls of outside solvers.
    Outside,
    /// Searches for alternatives, which ask all resource managers about many frames, over and over.
    Alternatives,
    /// Whole plans that hold nothing, from the first query to the answer.
    WhatIf,
}

impl TurnQueue {
    const COUNT: usize = Self::WhatIf as usize + 1;

    /// The most turns of one user at a time.
    const fn most_per_user(self) -> usize {
        match self {
            Self::Search | Self::Outside => limits::PLANNING_TURNS,
            Self::Alternatives | Self::WhatIf => limits::WHAT_IF_TURNS_PER_USER,
        }
    }
}

/// The places of one coordinator. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    places: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of places taken, by user.
    taken: BTreeMap<UserName, usize>,
    /// The requests that wait for a turn, by [`TurnQueue`].
    lines: [Waiting; TurnQueue::COUNT],
}

#[derive(Debug, Default)]
struct Waiting {
    /// Number of turns that are in use, by user.
    at_work: BTreeMap<UserName, usize>,
    /// The requests that wait for a turn, by user.
    queue: RoundRobin<UserName, oneshot::Sender<Turn>>,
}

impl Places {
    /// This many places.
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Shared { places, state: Mutex::default() }))
    }

    /// Takes a place for a request of this user.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when all places are taken and no other user has so many that one may be taken away.
    pub(crate) fn enter(&self, user: &UserName) -> Result<PlanningSlot, Status> {
        let mut state = self.0.lock();
        if state.taken.values().sum::<usize>() >= self.0.places {
            state.make_room(user).ok_or_else(status::busy)?;
        }
        *state.taken.entry(user.clone()).or_default() += 1;
        drop(state);
        Ok(PlanningSlot { shared: Arc::clone(&self.0), user: user.clone() })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request at the end of the user's queue.
    fn wait(&self, line: TurnQueue, user: &UserName, given: oneshot::Sender<Turn>) {
        self.lock().lines[line as usize].queue.push(user.clone(), given);
    }

    /// Gives free turns to waiting requests.
    fn give(self: &Arc<Self>, line: TurnQueue) {
        loop {
            let mut state = self.lock();
            let waiting = &mut state.lines[line as usize];
            let at_work: usize = waiting.at_work.values().sum();
            if at_work >= limits::PLANNING_TURNS {
                return;
            }
            let own = |user: &UserName| waiting.at_work.get(user).copied().unwrap_or_default();
            let may = |user: &UserName| own(user) < line.most_per_user();
            let Some((user, next)) = waiting.queue.next_where(may) else { return };
            *waiting.at_work.entry(user.clone()).or_default() += 1;
            drop(state);
            let shared = Arc::clone(self);
            let turn = Turn { shared, line, user, given_back: false };
            // A request that is gone does not take the turn, so the next one gets it in this loop.
            if let Err(mut turn) = next.send(turn) {
                turn.give_back();
            }
        }
    }
}

impl State {
    /// Takes a place away from the user with most places, for `user`. Only a request that waits for a turn loses it.
    fn make_room(&mut self, user: &UserName) -> Option<()> {
        let own = self.taken.get(user).copied().unwrap_or_default();
        let (most, &count) = self.taken.iter().max_by_key(|(_, count)| **count)?;
        if count <= own + 1 {
            return None;
        }
        let most = most.clone();
        // Without its sender, the request that waits is told that it is busy. One that is gone gave its place back before.
        self.lines.iter_mut().find_map(|line| {
            while let Some(youngest) = line.queue.take_youngest(&most) {
                if !youngest.is_closed() {
                    return Some(());
                }
            }
            None
        })
    }
}

/// A request's place among those that are planned; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct PlanningSlot {
    shared: Arc<Shared>,
    user: UserName,
}

impl PlanningSlot {
    /// Waits for a turn.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when the place is given to another user meanwhile.
    pub(crate) async fn turn(&self, line: TurnQueue) -> Result<Turn, Status> {
        let (given, turn) = oneshot::channel();
        self.shared.wait(line, &self.user, given);
        self.shared.give(line);
        turn.await.map_err(|_| status::busy())
    }
}

impl Drop for PlanningSlot {
    fn drop(&mut self) {
        release(&mut self.shared.lock().taken, &self.user);
    }
}

/// Counts one less for a user.
fn release(counts: &mut BTreeMap<UserName, usize>, user: &UserName) {
    if let Some(count) = counts.get_mut(user) {
        *count -= 1;
        if *count == 0 {
            counts.remove(user);
        }
    }
}

/// A turn; when it is dropped, the next waiting request gets one.
#[derive(Debug)]
pub(crate) struct Turn {
    shared: Arc<Shared>,
    line: TurnQueue,
    user: UserName,
    given_back: bool,
}

impl Turn {
    fn give_back(&mut self) {
        if !std::mem::replace(&mut self.given_back, true) {
            let mut state = self.shared.lock();
            release(&mut state.lines[self.line as usize].at_work, &self.user);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.given_back {
            self.give_back();
            self.shared.give(self.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> UserName {
        UserName::composed(name)
    }

    /// Waits for a turn in a task that owns the place.
    fn waits(place: PlanningSlot) -> tokio::task::JoinHandle<Result<(PlanningSlot, Turn), Status>> {
        tokio::spawn(async move {
            let turn = place.turn(TurnQueue::Search).await?;
            Ok((place, turn))
        })
    }

    /// Lets every task run until it waits.
    async fn settle() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn eighty_requests_of_one_leave_twenty_of_others_their_places_and_turns() {
        let places = Places::new(limits::PLANNINGS_MAX);
        let mut greedy = Vec::new();
        for _ in 0..80 {
            if let Ok(place) = places.enter(&user("greedy")) {
                greedy.push(waits(place));
            }
        }
        settle().await;
        assert_eq!(greedy.len(), limits::PLANNINGS_MAX);
        let mut honest = Vec::new();
        for n in 0..20 {
            honest.push(waits(places.enter(&user(&format!("honest-{}", n % 4))).unwrap()));
            settle().await;
        }
        // Enough rounds: one for each honest request, and one for each turn that greedy gets in between.
        let mut rounds = 0;
        while !honest.iter().all(tokio::task::JoinHandle::is_finished) {
            let done = honest.iter_mut().find(|waits| waits.is_finished());
            let at = greedy.iter().position(tokio::task::JoinHandle::is_finished);
            match (done, at) {
                (Some(_), _) => {
                    let at = honest.iter().position(tokio::task::JoinHandle::is_finished).unwrap();
                    drop(honest.remove(at).await.unwrap().unwrap());
                }
                (None, Some(at)) => drop(greedy.remove(at).await.unwrap()),
                (None, None) => panic!("nobody has a turn"),
            }
            settle().await;
            rounds += 1;
            assert!(rounds < 20 + 20 + limits::PLANNINGS_MAX);
        }
        for waits in honest {
            waits.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn turns_go_round_by_user_and_in_the_order_of_each() {
        let places = Places::new(10);
        let busy: Vec<_> = (0..limits::PLANNING_TURNS).map(|_| user("a")).collect();
        let mut at_work = Vec::new();
        for user in busy {
            at_work.push(waits(places.enter(&user).unwrap()).await.unwrap().unwrap());
        }
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for name in ["a", "a", "a", "b", "b", "c"] {
            let (place, order) = (places.enter(&user(name)).unwrap(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let _turn = place.turn(TurnQueue::Search).await.unwrap();
                order.lock().unwrap().push(name);
            }));
            settle().await;
        }
        at_work.truncate(1);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), ["b", "c", "a", "b", "a", "a"]);
    }

    #[tokio::test]
    async fn a_newcomer_takes_a_place_only_from_who_has_more() {
        let places = Places::new(4);
        let mut held = Vec::new();
        for _ in 0..limits::PLANNING_TURNS {
            held.push(waits(places.enter(&user("a")).unwrap()).await.unwrap().unwrap());
        }
        let waiting: Vec<_> =
            (held.len()..4).map(|_| waits(places.enter(&user("a")).unwrap())).collect();
        settle().await;
        assert!(places.enter(&user("a")).is_err(), "nobody has more");
        let first = places.enter(&user("b")).unwrap();
        settle().await;
        let lost = waiting.iter().filter(|waits| waits.is_finished()).count();
        assert_eq!(lost, 1, "one of a's was told that it is busy");
        drop(first);
        drop(held);
        let mut served = 0;
        for waits in waiting {
            served += usize::from(waits.await.unwrap().is_ok());
        }
        assert_eq!(served, 4 - limits::PLANNING_TURNS - 1);
    }

    #[tokio::test]
    async fn whoever_goes_away_keeps_neither_place_nor_turn() {
        let places = Places::new(3);
        let mut held = Vec::new();
        for _ in 0..limits::PLANNING_TURNS {
            held.push(waits(places.enter(&user("a")).unwrap()).await.unwrap().unwrap());
        }
        let gone = waits(places.enter(&user("b")).unwrap());
        settle().await;
        gone.abort();
        assert!(gone.await.is_err());
        let next = waits(places.enter(&user("c")).unwrap());
        settle().await;
        held.clear();
        drop(next.await.unwrap().unwrap());
        assert!(places.0.lock().taken.is_empty());
        assert!(places.0.lock().lines[TurnQueue::Search as usize].at_work.is_empty());
    }

    #[tokio::test]
    async fn no_user_has_all_turns_of_plans_that_hold_nothing() {
        let places = Places::new(limits::PLANNINGS_MAX);
        for line in [TurnQueue::WhatIf, TurnQueue::Alternatives] {
            let waits = |name: &str| {
                let place = places.enter(&user(name)).unwrap();
                tokio::spawn(async move { place.turn(line).await.map(|turn| (place, turn)) })
            };
            let first = waits("greedy").await.unwrap().unwrap();
            let second = waits("greedy");
            settle().await;
            assert!(!second.is_finished(), "greedy has its turn");
            drop(waits("honest").await.unwrap().unwrap());
            assert!(!second.is_finished());
            drop(first);
            drop(second.await.unwrap().unwrap());
        }
    }
}
