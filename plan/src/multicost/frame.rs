//! One task on one picture, counted in slots. Every multi-cost planner begins with this.
//!
//! A search counts link slots from the first one at which the task is ready, as the papers count
//! from "now". The vectors of links are shifted to that slot, and reduced to the slots in which
//! something as long as the task's data can start. The vectors of clusters are treated likewise on
//! their own grid. Each vector is made when it is first needed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coalloc_common::vector::kernel;
use coalloc_common::{Slot, SlotGrid, limits};

use super::TaskInstance;
use super::search::Label;

/// The meaning of the bits of a path's vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entries {
    /// As printed: the slot is free on the whole path.
    Slots,
    /// The task's data can begin to leave in this slot: from it on, as many slots are free as the
    /// data take. The first bit that is set is `R(b)`. Two paths do not differ by free time that is
    /// too short for this task.
    Starts,
}

/// One task on one picture, in numbers of slots.
pub(super) struct Frame<'a> {
    pub(super) instance: TaskInstance<'a>,
    pub(super) entries: Entries,
    /// The slot at position 0 of all vectors of links.
    pub(super) base: Slot,
    /// The number of positions of these vectors: the papers' dimension.
    pub(super) slots: usize,
    pub(super) words: usize,
    /// `b`: how many link slots the data take.
    pub(super) data: usize,
    /// The first position at which data may leave.
    pub(super) lead: usize,
    /// How often a message crosses the path before data may leave.
    pub(super) travels: usize,
    guard: usize,
}

/// Vectors and lists that a frame fills. Their memory is kept from task to task.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// The vectors of the directed links, `words` words each; valid where `made` is set.
    links: Vec<u64>,
    made: Vec<bool>,
    /// All ones: shifting a vector is an AND with this one.
    full: Vec<u64>,
    moved: Vec<u64>,
    /// Delays of links in slots.
    delays: Vec<u32>,
    out: Lists,
    into: Lists,
    /// The clusters that the task may use.
    pub(super) clusters: Vec<Cluster>,
    starts: Vec<u64>,
}

/// One cluster that the task may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cluster {
    /// Index in the picture.
    pub(super) index: usize,
    pub(super) vertex: u32,
    /// `w`: how many cluster slots the run takes.
    pub(super) run: u64,
    first: Slot,
    slots: usize,
    /// Begin and end of its words in the table of starts.
    words: (usize, usize),
}

impl Cluster {
    /// The number of slots of its vector.
    pub(super) const fn len(&self) -> usize {
        self.slots
    }

    /// How many of these slots are before a slot.
    pub(super) fn before(&self, slot: Slot) -> usize {
        usize::try_from(slot.0.saturating_sub(self.first.0)).unwrap_or(0).min(self.slots)
    }

    /// The first slot after the vector: from it on nothing is known.
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
        // A link with less capacity than the task's rate is left out.
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

    /// Invalidates the vectors of links, because those of another wavelength follow.
    pub(super) fn begin_wavelength(&self, tables: &mut Tables) {
        let links = self.instance.picture.links().len();
        tables.made.clear();
        tables.made.resize(links, false);
        tables.links.resize(links * self.words, 0);
    }

    /// Makes the vector of a link, if it is not made yet.
    pub(super) fn make(&self, tables: &mut Tables, link: u32, wavelength: usize) {
        let at = link as usize;
        if std::mem::replace(&mut tables.made[at], true) {
            return;
        }
        let into = &mut tables.links[at * self.words..][..self.words];
        let Some(vector) = self.instance.picture.links()[at].free.get(wavelength) else {
            return into.fill(0); // Unreachable: all links have as many.
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
            // Something that can start `guard` slots earlier is free here and in those slots
            // before.
            tables.moved.copy_from_slice(into);
            let shift = -i64::try_from(guard).unwrap_or(i64::MAX);
            kernel::and_shifted(into, &tables.full, &tables.moved, shift);
            kernel::clear_from(into, self.slots);
        }
    }

    /// One more than the last position at which data may leave on a path with this delay, so that
    /// they arrive while the vectors of links last. With slots as entries: one more than the last
    /// position that may be used at all.
    pub(super) fn last_entry(&self, delay: u32) -> usize {
        let delay = delay as usize;
        match self.entries {
            Entries::Slots => self.slots.saturating_sub(delay),
            Entries::Starts => (self.slots + 1).saturating_sub(delay.saturating_add(self.data)),
        }
    }

    /// `R_p(b)` for a path's vector and delay: when its data leave.
    pub(super) fn departure(&self, vector: &[u64], delay: u32) -> Option<usize> {
        let from = self.lead + self.travels * delay as usize;
        match self.entries {
            Entries::Slots => kernel::first_run(vector, from, self.data),
            Entries::Starts => kernel::first_one(vector, from),
        }
    }

    /// `EST`: when the last data arrive, in slots from the base. Data that need no path arrive at
    /// once.
    pub(super) const fn arrival(&self, departure: usize, delay: u32, hops: u32) -> usize {
        if hops == 0 { departure } else { departure.saturating_add(self.data + delay as usize) }
    }

    /// The earliest arrival at a vertex, and the delay, of a path that continues this one with
    /// `onwards` slots of delay, if every further link is free.
    pub(super) fn soonest(&self, label: &Label, vertex: u32, onwards: u32) -> (usize, u32) {
        let delay = label.delay.saturating_add(onwards);
        let hops = label.hops + u32::from(vertex != label.vertex);
        let waited = self.lead + self.travels * delay as usize;
        let departure = (label.departure as usize).max(if hops == 0 { 0 } else { waited });
        (self.arrival(departure, delay, hops), delay)
    }

    /// The first slot of a cluster that begins at the start of this link slot or later.
    pub(super) fn cluster_slot(&self, at: usize) -> Slot {
        let picture = self.instance.picture;
        let time = picture.link_grid().start_of(self.base.plus(at as u64));
        picture.cluster_grid().first_from(time)
    }

    /// `R_i(w)`: the first start of the run at a cluster for data that arrive at `arrival`.
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
    /// The positions of the links out of a vertex, for [`Tables::out_at`].
    pub(super) fn out_range(&self, vertex: u32) -> std::ops::Range<usize> {
        self.out.range(vertex)
    }

    /// The link at such a position, as an index in the picture.
    pub(super) fn out_at(&self, at: usize) -> u32 {
        self.out.items[at]
    }

    /// A link's delay in slots.
    pub(super) fn delay(&self, link: u32) -> u32 {
        self.delays[link as usize]
    }

    /// The vector of a link that has been made.
    pub(super) fn link(&self, link: u32, words: usize) -> &[u64] {
        &self.links[link as usize * words..][..words]
    }

    /// The shortest delays in slots between a vertex and all others, with the last link of each
    /// path: away from the vertex, or towards it (then the first link). The delay is [`u32::MAX`]
    /// where there is no path. Of equally short paths, the one with fewer links is taken, then the
    /// one whose links come first in the picture.
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
    /// The shortest delays from every vertex to each vertex that has a cluster.
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

/// A shortest path, by its delay in slots, its number of links, and its link at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) delay: u32,
    hops: u32,
    pub(super) link: u32,
}

/// Lists of items by vertex, stored one after the other.
#[derive(Debug, Default)]
struct Lists {
    heads: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Counting sort, so items keep their order.
    fn fill(&mut self, vertices: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) {
        self.heads.clear();
        // Each head is one place ahead, so that filling the lists below moves it to its right
        // place.
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

/// How many positions the vectors of links have from a slot on. At most as many as one vector may
/// have, even if some vectors begin later than others; slots after that are not used.
pub(super) fn slots_from(picture: &super::BelievedNetwork, base: Slot) -> usize {
    let vectors = picture.links().iter().flat_map(|link| &link.free);
    let end = vectors.map(|vector| vector.end()).max().unwrap_or(base);
    (end.0 - base.0).clamp(0, limits::VECTOR_SLOTS_MAX as i64) as usize
}

fn usize_of(slots: u64) -> usize {
    usize::try_from(slots).unwrap_or(usize::MAX / 4)
}
