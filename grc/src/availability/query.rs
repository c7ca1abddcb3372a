//! Hop 3: what the planner gets to see. Stage 2i and 2ii of Takefusa 2010, section 3.1: N laddered
//! frames, and the availability of every RM for all of them in one query per RM, all at once.

use std::collections::BTreeMap;

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    BitsPerSecond, Cpus, Reason, Refusal, ResourceId, RmName, Time, Topology, TransactionId,
    UserName, Window, limits,
};
use coalloc_net::convert::{span_from_wire, time_from_wire, window_to_wire};
use coalloc_net::traces::{Span, SpanKind};
use coalloc_proto::v1;
use tokio::task::JoinSet;

use super::federation::{Federation, Snapshot};
use super::inquiry::NoAnswer;

/// The RPC that asks.
const QUERY: &str = "coalloc.v1.ResourceManager/QueryAvailability";

/// What is free, frame by frame.
#[derive(Debug)]
pub struct FrameAvailability {
    /// One view a frame, in the order of the frames.
    pub views: Vec<FrameView>,
    /// By frame: the first instant after its start at which something that is booked ends.
    pub changes: Vec<Option<Time>>,
    /// RMs that did not answer in time; their resources are as good as taken.
    pub unreachable: Vec<RmName>,
}

/// No resource manager of the federation books beyond this.
#[must_use]
pub fn horizon_end(federation: &Snapshot, now: Time) -> Time {
    let horizon = |description: &v1::DescribeResponse| {
        span_from_wire("horizon", description.horizon.as_ref()?).ok()
    };
    let members = federation.members.values();
    let furthest = members.filter_map(|(_, description)| horizon(description)).max();
    now.saturating_add(furthest.unwrap_or(limits::HORIZON_MAX))
}

/// Parts the frames that somebody could book from those that lie in the past, or beyond the furthest
/// horizon in the federation: of these no RM would say more than "zero".
#[must_use]
pub fn bookable(
    federation: &Snapshot,
    frames: Vec<Window>,
    now: Time,
) -> (Vec<Window>, Vec<(Window, Refusal)>) {
    let first = now.saturating_sub(limits::START_GRACE);
    let last = horizon_end(federation, now);
    let refusal = |window: Window| {
        let detail = if window.start() < first {
            format!("{window} starts in the past; allowed: from {first}")
        } else {
            format!("{window} ends beyond the horizon; allowed: until {last}")
        };
        let window = Some(window);
        Refusal { window, ..Refusal::new(Reason::OutsideHorizon, detail) }
    };
    let (inside, outside): (Vec<Window>, Vec<Window>) =
        frames.into_iter().partition(|window| window.start() >= first && window.end() <= last);
    (inside, outside.into_iter().map(|window| (window, refusal(window))).collect())
}

/// Asks every RM of the snapshot for all frames; what `replaces` has booked counts as free, because a
/// change of it is being planned. An RM that is down or slow costs its patience and its
/// resources, nothing else; it counts as not reachable until it describes itself anew.
pub async fn query(
    federation: &Federation,
    snapshot: &Snapshot,
    frames: &[Window],
    user: &UserName,
    replaces: Option<&TransactionId>,
) -> FrameAvailability {
    let mut unreachable = snapshot.missing.clone();
    if frames.is_empty() {
        return FrameAvailability { views: Vec::new(), changes: Vec::new(), unreachable };
    }
    let mut asked = JoinSet::new();
    for (rm, (_, description)) in &snapshot.members {
        let Some(inquiry) = federation.inquiry(rm) else { continue };
        let request = v1::QueryAvailabilityRequest {
            frames: frames.iter().copied().map(window_to_wire).collect(),
            user: user.to_string(),
            replaces: replaces.map(ToString::to_string).unwrap_or_default(),
        };
        let (rm, resources) = (rm.clone(), resource_count(description));
        let span = Span::current().child(QUERY, SpanKind::Client);
        span.set("coalloc.rm", &rm);
        asked.spawn(async move {
            let answer = inquiry.ask(request, span).await;
            (rm, answer.and_then(|frames| checked(frames, resources)))
        });
    }
    let mut answers = BTreeMap::new();
    while let Some(done) = asked.join_next().await {
        match done {
            Ok((rm, Ok(answer))) => {
                answers.insert(rm, answer);
            }
            Ok((rm, Err(problem))) => {
                if problem.asked {
                    federation.doubt(&rm, &problem.text);
                }
                unreachable.push(rm);
            }
            // Only a panic ends up here; its RM then counts as taken.
            Err(error) => tracing::error!(%error, "a query broke"),
        }
    }
    unreachable.sort();
    let changes = (0..frames.len()).map(|frame| next_change(frame, &answers)).collect();
    FrameAvailability { views: assemble(snapshot, frames, &answers), changes, unreachable }
}

/// The first that any RM says of a frame.
fn next_change(
    frame: usize,
    answers: &BTreeMap<RmName, v1::QueryAvailabilityResponse>,
) -> Option<Time> {
    let said = answers.values().filter_map(|answer| answer.frames.get(frame)?.next_change.as_ref());
    said.filter_map(|time| time_from_wire("next_change", time).ok()).min()
}

/// The answer to a query, unless there is no use in it.
fn checked(
    frames: Vec<v1::FrameAvailability>,
    resources: usize,
) -> Result<v1::QueryAvailabilityResponse, NoAnswer> {
    if frames.iter().all(|frame| frame.free.len() == resources) {
        Ok(v1::QueryAvailabilityResponse { frames })
    } else {
        Err(NoAnswer::of("answers for another inventory than it described".to_owned()))
    }
}

/// Resources an RM discloses: its sites, its paths, full-duplex ones twice.
fn resource_count(description: &v1::DescribeResponse) -> usize {
    let paths = description.paths.iter().map(|path| if path.full_duplex { 2 } else { 1 });
    description.sites.len() + paths.sum::<usize>()
}

/// Names of an RM's resources in the order of its answers.
fn resource_names(description: &v1::DescribeResponse) -> impl Iterator<Item = String> + '_ {
    let sites = description.sites.iter().map(|site| site.name.clone());
    let paths = description.paths.iter().flat_map(|path| {
        let suffixes: &[&str] = if path.full_duplex { &[":ab", ":ba"] } else { &[""] };
        suffixes.iter().map(move |suffix| format!("{}{suffix}", path.name))
    });
    sites.chain(paths)
}

/// Puts the answers where the topology has their resources.
fn assemble(
    federation: &Snapshot,
    frames: &[Window],
    answers: &BTreeMap<RmName, v1::QueryAvailabilityResponse>,
) -> Vec<FrameView> {
    let topology = &federation.topology;
    let mut positions: BTreeMap<&RmName, BTreeMap<ResourceId, usize>> = BTreeMap::new();
    for (rm, (_, description)) in &federation.members {
        let names = resource_names(description).enumerate();
        let names = names.map(|(at, name)| (ResourceId::composed(name), at)).collect();
        positions.insert(rm, names);
    }
    let free = |frame: usize, rm: &RmName, resource: &ResourceId| -> u64 {
        let position = positions.get(rm).and_then(|names| names.get(resource));
        let answer = answers.get(rm).and_then(|answer| answer.frames.get(frame));
        let amount = answer.zip(position).and_then(|(answer, at)| answer.free.get(*at));
        amount.copied().unwrap_or(0)
    };
    let view = |(index, frame): (usize, &Window)| {
        assemble_frame(topology, *frame, |rm, resource| free(index, rm, resource))
    };
    frames.iter().enumerate().map(view).collect()
}

fn assemble_frame(
    topology: &Topology,
    frame: Window,
    free: impl Fn(&RmName, &ResourceId) -> u64,
) -> FrameView {
    let mut view = FrameView::nothing(topology, frame);
    for (vertex, _, compute) in topology.sites() {
        // What is more than there is was never true; a planner must not be misled by it.
        let amount = free(&compute.rm, &compute.resource).min(compute.capacity.0);
        view.free_cpus[vertex.at()] = Cpus(amount);
    }
    for (edge, free_bps) in topology.edges().iter().zip(&mut view.free_bps) {
        for direction in [Direction::AToB, Direction::BToA] {
            let amount = free(&edge.rm, edge.resource(direction)).min(edge.capacity.0);
            free_bps[direction.at()] = BitsPerSecond(amount);
        }
    }
    view
}
