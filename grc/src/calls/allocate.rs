//! Allocate: whole servers of one site, at the first start at which enough are idle, or exactly those that were picked.
//!
//! An allocation is a reservation of the coordinator core with a planner of its own. The planner goes through the
//! starts ([`ladder`]). It asks only the resource managers that have sites for it, all at once, about many starts in
//! one call. The fits that it finds are the candidates that the core tries. When others were faster, the planner goes
//! on after the last of them.
//!
//! * [`parsed`]: the request, read and checked.
//! * [`ladder`]: the starts, in order. Pure.
//!
//! Availability counts idle servers. Whether picked servers are among them is known only from the answer to Hold. The
//! refusal says until when one is taken, and the search goes on there.
//!
//! Left out: changing an allocation (release it and allocate again). Source: Castillo 2009, sections 3 and 4.

mod ladder;
mod parsed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coalloc_common::{Amount, Reason, Refusal, RmName, Segment, Time, Window, limits};
use coalloc_net::convert::{plan_digest, segments_to_wire, window_to_wire};
use coalloc_net::traces::Span as Traced;
use coalloc_net::{status, traces};
use coalloc_proto::v1;
use coalloc_protocol::conversation::{PlanJob, Planned};
use coalloc_protocol::coordinator::Candidate;
use tonic::Status;

use self::ladder::{Fit, Ladder, StartAnswer};
use self::parsed::ParsedAllocation;
use crate::admission;
use crate::availability;
use crate::availability::federation::Snapshot;
use crate::availability::server_sites::ServerSite;
use crate::calls::service::{GrcService, stands};
use crate::node::conversation::{JobPlanner, converse};
use crate::planning::behind_silence;
use crate::views::{kept, view};

impl GrcService {
    /// Handles one allocate call: the reservation, and how many starts this call has looked at.
    pub(crate) async fn allocate_whole(
        &self,
        wire: v1::AllocateRequest,
    ) -> Result<(v1::Reservation, u64), Status> {
        let ticket = parsed::ticket(&wire, &self.own_ids());
        let ticket = ticket.map_err(|error| status::invalid(&error))?;
        let id = ticket.request.clone();
        Traced::current().set("coalloc.request", &id);
        let _followed = traces::follow(&id);
        let mut planner = AllocationPlanner { service: self, wire: &wire, search: None };
        let end = converse(self.conversation(), ticket, &mut planner).await?;
        let tried = planner.search.map_or(0, |search| search.ladder.looked_at().0);
        Ok((self.shown(&*stands(end, id.as_str())?), tried))
    }

    /// Reads and checks an allocation, and begins its search.
    async fn begin_search(&self, wire: &v1::AllocateRequest) -> Result<AllocationSearch, Status> {
        let now = self.handle.now().wall;
        let soonest = now.saturating_add(limits::SOONEST_LEAD).next_second();
        let parsed = ParsedAllocation::read(wire, soonest);
        let parsed = parsed.map_err(|error| status::invalid(&error))?;
        let check = |federation: &Snapshot| admission::on(federation, || parsed.sites(federation));
        let (federation, sites) = self.settled_on(check).await?;
        Ok(AllocationSearch::new(&federation, parsed, sites, now))
    }
}

/// Plans an allocation.
struct AllocationPlanner<'a> {
    service: &'a GrcService,
    wire: &'a v1::AllocateRequest,
    /// The search, from the first planning on.
    search: Option<AllocationSearch>,
}

impl JobPlanner for AllocationPlanner<'_> {
    async fn plan(&mut self, job: &PlanJob) -> Result<Planned, Status> {
        let search = match &mut self.search {
            Some(search) => {
                search.go_on(&job.refusals);
                search
            }
            none => none.insert(self.service.begin_search(self.wire).await?),
        };
        let outcome = search.candidates(self.service, &job.refusals).await;
        let (starts, _) = search.ladder.looked_at();
        let fits = outcome.as_ref().map_or(0, Vec::len);
        tracing::info!(request = self.wire.request_id, starts, fits, "searched idle servers");
        // As often as there may be attempts: the search itself counts those.
        let replans = Some(limits::FRAMES_MAX);
        let unreachable: Vec<RmName> = search.unreachable.iter().cloned().collect();
        let notes = view::allocation_notes(&unreachable, self.wire);
        Ok(Planned { outcome, replans, notes })
    }

    /// The search goes on at later starts or other sites, where it does not meet those that were faster.
    fn backs_off(&self) -> bool {
        false
    }
}

/// The search for one allocation, kept from one planning to the next.
struct AllocationSearch {
    parsed: ParsedAllocation,
    /// The sites at which it may be, in the order in which they are tried.
    sites: Vec<ServerSite>,
    /// The federation with those resource managers only that have these sites and have answered so far.
    federation: Snapshot,
    /// The RMs that did not answer.
    unreachable: BTreeSet<RmName>,
    ladder: Ladder,
    /// How many more fits may be tried.
    tries_left: usize,
    /// The most servers that were idle throughout some start: where, and how many.
    most_idle: Option<(Fit, u64)>,
    /// The refusal when nothing can be reserved at the earliest start nor later.
    outside: Option<Refusal>,
}

impl AllocationSearch {
    fn new(
        federation: &Snapshot,
        mut parsed: ParsedAllocation,
        sites: Vec<ServerSite>,
        now: Time,
    ) -> Self {
        let rms: BTreeSet<&RmName> = sites.iter().map(|site| &site.rm).collect();
        let members = federation.members.iter().filter(|(rm, _)| rms.contains(rm));
        let federation = Snapshot {
            topology: Arc::clone(&federation.topology),
            members: members.map(|(rm, member)| (rm.clone(), member.clone())).collect(),
            missing: federation.missing.clone(),
        };
        let range = &mut parsed.range;
        let first: Vec<Window> =
            Window::starting(range.earliest, range.length).into_iter().collect();
        let (_, outside) = availability::bookable(&federation, first, now);
        let horizon = availability::horizon_end(&federation, now);
        range.latest = range.latest.min(horizon.saturating_sub(range.length));
        Self {
            ladder: Ladder::new(*range),
            unreachable: federation.missing.iter().cloned().collect(),
            parsed,
            sites,
            federation,
            tries_left: limits::ATTEMPTS_MAX,
            most_idle: None,
            outside: outside.into_iter().next().map(|(_, refusal)| refusal),
        }
    }

    /// All fits so far were refused.
    fn go_on(&mut self, refusals: &[Refusal]) {
        match refusals.last().and_then(|refusal| self.taken_until(refusal)) {
            Some(until) => self.ladder.skip_to(until),
            None => self.ladder.go_on(),
        }
    }

    /// Until when a picked server is taken, by a refusal.
    fn taken_until(&self, refusal: &Refusal) -> Option<Time> {
        let resource = refusal.resource.as_ref()?;
        let window = refusal.window.filter(|_| self.parsed.wish.picked.contains(resource))?;
        Some(window.end())
    }

    /// The next fits as candidates, earliest start first, or why there are none.
    async fn candidates(
        &mut self,
        service: &GrcService,
        refusals: &[Refusal],
    ) -> Result<Vec<Candidate>, Refusal> {
        if let Some(outside) = &self.outside {
            return Err(outside.clone());
        }
        while self.tries_left > 0 && !self.federation.members.is_empty() {
            let frames = self.ladder.frames();
            if frames.is_empty() {
                break;
            }
            let answers = self.ask(service, &frames).await;
            let mut fits = self.ladder.fits(&answers);
            fits.truncate(self.tries_left);
            self.tries_left -= fits.len();
            if !fits.is_empty() {
                return Ok(fits.iter().map(|fit| self.candidate(fit)).collect());
            }
        }
        Err(self.nothing_fits(refusals))
    }

    /// Asks all resource managers of the search about these starts. One that does not answer is not asked again.
    async fn ask(&mut self, service: &GrcService, frames: &[Window]) -> Vec<StartAnswer> {
        let (rms, user) = (&service.federation, &self.parsed.user);
        let picture = availability::query(
            rms,
            &self.federation,
            frames,
            user,
            availability::Replaced::default(),
        )
        .await;
        self.federation.members.retain(|rm, _| !picture.unreachable.contains(rm));
        self.unreachable.extend(picture.unreachable);
        let mut answers = Vec::with_capacity(frames.len());
        for (view, next_change) in picture.views.iter().zip(picture.changes) {
            let mut sites = Vec::new();
            for (index, site) in self.sites.iter().enumerate() {
                let idle = view.free_cpus.get(site.vertex.at()).map_or(0, |cpus| cpus.0);
                let idle = idle / site.cpus_each;
                if self.most_idle.is_none_or(|(_, most)| idle > most) {
                    self.most_idle = Some((Fit { frame: view.window, site: index }, idle));
                }
                // Whether picked servers are idle, and when they are, is in the answer to Hold.
                let is_picked = !self.parsed.wish.picked.is_empty();
                let answers = self.federation.members.contains_key(&site.rm);
                if idle >= self.parsed.servers || is_picked && answers {
                    sites.push(index);
                }
            }
            answers.push(StartAnswer { frame: view.window, sites, next_change });
        }
        answers
    }

    /// A fit as a candidate.
    fn candidate(&self, fit: &Fit) -> Candidate {
        let site = &self.sites[fit.site];
        let cpus = self.parsed.cpus_at(site);
        let (resource, window) = (site.resource.clone(), fit.frame);
        let segments = vec![Segment { resource, amount: Amount(cpus), window }];
        let segments = BTreeMap::from([(site.rm.clone(), segments)]);
        let placement = v1::Placement {
            site: site.name.clone(),
            at: site.name.clone(),
            cpus,
            ..v1::Placement::default()
        };
        let on_wire = segments.iter().flat_map(|(rm, all)| segments_to_wire(Some(rm), all));
        let plan = v1::Plan {
            digest: plan_digest(&segments),
            window: Some(window_to_wire(window)),
            placements: vec![placement],
            segments: on_wire.collect(),
            cost_millipoints: cpus.saturating_mul(site.unit_value).saturating_mul(1_000),
            ..v1::Plan::default()
        };
        Candidate {
            segments,
            details: kept::co_allocation(&plan).into(),
            servers: BTreeMap::from([(site.rm.clone(), self.parsed.wish.clone())]),
            ..Candidate::default()
        }
    }

    /// Why nothing fits: what a resource manager has said of the picked servers, or how many servers were idle at
    /// most, and what was tried.
    fn nothing_fits(&self, refusals: &[Refusal]) -> Refusal {
        if let Some(taken) = refusals.last().filter(|refusal| self.taken_until(refusal).is_some()) {
            return taken.clone();
        }
        let servers = self.parsed.servers;
        let tried = self.tried();
        let refusal = match &self.most_idle {
            Some((_, most)) if *most >= servers => {
                let detail =
                    format!("others were faster wherever enough servers were idle ({servers})");
                Refusal::new(Reason::InsufficientCapacity, detail + &tried)
            }
            Some((Fit { frame, site }, most)) => {
                let site = &self.sites[*site];
                let (name, length) = (&site.name, frame.length());
                let detail = format!(
                    "no site has so many servers idle for {length} at once (wanted: {servers}): at most {most} of {} at \
                     {name}, from {} on{tried}",
                    site.servers,
                    frame.start(),
                );
                Refusal {
                    resource: Some(site.resource.clone()),
                    window: Some(*frame),
                    requested: Some(Amount(self.parsed.cpus_at(site))),
                    available: Some(Amount(most.saturating_mul(site.cpus_each))),
                    ..Refusal::new(Reason::InsufficientCapacity, detail)
                }
            }
            None => Refusal::new(Reason::InsufficientCapacity, "no start was tried"),
        };
        if self.unreachable.is_empty() {
            return refusal;
        }
        behind_silence(&self.unreachable, refusal)
    }

    /// Which starts were tried, as the end of a sentence.
    fn tried(&self) -> String {
        let first = self.parsed.range.earliest;
        match self.ladder.looked_at() {
            (count, Some(last)) if count > 1 => {
                format!("; {count} starts were tried, from {first} to {last}")
            }
            _ => format!("; only the start at {first} was tried"),
        }
    }
}
