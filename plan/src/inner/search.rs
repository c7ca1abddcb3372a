//! Routes several demands at once: first in their order, then the largest first, then with
//! backtracking.

use coalloc_common::limits;

use super::load::Load;
use super::{Demand, LinkRoute, Router, Short, signed};
use crate::ip::exact::kernel::Kernel;

/// The cost of one link. The loads of a whole route cost less than this, so routes with the fewest
/// links win.
const LINK: u64 = 1 << 17;
/// The cost of a full link's load. Even [`limits::INNER_ROUTE_LINKS_MAX`] of them cost less than
/// one link.
const FULL: u64 = 1 << 10;
const _: () = assert!(FULL * (limits::INNER_ROUTE_LINKS_MAX as u64) < LINK);

impl Router {
    /// Places every demand, or none of them.
    pub(super) fn search(
        &self,
        demands: &[Demand],
        load: &mut Load<'_>,
    ) -> Result<Vec<LinkRoute>, Short> {
        let mark = load.mark();
        let mut kernel = self.kernel();
        let asked: Vec<usize> = (0..demands.len()).collect();
        let short = match self.in_order(demands, &asked, load, &mut kernel) {
            Ok(ways) => return Ok(ways),
            Err(at) => {
                // What fits beside the demands before it, which are still placed.
                let free = self.free_for(&demands[at], load);
                let fits = match &demands[at].only {
                    Some(way) => narrowest(way, &free).min(demands[at].amount),
                    None => self.widest(demands[at].path, &free, demands[at].amount),
                };
                load.undo(mark);
                Short { demand: at, fits }
            }
        };
        if demands.len() == 1 {
            return Err(short);
        }
        let mut largest = asked;
        largest.sort_by_key(|at| (std::cmp::Reverse(demands[*at].amount), *at));
        if let Ok(ways) = self.in_order(demands, &largest, load, &mut kernel) {
            return Ok(ways);
        }
        load.undo(mark);
        if demands.len() <= limits::INNER_SEARCH_DEMANDS {
            let mut ways = vec![LinkRoute::new(); demands.len()];
            let mut nodes = limits::INNER_SEARCH_NODES;
            if self.backtrack(demands, &largest, load, &mut kernel, &mut ways, &mut nodes) {
                return Ok(ways);
            }
            load.undo(mark);
        }
        Err(short)
    }

    /// Places each demand in this order on its best route. The error is the first demand without a
    /// route; those before it stay placed.
    fn in_order(
        &self,
        demands: &[Demand],
        order: &[usize],
        load: &mut Load<'_>,
        kernel: &mut Kernel,
    ) -> Result<Vec<LinkRoute>, usize> {
        let mut ways = vec![LinkRoute::new(); demands.len()];
        for &at in order {
            let demand = &demands[at];
            let free = self.free_for(demand, load);
            let way = self.best(demand, &free, kernel).ok_or(at)?;
            load.place(&way, demand.window, demand.amount);
            ways[at] = way;
        }
        Ok(ways)
    }

    fn backtrack(
        &self,
        demands: &[Demand],
        order: &[usize],
        load: &mut Load<'_>,
        kernel: &mut Kernel,
        ways: &mut [LinkRoute],
        nodes: &mut usize,
    ) -> bool {
        let Some((&at, rest)) = order.split_first() else { return true };
        let demand = &demands[at];
        let free = self.free_for(demand, load);
        let Some(best) = self.best(demand, &free, kernel) else { return false };
        let fits = |way: &&LinkRoute| narrowest(way, &free) >= demand.amount;
        let others = self.ways[demand.path].iter().filter(fits).filter(|way| **way != best);
        let others: Vec<LinkRoute> =
            if demand.only.is_some() { Vec::new() } else { others.cloned().collect() };
        for way in std::iter::once(best).chain(others) {
            if *nodes == 0 {
                return false;
            }
            *nodes -= 1;
            let mark = load.mark();
            load.place(&way, demand.window, demand.amount);
            ways[at] = way;
            if self.backtrack(demands, rest, load, kernel, ways, nodes) {
                return true;
            }
            load.undo(mark);
        }
        false
    }

    /// What is free of every link over a demand's window.
    pub(super) fn free_for(&self, demand: &Demand, load: &Load<'_>) -> Vec<i64> {
        // There are fewer than 2^32 links.
        (0..self.links.len() as u32).map(|link| load.free(link, demand.window)).collect()
    }

    /// The route of a demand with the fewest links, and among those the least load.
    pub(super) fn best(
        &self,
        demand: &Demand,
        free: &[i64],
        kernel: &mut Kernel,
    ) -> Option<LinkRoute> {
        if let Some(way) = &demand.only {
            return (narrowest(way, free) >= demand.amount).then(|| way.clone());
        }
        kernel.price(|link| {
            let capacity = self.links[link as usize].capacity;
            let taken = capacity.saturating_sub(free[link as usize].max(0).unsigned_abs());
            let load = u128::from(taken) * u128::from(FULL) / u128::from(capacity.max(1));
            LINK + u64::try_from(load).unwrap_or(FULL)
        });
        let open = |link: u32| free[link as usize] >= signed(demand.amount);
        self.cheapest(kernel, demand.path, open)
    }
}

/// How much a route can carry, in bit/s.
pub(super) fn narrowest(way: &[u32], free: &[i64]) -> u64 {
    way.iter().map(|link| free[*link as usize]).min().map_or(0, |free| free.max(0).unsigned_abs())
}
