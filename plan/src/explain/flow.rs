//! A maximum flow by shortest augmenting paths, and its minimum cut.

/// One arc of the network. An arc and its opposite have neighbouring indices.
#[derive(Debug, Clone, Copy)]
struct Arc {
    to: usize,
    left: u64,
}

/// A flow network. Nodes are numbered from 0.
#[derive(Debug, Clone)]
pub(super) struct Network {
    arcs: Vec<Arc>,
    out: Vec<Vec<usize>>,
}

impl Network {
    pub(super) fn new(nodes: usize) -> Self {
        Self { arcs: Vec::new(), out: vec![Vec::new(); nodes] }
    }

    /// Joins two nodes with capacity `there` in this direction and `back` in the other.
    pub(super) fn join(&mut self, from: usize, to: usize, there: u64, back: u64) {
        self.out[from].push(self.arcs.len());
        self.arcs.push(Arc { to, left: there });
        self.out[to].push(self.arcs.len());
        self.arcs.push(Arc { to: from, left: back });
    }

    /// The value of a maximum flow, up to `enough`; `None` when `pay` says that the limit of work
    /// has been reached.
    pub(super) fn maximum(
        &mut self,
        from: usize,
        to: usize,
        enough: u64,
        pay: &dyn Fn(usize) -> bool,
    ) -> Option<u64> {
        let mut value = 0u64;
        while value < enough {
            if !pay(self.arcs.len()) {
                return None;
            }
            let by = self.reached(from);
            if by[to] == Some(usize::MAX) || by[to].is_none() {
                break;
            }
            let way = self.way(&by, from, to);
            let most = way.iter().map(|arc| self.arcs[*arc].left).min().unwrap_or(0);
            let most = most.min(enough - value);
            for arc in way {
                self.arcs[arc].left -= most;
                self.arcs[arc ^ 1].left = self.arcs[arc ^ 1].left.saturating_add(most);
            }
            value += most;
        }
        Some(value)
    }

    /// Whether each node can still be reached in the residual network: one side of a minimum cut.
    pub(super) fn side(&self, from: usize) -> Vec<bool> {
        self.reached(from).iter().map(Option::is_some).collect()
    }

    /// For each node, the arc by which it is reached first; `usize::MAX`, which is no arc, for the
    /// start.
    fn reached(&self, from: usize) -> Vec<Option<usize>> {
        let mut by = vec![None; self.out.len()];
        by[from] = Some(usize::MAX);
        let mut queue = std::collections::VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for arc in &self.out[node] {
                let Arc { to, left } = self.arcs[*arc];
                if left > 0 && by[to].is_none() {
                    by[to] = Some(*arc);
                    queue.push_back(to);
                }
            }
        }
        by
    }

    fn way(&self, by: &[Option<usize>], from: usize, to: usize) -> Vec<usize> {
        let (mut way, mut node) = (Vec::new(), to);
        while node != from
            && let Some(arc) = by[node]
        {
            way.push(arc);
            node = self.arcs[arc ^ 1].to;
        }
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_takes_back_what_it_sent_the_wrong_way() {
        // The shortest path is 0-1-2-3; the maximum also needs 0-1-3 and 0-2-3.
        let mut network = Network::new(4);
        for (from, to, room) in [(0, 1, 2), (0, 2, 1), (1, 2, 1), (1, 3, 1), (2, 3, 2)] {
            network.join(from, to, room, 0);
        }
        assert_eq!(network.clone().maximum(0, 3, 10, &|_| true), Some(3));
        assert_eq!(network.clone().maximum(0, 3, 2, &|_| true), Some(2), "no more than enough");
        assert_eq!(network.maximum(0, 3, 10, &|_| false), None);
    }

    #[test]
    fn the_side_of_a_cut_is_what_can_still_be_reached() {
        let mut network = Network::new(3);
        network.join(0, 1, 5, 5);
        network.join(1, 2, 2, 2);
        assert_eq!(network.maximum(0, 2, 9, &|_| true), Some(2));
        assert_eq!(network.side(0), [true, true, false]);
    }
}
