//! Hop 3: what the planner gets to see. Source: Takefusa 2010, section 3.1, stages 2i and 2ii: N laddered frames, and
//! the availability of every RM for all of them. Each RM gets one query, and all queries are sent at once.

use std::collections::BTreeMap;

use coalloc_common::topology::FrameView;
use coalloc_common::{
    CoAllocation, PartWindow, Reason, Refusal, ResourceId, RmName, Span as Length, Time,
    TransactionId, UserName, Window, limits,
};
use coalloc_net::convert::{site_resources, span_from_wire, time_from_wire, window_to_wire};
use coalloc_net::traces::{Span, SpanKind};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::UnusableParts;
use tokio::task::JoinSet;

use super::federation::{Federation, Snapshot};
use super::inquiry::NoAnswer;

/// The full name of the RPC of an availability query.
const QUERY: &str = "coalloc.v1.ResourceManager/QueryAvailability";

/// What is free, frame by frame.
#[derive(Debug)]
pub struct FrameAvailability {
    /// One view for each frame, in the order of the frames.
    pub views: Vec<FrameView>,
    /// For each frame: the first instant after its start at which a booking ends, as far as any RM reports one.
    pub changes: Vec<Option<Time>>,
    /// The RMs that did not answer in time. Their resources count as taken.
    pub unreachable: Vec<RmName>,
}

/// The booking whose change is planned, if one is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Replaced<'a> {
    /// Its transaction; what it has counts as free. `None`: nothing is changed.
    pub transaction: Option<&'a TransactionId>,
    /// What of it does not count as free, because it cannot be used: servers and resources, by RM.
    pub avoided: Option<&'a UnusableParts>,
}

impl<'a> From<Option<&'a TransactionId>> for Replaced<'a> {
    fn from(transaction: Option<&'a TransactionId>) -> Self {
        Self { transaction, avoided: None }
    }
}

impl Replaced<'_> {
    fn avoided_at(self, rm: &RmName) -> Vec<String> {
        let avoided = self.avoided.and_then(|avoided| avoided.get(rm));
        avoided.into_iter().flatten().map(ToString::to_string).collect()
    }
}

/// The instant beyond which no resource manager of the federation accepts bookings.
#[must_use]
pub fn horizon_end(federation: &Snapshot, now: Time) -> Time {
    let horizon = |description: &v1::DescribeResponse| {
        span_from_wire("horizon", description.horizon.as_ref()?).ok()
    };
    let members = federation.members.values();
    let furthest = members.filter_map(|(_, description)| horizon(description)).max();
    now.saturating_add(furthest.unwrap_or(limits::HORIZON_MAX))
}

/// Separates the frames that could be booked somewhere from those that begin in the past or end beyond the furthest
/// horizon in the federation. Of the latter every RM would only report that nothing is free.
#[must_use]
pub fn bookable(
    federation: &Snapshot,
    frames: Vec<Window>,
    now: Time,
) -> (Vec<Window>, Vec<(Window, Refusal)>) {
    let first = now.saturating_sub(limits::START_GRACE);
    let last = horizon_end(federation, now);
    // Calls that follow one another are told the same.
    let told = Time::from_us(last.as_us().div_euclid(60_000_000) * 60_000_000);
    let refusal = |window: Window| {
        let detail = if window.start() < first {
            format!("{window} starts in the past; allowed: from {first}")
        } else {
            format!("{window} ends beyond the horizon; allowed: until {told}")
        };
        let window = Some(window);
        Refusal { window, ..Refusal::new(Reason::OutsideHorizon, detail) }
    };
    let (inside, outside): (Vec<Window>, Vec<Window>) =
        frames.into_iter().partition(|window| window.start() >= first && window.end() <= last);
    (inside, outside.into_iter().map(|window| (window, refusal(window))).collect())
}

/// Queries every RM of the snapshot for all frames. What `replaces` has booked counts as free, because a change of it is
/// being planned. If an RM is down or slow, the query waits for its timeout, and its resources count
/// as taken. That RM then counts as unreachable until it describes itself again.
pub async fn query(
    federation: &Federation,
    snapshot: &Snapshot,
    frames: &[Window],
    user: &UserName,
    replaces: Replaced<'_>,
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
            replaces: replaces.transaction.map(ToString::to_string).unwrap_or_default(),
            avoided: replaces.avoided_at(rm),
        };
        let (rm, resources) = (rm.clone(), resource_count(description));
        let span = Span::current().child(QUERY, SpanKind::Client);
        span.set("coalloc.rm", &rm);
        asked.spawn(async move {
            let answer = inquiry.ask_all(request, span).await;
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
            // Only a panic leads here. The RM's resources then count as taken.
            Err(error) => tracing::error!(%error, "a query failed"),
        }
    }
    unreachable.sort();
    let changes = (0..frames.len()).map(|frame| next_change(frame, &answers)).collect();
    FrameAvailability { views: assemble(snapshot, frames, &answers), changes, unreachable }
}

/// [`query`] for the frames of a request. If its parts have windows of their own, every RM is also asked about each of
/// these windows in each frame, and the views say what is free there. The next change of a frame is then counted back
/// from the windows to the start of the frame: a later start can only fit when something ends after the start of one
/// of its windows.
pub async fn query_for(
    federation: &Federation,
    snapshot: &Snapshot,
    request: &CoAllocation,
    frames: &[Window],
    user: &UserName,
    replaces: Replaced<'_>,
) -> FrameAvailability {
    let parts = request.part_windows();
    if parts.is_empty() {
        return query(federation, snapshot, frames, user, replaces).await;
    }
    let windows = frames.iter().flat_map(|frame| {
        let parts = parts.iter().map(|part| PartWindow::within(Some(*part), *frame));
        std::iter::once(*frame).chain(parts)
    });
    let windows: Vec<Window> = windows.collect();
    let all = query(federation, snapshot, &windows, user, replaces).await;
    let offsets: Vec<Length> =
        std::iter::once(Length::ZERO).chain(parts.iter().map(|part| part.offset())).collect();
    in_frames(all, &offsets)
}

/// The answers for frames that were each asked about together with windows in them, which begin at these offsets.
fn in_frames(all: FrameAvailability, offsets: &[Length]) -> FrameAvailability {
    let FrameAvailability { views, changes, unreachable } = all;
    let starts = changes.chunks(offsets.len()).map(|changes| {
        let starts = changes.iter().zip(offsets);
        starts.filter_map(|(change, offset)| Some(change.as_ref()?.saturating_sub(*offset))).min()
    });
    let changes = starts.collect();
    let mut views = views.into_iter();
    let mut frames = Vec::new();
    while let Some(mut frame) = views.next() {
        frame.parts = views.by_ref().take(offsets.len() - 1).collect();
        frames.push(frame);
    }
    FrameAvailability { views: frames, changes, unreachable }
}

/// The earliest change that any RM reports for a frame.
fn next_change(
    frame: usize,
    answers: &BTreeMap<RmName, v1::QueryAvailabilityResponse>,
) -> Option<Time> {
    let said = answers.values().filter_map(|answer| answer.frames.get(frame)?.next_change.as_ref());
    said.filter_map(|time| time_from_wire("next_change", time).ok()).min()
}

/// The answer to a query, if it has the right number of resources for every frame.
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

/// The number of resources an RM discloses: one for each kind of a site, and its paths, where a full-duplex path counts
/// twice.
fn resource_count(description: &v1::DescribeResponse) -> usize {
    let paths = description.paths.iter().map(|path| if path.full_duplex { 2 } else { 1 });
    let of_sites = description.sites.iter().map(|site| 1 + site.others.len());
    of_sites.chain(paths).sum()
}

/// An RM's resources, by name and capacity, in the order of its answers. Those whose names belong to others are among
/// them, because the RM answers for them too.
pub fn described_resources(
    description: &v1::DescribeResponse,
) -> impl Iterator<Item = (String, u64)> + '_ {
    let sites = description.sites.iter().flat_map(site_resources);
    let paths = description.paths.iter().flat_map(|path| {
        let suffixes: &[&str] = if path.full_duplex { &[":ab", ":ba"] } else { &[""] };
        suffixes.iter().map(move |suffix| (format!("{}{suffix}", path.name), path.capacity_bps))
    });
    sites.chain(paths)
}

/// Arranges the answers in the order of the topology's vertices and edges. Names are looked up once for all frames: a
/// query has up to [`limits::FRAMES_MAX`] of them, and async threads do this work.
fn assemble(
    federation: &Snapshot,
    frames: &[Window],
    answers: &BTreeMap<RmName, v1::QueryAvailabilityResponse>,
) -> Vec<FrameView> {
    let topology = &federation.topology;
    let mut positions: BTreeMap<&RmName, BTreeMap<ResourceId, usize>> = BTreeMap::new();
    for (rm, (_, description)) in &federation.members {
        let names = described_resources(description).enumerate();
        let names = names.map(|(at, (name, _))| (ResourceId::composed(name), at)).collect();
        positions.insert(rm, names);
    }
    let places = topology.resources().map(|(rm, resource)| {
        let position = positions.get(rm)?.get(resource)?;
        Some((answers.get(rm)?, *position))
    });
    let places: Vec<Option<(&v1::QueryAvailabilityResponse, usize)>> = places.collect();
    let view = |(index, frame): (usize, &Window)| {
        let amounts = places.iter().map(|place| {
            let (answer, position) = (*place)?;
            answer.frames.get(index)?.free.get(position).copied()
        });
        let amounts = amounts.map(Option::unwrap_or_default);
        FrameView::of_amounts(topology, *frame, amounts).at_most_capacity(topology)
    };
    frames.iter().enumerate().map(view).collect()
}
