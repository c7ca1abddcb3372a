//! A planner that is a program of the user: `planner: program:./mine`.
//!
//! For each frame, the program gets the request and what is free as JSON on its standard input, and answers with
//! places and routes, or with a refusal, as JSON on its standard output. This module writes the one and reads the
//! other; an implementation of [`Programs`] starts the process. The answer is not trusted: names must exist, routes must
//! be connected, and [`verify`] checks the plan like that of any other planner. An answer that is not valid ends the run
//! with what is wrong. Whether a refusal is right cannot be checked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use coalloc_common::suggest::did_you_mean;
use coalloc_common::topology::Direction;
use coalloc_common::{CoAllocation, EdgeIndex, Reason, Refusal, SiteDemand, VertexIndex};
use coalloc_plan::ip::outside::{PlannerJob, ProgramEnd, ProgramRun, Programs};
use coalloc_plan::ip::{IpOptions, verify};
use coalloc_plan::{Budget, FramePlanner, Instance, Outcome, Plan, Route};
use serde::{Deserialize, Serialize};

use super::Frames;

/// How many characters of a wrong answer are repeated.
const QUOTED_MAX: usize = 200;

/// What the program gets.
#[derive(Debug, Serialize)]
struct FrameText<'a> {
    window: WindowText,
    request: RequestText<'a>,
    sites: Vec<SiteText<'a>>,
    paths: Vec<PathText<'a>>,
    /// The largest number of paths of a route.
    route_paths_max: usize,
}

#[derive(Debug, Serialize)]
struct WindowText {
    start_us: i64,
    end_us: i64,
}

#[derive(Debug, Serialize)]
struct RequestText<'a> {
    sites: Vec<WantedSite<'a>>,
    links: Vec<WantedLink>,
}

#[derive(Debug, Serialize)]
struct WantedSite<'a> {
    name: &'a str,
    /// What is wanted, by the word for the kind.
    wants: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Serialize)]
struct WantedLink {
    /// Indices of requested sites.
    from: usize,
    to: usize,
    rate_bps: u64,
}

/// A site, or an exchange point, where nothing is free.
#[derive(Debug, Serialize)]
struct SiteText<'a> {
    name: &'a str,
    /// What is free in the frame, by the word for the kind.
    free: BTreeMap<&'static str, u64>,
    /// The cost of each requested site here.
    costs: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct PathText<'a> {
    name: &'a str,
    a: &'a str,
    b: &'a str,
    latency_us: i64,
    /// Do both directions share what is free?
    shared: bool,
    /// What is free from a to b, and from b to a.
    free_bps: [u64; 2],
    /// The cost of each requested link from a to b, and from b to a.
    costs: Vec<[u64; 2]>,
}

/// What the program answers: a plan, or why there is none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerText {
    #[serde(default)]
    plan: Option<PlanText>,
    #[serde(default)]
    refused: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    /// The place of each requested site.
    sites: Vec<String>,
    /// The paths of each requested link, from the place of its start on.
    routes: Vec<Vec<String>>,
}

/// The JSON of a frame.
fn frame_text(instance: &Instance<'_>, options: &IpOptions) -> String {
    let Instance { topology, request, view, costs } = instance;
    let directions = [Direction::AToB, Direction::BToA];
    let wanted_site =
        |site: &SiteDemand| site.amounts().map(|(kind, amount)| (kind.word(), amount.0)).collect();
    // There are at most VERTICES_MAX vertices and EDGES_MAX edges, so the casts keep the values.
    let sites = topology.vertices().iter().enumerate().map(|(at, vertex)| {
        let index = VertexIndex(at as u32);
        SiteText {
            name: vertex.name.as_str(),
            free: (vertex.resources())
                .map(|of| (of.kind.word(), view.free_at(of.kind, index).0))
                .collect(),
            costs: (0..request.sites.len()).map(|site| costs.site(site, index)).collect(),
        }
    });
    let name = |index: VertexIndex| topology.vertex(index).name.as_str();
    let paths = topology.edges().iter().enumerate().map(|(at, edge)| {
        let index = EdgeIndex(at as u32);
        let free = view.free_bps[at].map(|rate| rate.0);
        let least = free[0].min(free[1]);
        let links = request.links.iter().enumerate();
        PathText {
            name: edge.name.as_str(),
            a: name(edge.a),
            b: name(edge.b),
            latency_us: edge.latency.as_us(),
            shared: edge.is_shared(),
            free_bps: if edge.is_shared() { [least; 2] } else { free },
            costs: links
                .map(|(link, own)| {
                    directions.map(|way| costs.step(link, index, way, own.bandwidth))
                })
                .collect(),
        }
    });
    let frame = FrameText {
        window: WindowText {
            start_us: view.window.start().as_us(),
            end_us: view.window.end().as_us(),
        },
        request: RequestText {
            sites: (request.sites.iter())
                .map(|site| WantedSite { name: site.name.as_str(), wants: wanted_site(site) })
                .collect(),
            links: (request.links.iter())
                .map(|link| WantedLink { from: link.from, to: link.to, rate_bps: link.bandwidth.0 })
                .collect(),
        },
        sites: sites.collect(),
        paths: paths.collect(),
        route_paths_max: options.route_edges(),
    };
    // Texts and numbers can always be written as JSON.
    serde_json::to_string(&frame).unwrap_or_default()
}

/// The answers that are possible to a request.
fn expected(request: &CoAllocation) -> String {
    let list = |item: &str, count: usize| match count {
        0 => "[]".to_owned(),
        1 => format!("[{item}]"),
        2 => format!("[{item}, {item}]"),
        more => format!("[{item}, .. {more} in all]"),
    };
    let (sites, routes) =
        (list("SITE", request.sites.len()), list("[PATH, ..]", request.links.len()));
    format!(
        "{{\"plan\": {{\"sites\": {sites}, \"routes\": {routes}}}}} or {{\"refused\": \"why\"}}"
    )
}

/// The plan that an answer names, or the reason of its refusal.
///
/// # Errors
/// What is wrong with the answer.
fn read_answer(
    instance: &Instance<'_>,
    options: &IpOptions,
    text: &str,
) -> Result<Result<Plan, String>, String> {
    let expected = expected(instance.request);
    if text.trim().is_empty() {
        return Err(format!("it answered nothing on its standard output; expected {expected}"));
    }
    let answer: AnswerText = serde_json::from_str(text).map_err(|error| {
        let quoted: String = text.trim().chars().take(QUOTED_MAX).collect();
        let problem = match error.is_data() {
            true => error.to_string(),
            false => {
                format!("it is not JSON from line {} column {} on", error.line(), error.column())
            }
        };
        format!("its answer {quoted:?} is no plan: {problem}; expected {expected}")
    })?;
    let named = match (answer.plan, answer.refused) {
        (Some(plan), None) => plan,
        (None, Some(why)) => return Ok(Err(why)),
        (Some(_), Some(_)) => {
            return Err(format!("its answer has both `plan` and `refused`; expected {expected}"));
        }
        (None, None) => {
            return Err(format!(
                "its answer has neither `plan` nor `refused`; expected {expected}"
            ));
        }
    };
    let plan =
        plan_of(instance, &named).map_err(|wrong| format!("{wrong}; expected {expected}"))?;
    verify(instance, options, &plan).map_err(|wrong| format!("its plan is not valid: {wrong}"))?;
    Ok(Ok(plan))
}

fn plan_of(instance: &Instance<'_>, named: &PlanText) -> Result<Plan, String> {
    let Instance { topology, request, view, costs } = instance;
    let counts = [
        ("sites", "a place for each site", named.sites.len(), request.sites.len()),
        ("routes", "a route for each link", named.routes.len(), request.links.len()),
    ];
    for (field, what, count, wanted) in counts {
        if count != wanted {
            return Err(format!(
                "plan.{field}: {count} in number; needed: {wanted}, {what} of the request"
            ));
        }
    }
    let mut placements = Vec::with_capacity(named.sites.len());
    for (at, name) in named.sites.iter().enumerate() {
        let known = || topology.vertices().iter().map(|vertex| vertex.name.as_str());
        let found = known().position(|own| own == name).ok_or_else(|| {
            let guess = did_you_mean(name, known());
            format!("plan.sites[{at}]: there is no site {name:?}{guess}")
        })?;
        placements.push(VertexIndex(found as u32));
    }
    let mut routes = Vec::with_capacity(named.routes.len());
    for (number, (link, names)) in request.links.iter().zip(&named.routes).enumerate() {
        let mut at = placements[link.from];
        let mut route = Route::new();
        for (step, name) in names.iter().enumerate() {
            let field = format!("plan.routes[{number}][{step}]");
            let known = || topology.edges().iter().map(|edge| edge.name.as_str());
            let found = known().position(|own| own == name).ok_or_else(|| {
                let guess = did_you_mean(name, known());
                format!("{field}: there is no path {name:?}{guess}")
            })?;
            let index = EdgeIndex(found as u32);
            let edge = topology.edge(index);
            let direction = match at {
                at if at == edge.a => Direction::AToB,
                at if at == edge.b => Direction::BToA,
                at => {
                    let place = &topology.vertex(at).name;
                    return Err(format!("{field}: the path {name} does not begin at {place}"));
                }
            };
            at = edge.head(direction);
            route.push((index, direction));
        }
        routes.push(route);
    }
    let cost = costs.plan(request, &placements, &routes);
    // Nothing is proven of the program's plans.
    let window = view.window;
    Ok(Plan { window, placements, routes, cost, lower_bound: 0, solver: "program" })
}

/// A program of the user as a planner, which records how each of its frames ended.
pub(super) struct Custom {
    pub(super) path: String,
    pub(super) options: IpOptions,
    pub(super) programs: Arc<dyn Programs>,
    pub(super) frames: Arc<Mutex<Frames>>,
}

impl Custom {
    /// The plan, the reason of a refusal, or `None` if the program's time was over.
    fn ask(
        &self,
        instance: &Instance<'_>,
        budget: &Budget<'_>,
    ) -> Result<Option<Result<Plan, String>>, String> {
        let frame = frame_text(instance, &self.options);
        let job = PlannerJob { path: self.path.clone(), frame, time: budget.solver_time };
        let ProgramRun { ended, output, errors, .. } = self.programs.plan(&job)?;
        let how = match ended {
            ProgramEnd::Exited(0) => {
                return read_answer(instance, &self.options, &output).map(Some);
            }
            ProgramEnd::OutOfTime => return Ok(None),
            ProgramEnd::Exited(code) => format!("it ended with exit code {code}"),
            ProgramEnd::Killed(signal) => format!("it was killed by signal {signal}"),
        };
        let last = errors.lines().rev().find(|line| !line.trim().is_empty());
        let words = last.map(|line| format!("; its last words: {line}")).unwrap_or_default();
        Err(how + &words)
    }
}

impl FramePlanner for Custom {
    fn name(&self) -> &'static str {
        "program"
    }

    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome {
        let answer = self.ask(instance, budget);
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.planned += 1;
        let window = instance.view.window;
        let refused = |reason: Reason, detail: String| {
            Outcome::Refused(Refusal { window: Some(window), ..Refusal::new(reason, detail) })
        };
        match answer {
            Ok(Some(Ok(plan))) => Outcome::Planned(plan),
            Ok(Some(Err(why))) => refused(Reason::NoRoute, format!("{}: {why}", self.path)),
            Ok(None) => {
                frames.cut_short += 1;
                refused(Reason::BudgetExhausted, format!("{} timed out", self.path))
            }
            Err(what) => {
                let text = format!("{}: {what}, for the frame {window}", self.path);
                frames.failed.get_or_insert(text.clone());
                refused(Reason::BudgetExhausted, text)
            }
        }
    }
}
