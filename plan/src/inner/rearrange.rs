//! Making room: those that have not begun are given new routes, so that one more fits. All or nothing.
//!
//! For a demand that finds no route: each of its routes in turn. Whoever is in the way there, the
//! largest first and no more than needed, is lifted, the demand takes the route, and those lifted look
//! for routes of their own. When that fails everywhere, all that may move are lifted and routed
//! together with the demand, if they are few.

use coalloc_common::limits::INNER_SEARCH_DEMANDS;

use super::load::Load;
use super::search::narrowest;
use super::{Demand, FreeCapacity, LinkRoute, Router, signed};

/// Something that is routed already and may be routed anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// What; its `only` says nothing here.
    pub demand: Demand,
    /// Its route now.
    pub way: LinkRoute,
}

/// Routes for the new demands, and the new routes of those that moved, by their index, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rearranged {
    /// For each new demand.
    pub ways: Vec<LinkRoute>,
    /// For each that moved.
    pub moved: Vec<(usize, LinkRoute)>,
}

/// The state of one rearrangement.
struct Rearrangement<'a, 'b> {
    router: &'a Router,
    load: Load<'b>,
    movable: &'a [Placed],
    /// Where each is now.
    now: Vec<LinkRoute>,
    /// How many more may be routed.
    effort: usize,
}

impl Router {
    /// Routes for all demands with some of `movable` on new routes; `None` when none were found within
    /// `effort`, the number of those that may be routed on the way.
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
    /// Places a demand, with others moved if need be.
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

    /// The routes a demand might take if whoever may move were not there.
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

    /// Takes a route for a demand; those in the way go elsewhere.
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

    /// Lifts all that may move and routes them together with the demand.
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
