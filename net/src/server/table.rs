//! The connections of one server, and which of them makes way for another. Pure: time comes in as an argument.
//!
//! A connection is *silent* until it has spoken HTTP/2, then *live*. A silent connection makes way for the next
//! silent one, never for longer than it needs to speak; a live one makes way when all places are taken, the
//! longest idle first. One with calls at work never does. A live connection that makes way is *leaving*: it is
//! told so (GOAWAY), its calls end, and nothing is lost. What does not leave is *cut*.
//!
//! No peer is known by more than its address. So the address with the most connections gives first, and one
//! address can never have all places.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use coalloc_common::limits;
use tokio::time::Instant;

/// Number of a connection; later ones have higher numbers.
pub(super) type Id = u64;

/// How many connections may be what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Silent ones.
    pub(super) silent: usize,
    /// Silent ones of one address.
    pub(super) silent_per_peer: usize,
    /// Live ones.
    pub(super) live: usize,
    /// Live ones of one address.
    pub(super) live_per_peer: usize,
    /// Leaving ones.
    pub(super) leaving: usize,
    /// How long one may be silent.
    pub(super) patience: Duration,
}

impl Bounds {
    /// What a process may have that may open so many files; `None` is without bound.
    pub(super) fn for_files(files: Option<u64>) -> Self {
        let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
        let live = files.saturating_sub(limits::FILES_BESIDE_CONNECTIONS);
        let live = live.clamp(limits::CONNECTIONS_MIN, limits::CONNECTIONS_MAX);
        Self {
            silent: limits::SILENT_MAX,
            silent_per_peer: limits::SILENT_PER_PEER_MAX,
            live,
            live_per_peer: live - live / limits::CONNECTIONS_OTHERS_PART,
            leaving: limits::LEAVING_MAX,
            patience: limits::SILENT_PATIENCE.to_std(),
        }
    }
}

/// Who may be told apart: an IPv4 address, or the network of an IPv6 address, because a host has a whole one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Peer(IpAddr);

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                Self(IpAddr::V6(Ipv6Addr::from(network)))
            }
            address @ IpAddr::V4(_) => Self(address),
        }
    }
}

/// What a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// It has not spoken.
    Silent,
    /// It has spoken, and has a place.
    Live,
    /// It was told to leave.
    Leaving,
    /// It is being closed.
    Cut,
}

impl Phase {
    /// All of them, in their order.
    pub(super) const ALL: [Self; 4] = [Self::Silent, Self::Live, Self::Leaving, Self::Cut];

    /// As metrics say it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Live => "live",
            Self::Leaving => "leaving",
            Self::Cut => "cut",
        }
    }
}

#[derive(Debug)]
struct Entry {
    peer: Peer,
    phase: Phase,
    /// Silent: since it was accepted. Else since anything was last heard of its calls.
    since: Instant,
    /// Calls whose request is here and whose answer is not.
    at_work: usize,
    /// Answers that are on their way.
    answering: usize,
}

impl Entry {
    /// May it be closed? Not while calls are at work, nor while the client takes an answer.
    fn is_idle(&self, now: Instant) -> bool {
        let stalled = now.duration_since(self.since) >= limits::ANSWER_PATIENCE.to_std();
        self.at_work == 0 && (self.answering == 0 || stalled)
    }
}

/// A silent connection that is one too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Surplus {
    /// Which one.
    pub(super) id: Id,
    /// When it may be cut; `None` when it was.
    pub(super) due: Option<Instant>,
}

/// Who makes way for one that spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Eviction {
    /// Is told to leave.
    pub(super) leaves: Option<Id>,
    /// Was told before, and is cut.
    pub(super) cut: Option<Id>,
}

/// Every place is taken by a connection with calls at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoPlaceLeft;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Table {
    bounds: Bounds,
    last: Id,
    entries: BTreeMap<Id, Entry>,
    /// By address and phase.
    peers: BTreeMap<(Peer, Phase), usize>,
    /// By phase.
    counts: [usize; 4],
}

impl Table {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (entries, peers) = (BTreeMap::new(), BTreeMap::new());
        Self { bounds, last: 0, entries, peers, counts: [0; 4] }
    }

    /// How many connections are what, in the order of [`Phase::ALL`].
    pub(super) const fn counts(&self) -> [usize; 4] {
        self.counts
    }

    /// A connection was accepted.
    pub(super) fn enter(&mut self, peer: Peer, now: Instant) -> Id {
        self.last += 1;
        let entry = Entry { peer, phase: Phase::Silent, since: now, at_work: 0, answering: 0 };
        self.entries.insert(self.last, entry);
        self.add(peer, Phase::Silent);
        self.last
    }

    /// A connection has ended.
    pub(super) fn remove(&mut self, id: Id) {
        if let Some(entry) = self.entries.remove(&id) {
            self.subtract(entry.peer, entry.phase);
        }
    }

    /// The connection that has to go before another is accepted: of the address with the most silent ones the
    /// oldest, once it has had the time to speak; or one that is being closed already.
    pub(super) fn surplus(&self) -> Option<Surplus> {
        let cut = || self.of(Phase::Cut).next().map(|(&id, _)| Surplus { id, due: None });
        if self.count(Phase::Cut) > limits::CUT_MAX {
            return cut();
        }
        let silent = self.peers.iter().filter(|((_, phase), _)| *phase == Phase::Silent);
        let (&(peer, _), &most) = silent.max_by_key(|(_, count)| **count)?;
        let crowded = self.count(Phase::Silent) > self.bounds.silent;
        if most <= self.bounds.silent_per_peer && !crowded {
            return None;
        }
        // Numbers grow with time.
        let (&id, oldest) = self.of(Phase::Silent).find(|(_, entry)| entry.peer == peer)?;
        Some(Surplus { id, due: Some(oldest.since + limits::SILENT_MIN.to_std()) })
    }

    /// A connection has spoken HTTP/2. Who makes way for it?
    ///
    /// # Errors
    /// [`NoPlaceLeft`] when nobody can; the connection stays what it was.
    pub(super) fn speak(&mut self, id: Id, now: Instant) -> Result<Eviction, NoPlaceLeft> {
        let Some(entry) = self.entries.get(&id) else { return Err(NoPlaceLeft) };
        let (peer, mut way) = (entry.peer, Eviction::default());
        let own = self.of_peer(peer, Phase::Live) >= self.bounds.live_per_peer;
        if own || self.count(Phase::Live) >= self.bounds.live {
            let leaves = self.longest_idle(own.then_some(peer), now).ok_or(NoPlaceLeft)?;
            if self.count(Phase::Leaving) >= self.bounds.leaving {
                let mut leaving = self.of(Phase::Leaving);
                let (&cut, _) = leaving.find(|(_, entry)| entry.is_idle(now)).ok_or(NoPlaceLeft)?;
                way.cut = Some(cut);
            }
            way.leaves = Some(leaves);
        }
        if let Some(cut) = way.cut {
            self.turn(cut, Phase::Cut);
        }
        if let Some(leaves) = way.leaves {
            self.turn(leaves, Phase::Leaving);
        }
        self.turn(id, Phase::Live);
        self.touch(id, now);
        Ok(way)
    }

    /// The live connection that makes way: of the address with the most (or of this one), the longest idle.
    fn longest_idle(&self, own: Option<Peer>, now: Instant) -> Option<Id> {
        let idle = self
            .of(Phase::Live)
            .filter(|(_, entry)| own.is_none_or(|peer| entry.peer == peer) && entry.is_idle(now));
        let rank = |(id, entry): &(&Id, &Entry)| {
            (Reverse(self.of_peer(entry.peer, Phase::Live)), entry.since, **id)
        };
        idle.min_by_key(rank).map(|(&id, _)| id)
    }

    /// Somebody has to go because the system has no more files: the oldest silent one, or else the longest idle.
    pub(super) fn relieve(&self, now: Instant) -> Option<Id> {
        let silent = self.of(Phase::Silent).next().map(|(&id, _)| id);
        silent.or_else(|| self.longest_idle(None, now))
    }

    /// A connection is being closed.
    pub(super) fn cut(&mut self, id: Id) {
        self.turn(id, Phase::Cut);
    }

    /// Is nothing at work on a connection that was told to leave? Then it is being closed.
    pub(super) fn cut_if_idle(&mut self, id: Id, now: Instant) -> bool {
        let idle = self.entries.get(&id).is_some_and(|entry| entry.is_idle(now));
        if idle {
            self.turn(id, Phase::Cut);
        }
        idle
    }

    /// Something was heard of a call.
    pub(super) fn touch(&mut self, id: Id, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.since = now;
        }
    }

    /// So many more calls at work, and answers on their way.
    pub(super) fn count_calls(&mut self, id: Id, at_work: isize, answering: isize, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.at_work = entry.at_work.saturating_add_signed(at_work);
            entry.answering = entry.answering.saturating_add_signed(answering);
            entry.since = now;
        }
    }

    fn of(&self, phase: Phase) -> impl Iterator<Item = (&Id, &Entry)> {
        self.entries.iter().filter(move |(_, entry)| entry.phase == phase)
    }

    const fn count(&self, phase: Phase) -> usize {
        self.counts[phase as usize]
    }

    fn of_peer(&self, peer: Peer, phase: Phase) -> usize {
        self.peers.get(&(peer, phase)).copied().unwrap_or_default()
    }

    fn turn(&mut self, id: Id, phase: Phase) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let (peer, before) = (entry.peer, std::mem::replace(&mut entry.phase, phase));
        self.subtract(peer, before);
        self.add(peer, phase);
    }

    fn add(&mut self, peer: Peer, phase: Phase) {
        self.counts[phase as usize] += 1;
        *self.peers.entry((peer, phase)).or_default() += 1;
    }

    fn subtract(&mut self, peer: Peer, phase: Phase) {
        self.counts[phase as usize] -= 1;
        if let Some(count) = self.peers.get_mut(&(peer, phase)) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&(peer, phase));
            }
        }
    }
}
