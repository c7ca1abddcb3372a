//! What is free of every link during one search: what was free before, with what the search has
//! placed and lifted.
//!
//! The ends of all windows that a search knows cut time into pieces. Every link on which something
//! was placed or lifted has a tree over those pieces. A tree has nodes only where a change begins
//! or ends, so reading, placing and undoing take time logarithmic in the number of windows. What no
//! change has touched is read from the [`FreeCapacity`] below.

use coalloc_common::{Time, Window};

use super::{Demand, FreeCapacity, signed};

/// What is free, including what this search has placed and lifted.
pub(super) struct Load<'a> {
    room: &'a dyn FreeCapacity,
    /// Where the windows of this search begin and end, ascending.
    cuts: Vec<Time>,
    /// One tree for each link.
    trees: Vec<Tree>,
    /// All changes in their order, so that the last ones can be undone.
    log: Vec<Change>,
}

/// A change of what is free of a link over a window: positive for lifted, negative for placed.
struct Change {
    link: u32,
    window: Window,
    by: i64,
}

/// A range of pieces, given by indices of cuts: half open, not empty.
#[derive(Clone, Copy)]
struct Range {
    from: usize,
    to: usize,
}

/// The changes of one link; empty while there are none. The first node covers all pieces.
#[derive(Default)]
struct Tree(Vec<Node>);

/// The changes within a range of pieces.
struct Node {
    /// What has changed over the whole range, not counting changes in its halves.
    change: i64,
    /// The least that is free in the range, with the changes of this node and its halves, without
    /// those of larger ranges.
    least: i64,
    /// Index of the node of the earlier half; that of the later half follows it. `None` while the
    /// halves are alike.
    halves: Option<usize>,
}

impl<'a> Load<'a> {
    /// The load of a search that places and lifts these demands.
    pub(super) fn new<'d>(
        room: &'a dyn FreeCapacity,
        links: usize,
        demands: impl Iterator<Item = &'d Demand>,
    ) -> Self {
        let ends = demands.flat_map(|demand| [demand.window.start(), demand.window.end()]);
        let mut cuts: Vec<Time> = ends.collect();
        cuts.sort_unstable();
        cuts.dedup();
        let trees = std::iter::repeat_with(Tree::default).take(links).collect();
        Self { room, cuts, trees, log: Vec::new() }
    }

    /// What is free of a link over the whole window. The window has to be one of a demand of this
    /// search.
    pub(super) fn free(&self, link: u32, window: Window) -> i64 {
        let tree = &self.trees[link as usize].0;
        if tree.is_empty() {
            return self.room.free(link, window);
        }
        self.least(link, Some(0), self.whole(), self.range(window))
    }

    pub(super) fn place(&mut self, way: &[u32], window: Window, amount: u64) {
        self.note(way, window, -signed(amount));
    }

    pub(super) fn lift(&mut self, way: &[u32], window: Window, amount: u64) {
        self.note(way, window, signed(amount));
    }

    fn note(&mut self, way: &[u32], window: Window, by: i64) {
        for &link in way {
            self.change(link, window, by);
            self.log.push(Change { link, window, by });
        }
    }

    /// The present state, for [`Load::undo`].
    pub(super) const fn mark(&self) -> usize {
        self.log.len()
    }

    /// Goes back to the state of a mark.
    pub(super) fn undo(&mut self, mark: usize) {
        for Change { link, window, by } in self.log.split_off(mark) {
            self.change(link, window, -by);
        }
    }

    fn whole(&self) -> Range {
        Range { from: 0, to: self.cuts.len() - 1 }
    }

    /// The pieces of a window. A window whose ends are no cuts would be rounded up to whole pieces.
    fn range(&self, window: Window) -> Range {
        let from = self.cuts.partition_point(|cut| *cut <= window.start()).saturating_sub(1);
        let to = self.cuts.partition_point(|cut| *cut < window.end()).min(self.cuts.len() - 1);
        Range { from, to }
    }

    /// The least that is free in the part `within` of a node's range, with the changes of the node
    /// and its halves.
    fn least(&self, link: u32, node: Option<usize>, range: Range, within: Range) -> i64 {
        let Some(within) = range.both(within) else { return i64::MAX };
        let Some(node) = node.map(|node| &self.trees[link as usize].0[node]) else {
            return self.untouched(link, within);
        };
        if within.covers(range) {
            return node.least;
        }
        let [earlier, later] = range.halves();
        let below = match node.halves {
            None => self.untouched(link, within),
            Some(half) => {
                let earlier = self.least(link, Some(half), earlier, within);
                earlier.min(self.least(link, Some(half + 1), later, within))
            }
        };
        below + node.change
    }

    /// What was free before any change.
    fn untouched(&self, link: u32, range: Range) -> i64 {
        let window = Window::new(self.cuts[range.from], self.cuts[range.to]);
        window.map_or(i64::MAX, |window| self.room.free(link, window))
    }

    fn change(&mut self, link: u32, window: Window, by: i64) {
        let (whole, within) = (self.whole(), self.range(window));
        if self.trees[link as usize].0.is_empty() {
            let least = self.untouched(link, whole);
            self.trees[link as usize].0.push(Node { change: 0, least, halves: None });
        }
        self.change_node(link, 0, whole, within, by);
    }

    fn change_node(&mut self, link: u32, node: usize, range: Range, within: Range, by: i64) {
        let Some(within) = range.both(within) else { return };
        if within.covers(range) {
            let node = &mut self.trees[link as usize].0[node];
            node.change += by;
            node.least += by;
            return;
        }
        let [earlier, later] = range.halves();
        let half = match self.trees[link as usize].0[node].halves {
            Some(half) => half,
            None => {
                let least = [earlier, later].map(|half| self.untouched(link, half));
                let tree = &mut self.trees[link as usize].0;
                tree.extend(least.map(|least| Node { change: 0, least, halves: None }));
                let half = tree.len() - 2;
                tree[node].halves = Some(half);
                half
            }
        };
        self.change_node(link, half, earlier, within, by);
        self.change_node(link, half + 1, later, within, by);
        let tree = &mut self.trees[link as usize].0;
        tree[node].least = tree[half].least.min(tree[half + 1].least) + tree[node].change;
    }
}

impl Range {
    fn both(self, other: Self) -> Option<Self> {
        let range = Self { from: self.from.max(other.from), to: self.to.min(other.to) };
        (range.from < range.to).then_some(range)
    }

    const fn covers(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }

    /// The two halves of a range of more than one piece.
    const fn halves(self) -> [Self; 2] {
        let middle = usize::midpoint(self.from, self.to);
        [Self { from: self.from, to: middle }, Self { from: middle, to: self.to }]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const END: usize = 40;

    fn window(from: usize, to: usize) -> Window {
        let at = |at: usize| Time::from_us(i64::try_from(at).unwrap());
        Window::new(at(from), at(to)).unwrap()
    }

    /// What is free of link 0 at each microsecond; link 1 has one more.
    struct Naive(Vec<i64>);

    impl FreeCapacity for Naive {
        fn free(&self, link: u32, window: Window) -> i64 {
            let at = |at: Time| usize::try_from(at.as_us()).unwrap();
            let range = at(window.start())..at(window.end());
            self.0[range].iter().min().unwrap() + i64::from(link)
        }
    }

    fn windows() -> impl Strategy<Value = Vec<(usize, usize)>> {
        let window = (0..END - 1).prop_flat_map(|from| (Just(from), from + 1..END));
        prop::collection::vec(window, 1..12)
    }

    proptest! {
        #[test]
        fn is_what_a_plain_list_says(
            room in prop::collection::vec(-5_i64..20, END),
            known in windows(),
            steps in prop::collection::vec((0..4_u8, 0..64_usize, 0..2_u32, 0..9_u64), 0..40),
        ) {
            let demand = |(from, to): &(usize, usize)| Demand {
                path: 0, amount: 0, window: window(*from, *to), only: None,
            };
            let demands: Vec<Demand> = known.iter().map(demand).collect();
            let room = Naive(room);
            let mut load = Load::new(&room, 2, demands.iter());
            let mut naive = [room.0.clone(), room.0.iter().map(|free| free + 1).collect()];
            let mut marks = Vec::new();
            for (what, which, link, amount) in steps {
                let (from, to) = known[which % known.len()];
                let by = i64::try_from(amount).unwrap();
                match what {
                    0 => {
                        load.place(&[link], window(from, to), amount);
                        naive[link as usize][from..to].iter_mut().for_each(|free| *free -= by);
                    }
                    1 => {
                        load.lift(&[link], window(from, to), amount);
                        naive[link as usize][from..to].iter_mut().for_each(|free| *free += by);
                    }
                    2 => marks.push((load.mark(), naive.clone())),
                    _ => if let Some((mark, before)) = marks.pop() {
                        load.undo(mark);
                        naive = before;
                    },
                }
                for (link, naive) in (0..).zip(&naive) {
                    for &(from, to) in &known {
                        let least = *naive[from..to].iter().min().unwrap();
                        prop_assert_eq!(load.free(link, window(from, to)), least);
                    }
                }
            }
        }
    }
}
