//! In which order the requested sites are placed, and which of them are interchangeable.

use super::network::{Link, NONE};
use crate::ip::admit::Candidates;

/// The order of placing: the most constrained first, then always one with the most links to those
/// placed before it. `open` counts the vertices open to each site.
pub(super) fn placing_order(links: &[Link], open: &[usize]) -> Vec<usize> {
    let sites = open.len();
    let mut degree = vec![0usize; sites];
    for link in links {
        degree[link.from] += 1;
        degree[link.to] += 1;
    }
    let mut joined = vec![0usize; sites];
    let mut order: Vec<usize> = Vec::with_capacity(sites);
    while order.len() < sites {
        // A site with a single vertex costs nothing to place and tells the others where to go.
        let rank = |site: &usize| {
            let forced = open[*site] <= 1;
            (!forced, usize::MAX - joined[*site], usize::MAX - degree[*site], open[*site], *site)
        };
        let next = (0..sites).filter(|site| !order.contains(site)).min_by_key(rank);
        let Some(next) = next else { break };
        for link in links {
            if link.from == next {
                joined[link.to] += 1;
            } else if link.to == next {
                joined[link.from] += 1;
            }
        }
        order.push(next);
    }
    order
}

/// For each place in the order, the nearest earlier site it can change places with: same
/// candidates and values, and the links of the request map onto themselves. Of such sites only
/// placements in rising order of vertices need be searched. Being interchangeable is an equivalence,
/// so that the nearest earlier one is enough.
///
/// Links are compared without their direction where every route can be travelled either way.
pub(super) fn twins(
    links: &[Link],
    candidates: &Candidates,
    cpus: &[u64],
    order: &[usize],
    reversible: bool,
) -> Vec<Option<usize>> {
    let sites = order.len();
    let mut classes = vec![NONE; sites * sites];
    for link in links {
        // At most REQUEST_LINKS_MAX classes.
        classes[link.from * sites + link.to] = link.class as u32;
    }
    let between = |a: usize, b: usize| {
        let (there, back) = (classes[a * sites + b], classes[b * sites + a]);
        if reversible { (there.min(back), there.max(back)) } else { (there, back) }
    };
    let alike = |a: usize, b: usize| {
        cpus[a] == cpus[b]
            && between(a, b) == between(b, a)
            && (0..sites).all(|c| c == a || c == b || between(a, c) == between(b, c))
            && candidates.of(a) == candidates.of(b)
    };
    (0..sites)
        .map(|place| order[..place].iter().rev().copied().find(|other| alike(*other, order[place])))
        .collect()
}
