//! The connections of one server, and which of them leaves when another one needs its place. Pure: time is
//! passed in as an argument.
//!
//! A connection is *silent* until it has spoken HTTP/2, and then *live*. When there are too many silent
//! connections, one of them is closed, once it has had enough time to speak. When all places are taken, a
//! live connection leaves, the longest idle first; a connection with active calls never does. A live
//! connection that has to leave is *leaving*: it is told so (GOAWAY), its calls end, and nothing is lost. One
//! that does not leave is *cut*.
//!
//! A peer is known only by its address. So the address with the most connections has to give one up first,
//! and a single address can never have all places.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use coalloc_common::limits;
use tokio::time::Instant;

/// The number of a connection; later connections have higher numbers.
pub(super) type Id = u64;

/// How many connections there may be in each phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Silent connections.
    pub(super) silent: usize,
    /// Silent connections from one address.
    pub(super) silent_per_peer: usize,
    /// Live connections.
    pub(super) live: usize,
    /// Live connections from one address.
    pub(super) live_per_peer: usize,
    /// Leaving connections.
    pub(super) leaving: usize,
    /// How long a connection may be silent.
    pub(super) patience: Duration,
}

impl Bounds {
    /// The bounds of a process that may open `files` files; `None` is without bound.
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

/// A peer that can be told apart from others: an IPv4 address, or the network (64 bits) of an IPv6 address,
/// because one host has a whole network.
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

/// The phase of a connection.
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
    /// All phases, in their order.
    pub(super) const ALL: [Self; 4] = [Self::Silent, Self::Live, Self::Leaving, Self::Cut];

    /// The word in metrics.
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
    /// Whether a certificate has proven who it is.
    is_proven: bool,
    /// Silent: when it was accepted. Otherwise: when anything of its calls was last received or sent.
    since: Instant,
    /// Active calls: their request has arrived whole, and their answer has not begun.
    at_work: usize,
    /// Answers that are being sent.
    answering: usize,
}

impl Entry {
    /// Whether it may be closed: not while it has active calls, nor while the client reads an answer.
    fn is_idle(&self, now: Instant) -> bool {
        let stalled = now.duration_since(self.since) >= limits::ANSWER_PATIENCE.to_std();
        self.at_work == 0 && (self.answering == 0 || stalled)
    }
}

/// The silent connection that is closed when there are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Surplus {
    /// The connection.
    pub(super) id: Id,
    /// When it may be cut; `None` when it is being cut already.
    pub(super) due: Option<Instant>,
}

/// The connections that make place for one that has spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Eviction {
    /// This one is told to leave.
    pub(super) leaves: Option<Id>,
    /// This one was told to leave earlier, and is cut now.
    pub(super) cut: Option<Id>,
}

/// Every place is taken by a connection with active calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoPlaceLeft;

/// The table of connections; see the module's text.
#[derive(Debug)]
pub(super) struct Table {
    bounds: Bounds,
    last: Id,
    entries: BTreeMap<Id, Entry>,
    /// Number of connections by address and phase.
    peers: BTreeMap<(Peer, Phase), usize>,
    /// Number of connections by phase.
    counts: [usize; 4],
}

impl Table {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (entries, peers) = (BTreeMap::new(), BTreeMap::new());
        Self { bounds, last: 0, entries, peers, counts: [0; 4] }
    }

    /// The number of connections in each phase, in the order of [`Phase::ALL`].
    pub(super) const fn counts(&self) -> [usize; 4] {
        self.counts
    }

    /// Adds a connection that was accepted.
    pub(super) fn enter(&mut self, peer: Peer, now: Instant) -> Id {
        self.last += 1;
        let (phase, is_proven) = (Phase::Silent, false);
        let entry = Entry { peer, phase, is_proven, since: now, at_work: 0, answering: 0 };
        self.entries.insert(self.last, entry);
        self.add(peer, Phase::Silent);
        self.last
    }

    /// Notes that a certificate has proven who a connection is. Strangers of the same address go before it.
    pub(super) fn prove(&mut self, id: Id) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_proven = true;
        }
    }

    /// Removes a connection that has ended.
    pub(super) fn remove(&mut self, id: Id) {
        if let Some(entry) = self.entries.remove(&id) {
            self.subtract(entry.peer, entry.phase);
        }
    }

    /// The connection that has to go before another one is accepted. This is the oldest silent one of the
    /// address with the most silent ones, once it has had the time to speak, and one that has proven who it is only
    /// if all of them have; or one that is being closed already.
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
        // Numbers grow with time, so the first is the oldest.
        let mut own = self.of(Phase::Silent).filter(|(_, entry)| entry.peer == peer);
        let (&id, oldest) =
            own.clone().find(|(_, entry)| !entry.is_proven).or_else(|| own.next())?;
        Some(Surplus { id, due: Some(oldest.since + limits::SILENT_MIN.to_std()) })
    }

    /// Makes a connection live, because it has spoken HTTP/2, and says which connections have to go for it.
    ///
    /// # Errors
    /// [`NoPlaceLeft`] when no connection can go. The connection then stays silent.
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

    /// The live connection that has to leave: the longest idle one, of `own` or else of the address with the
    /// most.
    fn longest_idle(&self, own: Option<Peer>, now: Instant) -> Option<Id> {
        let idle = self
            .of(Phase::Live)
            .filter(|(_, entry)| own.is_none_or(|peer| entry.peer == peer) && entry.is_idle(now));
        let rank = |(id, entry): &(&Id, &Entry)| {
            (Reverse(self.of_peer(entry.peer, Phase::Live)), entry.since, **id)
        };
        idle.min_by_key(rank).map(|(&id, _)| id)
    }

    /// The connection to close because the system has no more files: the oldest silent one, or else the
    /// longest idle.
    pub(super) fn relieve(&self, now: Instant) -> Option<Id> {
        let silent = self.of(Phase::Silent).next().map(|(&id, _)| id);
        silent.or_else(|| self.longest_idle(None, now))
    }

    /// Notes that a connection is being closed.
    pub(super) fn cut(&mut self, id: Id) {
        self.turn(id, Phase::Cut);
    }

    /// If a leaving connection has no active calls, notes that it is being closed, and returns true.
    pub(super) fn cut_if_idle(&mut self, id: Id, now: Instant) -> bool {
        let idle = self.entries.get(&id).is_some_and(|entry| entry.is_idle(now));
        if idle {
            self.turn(id, Phase::Cut);
        }
        idle
    }

    /// Notes that something of a call was received or sent.
    pub(super) fn touch(&mut self, id: Id, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.since = now;
        }
    }

    /// Adds to the numbers of active calls and of answers being sent.
    pub(super) fn count_calls(&mut self, id: Id, at_work: isize, answering: isize, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.at_work = entry.at_work.saturating_add_signed(at_work);
            entry.answering = entry.answering.saturating_add_signed(answering);
            entry.since = now;
        }
    }

    fn of(&self, phase: Phase) -> impl Iterator<Item = (&Id, &Entry)> + Clone {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_go_before_whoever_has_proven_who_it_is() {
        let bounds = Bounds { silent: 3, silent_per_peer: 2, ..Bounds::for_files(None) };
        let (mut table, now) = (Table::new(bounds), Instant::now());
        let peer = Peer(IpAddr::from([127, 0, 0, 1]));
        let ids = [(); 3].map(|()| table.enter(peer, now));
        let goes = |table: &Table| table.surplus().map(|surplus| surplus.id);
        assert_eq!(goes(&table), Some(ids[0]), "the oldest");
        table.prove(ids[0]);
        assert_eq!(goes(&table), Some(ids[1]), "the oldest stranger");
        // A certificate does not buy more places.
        ids.iter().for_each(|&id| table.prove(id));
        assert_eq!(goes(&table), Some(ids[0]), "the oldest of all");
    }
}
