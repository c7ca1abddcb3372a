//! The cheapest assignment of the sites still to be placed, each to a vertex of its own (Eq. 4 and
//! 5).
//!
//! It is a lower bound, because the score of a site at a vertex counts the routes to placed sites
//! one by one. When the cheapest vertices of all sites differ, the sum of their scores is the
//! answer. Only when sites compete for a vertex is it an assignment problem, which is solved by
//! shortest augmenting paths (the Hungarian method).

/// Scratch memory for assignments to a fixed number of vertices.
pub(super) struct Assignment {
    claimed: Vec<bool>,
    row_price: Vec<i128>,
    column_price: Vec<i128>,
    holder: Vec<usize>,
    previous: Vec<usize>,
    slack: Vec<i128>,
    seen: Vec<bool>,
}

/// A score larger than any sum of real scores (those stay below 2^63, see `limits`).
const NEVER: i128 = 1 << 80;

impl Assignment {
    pub(super) fn new(vertices: usize) -> Self {
        Self {
            claimed: vec![false; vertices],
            row_price: Vec::new(),
            column_price: Vec::new(),
            holder: Vec::new(),
            previous: Vec::new(),
            slack: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// The least sum of scores over `rows` sites; `None` when they cannot all be placed.
    /// `scores(row)` yields the open (vertex, score) pairs of a site. `least` gets the cheapest
    /// score of each site.
    pub(super) fn least<I: Iterator<Item = (u32, u64)>>(
        &mut self,
        rows: usize,
        scores: impl Fn(usize) -> I,
        least: &mut Vec<u64>,
    ) -> Option<u64> {
        least.clear();
        self.claimed.fill(false);
        let mut rivals = false;
        let mut sum = 0;
        for row in 0..rows {
            let mut best = u64::MAX;
            let mut own = None;
            for (vertex, score) in scores(row) {
                let open = !self.claimed[vertex as usize];
                if score < best {
                    best = score;
                    own = open.then_some(vertex);
                } else if score == best && own.is_none() && open {
                    own = Some(vertex);
                }
            }
            if best == u64::MAX {
                return None;
            }
            match own {
                Some(vertex) => self.claimed[vertex as usize] = true,
                None => rivals = true,
            }
            least.push(best);
            sum += best;
        }
        if !rivals {
            return Some(sum);
        }
        self.hungarian(rows, scores)
    }

    /// Solves the assignment problem. Rows and columns are counted from 1; column 0 stands for the
    /// row being added.
    fn hungarian<I: Iterator<Item = (u32, u64)>>(
        &mut self,
        rows: usize,
        scores: impl Fn(usize) -> I,
    ) -> Option<u64> {
        let columns = self.claimed.len();
        self.row_price.clear();
        self.row_price.resize(rows + 1, 0);
        self.column_price.clear();
        self.column_price.resize(columns + 1, 0);
        self.holder.clear();
        self.holder.resize(columns + 1, 0);
        self.previous.clear();
        self.previous.resize(columns + 1, 0);
        for row in 1..=rows {
            self.holder[0] = row;
            if !self.augment(columns, &scores) {
                return None;
            }
        }
        let mut sum = 0;
        for column in 1..=columns {
            let row = self.holder[column];
            if row > 0 {
                // The pair was reached through an open score, so that score is found again.
                let score = scores(row - 1).find(|(vertex, _)| *vertex as usize + 1 == column);
                sum += score.map_or(0, |(_, score)| score);
            }
        }
        Some(sum)
    }

    fn augment<I: Iterator<Item = (u32, u64)>>(
        &mut self,
        columns: usize,
        scores: &impl Fn(usize) -> I,
    ) -> bool {
        self.slack.clear();
        self.slack.resize(columns + 1, NEVER);
        self.seen.clear();
        self.seen.resize(columns + 1, false);
        let mut at = 0;
        loop {
            self.seen[at] = true;
            let row = self.holder[at];
            for (vertex, score) in scores(row - 1) {
                let column = vertex as usize + 1;
                let reduced = i128::from(score) - self.row_price[row] - self.column_price[column];
                if !self.seen[column] && reduced < self.slack[column] {
                    self.slack[column] = reduced;
                    self.previous[column] = at;
                }
            }
            let (mut step, mut next) = (NEVER, 0);
            for column in 1..=columns {
                if !self.seen[column] && self.slack[column] < step {
                    step = self.slack[column];
                    next = column;
                }
            }
            if next == 0 {
                return false;
            }
            for column in 0..=columns {
                if self.seen[column] {
                    self.row_price[self.holder[column]] += step;
                    self.column_price[column] -= step;
                } else if self.slack[column] < NEVER {
                    self.slack[column] -= step;
                }
            }
            at = next;
            if self.holder[at] == 0 {
                break;
            }
        }
        while at != 0 {
            let before = self.previous[at];
            self.holder[at] = self.holder[before];
            at = before;
        }
        true
    }
}
