//! Measures Hold with idle planners and with planners at full load: planning must not delay the protocol.
//!
//! The bench asks resource managers for holds in the name of their coordinator and aborts each hold at
//! once. The planners are kept busy with what-if plans for the slow solver, with a few in flight all the
//! time.

use std::time::{Duration, Instant};

use coalloc_common::{Span, limits};
use coalloc_net::convert::{span_to_wire, time_to_wire};
use coalloc_proto::v1;
use tokio::task::JoinSet;

use super::load::percentile;
use crate::kit::exit::Failure;
use crate::kit::rpc::{self, ResourceManager};
use crate::testbed::local::layout::{GRC, Post};

/// What-if plans in flight: enough for the threads of every planner, on any machine that runs this.
const PLANS_IN_FLIGHT: usize = 32;
/// How long holds took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Holds {
    /// Median and 99th percentile with the planners idle.
    pub idle: (Duration, Duration),
    /// The same with the planners at full load.
    pub busy: (Duration, Duration),
    /// Number of what-if plans that were in flight all that time.
    pub plans: usize,
}

/// Measures for `time` with idle planners, then for `time` with busy planners.
///
/// # Errors
/// When a call fails.
pub async fn measure(managers: &[Post], grc: &Post, time: Duration) -> Result<Holds, Failure> {
    // Only the coordinator itself may hold.
    let (dialer, mut targets) = (grc.as_itself()?, Vec::new());
    for post in managers {
        let mut client = rpc::resource_manager(&dialer, &post.address)?;
        let described = client.describe(v1::DescribeRequest {}).await;
        let described = described.map_err(|status| rpc::failure(&status))?.into_inner();
        let resource = described.sites.first().map(|site| site.name.clone());
        let resource = resource.or_else(|| {
            let path = described.paths.first()?;
            let suffix = if path.full_duplex { ":ab" } else { "" };
            Some(format!("{}{suffix}", path.name))
        });
        targets.extend(resource.map(|resource| (client, resource)));
    }
    let idle = holds("idle", &mut targets, time).await?;
    let mut planners = JoinSet::new();
    for _ in 0..PLANS_IN_FLIGHT {
        planners.spawn(plan_again_and_again(rpc::coordinator(&grc.dialer, &grc.address)?));
    }
    let busy = holds("busy", &mut targets, time).await;
    // A planner that cannot plan has ended; then the other planners were not busy either.
    if let Some(ended) = planners.try_join_next() {
        let status =
            ended.map_err(|error| Failure::internal(format!("a planning task failed: {error}")))?;
        return Err(rpc::failure(&status));
    }
    Ok(Holds { idle, busy: busy?, plans: PLANS_IN_FLIGHT })
}

/// Holds one CPU or one bit/s at one resource manager after the other, one hold at a time.
///
/// Returns the median and the 99th percentile.
async fn holds(
    what: &str,
    targets: &mut [(ResourceManager, String)],
    time: Duration,
) -> Result<(Duration, Duration), Failure> {
    let run = uuid::Uuid::new_v4().simple().to_string();
    let start = coalloc_net::clock::now().wall.saturating_add(Span::from_secs(3_600));
    let window = v1::Window {
        start: Some(time_to_wire(start)),
        end: Some(time_to_wire(start.saturating_add(Span::from_secs(60)))),
    };
    let (begin, mut took) = (Instant::now(), Vec::new());
    while begin.elapsed() < time {
        for (client, resource) in targets.iter_mut() {
            let transaction = format!("bench-{what}-{run}/{}", took.len());
            let segment = v1::Segment {
                resource: resource.clone(),
                amount: 1,
                window: Some(window),
                resource_manager: String::new(),
            };
            let hold = v1::HoldRequest {
                transaction: transaction.clone(),
                coordinator: GRC.to_owned(),
                segments: vec![segment],
                ..v1::HoldRequest::default()
            };
            let sent = Instant::now();
            client.hold(hold).await.map_err(|status| rpc::failure(&status))?;
            took.push(sent.elapsed());
            let coordinator = GRC.to_owned();
            let abort = v1::AbortRequest { transaction, coordinator, ..Default::default() };
            client.abort(abort).await.map_err(|status| rpc::failure(&status))?;
        }
    }
    took.sort_unstable();
    Ok((percentile(&took, 0.5), percentile(&took, 0.99)))
}

/// Plans the paper's largest request with the slow solver, again and again, until a call fails or this
/// future is dropped.
///
/// Dropping it stops the planner.
async fn plan_again_and_again(mut client: rpc::Coordinator) -> tonic::Status {
    let names = ["a", "b", "c", "d"];
    let site =
        |name: &&str| v1::SiteRequest { name: (*name).to_owned(), cpus: 1, ..Default::default() };
    let link = |from: usize, to: usize| v1::LinkRequest {
        from: names[from].to_owned(),
        to: names[to].to_owned(),
        bandwidth_bps: 1_000_000_000,
        ..v1::LinkRequest::default()
    };
    let start = coalloc_net::clock::now().wall.saturating_add(Span::from_secs(86_400));
    let request = v1::CoAllocationRequest {
        sites: names.iter().map(site).collect(),
        links: vec![link(0, 1), link(1, 2), link(2, 3), link(3, 0), link(0, 2), link(1, 3)],
        earliest_start: Some(time_to_wire(start)),
        latest_start: Some(time_to_wire(start.saturating_add(Span::from_secs(86_400)))),
        duration: Some(span_to_wire(Span::from_secs(3_600))),
        user: String::new(),
        manual_provision: None,
        series: String::new(),
    };
    let solver = Some("mip".to_owned());
    let frames = Some(limits::FRAMES_DEFAULT);
    let options = Some(v1::PlanOptions { frames, solver, ..Default::default() });
    let request = v1::PlanRequest { request: Some(request), options };
    loop {
        if let Err(status) = client.plan(request.clone()).await {
            return status;
        }
    }
}
