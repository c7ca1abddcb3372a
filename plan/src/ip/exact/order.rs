//! The order in which the requested sites are placed, and the symmetries of the request.

use super::network::{Link, NONE};
use crate::ip::admit::Candidates;

/// The order of placing: the most constrained site first, then always one with the most links to
/// sites placed before it. `open` has the number of open vertices of each site.
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
        // A site with a single vertex costs no search and restricts where the others can go.
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

/// The order of placing when sites share vertices: the site that wants most first, because small
/// ones find room later; of equal ones always one with the most links to sites placed before it.
pub(super) fn packing_order(links: &[Link], open: &[usize], weights: &[u64]) -> Vec<usize> {
    let sites = open.len();
    let mut joined = vec![0usize; sites];
    let mut order: Vec<usize> = Vec::with_capacity(sites);
    while order.len() < sites {
        let rank = |site: &usize| {
            let weight = u64::MAX - weights[*site];
            (open[*site] > 1, weight, usize::MAX - joined[*site], open[*site], *site)
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

/// For each place in the order, the nearest earlier twin of the site there, and whether the site is
/// a twin of the first one.
///
/// Twins are sites with the same candidates and costs, and with the same links to every other site
/// and to each other. An exchange of two twins is a symmetry whatever the other sites do. So of all
/// placements that differ by such exchanges the one that comes first in the order of placing has
/// twins in the order of their ranks. Unlike the argument of [`leaders`], this one allows sites to
/// share a vertex, and several links between two sites.
pub(super) fn twins(
    links: &[Link],
    candidates: &Candidates,
    wants: &[usize],
    order: &[usize],
    reversible: bool,
) -> (Vec<Option<usize>>, Vec<bool>) {
    let mut ties: Vec<Vec<(usize, bool, usize)>> = vec![Vec::new(); order.len()];
    for link in links {
        ties[link.from].push((link.to, true, link.class));
        ties[link.to].push((link.from, reversible, link.class));
    }
    ties.iter_mut().for_each(|ties| ties.sort_unstable());
    // The ties of a site to all others but one, and to that one.
    let but = |site: usize, one: usize| ties[site].iter().filter(move |tie| tie.0 != one);
    let with = |site: usize, one: usize| {
        ties[site].iter().filter(move |tie| tie.0 == one).map(|tie| (tie.1, tie.2))
    };
    let alike = |a: usize, b: usize| {
        wants[a] == wants[b]
            && candidates.of(a) == candidates.of(b)
            && ties[a].len() == ties[b].len()
            && but(a, b).eq(but(b, a))
            && with(a, b).eq(with(b, a))
    };
    let leader = |place: usize| {
        let site = order[place];
        order[..place].iter().rev().copied().find(|earlier| alike(*earlier, site))
    };
    let leaders: Vec<Option<usize>> = (0..order.len()).map(leader).collect();
    let like_first = (0..order.len()).map(|place| place > 0 && alike(order[0], order[place]));
    (leaders, like_first.collect())
}

/// How many steps the search for symmetries of one request may take. It is far more than rings,
/// stars and meshes of 32 sites need. A symmetry that is not found is only not used.
const STEPS_MAX: u32 = 20_000;

/// For each place in the order, the nearest earlier site that must have a vertex of lower rank.
///
/// A symmetry of the request is a permutation of its sites that maps links onto links, and sites
/// onto sites with the same candidates and costs. Of all plans that differ only by a symmetry, one
/// is enough: the one whose list of ranks, in the order of placing, comes first. Because no two
/// sites share a vertex, pairs alone determine that plan (Puget 2005): a site ranks below every
/// other site for which it can be exchanged while all earlier sites stay. Of several such earlier
/// sites the nearest is enough, because the others rank below it.
///
/// The second result says for each place whether the first site can be exchanged with the site
/// there.
///
/// Where every route can be used in either direction, links are compared without their direction.
pub(super) fn leaders(
    links: &[Link],
    candidates: &Candidates,
    wants: &[usize],
    order: &[usize],
    reversible: bool,
) -> (Vec<Option<usize>>, Vec<bool>) {
    let sites = order.len();
    let mut classes = vec![NONE; sites * sites];
    for link in links {
        // There are at most REQUEST_LINKS_MAX classes.
        classes[link.from * sites + link.to] = link.class as u32;
    }
    let between = |a: usize, b: usize| {
        let (there, back) = (classes[a * sites + b], classes[b * sites + a]);
        if reversible { (there.min(back), there.max(back)) } else { (there, back) }
    };
    let alike = |a: usize, b: usize| wants[a] == wants[b] && candidates.of(a) == candidates.of(b);
    let kind = |site| (0..site).find(|other| alike(*other, site)).unwrap_or(site);
    let kinds: Vec<usize> = (0..sites).map(kind).collect();
    let mut symmetry = Symmetry { order, kinds: &kinds, between: &between, steps: STEPS_MAX };
    let nearest = (0..sites)
        .map(|place| {
            (0..place).rev().find(|earlier| symmetry.maps(*earlier, place)).map(|at| order[at])
        })
        .collect();
    let like_first = (0..sites).map(|place| place > 0 && symmetry.maps(0, place)).collect();
    (nearest, like_first)
}

/// The search for symmetries.
struct Symmetry<'a> {
    order: &'a [usize],
    kinds: &'a [usize],
    between: &'a dyn Fn(usize, usize) -> (u32, u32),
    steps: u32,
}

impl Symmetry<'_> {
    /// Whether there is a symmetry that keeps the sites before `place` and maps the site at `place`
    /// onto the one at `other`.
    fn maps(&mut self, place: usize, other: usize) -> bool {
        let mut image: Vec<usize> = self.order[..place].to_vec();
        self.fits(&image, self.order[other]) && {
            image.push(self.order[other]);
            self.complete(&mut image)
        }
    }

    /// Whether the next site in the order can have this image.
    fn fits(&mut self, image: &[usize], site: usize) -> bool {
        self.steps = self.steps.saturating_sub(1);
        let next = self.order[image.len()];
        self.kinds[next] == self.kinds[site]
            && !image.contains(&site)
            && self
                .order
                .iter()
                .zip(image)
                .all(|(other, image)| (self.between)(*other, next) == (self.between)(*image, site))
    }

    fn complete(&mut self, image: &mut Vec<usize>) -> bool {
        if image.len() == self.order.len() {
            return true;
        }
        // Try the site itself first, because most symmetries move few sites.
        let own = self.order[image.len()];
        for site in std::iter::once(own).chain(self.order.iter().copied().filter(|s| *s != own)) {
            if self.steps == 0 {
                return false;
            }
            if self.fits(image, site) {
                image.push(site);
                if self.complete(image) {
                    return true;
                }
                image.pop();
            }
        }
        false
    }
}
