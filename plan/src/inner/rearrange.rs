//! Rearrangement: demands that have not begun get new routes, so that one more demand fits. It
//! succeeds completely or changes nothing.
//!
//! For a demand without a route, each of its possible routes is tried in turn. Demands that block
//! it are lifted, the largest first and no more than needed. The new demand takes the route, and
//! the lifted ones look for other routes. When that fails for every route, and the movable demands
//! are few, all of them are lifted and routed together with the new demand.

use coalloc_common::limits::INNER_SEARCH_DEMANDS;

use super::load::Load;
use super::search::narrowest;
use super::{Demand, FreeCapacity, LinkRoute, Router, signed};

/// A demand that has a route already, and may get another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The demand. Its `only` is not used here.
    pub demand: Demand,
    /// Its present route.
    pub way: LinkRoute,
}

/// The result of a rearrangement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rearranged {
    /// The route of each new demand, in their order.
    pub ways: Vec<LinkRoute>,
    /// Each movable demand that has moved: its index and its new route.
    pub moved: Vec<(usize, LinkRoute)>,
}

/// The state of one rearrangement.
struct Rearrangement<'a, 'b> {
    router: &'a Router,
    load: Load<'b>,
    movable: &'a [Placed],
    /// The present route of each movable demand.
    now: Vec<LinkRoute>,
    /// How many more demands may be routed.
    effort: usize,
}

impl Router {
    /// Routes all demands, with some of `movable` on new routes. `None` when no solution was found
    /// with at most `effort` demands routed on the way. `room` is what is free of the links while
    /// those in `movable` are on their present routes.
    #[must_use]
    pub fn rearrange(
        &self,
        demands: &[Demand],
        movable: &[Placed],
        room: &dyn FreeCapacity,
        effort: usize,
    ) -> Option<Rearranged> {
        let now = movable.iter().map(|placed| placed.way.clone()).collect();
        let known = demands.iter().chain(movable.iter().map(|placed| &placed.demand));
        let load = Load::new(room, self.links.len(), known);
        let mut ground = Rearrangement { router: self, load, movable, now, effort };
        let mut largest: Vec<usize> = (0..demands.len()).collect();
        largest.sort_by_key(|at| (std::cmp::Reverse(demands[*at].amount), *at));
        let mut ways = vec![LinkRoute::new(); demands.len()];
        for at in largest {
            ways[at] = ground.admit(&demands[at])?;
        }
        let moved = ground.now.into_iter().zip(movable).enumerate();
        let moved = moved.filter(|(_, (now, placed))| *now != placed.way);
        Some(Rearranged { ways, moved: moved.map(|(index, (now, _))| (index, now)).collect() })
    }
}

impl Rearrangement<'_, '_> {
    /// Places a demand, and moves others if that is necessary.
    fn admit(&mut self, demand: &Demand) -> Option<LinkRoute> {
        let one = std::slice::from_ref(demand);
        if let Ok(mut ways) = self.router.search(one, &mut self.load) {
            return ways.pop();
        }
        let near: Vec<usize> = (0..self.movable.len())
            .filter(|index| self.movable[*index].demand.window.overlaps(demand.window))
            .collect();
        for way in self.routes(demand, &near) {
            let mark = self.load.mark();
            if self.over(demand, &way, &near) {
                return Some(way);
            }
            self.load.undo(mark);
        }
        let lifted = near.len() <= INNER_SEARCH_DEMANDS;
        if lifted { self.together(demand, &near) } else { None }
    }

    /// The routes that a demand could take if the movable demands were not there.
    fn routes(&mut self, demand: &Demand, near: &[usize]) -> Vec<LinkRoute> {
        let mark = self.load.mark();
        for index in near {
            let placed = &self.movable[*index].demand;
            self.load.lift(&self.now[*index], placed.window, placed.amount);
        }
        let free = self.router.free_for(demand, &self.load);
        self.load.undo(mark);
        let best = self.router.best(demand, &free, &mut self.router.kernel());
        let known = self.router.ways[demand.path].iter().filter(|_| demand.only.is_none());
        let known = known.filter(|way| narrowest(way, &free) >= demand.amount);
        let mut routes: Vec<LinkRoute> = known.cloned().collect();
        if let Some(best) = best.filter(|best| !routes.contains(best)) {
            routes.insert(0, best);
        }
        routes
    }

    /// Places a demand on this route and moves those that block it elsewhere; false when that
    /// fails.
    fn over(&mut self, demand: &Demand, way: &[u32], near: &[usize]) -> bool {
        let mut lifted: Vec<usize> = Vec::new();
        for &link in way {
            let mut there: Vec<usize> = near.to_vec();
            there.retain(|index| self.now[*index].contains(&link) && !lifted.contains(index));
            there.sort_by_key(|index| std::cmp::Reverse(self.movable[*index].demand.amount));
            let mut there = there.into_iter();
            while self.load.free(link, demand.window) < signed(demand.amount) {
                let Some(index) = there.next() else { return false };
                let placed = &self.movable[index].demand;
                self.load.lift(&self.now[index], placed.window, placed.amount);
                lifted.push(index);
            }
        }
        let Some(effort) = self.effort.checked_sub(1 + lifted.len()) else { return false };
        self.effort = effort;
        self.load.place(way, demand.window, demand.amount);
        let demands: Vec<Demand> =
            lifted.iter().map(|index| self.movable[*index].demand.clone()).collect();
        let Ok(ways) = self.router.search(&demands, &mut self.load) else { return false };
        for (index, way) in lifted.into_iter().zip(ways) {
            self.now[index] = way;
        }
        true
    }

    /// Lifts all movable demands and routes them together with the new one.
    fn together(&mut self, demand: &Demand, near: &[usize]) -> Option<LinkRoute> {
        let mark = self.load.mark();
        let mut demands = vec![demand.clone()];
        for index in near {
            let placed = &self.movable[*index].demand;
            self.load.lift(&self.now[*index], placed.window, placed.amount);
            demands.push(placed.clone());
        }
        let Ok(ways) = self.router.search(&demands, &mut self.load) else {
            self.load.undo(mark);
            return None;
        };
        let mut ways = ways.into_iter();
        let way = ways.next();
        for (index, way) in near.iter().zip(ways) {
            self.now[*index] = way;
        }
        way
    }
}
