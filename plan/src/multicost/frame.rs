//! One task on one picture, in slots: what every multi-cost planner begins with.
//!
//! All of a search counts link slots from the first one at which the task is ready, as the papers do
//! from "now". Vectors of links are moved there and cut to where something as long as the task's data
//! can start; those of clusters likewise, on their own grid. Each is made when it is first asked for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coalloc_common::vector::kernel;
use coalloc_common::{Slot, SlotGrid, limits};

use super::TaskInstance;
use super::search::Label;

/// What the bits of a path's vector say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entries {
    /// As printed: the slot is free on the whole path.
    Slots,
    /// The task's data can begin to leave in it: as many slots are free from it on as the data
    /// take. The first that is set is `R(b)`, and what is free but too short for this task tells no
    /// two paths apart.
    Starts,
}

/// Numbers of one task on one picture.
pub(super) struct Frame<'a> {
    pub(super) instance: TaskInstance<'a>,
    pub(super) entries: Entries,
    /// Position 0 of all vectors of links.
    pub(super) base: Slot,
    /// Positions that any of them has: the papers' dimension.
    pub(super) slots: usize,
    pub(super) words: usize,
    /// `b`.
    pub(super) data: usize,
    /// The first position at which data may leave.
    pub(super) lead: usize,
    /// How often the path is travelled before they may.
    pub(super) travels: usize,
    guard: usize,
}

/// Vectors and lists that a frame fills, kept from task to task.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// By directed link, `words` each; valid where `made`.
    links: Vec<u64>,
    made: Vec<bool>,
    /// All ones, to move one vector by an AND.
    full: Vec<u64>,
    moved: Vec<u64>,
    /// Delays of links in slots.
    delays: Vec<u32>,
    out: Lists,
    into: Lists,
    /// By cluster.
    pub(super) clusters: Vec<Cluster>,
    starts: Vec<u64>,
}

/// One cluster that the task may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cluster {
    /// Index in the picture.
    pub(super) index: usize,
    pub(super) vertex: u32,
    /// `w`.
    pub(super) run: u64,
    first: Slot,
    slots: usize,
    /// Its words in the table of starts.
    words: (usize, usize),
}

impl Cluster {
    /// Slots of its vector.
    pub(super) const fn len(&self) -> usize {
        self.slots
    }

    /// How many of them are before one.
    pub(super) fn before(&self, slot: Slot) -> usize {
        usize::try_from(slot.0.saturating_sub(self.first.0)).unwrap_or(0).min(self.slots)
    }

    /// The first slot of which it is not known whether it is free.
    pub(super) fn end(&self) -> Slot {
        self.first.plus(self.slots as u64)
    }
}

impl<'a> Frame<'a> {
    pub(super) fn new(instance: TaskInstance<'a>, entries: Entries) -> Self {
        let (task, picture) = (instance.task, instance.picture);
        let grid = picture.link_grid();
        let base = grid.first_from(task.ready);
        let slots = slots_from(picture, base);
        let size = |slots: u64| usize::try_from(slots).unwrap_or(usize::MAX / 4);
        Self {
            instance,
            entries,
            base,
            slots,
            words: kernel::words_for(slots),
            data: size(instance.data_slots()),
            lead: size(grid.slots_for(task.signalling.lead())),
            travels: task.signalling.travels(),
            guard: picture.guard() as usize,
        }
    }

    /// Fills the lists of the graph and of the clusters.
    pub(super) fn begin(&self, tables: &mut Tables) {
        let picture = self.instance.picture;
        let links = picture.links();
        tables.delays.clear();
        let delay = |link| u32::try_from(picture.delay_slots(link)).unwrap_or(u32::MAX);
        tables.delays.extend((0..links.len()).map(delay));
        // Links that are too small lead nowhere.
        let links =
            || (0..).zip(links).filter(|(_, link)| link.capacity >= self.instance.task.rate);
        tables.out.fill(picture.vertices(), links().map(|(index, link)| (link.from.0, index)));
        tables.into.fill(picture.vertices(), links().map(|(index, link)| (link.to.0, index)));
        tables.full.resize(self.words, u64::MAX);
        tables.moved.resize(self.words, 0);
        tables.clusters.clear();
        tables.starts.clear();
        let (cpus, only) = (self.instance.task.cpus, self.instance.task.cluster);
        let enough = |(index, cluster): &(usize, &super::ClusterView)| {
            cluster.capacity >= cpus && only.is_none_or(|only| only == *index)
        };
        for (index, cluster) in picture.clusters().iter().enumerate().filter(enough) {
            let run = self.instance.run_slots(cluster.mips);
            let (begin, free) = (tables.starts.len(), cluster.free.words());
            tables.starts.resize(begin + free.len(), 0);
            kernel::starts(&mut tables.starts[begin..], free, usize_of(run));
            let words = (begin, tables.starts.len());
            let (vertex, first) = (cluster.vertex.0, cluster.free.first());
            let slots = cluster.free.len();
            tables.clusters.push(Cluster { index, vertex, run, first, slots, words });
        }
    }

    /// Forgets the vectors of links: those of a wavelength follow.
    pub(super) fn begin_wavelength(&self, tables: &mut Tables) {
        let links = self.instance.picture.links().len();
        tables.made.clear();
        tables.made.resize(links, false);
        tables.links.resize(links * self.words, 0);
    }

    /// Makes the vector of a link when it is not there yet.
    pub(super) fn make(&self, tables: &mut Tables, link: u32, wavelength: usize) {
        let at = link as usize;
        if std::mem::replace(&mut tables.made[at], true) {
            return;
        }
        let into = &mut tables.links[at * self.words..][..self.words];
        let Some(vector) = self.instance.picture.links()[at].free.get(wavelength) else {
            return into.fill(0); // Not reached: every link has as many.
        };
        let shift = self.base.0 - vector.first().0;
        let (entries, guard) = (self.entries, self.guard);
        if entries == Entries::Slots && guard == 0 {
            return kernel::and_shifted(into, &tables.full, vector.words(), shift);
        }
        kernel::and_shifted(&mut tables.moved, &tables.full, vector.words(), shift);
        let length = if entries == Entries::Slots { 1 } else { self.data };
        kernel::starts(into, &tables.moved, length.saturating_add(guard));
        if guard > 0 {
            // What can start `guard` slots earlier is free here and that long before.
            tables.moved.copy_from_slice(into);
            let shift = -i64::try_from(guard).unwrap_or(i64::MAX);
            kernel::and_shifted(into, &tables.full, &tables.moved, shift);
            kernel::clear_from(into, self.slots);
        }
    }

    /// The last position at which data may leave to be there, `delay` later, while anything is known of
    /// links; and one more. With slots as entries, those that may be used at all.
    pub(super) fn last_entry(&self, delay: u32) -> usize {
        let delay = delay as usize;
        match self.entries {
            Entries::Slots => self.slots.saturating_sub(delay),
            Entries::Starts => (self.slots + 1).saturating_sub(delay.saturating_add(self.data)),
        }
    }

    /// `R_p(b)` of a path's vector and delay: when its data leave.
    pub(super) fn departure(&self, vector: &[u64], delay: u32) -> Option<usize> {
        let from = self.lead + self.travels * delay as usize;
        match self.entries {
            Entries::Slots => kernel::first_run(vector, from, self.data),
            Entries::Starts => kernel::first_one(vector, from),
        }
    }

    /// `EST`: when the last data are there, in slots from the base. Data that stay are there at once.
    pub(super) const fn arrival(&self, departure: usize, delay: u32, hops: u32) -> usize {
        if hops == 0 { departure } else { departure.saturating_add(self.data + delay as usize) }
    }

    /// When data can be at a vertex at best, and how long they travel: on a path that continues
    /// this one by so much delay, with every link of the rest free.
    pub(super) fn soonest(&self, label: &Label, vertex: u32, onwards: u32) -> (usize, u32) {
        let delay = label.delay.saturating_add(onwards);
        let hops = label.hops + u32::from(vertex != label.vertex);
        let waited = self.lead + self.travels * delay as usize;
        let departure = (label.departure as usize).max(if hops == 0 { 0 } else { waited });
        (self.arrival(departure, delay, hops), delay)
    }

    /// The first slot of a cluster that begins when a link slot does, or later.
    pub(super) fn cluster_slot(&self, at: usize) -> Slot {
        let picture = self.instance.picture;
        let time = picture.link_grid().start_of(self.base.plus(at as u64));
        picture.cluster_grid().first_from(time)
    }

    /// `R_i(w)`: the first start of the run at a cluster for data that are there at `arrival`, and the
    /// positions looked at.
    pub(super) fn run_start(
        &self,
        tables: &Tables,
        cluster: &Cluster,
        arrival: usize,
    ) -> Option<Slot> {
        let from = self.cluster_slot(arrival).0.saturating_sub(cluster.first.0).max(0);
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let starts = &tables.starts[cluster.words.0..cluster.words.1];
        let at = kernel::first_one(starts, from)?;
        Some(cluster.first.plus(at as u64))
    }

    pub(super) const fn cluster_grid(&self) -> SlotGrid {
        self.instance.picture.cluster_grid()
    }
}

impl Tables {
    /// Where the links out of a vertex stand, for [`Tables::out_at`].
    pub(super) fn out_range(&self, vertex: u32) -> std::ops::Range<usize> {
        self.out.range(vertex)
    }

    /// A link, by index in the picture.
    pub(super) fn out_at(&self, at: usize) -> u32 {
        self.out.items[at]
    }

    /// A link's delay in slots.
    pub(super) fn delay(&self, link: u32) -> u32 {
        self.delays[link as usize]
    }

    /// The vector of a link that was made.
    pub(super) fn link(&self, link: u32, words: usize) -> &[u64] {
        &self.links[link as usize * words..][..words]
    }

    /// Shortest delays between a vertex and all others, in slots, and the last link of each path
    /// there: away from the vertex, or towards it (then the first link). [`u32::MAX`] where there
    /// is no path. Of equally short paths that of fewer links, then that whose links come first in
    /// the picture.
    pub(super) fn shortest(
        &self,
        picture: &super::BelievedNetwork,
        vertex: u32,
        away: bool,
    ) -> Vec<Hop> {
        let none = Hop { delay: u32::MAX, hops: u32::MAX, link: u32::MAX };
        let mut best = vec![none; picture.vertices()];
        let mut queue = BinaryHeap::new();
        best[vertex as usize] = Hop { delay: 0, hops: 0, link: u32::MAX };
        queue.push(Reverse((0_u32, 0_u32, vertex)));
        let lists = if away { &self.out } else { &self.into };
        while let Some(Reverse((delay, hops, at))) = queue.pop() {
            let here = best[at as usize];
            if (delay, hops) != (here.delay, here.hops) {
                continue;
            }
            for &link in &lists.items[lists.range(at)] {
                let ends = &picture.links()[link as usize];
                let to = if away { ends.to } else { ends.from };
                let next =
                    Hop { delay: delay.saturating_add(self.delay(link)), hops: hops + 1, link };
                let known = &mut best[to.at()];
                if (next.delay, next.hops) < (known.delay, known.hops) {
                    *known = next;
                    queue.push(Reverse((next.delay, next.hops, to.0)));
                }
            }
        }
        best
    }
}

impl Tables {
    /// Shortest delays from every vertex to each one that has a cluster.
    pub(super) fn towards_clusters(
        &self,
        picture: &super::BelievedNetwork,
    ) -> Vec<(u32, Vec<Hop>)> {
        let mut vertices: Vec<u32> = self.clusters.iter().map(|cluster| cluster.vertex).collect();
        vertices.sort_unstable();
        vertices.dedup();
        let all = |vertex| (vertex, self.shortest(picture, vertex, false));
        vertices.into_iter().map(all).collect()
    }
}

/// One end of a shortest path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) delay: u32,
    hops: u32,
    pub(super) link: u32,
}

/// Lists of items by vertex, one after another.
#[derive(Debug, Default)]
struct Lists {
    heads: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Counting sort: items keep their order.
    fn fill(&mut self, vertices: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) {
        self.heads.clear();
        // One place ahead, so that the filling below leaves each head where it belongs.
        self.heads.resize(vertices + 2, 0);
        let mut count = 0;
        for (vertex, _) in pairs.clone() {
            self.heads[vertex as usize + 2] += 1;
            count += 1;
        }
        for at in 1..self.heads.len() {
            self.heads[at] += self.heads[at - 1];
        }
        self.items.clear();
        self.items.resize(count, 0);
        for (vertex, item) in pairs {
            let at = &mut self.heads[vertex as usize + 1];
            self.items[*at as usize] = item;
            *at += 1;
        }
    }

    fn range(&self, vertex: u32) -> std::ops::Range<usize> {
        let at = vertex as usize;
        self.heads[at] as usize..self.heads[at + 1] as usize
    }
}

/// Positions that vectors of links have from a slot on. At most what one vector may have, even
/// where some begin later than others: what comes after is not looked at.
pub(super) fn slots_from(picture: &super::BelievedNetwork, base: Slot) -> usize {
    let vectors = picture.links().iter().flat_map(|link| &link.free);
    let end = vectors.map(|vector| vector.end()).max().unwrap_or(base);
    (end.0 - base.0).clamp(0, limits::VECTOR_SLOTS_MAX as i64) as usize
}

fn usize_of(slots: u64) -> usize {
    usize::try_from(slots).unwrap_or(usize::MAX / 4)
}
