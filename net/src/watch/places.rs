//! The places of watches, shared fairly between callers. A daemon serves a limited number of watches, and a caller with
//! many of them must not keep everybody else out.
//!
//! When all places are taken, a newcomer gets the latest place of the caller who has most, if that caller has more
//! places than the newcomer would have. The watch that loses its place ends with RESOURCE_EXHAUSTED, and its client
//! can resume it. Places of planning follow the same rule.
//!
//! All watches of one caller together read the ledger as often as a single one may ([`WatchPlace::of_caller`]): each read
//! takes a thread and the decoding of records, and a caller with many watches must not take these from the others.
//!
//! Left out: fairness between organisations. An authority that makes up many users of its own has as many callers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tonic::Status;

use crate::authorization::CallerKey;
use crate::{metrics, status};

/// The places of one daemon. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct WatchPlaces(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Number of places in all.
    places: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The watches of each caller who has any, in the order in which they began.
    taken: BTreeMap<CallerKey, BTreeMap<u64, watch::Sender<Loss>>>,
    /// The number of the next watch.
    next: u64,
}

/// Whether a watch has lost its place: how many places its caller had, if so.
type Loss = Option<usize>;

impl WatchPlaces {
    /// This many places.
    pub(super) fn new(places: usize) -> Self {
        Self(Arc::new(Shared { places, state: Mutex::default() }))
    }

    /// Takes a place for a watch of this caller.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when all places are taken and nobody has so many that one may be taken away.
    pub(super) fn enter(&self, caller: CallerKey) -> Result<WatchPlace, Status> {
        let mut state = self.0.lock();
        if state.taken.values().map(BTreeMap::len).sum::<usize>() >= self.0.places {
            state.make_room(&caller).map_err(|own| crowded(self.0.places, own))?;
        }
        let (lose, loss) = watch::channel(None);
        let number = state.next;
        state.next += 1;
        state.taken.entry(caller.clone()).or_default().insert(number, lose);
        drop(state);
        Ok(WatchPlace { shared: Arc::clone(&self.0), caller, number, loss })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a place away from the caller with most places, for `caller`.
    ///
    /// # Errors
    /// The number of the caller's own places, when nobody has enough more than that.
    fn make_room(&mut self, caller: &CallerKey) -> Result<(), usize> {
        let own = self.taken.get(caller).map_or(0, BTreeMap::len);
        let most = self.taken.iter_mut().max_by_key(|(_, watches)| watches.len());
        let Some((_, watches)) = most.filter(|(_, watches)| watches.len() > own + 1) else {
            return Err(own);
        };
        let count = watches.len();
        if let Some((_, lose)) = watches.pop_last() {
            lose.send_replace(Some(count));
            metrics::net().watches_displaced.inc();
        }
        Ok(())
    }

    fn leave(&mut self, caller: &CallerKey, number: u64) {
        let Some(watches) = self.taken.get_mut(caller) else { return };
        watches.remove(&number);
        if watches.is_empty() {
            self.taken.remove(caller);
        }
    }
}

/// A place among the watches; given back when it is dropped.
#[derive(Debug)]
pub(super) struct WatchPlace {
    shared: Arc<Shared>,
    caller: CallerKey,
    number: u64,
    loss: watch::Receiver<Loss>,
}

impl WatchPlace {
    /// How many places the caller has. In plain text nobody knows who the callers are, so each counts as one of its own.
    pub(super) fn of_caller(&self) -> u32 {
        let state = self.shared.lock();
        let own = state.taken.get(&self.caller).filter(|_| self.caller != CallerKey::PlainText);
        // At most the number of all places.
        own.map_or(1, |watches| watches.len() as u32)
    }

    /// Waits until the place is given to another caller.
    pub(super) async fn lost(&mut self) {
        // The sender goes away only after it has said that the place is lost.
        let _ = self.loss.wait_for(Option::is_some).await;
    }

    /// The last status of the stream that has this place, once the stream is over.
    pub(super) fn last_status(&self) -> impl FnOnce() -> Status + Send + 'static {
        let (loss, most) = (self.loss.clone(), self.shared.places);
        move || match *loss.borrow() {
            Some(count) => displaced(most, count),
            None => status::stopping(),
        }
    }
}

impl Drop for WatchPlace {
    fn drop(&mut self) {
        self.shared.lock().leave(&self.caller, self.number);
    }
}

/// RESOURCE_EXHAUSTED: all places are taken.
fn crowded(most: usize, own: usize) -> Status {
    Status::resource_exhausted(format!(
        "{most} watches are open already, which is the maximum; {own} of them are yours, and nobody \
         has so many that one would be taken away for you: end one, or try again later"
    ))
}

/// RESOURCE_EXHAUSTED: the place was given to somebody else.
fn displaced(most: usize, count: usize) -> Status {
    Status::resource_exhausted(format!(
        "this watch was ended to make room for another caller: all {most} places were taken, and \
         {count} of them were yours, more than anybody else had. Nothing is lost: a new watch can \
         resume from the last position that was reported"
    ))
}

#[cfg(test)]
mod tests {
    use coalloc_common::UserName;
    use tonic::Code;

    use super::*;

    fn caller(name: &str) -> CallerKey {
        CallerKey::User(UserName::composed(name))
    }

    fn is_lost(place: &WatchPlace) -> bool {
        place.loss.borrow().is_some()
    }

    #[tokio::test]
    async fn a_newcomer_takes_the_latest_place_of_who_has_most() {
        let places = WatchPlaces::new(4);
        let mut greedy: Vec<WatchPlace> =
            (0..4).map(|_| places.enter(caller("greedy")).unwrap()).collect();
        let refused = places.enter(caller("greedy")).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(refused.message().contains("4 of them are yours"), "{refused}");
        assert!(greedy.iter().all(|place| place.of_caller() == 4));
        let first = places.enter(caller("honest")).unwrap();
        assert_eq!(greedy.iter().map(is_lost).collect::<Vec<_>>(), [false, false, false, true]);
        let mut lost = greedy.pop().unwrap();
        lost.lost().await;
        let status = lost.last_status()();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("4 of them were yours"), "{status}");
        // A place that was taken away is not given back a second time.
        drop(lost);
        let second = places.enter(caller("honest")).unwrap();
        assert!(is_lost(&greedy[2]), "3 to 1");
        assert!(places.enter(caller("honest")).is_err(), "2 to 2");
        assert!(places.enter(caller("greedy")).is_err(), "2 to 2");
        assert_eq!([&first, &second].map(WatchPlace::of_caller), [2, 2]);
        let third = places.enter(caller("third")).unwrap();
        assert_eq!((first.last_status())().code(), Code::Unavailable, "it has its place");
        assert_eq!(third.of_caller(), 1);
        drop((first, second, third, greedy));
        assert!(places.0.lock().taken.is_empty());
    }

    #[tokio::test]
    async fn whoever_returns_after_a_loss_takes_nothing_back() {
        let places = WatchPlaces::new(2);
        let mut of_a = vec![places.enter(caller("a")).unwrap(), places.enter(caller("a")).unwrap()];
        let of_b = places.enter(caller("b")).unwrap();
        drop(of_a.pop());
        assert!(places.enter(caller("a")).is_err(), "1 to 1");
        drop(of_b);
        of_a.push(places.enter(caller("a")).unwrap());
        assert!(!of_a.iter().any(is_lost));
    }
}
