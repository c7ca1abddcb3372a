//! The multi-cost search: all paths from the source that no other path dominates.
//!
//! It is Dijkstra's algorithm with vectors of costs (Christodoulopoulos 2008, section 5.1; Stevens
//! 2009, section 4.4, phase 1). Paths are extended in the order of their delays, and a path that is
//! dominated by another path to the same vertex is dropped. [`Dominance`] says what "dominates"
//! means.
//!
//! All paths are in one arena: each has a [`Label`], and its vector in a table of words. Memory is
//! allocated only to grow the arena, and the next task reuses it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coalloc_common::limits;
use coalloc_common::vector::kernel;

use super::Effort;
use super::frame::{Entries, Frame, Tables};
use crate::Budget;

/// When one path to a vertex makes another path unnecessary. Of paths that are equal in everything,
/// the one found first is kept, so that exactly one stays. The papers' relations are printed as
/// strict in the delay and would keep all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dominance {
    /// Eq. (3) as printed, except for ties: no later, and free in every slot of *departure* in
    /// which the other path is free. When the delays differ, this does not justify dropping the
    /// other path: data that leave in the same slot reach the following links in different slots
    /// (`docs/adr/0013-multi-cost.md`).
    Printed,
    /// Eq. (3) by *arrival*: no later, and for every departure on the other path there is one on
    /// this path that arrives in the same slot. With equal delays it is Eq. (3).
    Arrival,
    /// Eq. (6): no later, and at least as many free slots, whichever they are.
    Weight,
    /// [`Dominance::Arrival`], and through no vertex that the other path does not pass. Only then
    /// can this path be continued wherever the other one can, without passing a vertex twice.
    Whole,
}

/// One path from the source.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label {
    pub(super) vertex: u32,
    /// The label of the path without its last link.
    parent: u32,
    /// The last link.
    link: u32,
    pub(super) hops: u32,
    /// The delay of the path, in slots.
    pub(super) delay: u32,
    /// `R_p(b)`: the earliest departure, as a position.
    pub(super) departure: u32,
    weight: u32,
    /// Whether no path dominates it so far.
    alive: bool,
}

impl Label {
    /// A label for a path that does not come from a search.
    pub(super) const fn of_path(vertex: u32, delay: u32, hops: u32, departure: usize) -> Self {
        let (parent, link, departure, weight, alive) = (0, 0, departure as u32, 0, true);
        Self { vertex, parent, link, hops, delay, departure, weight, alive }
    }
}

/// The memory of the search, reused from task to task.
#[derive(Debug, Default)]
pub(super) struct Arena {
    pub(super) labels: Vec<Label>,
    vectors: Vec<u64>,
    /// The vertices that each label's path passes; only for [`Dominance::Whole`].
    visited: Vec<u64>,
    /// The labels at each vertex.
    at: Vec<Vec<u32>>,
    queue: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

/// Is called for each path that is kept, and may bound the paths to come.
pub(super) trait Guide {
    /// A lower bound of the value of the best plan over this path or a continuation of it. The
    /// search takes the lowest number first. `None` when the path is of no use. Called once for
    /// each path.
    fn bound(&mut self, frame: &Frame<'_>, tables: &Tables, label: &Label) -> Option<u64>;
    /// Whether a path with this bound is still of use.
    fn still(&self, bound: u64) -> bool;
    /// Called when a path is kept; `index` is that of its label.
    fn kept(&mut self, frame: &Frame<'_>, tables: &Tables, arena: &Arena, index: u32);
}

/// Takes every path in the order of delays: phase 1 as printed.
pub(super) struct DelayOrderedSearch;

impl Guide for DelayOrderedSearch {
    fn bound(&mut self, _: &Frame<'_>, _: &Tables, label: &Label) -> Option<u64> {
        Some(u64::from(label.delay))
    }
    fn still(&self, _: u64) -> bool {
        true
    }
    fn kept(&mut self, _: &Frame<'_>, _: &Tables, _: &Arena, _: u32) {}
}

/// Whether the search was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    /// The budget ended, or the arena is full.
    Cut,
}

impl End {
    /// Complete when both are complete.
    pub(super) fn and(self, other: Self) -> Self {
        if self == Self::Complete { other } else { self }
    }
}

impl Arena {
    /// The labels that no other dominates, with their indices, in the order in which they were
    /// found.
    pub(super) fn alive(&self) -> impl Iterator<Item = (u32, &Label)> {
        (0..).zip(&self.labels).filter(|(_, label)| label.alive)
    }

    /// The links of a path, from the source on.
    pub(super) fn links(&self, index: u32) -> Vec<u32> {
        let mut links = Vec::new();
        let mut at = self.labels[index as usize];
        while at.hops > 0 {
            links.push(at.link);
            at = self.labels[at.parent as usize];
        }
        links.reverse();
        links
    }

    fn passes(&self, index: u32, vertex: u32) -> bool {
        let mut at = self.labels[index as usize];
        loop {
            if at.vertex == vertex {
                return true;
            }
            if at.hops == 0 {
                return false;
            }
            at = self.labels[at.parent as usize];
        }
    }
}

/// One search on one wavelength.
pub(super) struct Search<'a, 'f, G> {
    pub(super) frame: &'a Frame<'f>,
    pub(super) tables: &'a mut Tables,
    pub(super) arena: &'a mut Arena,
    pub(super) effort: &'a mut Effort,
    pub(super) dominance: Dominance,
    pub(super) wavelength: usize,
    pub(super) guide: G,
}

impl<G: Guide> Search<'_, '_, G> {
    /// Finds all paths from the source that are not dominated.
    pub(super) fn run(&mut self, budget: &Budget<'_>) -> End {
        let vertices = self.frame.instance.picture.vertices();
        let words = self.frame.words;
        let visited = match self.dominance {
            Dominance::Whole => kernel::words_for(vertices),
            Dominance::Printed | Dominance::Arrival | Dominance::Weight => 0,
        };
        let room = limits::SEARCH_WORDS_MAX / (words + visited).max(1);
        let most = limits::SEARCH_PATHS_MAX
            .min(room)
            .min(usize::try_from(budget.nodes).unwrap_or(usize::MAX));
        self.clear(vertices);
        if !self.root(words) {
            return End::Complete;
        }
        while let Some(Reverse((bound, _, index))) = self.arena.queue.pop() {
            if !self.guide.still(bound) {
                return End::Complete;
            }
            let label = self.arena.labels[index as usize];
            if !label.alive {
                continue;
            }
            if budget.stopped() {
                return End::Cut;
            }
            for at in self.tables.out_range(label.vertex) {
                let link = self.tables.out_at(at);
                if self.arena.labels.len() >= most {
                    return End::Cut;
                }
                self.extend(index, link);
            }
        }
        End::Complete
    }

    fn clear(&mut self, vertices: usize) {
        let arena = &mut *self.arena;
        arena.labels.clear();
        arena.queue.clear();
        arena.at.iter_mut().for_each(Vec::clear);
        arena.at.resize_with(vertices, Vec::new);
    }

    /// Adds the path without links. False when no plan can come from it.
    fn root(&mut self, words: usize) -> bool {
        let (frame, vertex) = (self.frame, self.frame.instance.task.source.0);
        let vector = room(&mut self.arena.vectors, 0, words);
        vector.fill(0);
        kernel::set(vector, frame.lead, frame.last_entry(0));
        let weight = kernel::weight(vector) as u32;
        // Data that need no path need no slot of a link.
        let departure = frame.lead as u32;
        let (parent, link, hops, delay, alive) = (0, 0, 0, 0, true);
        let label = Label { vertex, parent, link, hops, delay, departure, weight, alive };
        if self.dominance == Dominance::Whole {
            let stride = kernel::words_for(frame.instance.picture.vertices());
            let visited = room(&mut self.arena.visited, 0, stride);
            visited.fill(0);
            kernel::set(visited, vertex as usize, vertex as usize + 1);
        }
        let Some(bound) = self.guide.bound(frame, self.tables, &label) else { return false };
        self.keep(label, bound);
        true
    }

    fn keep(&mut self, label: Label, bound: u64) {
        let index = self.arena.labels.len() as u32;
        self.arena.labels.push(label);
        self.arena.at[label.vertex as usize].push(index);
        self.arena.queue.push(Reverse((bound, label.delay, index)));
        self.guide.kept(self.frame, self.tables, self.arena, index);
    }

    /// Extends the path of a label by a link, and keeps the new path if it is of use and not
    /// dominated.
    fn extend(&mut self, parent: u32, link: u32) {
        let (frame, words) = (self.frame, self.frame.words);
        let to = frame.instance.picture.links()[link as usize].to.0;
        let before = self.arena.labels[parent as usize];
        let delay = before.delay.saturating_add(self.tables.delay(link));
        if frame.last_entry(delay) == 0 || self.arena.passes(parent, to) {
            return;
        }
        self.effort.tried += 1;
        frame.make(self.tables, link, self.wavelength);
        let next = self.arena.labels.len();
        room(&mut self.arena.vectors, next, words);
        let (known, new) = self.arena.vectors.split_at_mut(next * words);
        let (vector, old) = (&mut new[..words], &known[parent as usize * words..][..words]);
        kernel::and_shifted(vector, old, self.tables.link(link, words), i64::from(before.delay));
        kernel::clear_from(vector, frame.last_entry(delay));
        // One addition for the delay and one AND for each entry, then comparisons until the
        // departure.
        self.effort.operations += 1 + frame.slots as u64;
        let Some(departure) = frame.departure(vector, delay) else {
            self.effort.operations += frame.slots as u64;
            return;
        };
        self.effort.operations += (departure + frame.data) as u64;
        // As printed, Eq. (3) compares vectors and does not count bits.
        let weight = match self.dominance {
            Dominance::Printed => 0,
            Dominance::Arrival | Dominance::Weight | Dominance::Whole => {
                self.effort.operations += frame.slots as u64;
                kernel::weight(vector) as u32
            }
        };
        let (vertex, hops, alive) = (to, before.hops + 1, true);
        let departure = departure as u32;
        let label = Label { vertex, parent, link, hops, delay, departure, weight, alive };
        if self.dominance == Dominance::Whole {
            self.visit(parent, to, next);
        }
        let Some(bound) = self.guide.bound(frame, self.tables, &label) else { return };
        if self.guide.still(bound) && self.stands(&label, next) {
            self.keep(label, bound);
        }
    }

    /// Stores the vertices that the path of the next label passes.
    fn visit(&mut self, parent: u32, vertex: u32, next: usize) {
        let stride = kernel::words_for(self.frame.instance.picture.vertices());
        room(&mut self.arena.visited, next, stride);
        let (known, new) = self.arena.visited.split_at_mut(next * stride);
        new[..stride].copy_from_slice(&known[parent as usize * stride..][..stride]);
        kernel::set(&mut new[..stride], vertex as usize, vertex as usize + 1);
    }

    /// Whether no path to the same vertex dominates the new label, whose vector has the index
    /// `next`. If so, the paths that the new one dominates are dropped.
    fn stands(&mut self, label: &Label, next: usize) -> bool {
        let vertex = label.vertex as usize;
        let mut at = std::mem::take(&mut self.arena.at[vertex]);
        let dominated = at.iter().any(|other| {
            let known = self.arena.labels[*other as usize];
            self.dominates((&known, *other as usize), (label, next))
        });
        if !dominated {
            at.retain(|other| {
                let known = self.arena.labels[*other as usize];
                let dropped = self.dominates((label, next), (&known, *other as usize));
                self.arena.labels[*other as usize].alive = !dropped;
                !dropped
            });
        }
        self.arena.at[vertex] = at;
        !dominated
    }

    /// Whether path `a` dominates path `b`, or equals it.
    fn dominates(&mut self, a: (&Label, usize), b: (&Label, usize)) -> bool {
        let ((a, a_at), (b, b_at)) = (a, b);
        self.effort.operations += 1;
        if a.delay > b.delay {
            return false;
        }
        if self.dominance == Dominance::Weight {
            self.effort.operations += 1;
            return a.weight >= b.weight;
        }
        // A vector that covers another one, shifted or not, has at least as many bits. Where the
        // bits were counted, that decides at once.
        self.effort.operations += u64::from(self.dominance != Dominance::Printed);
        if a.weight < b.weight {
            return false;
        }
        if self.dominance == Dominance::Whole {
            let stride = kernel::words_for(self.frame.instance.picture.vertices());
            let visited = |at: usize| &self.arena.visited[at * stride..][..stride];
            if kernel::first_uncovered(visited(b_at), visited(a_at), 0).is_some() {
                return false;
            }
        }
        let shift = match self.dominance {
            Dominance::Printed | Dominance::Weight => 0,
            Dominance::Arrival | Dominance::Whole => i64::from(b.delay - a.delay),
        };
        let words = self.frame.words;
        let vector = |at: usize| &self.arena.vectors[at * words..][..words];
        let uncovered = kernel::first_uncovered(vector(a_at), vector(b_at), shift);
        self.effort.operations += uncovered.map_or(self.frame.slots, |at| at + 1) as u64;
        uncovered.is_none()
    }
}

/// The words of one entry of a table, which grows if necessary.
fn room(table: &mut Vec<u64>, index: usize, words: usize) -> &mut [u64] {
    let end = (index + 1) * words;
    if table.len() < end {
        table.resize(end, 0);
    }
    &mut table[index * words..end]
}

/// The kind of entries that a dominance uses by default.
pub(super) const fn usual_entries(dominance: Dominance) -> Entries {
    match dominance {
        Dominance::Printed | Dominance::Weight => Entries::Slots,
        Dominance::Arrival | Dominance::Whole => Entries::Starts,
    }
}
