//! Co-allocation requests and their planning options, from the wire.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::id::check_name;
use coalloc_common::invalid::check_range;
use coalloc_common::suggest::did_you_mean;
use coalloc_common::{
    Amount, BitsPerSecond, CoAllocation, Cpus, InvalidField, LinkDemand, PartWindow, Ranking,
    ResourceKind, SiteDemand, SiteName, Span, Time, Timing, UserName, VertexName, limits,
};
use coalloc_plan::{Named as _, Solver};
use coalloc_proto::{Duration, v1};

use super::{objectives_from_wire, span_from_wire, span_to_wire, time_from_wire};

/// A user's name; empty means `anonymous`.
///
/// # Errors
/// When it is not a name.
pub fn user_name(field: &str, text: &str) -> Result<UserName, InvalidField> {
    UserName::parse(field, if text.is_empty() { "anonymous" } else { text })
}

/// Reads a request, with every check that needs no topology. An unset earliest start becomes `soonest`, an
/// unset latest start becomes the earliest start.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong.
pub fn request_from_wire(
    wire: &v1::CoAllocationRequest,
    soonest: Time,
) -> Result<CoAllocation, InvalidField> {
    let allowed = format!("1 to {} sites", limits::REQUEST_SITES_MAX);
    if wire.sites.is_empty() {
        return Err(InvalidField::missing("sites", allowed));
    }
    if wire.sites.len() > limits::REQUEST_SITES_MAX {
        return Err(InvalidField::new("sites", wire.sites.len(), allowed));
    }
    let mut sites = Vec::with_capacity(wire.sites.len());
    for (index, site) in wire.sites.iter().enumerate() {
        sites.push(site_demand(&format!("sites[{index}]"), site)?);
    }
    let names: BTreeMap<&str, usize> =
        wire.sites.iter().enumerate().map(|(at, site)| (site.name.as_str(), at)).collect();
    if wire.links.len() > limits::REQUEST_LINKS_MAX {
        let allowed = format!("at most {} links", limits::REQUEST_LINKS_MAX);
        return Err(InvalidField::new("links", wire.links.len(), allowed));
    }
    check_series(&wire.series)?;
    // Sites and times first: the names must be unique before links refer to them.
    let mut request = CoAllocation { sites, links: Vec::new(), timing: timing(wire, soonest)? };
    request.check()?;
    for (index, link) in wire.links.iter().enumerate() {
        request.links.push(link_demand(&format!("links[{index}]"), link, &names)?);
    }
    request.check()?;
    set_windows(&mut request, wire)?;
    request.check()?;
    Ok(request)
}

/// Checks the spelling of a series; empty means none.
///
/// # Errors
/// When it is neither empty nor a name.
pub fn check_series(text: &str) -> Result<(), InvalidField> {
    if text.is_empty() { Ok(()) } else { check_name("series", text) }
}

/// Reads the windows of the parts of a request that is correct without them.
fn set_windows(
    request: &mut CoAllocation,
    wire: &v1::CoAllocationRequest,
) -> Result<(), InvalidField> {
    let duration = request.timing.duration;
    for (index, (site, wire)) in request.sites.iter_mut().zip(&wire.sites).enumerate() {
        let field = format!("sites[{index}].");
        let own = part_window(&field, wire.offset.as_ref(), wire.length.as_ref(), duration)?;
        site.windows.extend(own.map(|own| (ResourceKind::Cpus, own)));
        for (number, wire) in wire.others.iter().enumerate() {
            let field = format!("{field}others[{number}].");
            let kind = ResourceKind::parse_other(&format!("{field}kind"), &wire.kind)?;
            let (offset, length) = (wire.offset.as_ref(), wire.length.as_ref());
            let window = match (offset, length) {
                (None, None) => own,
                _ => part_window(&field, offset, length, duration)?,
            };
            site.windows.extend(window.map(|window| (kind, window)));
        }
    }
    for (index, (link, wire)) in request.links.iter_mut().zip(&wire.links).enumerate() {
        let field = format!("links[{index}].");
        link.window = part_window(&field, wire.offset.as_ref(), wire.length.as_ref(), duration)?;
    }
    Ok(())
}

/// The window of a part; `None` when it is the whole duration of the request.
fn part_window(
    field: &str,
    offset: Option<&Duration>,
    length: Option<&Duration>,
    duration: Span,
) -> Result<Option<PartWindow>, InvalidField> {
    // A duration that is no span of ours at all is out of the range that the part has.
    let read = |name: &str, wire: Option<&Duration>| match wire {
        None => Ok(None),
        Some(wire) => span_from_wire(&format!("{field}{name}"), wire).map(Some),
    };
    let offset = read("offset", offset)
        .map_err(|error| PartWindow::misread(error, "offset", None, duration))?;
    let length = read("length", length)
        .map_err(|error| PartWindow::misread(error, "length", offset, duration))?;
    PartWindow::parse(field, offset, length, duration)
}

fn site_demand(field: &str, wire: &v1::SiteRequest) -> Result<SiteDemand, InvalidField> {
    let pinned = match &wire.pinned_to {
        None => None,
        Some(name) => Some(VertexName::parse(&format!("{field}.pinned_to"), name)?),
    };
    let mut excluded = BTreeSet::new();
    for (index, name) in wire.excluded.iter().enumerate() {
        excluded.insert(VertexName::parse(&format!("{field}.excluded[{index}]"), name)?);
    }
    Ok(SiteDemand {
        name: SiteName::parse(&format!("{field}.name"), &wire.name)?,
        cpus: Cpus(wire.cpus),
        others: amounts_in_windows(&format!("{field}.others"), &wire.others)?,
        pinned,
        excluded,
        windows: BTreeMap::new(),
    })
}

/// Amounts of further kinds that are wanted when the whole demand is, and have no windows of their own.
pub(super) fn amounts_from_wire(
    field: &str,
    wire: &[v1::KindAmount],
) -> Result<BTreeMap<ResourceKind, Amount>, InvalidField> {
    for (index, one) in wire.iter().enumerate() {
        for (name, set) in [("offset", &one.offset), ("length", &one.length)] {
            if let Some(set) = set {
                let value = format!("{} s", set.seconds);
                let allowed = "nothing: only a kind of a co-allocation has a window of its own";
                return Err(InvalidField::new(format!("{field}[{index}].{name}"), value, allowed));
            }
        }
    }
    amounts_in_windows(field, wire)
}

/// Amounts of further kinds, whatever their windows.
fn amounts_in_windows(
    field: &str,
    wire: &[v1::KindAmount],
) -> Result<BTreeMap<ResourceKind, Amount>, InvalidField> {
    let mut amounts = BTreeMap::new();
    for (index, one) in wire.iter().enumerate() {
        let kind_field = format!("{field}[{index}].kind");
        let kind = ResourceKind::parse_other(&kind_field, &one.kind)?;
        let amount = kind.parse_amount(&format!("{field}[{index}].amount"), one.amount)?;
        if amounts.insert(kind, amount).is_some() {
            return Err(InvalidField::new(kind_field, &one.kind, "each kind once"));
        }
    }
    Ok(amounts)
}

/// Amounts of further kinds, for the wire.
#[must_use]
pub fn amounts_to_wire(amounts: &BTreeMap<ResourceKind, Amount>) -> Vec<v1::KindAmount> {
    let one = |(kind, amount): (&ResourceKind, &Amount)| v1::KindAmount {
        kind: kind.word().to_owned(),
        amount: amount.0,
        ..v1::KindAmount::default()
    };
    amounts.iter().map(one).collect()
}

/// What a demand wants besides CPUs, with its windows, for the wire. `duration` is that of the request.
pub(super) fn others_of(site: &SiteDemand, duration: Span) -> Vec<v1::KindAmount> {
    let mut others = amounts_to_wire(&site.others);
    let own = site.window(ResourceKind::Cpus);
    for (kind, wire) in site.others.keys().zip(&mut others) {
        let window = site.window(*kind);
        if window != own {
            let offset = window.map_or(Span::ZERO, PartWindow::offset);
            wire.offset = Some(span_to_wire(offset));
            wire.length = Some(span_to_wire(window.map_or(duration, PartWindow::length)));
        }
    }
    others
}

fn link_demand(
    field: &str,
    wire: &v1::LinkRequest,
    names: &BTreeMap<&str, usize>,
) -> Result<LinkDemand, InvalidField> {
    let end = |end: &str, name: &str| {
        names.get(name).copied().ok_or_else(|| {
            let value = InvalidField::quoted(name);
            let known: Vec<&str> = names.keys().copied().collect();
            let guess = did_you_mean(name, known.iter().copied());
            let allowed =
                format!("the name of a site of this request: {}{guess}", known.join(", "));
            InvalidField::new(format!("{field}.{end}"), value, allowed)
        })
    };
    let latency_max = match &wire.max_latency {
        None => None,
        Some(latency) => Some(span_from_wire(&format!("{field}.max_latency"), latency)?),
    };
    Ok(LinkDemand {
        from: end("from", &wire.from)?,
        to: end("to", &wire.to)?,
        bandwidth: BitsPerSecond(wire.bandwidth_bps),
        latency_max,
        window: None,
    })
}

fn timing(wire: &v1::CoAllocationRequest, soonest: Time) -> Result<Timing, InvalidField> {
    let earliest_start = match &wire.earliest_start {
        None => soonest,
        Some(time) => time_from_wire("earliest_start", time)?,
    };
    let latest_start = match &wire.latest_start {
        None => earliest_start,
        Some(time) => time_from_wire("latest_start", time)?,
    };
    let duration = match &wire.duration {
        None => {
            let needed = format!("{} to {}", limits::DURATION_MIN, limits::DURATION_MAX);
            return Err(InvalidField::missing("duration", needed));
        }
        Some(duration) => span_from_wire("duration", duration)?,
    };
    Ok(Timing { earliest_start, latest_start, duration })
}

/// Planning options with all defaults filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestOptions {
    /// Number of frames (N of Takefusa 2010, stage 2i).
    pub frames: u32,
    /// Most edges of one route (N_max of Takefusa 2010, Eq. (11)).
    pub route_edges_max: u32,
    /// The solver.
    pub solver: Solver,
    /// What makes one plan better than another.
    pub ranking: Ranking,
    /// Most plans wanted (N' of Takefusa 2010, stage 2iv).
    pub plans: u32,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            frames: limits::FRAMES_DEFAULT,
            route_edges_max: limits::ROUTE_EDGES_DEFAULT,
            solver: Solver::Exact,
            ranking: Ranking::default(),
            plans: limits::FRAMES_MAX,
        }
    }
}

/// Reads planning options. What is unset is taken from `defaults`.
///
/// # Errors
/// When a number is out of its range or the solver is unknown.
pub fn plan_options(
    wire: Option<&v1::PlanOptions>,
    defaults: RequestOptions,
) -> Result<RequestOptions, InvalidField> {
    let Some(wire) = wire else { return Ok(defaults) };
    let mut options = defaults;
    if let Some(frames) = wire.frames {
        options.frames = check_range("options.frames", frames, 1..=limits::FRAMES_MAX, "frames")?;
    }
    if let Some(edges) = wire.max_paths_per_link {
        let field = "options.max_paths_per_link";
        options.route_edges_max = check_range(field, edges, 1..=limits::ROUTE_EDGES_MAX, "paths")?;
    }
    if !wire.objectives.is_empty() {
        let named = objectives_from_wire("options.objectives", &wire.objectives)?;
        options.ranking = Ranking::of(&named);
    }
    if let Some(plans) = wire.plans {
        options.plans = check_range("options.plans", plans, 1..=limits::FRAMES_MAX, "plans")?;
    }
    if let Some(name) = &wire.solver {
        let unknown = || {
            InvalidField::new(
                "options.solver",
                InvalidField::quoted(name),
                Solver::instead_of(name),
            )
        };
        options.solver = Solver::named(name).ok_or_else(unknown)?;
    }
    Ok(options)
}
