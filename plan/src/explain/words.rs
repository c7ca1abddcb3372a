//! The statement as one sentence for people.

use std::collections::BTreeSet;

use coalloc_common::topology::FrameView;
use coalloc_common::{
    Amount, BitsPerSecond, Bottleneck, BottleneckKind, CoAllocation, ResourceKind, SiteDemand, Span,
};

use super::Case;

/// At most this many names are listed in a sentence; the rest are counted.
const NAMES_SHOWN: usize = 6;

/// The sentence for what binds. `beyond` means that it binds even when nothing is booked.
pub(super) fn sentence(case: &Case<'_>, found: &Bottleneck, beyond: bool) -> String {
    let (who, what) = (list(&found.demands), list(&found.resources));
    let needs = if found.demands.len() == 1 { "needs" } else { "need" };
    let when = match beyond {
        true => " even when nothing is booked".to_owned(),
        false => format!(" in {}", case.view.window),
    };
    let free = if beyond { "in all" } else { "free" };
    let links = if found.demands.len() == 1 { "link" } else { "links" };
    let rate = |bps| BitsPerSecond(bps).to_string();
    let (asked, there) = (rate(found.requested), rate(found.available));
    let short = rate(found.requested.saturating_sub(found.available));
    match found.kind {
        BottleneckKind::Site => {
            let kind = found.resource_kind.unwrap_or(ResourceKind::Cpus);
            let show = |amount| kind.show(Amount(amount));
            let (asked, there) = (show(found.requested), show(found.available));
            let short = show(found.requested.saturating_sub(found.available));
            format!("{who} needs {asked} at {what}, which has {there} {free}{when}: {short} short")
        }
        BottleneckKind::Sites => {
            let all = found.requested;
            let count = match found.available {
                0 => "no site has".to_owned(),
                1 => "only 1 site has".to_owned(),
                count => format!("only {count} sites have"),
            };
            let kinds = wanted_kinds(case, found);
            format!(
                "{count} enough {kinds} {free} for {who}, which need {all} different sites{when}"
            )
        }
        BottleneckKind::Path => format!(
            "{links} {who} {needs} {asked} of {what}, which has {there} {free}{when} and which \
             every route needs: {short} short"
        ),
        BottleneckKind::Paths => format!(
            "link {who} needs {asked}, and each of its routes has one of the paths {what}, of \
             which the widest has {there} {free}{when}: {short} short"
        ),
        BottleneckKind::Cut if found.resources.is_empty() => {
            format!("no paths at all join the ends of link {who}")
        }
        BottleneckKind::Cut => format!(
            "{links} {who} {needs} {asked} across the paths {what}, which have {there} {free} \
             together{when}: {short} short"
        ),
        BottleneckKind::Packing => {
            let links = found.demands.len() as u64;
            let unit = (found.requested / links.max(1)).max(1);
            let fit = found.available / unit;
            format!(
                "{links} links of {} or more, {who}, have to cross the paths {what}, which can \
                 carry {fit} of them{when}, because a link cannot be split",
                rate(unit)
            )
        }
        BottleneckKind::Length => format!(
            "the shortest route for link {who} takes {} paths, but {} are allowed",
            found.requested, found.available
        ),
        BottleneckKind::Latency => {
            let span = |us: u64| Span::from_us(i64::try_from(us).unwrap_or(i64::MAX));
            format!(
                "the fastest route for link {who} takes {}, but {} are allowed",
                span(found.requested),
                span(found.available)
            )
        }
        BottleneckKind::Combination => format!(
            "each part fits alone, but not all together{when}: the plan that comes closest needs \
             {asked} of {what}, which have {there} {free}: {short} short"
        ),
    }
}

/// What the demands that a statement names want of a site: `CPUs and storage`. Only the kind that is
/// short, if it is known.
fn wanted_kinds(case: &Case<'_>, found: &Bottleneck) -> String {
    let named = |site: &&SiteDemand| found.demands.iter().any(|name| name == site.name.as_str());
    let sites = case.request.sites.iter().filter(named);
    let kinds: BTreeSet<ResourceKind> = match found.resource_kind {
        Some(kind) => BTreeSet::from([kind]),
        None => sites.flat_map(|site| site.amounts().map(|(kind, _)| kind)).collect(),
    };
    kinds.into_iter().map(ResourceKind::noun).collect::<Vec<_>>().join(" and ")
}

/// The sentence for a frame in which nothing binds by itself.
pub(super) fn combination(request: &CoAllocation, view: &FrameView) -> String {
    let sites: Vec<String> = request.sites.iter().map(|site| site.name.to_string()).collect();
    match request.links.len() {
        0 => format!("the sites {} do not fit together in {}", list(&sites), view.window),
        1 => format!("the link between {} does not fit in {}", list(&sites), view.window),
        links => format!(
            "each of the sites {} and each of the {links} links fits by itself, but not all of them \
             together in {}",
            list(&sites),
            view.window
        ),
    }
}

/// The sentence when nothing binds by itself, and there is no plan even when nothing is booked.
pub(super) fn never(request: &CoAllocation) -> String {
    let sites: Vec<String> = request.sites.iter().map(|site| site.name.to_string()).collect();
    let (sites, links) = (list(&sites), request.links.len());
    let and = match links {
        0 => String::new(),
        1 => " and the link between them".to_owned(),
        links => format!(" and the {links} links between them"),
    };
    format!("the sites {sites}{and} do not fit together, even when nothing is booked")
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [first @ .., last] if names.len() <= NAMES_SHOWN => {
            format!("{} and {last}", first.join(", "))
        }
        _ => {
            let rest = names.len() - NAMES_SHOWN;
            format!("{} and {rest} more", names[..NAMES_SHOWN].join(", "))
        }
    }
}
