//! What binds when a synchronous set cannot end by its deadline, and when it could end.
//!
//! The refusal names the last frame that a search has refuted. If the members fit there without their
//! channels, the links bind ([`Reason::NoRoute`]), else the sites ([`Reason::InsufficientCapacity`]). If all
//! fit and data come too late, the refusal names the item. If there is no frame, it names the member that
//! fits nowhere by itself.
//!
//! Left out: a least set of shortages. A conflict names all that its proof has used.

use std::collections::BTreeSet;

use coalloc_common::{Reason, Refusal, Time, Window};

use super::answer::WorkflowRefusal;
use super::partial::PartialSchedule;
use super::scratch::ResourceNumber;
use super::set_frames::{Bundle, Frame, SetFrames, SetOutcome, Shortage, numbers};
use crate::Budget;
use crate::ip::shared::Conflict;

/// Most resources that a refusal names.
const SHORT_NAMED_MAX: usize = 6;

/// The refusal of a set that has no frame by the deadline. Searches the frames again, and later ones.
pub(super) fn set_refusal(
    partial: &mut PartialSchedule<'_>,
    node: usize,
    budget: &Budget<'_>,
) -> Box<WorkflowRefusal> {
    let activities = partial.instance.graph.nodes[node].members.clone();
    let mark = partial.mark();
    let (none, deadline) = (BTreeSet::new(), partial.deadline());
    let mut frames = SetFrames::new(partial, node, &none, deadline);
    let binding = match frames.place(budget) {
        SetOutcome::Refused(Some((frame, Shortage::Amounts(conflict)))) => {
            let channels = frames.fits_without_channels(&frame, budget);
            Some(amounts(frames.partial, &frame, &conflict, channels))
        }
        SetOutcome::Refused(Some((frame, Shortage::Late(item)))) => {
            Some(late(frames.partial, &frame, item))
        }
        SetOutcome::Refused(None) => no_frame(&frames),
        // Does not happen: it was refused before.
        SetOutcome::Placed(_) | SetOutcome::Stopped => None,
    };
    partial.undo_to(mark);
    let binding = binding.unwrap_or_else(|| Binding::new(Reason::InsufficientCapacity, ""));
    let names = partial.names(&activities).join(", ");
    let detail = format!("{names} cannot run together by the deadline, {deadline}{}", binding.text);
    let mut refusal = Refusal::new(binding.reason, detail);
    refusal.window = binding.window;
    if let Some(number) = binding.resource {
        let (rm, resource) = partial.scratch.names(number);
        refusal.rm = Some(rm.clone());
        refusal.resource = Some(resource.clone());
        refusal.available = refusal.window.map(|window| partial.scratch.free_min(number, window));
    }
    // When could it end, if its deadline were later?
    let mut earliest_finish = None;
    let later = SetFrames::new(partial, node, &none, Time::MAX).place(budget);
    if let SetOutcome::Placed(frame) = later {
        refusal.detail.push_str(&format!("; they could end together at {}", frame.end));
        earliest_finish = Some(frame.end);
    }
    partial.undo_to(mark);
    Box::new(WorkflowRefusal { activities, refusal, earliest_finish })
}

/// What binds: the reason, the resource that is named, and the words for it.
struct Binding {
    reason: Reason,
    resource: Option<ResourceNumber>,
    window: Option<Window>,
    text: String,
}

impl Binding {
    fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, resource: None, window: None, text: text.into() }
    }
}

/// Too little is free at sites, or on edges if `channels` is set.
fn amounts(
    partial: &PartialSchedule<'_>,
    frame: &Frame,
    conflict: &Conflict,
    channels: bool,
) -> Binding {
    let topology = partial.instance.topology;
    let scratch = &*partial.scratch;
    let sites = || {
        let name = |(site, kind): &(_, coalloc_common::ResourceKind)| {
            format!("{} at {}", kind.noun(), topology.vertex(*site).name)
        };
        conflict.sites.iter().map(name).collect::<Vec<_>>()
    };
    let edges = || {
        let edges = conflict.edges.iter();
        edges.map(|(edge, _)| topology.edge(*edge).name.to_string()).collect::<Vec<_>>()
    };
    let (reason, mut short, own) = if channels {
        let own = Conflict { sites: Vec::new(), edges: conflict.edges.clone() };
        (Reason::NoRoute, [edges(), sites()].concat(), own)
    } else {
        let own = Conflict { sites: conflict.sites.clone(), edges: Vec::new() };
        (Reason::InsufficientCapacity, sites(), own)
    };
    short.truncate(SHORT_NAMED_MAX);
    let (start, end) = (frame.start, frame.end);
    let text = match (channels, short.is_empty()) {
        (true, true) => {
            format!(
                "; from {start} to {end} no routes would carry their channels even if all were free"
            )
        }
        (true, false) => format!(
            "; from {start} to {end} no routes are free for all their channels: too little is free of {}",
            short.join(", ")
        ),
        (false, true) => {
            format!(
                "; from {start} to {end} the sites that are fast enough are too small for all of them"
            )
        }
        (false, false) => {
            format!("; from {start} to {end} too little is free of {}", short.join(", "))
        }
    };
    let resource = numbers(scratch, &own).next();
    Binding { resource, window: Window::new(start, end), ..Binding::new(reason, text) }
}

/// The members and their channels fit, and an item comes too late.
fn late(partial: &PartialSchedule<'_>, frame: &Frame, item: usize) -> Binding {
    let name = &partial.instance.workflow.data[item].name;
    let (start, end) = (frame.start, frame.end);
    let text =
        format!("; from {start} to {end} they fit, but the data {name} cannot arrive by then");
    Binding { window: Window::new(start, end), ..Binding::new(Reason::NoRoute, text) }
}

/// Some member fits nowhere by itself.
fn no_frame(frames: &SetFrames<'_, '_>) -> Option<Binding> {
    let partial = &*frames.partial;
    let until = partial.deadline();
    // With `data`, they have to arrive before.
    let fits = |bundle: &Bundle, data: bool| {
        bundle.sites.iter().any(|(choice, arrival)| {
            let from = if data { *arrival } else { frames.begin };
            bundle.activities.iter().all(|activity| {
                let range = (from, until);
                partial.earliest_fit(*activity, choice.site, choice.duration, range).is_some()
            })
        })
    };
    let bundle = frames.bundles.iter().find(|bundle| !fits(bundle, true))?;
    let names = partial.names(&bundle.activities).join(", ");
    let reached = bundle.sites.first().filter(|_| !fits(bundle, false));
    let Some((choice, _)) = reached else {
        let text = format!("; the data of {names} reach no site in time");
        return Some(Binding::new(Reason::NoRoute, text));
    };
    let site = &partial.instance.topology.vertex(choice.site).name;
    let text = format!("; {names} fits neither at {site} nor at any other site by then");
    let mut kinds = partial.demand(bundle.activities[0]).amounts();
    let resource = kinds.next().and_then(|(kind, _)| partial.scratch.at_site(choice.site, kind));
    Some(Binding { resource, ..Binding::new(Reason::InsufficientCapacity, text) })
}
