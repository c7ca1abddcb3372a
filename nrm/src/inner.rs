//! The inner network as the participant's router: turns names into indices and back, and writes the
//! operator's log.
//!
//! All routing is in [`coalloc_plan::inner`]. Routes are logged at debug level, here and nowhere else,
//! because they concern only the operator. Source: docs/adr/0010-inner-networks.md.

use std::collections::BTreeMap;

use coalloc_common::{Amount, ResourceId, Window};
use coalloc_net::convert::InnerPlan;
use coalloc_plan::inner::{Demand, FreeCapacity, LinkRoute, Placed};
use coalloc_protocol::participant::{
    InnerDemand, InnerFreeCapacity, InnerPlaced, InnerRearranged, InnerRoute, InnerRouter,
    InnerShort,
};

/// A network that routes the paths of one NRM.
#[derive(Debug)]
pub struct Network {
    plan: InnerPlan,
    index: BTreeMap<ResourceId, u32>,
}

/// Says what is free on a link, given the link's index.
struct Numbered<'a>(&'a Network, &'a dyn InnerFreeCapacity);

impl FreeCapacity for Numbered<'_> {
    fn free(&self, link: u32, window: Window) -> i64 {
        self.1.free(&self.0.plan.links[link as usize].0, window)
    }
}

impl Network {
    /// A network that was read from a file.
    #[must_use]
    pub fn new(plan: InnerPlan) -> Self {
        let links = plan.links.iter().map(|(link, _)| link.clone());
        let index = links.zip(0..).collect();
        Self { plan, index }
    }

    /// The router's form of a demand; `None` when the path, or a link of a route that it must keep, is not
    /// configured any more.
    fn demand(&self, demand: &InnerDemand) -> Option<Demand> {
        // A route over a link that is not configured any more is no route: nothing is free there.
        let only = demand
            .only
            .as_ref()
            .map(|route| self.way(route))
            .map_or(Ok(None), |way| way.map(Some).ok_or(()));
        Some(Demand {
            path: *self.plan.paths.get(&demand.path)?,
            amount: demand.amount.0,
            window: demand.window,
            only: only.ok()?,
        })
    }

    fn way(&self, route: &[ResourceId]) -> Option<LinkRoute> {
        route.iter().map(|link| self.index.get(link).copied()).collect()
    }

    fn names(&self, way: &[u32]) -> InnerRoute {
        way.iter().map(|link| self.plan.links[*link as usize].0.clone()).collect()
    }

    fn demands(&self, demands: &[InnerDemand]) -> Result<Vec<Demand>, InnerShort> {
        let short = |demand| InnerShort { demand, fits: Amount::ZERO };
        let each = demands.iter().enumerate();
        each.map(|(index, demand)| self.demand(demand).ok_or(short(index))).collect()
    }
}

impl InnerRouter for Network {
    fn links(&self) -> &[(ResourceId, Amount)] {
        &self.plan.links
    }

    fn may_move(&self) -> bool {
        self.plan.may_move
    }

    fn widest(&self, path: &ResourceId, free: &[i64], most: Amount) -> Amount {
        let path = self.plan.paths.get(path);
        path.map_or(Amount::ZERO, |path| Amount(self.plan.router.widest(*path, free, most.0)))
    }

    fn route(
        &self,
        demands: &[InnerDemand],
        room: &dyn InnerFreeCapacity,
    ) -> Result<Vec<InnerRoute>, InnerShort> {
        let numbered = self.demands(demands)?;
        match self.plan.router.route(&numbered, &Numbered(self, room)) {
            Ok(ways) => {
                let routes: Vec<InnerRoute> = ways.iter().map(|way| self.names(way)).collect();
                for (demand, route) in demands.iter().zip(&routes) {
                    let InnerDemand { path, amount, window, .. } = demand;
                    tracing::debug!(%path, %amount, %window, ?route, "routed inside");
                }
                Ok(routes)
            }
            Err(short) => {
                let path = &demands[short.demand].path;
                tracing::debug!(%path, fits = short.fits, "no route inside");
                Err(InnerShort { demand: short.demand, fits: Amount(short.fits) })
            }
        }
    }

    fn rearrange(
        &self,
        demands: &[InnerDemand],
        movable: &[InnerPlaced],
        room: &dyn InnerFreeCapacity,
        effort: usize,
    ) -> Option<InnerRearranged> {
        let numbered = self.demands(demands).ok()?;
        // A booking over a link or along a path that is not configured any more stays where it is.
        let known = movable.iter().enumerate().filter_map(|(index, placed)| {
            let demand = self.demand(&placed.demand)?;
            Some((index, Placed { demand, way: self.way(&placed.route)? }))
        });
        let (indices, placed): (Vec<usize>, Vec<Placed>) = known.unzip();
        let found =
            self.plan.router.rearrange(&numbered, &placed, &Numbered(self, room), effort)?;
        let moved = found.moved.iter().map(|(index, way)| {
            let (index, route) = (indices[*index], self.names(way));
            let path = &movable[index].demand.path;
            tracing::debug!(
                %path, from = ?movable[index].route, to = ?route,
                "would move to another inner route"
            );
            (index, route)
        });
        let moved = moved.collect();
        let routes = found.ways.iter().map(|way| self.names(way)).collect();
        Some(InnerRearranged { routes, moved })
    }
}
