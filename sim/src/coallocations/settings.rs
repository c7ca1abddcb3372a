//! The settings of a co-allocation experiment, with the paper's values where nothing is said.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, Objective, Ranking, Span, UserName, limits};
use coalloc_plan::Solver;
use coalloc_plan::ip::{IpOptions, Program};
use serde::{Deserialize, Serialize};

pub use super::levels::{Lower, RequestTarget, Word};

/// Settings of one run. The federation comes beside them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The planner, by the name that users give: `exact`, `mip`, `backtrack`, `sliding-window`, or a program
    /// of its own: `glpk`, `cbc`, `clasp`, `minisat+`.
    pub planner: String,
    /// Is `planner` to end at its first solution? `clasp` and `minisat+` can.
    pub first_solution: bool,
    /// What a program may take for one frame, seconds; of a frame that is solved several times, each rounded up. A frame that is cut short by it makes what is planned
    /// depend on the machine's speed; the metric `cut_short` says so.
    pub solver_s: i64,
    /// A planner that is put beside `planner`, on the same frames.
    pub compared: Option<ComparedPlannerSettings>,
    /// The additional constraints of Eq. (10) and (11): `route_edges` holds, and no link travels an edge in both
    /// directions. Without them a route may have as many edges as any request may ask for.
    pub strengthened: bool,
    /// N_max of Eq. (11): edges that one link may take.
    pub route_edges: u32,
    /// N: frames that are planned for each request.
    pub frames: u32,
    /// What plans are compared by, most important first.
    pub objectives: Vec<String>,
    /// Which plan of the earliest or of the latest frame is tried first, where plans are compared by `start`.
    pub first: First,
    /// Unit values of CPUs that stand for those of the federation: by the name of a site, or by a
    /// domain, or by a site's number of CPUs. The most particular one counts.
    pub cpu_values: BTreeMap<String, u64>,
    /// Does an edge have its capacity in each direction, as Eq. (8) is printed, or for both together, as the
    /// sentence before it says?
    pub full_duplex: bool,
    /// Service levels: percent of what is free, by user.
    pub levels: BTreeMap<String, u32>,
    /// Coordinators that compete; requests go to them in turn.
    pub coordinators: u32,
    /// Coordinators below those: each has some of the resource managers, and those above plan over what these show.
    pub lower: Lower,
    /// Whom users ask, where there are coordinators below others.
    pub asked: RequestTarget,
    /// Does a coordinator take up a request only when the one before has its outcome? As they run live they plan
    /// many at once, so that one of them gets into its own way as much as several into one another's.
    pub in_turn: bool,
    /// One way of a message between a coordinator and whom it has below it, microseconds.
    pub delay_us: i64,
    /// What planning takes in simulated time, at each level, microseconds.
    pub planning_us: i64,
    /// The requests.
    pub workload: Workload,
}

/// A planner that plans the frames of some requests as well. What it answers is timed and put beside what `exact`
/// answers under the same constraints; reserved is what `planner` chose, so that every planner that is compared
/// meets the same frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ComparedPlannerSettings {
    /// By its name, as `planner`.
    pub planner: String,
    /// Has it the additional constraints of Eq. (10) and (11)?
    pub strengthened: bool,
    /// Is it to end at its first solution?
    pub first_solution: bool,
    /// It plans one of so many requests: the one in their middle.
    pub every: u32,
    /// So many of that one's frames, evenly among them; all where there are fewer. Where the planner of the day ends at
    /// the first frame that fits, those behind it are nobody's.
    pub frames: u32,
}

impl Default for ComparedPlannerSettings {
    fn default() -> Self {
        let planner = Solver::Exact.name().to_owned();
        Self {
            planner,
            strengthened: true,
            first_solution: false,
            every: 1,
            frames: limits::FRAMES_MAX,
        }
    }
}

/// A planner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planner {
    /// One that is linked.
    Own(Solver),
    /// A program, and whether it ends at its first solution.
    Outside(Program, bool),
}

impl Planner {
    /// The one of this name.
    fn named(name: &str, first_solution: bool) -> Result<Self, InvalidField> {
        let program = Program::named(name).map(|program| Self::Outside(program, first_solution));
        let found = program.or_else(|| Solver::named(name).map(Self::Own)).ok_or_else(|| {
            let own = Solver::ALL.into_iter().map(Solver::name);
            let all = own.chain(Program::ALL.into_iter().map(Program::name));
            let all: Vec<String> = all.map(|name| format!("{name:?}")).collect();
            InvalidField::new("planner", InvalidField::quoted(name), all.join(", "))
        })?;
        let can = program_of(found).is_some_and(Program::can_end_at_first);
        if first_solution && !can {
            let able = Program::ALL.into_iter().filter(|program| program.can_end_at_first());
            let able: Vec<String> = able.map(|able| format!("{:?}", able.name())).collect();
            let allowed = format!("true with {} only", able.join(" and "));
            return Err(InvalidField::new("first_solution", first_solution, allowed));
        }
        Ok(found)
    }
}

const fn program_of(planner: Planner) -> Option<Program> {
    match planner {
        Planner::Own(_) => None,
        Planner::Outside(program, _) => Some(program),
    }
}

/// Which of two plans that differ in their start only is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum First {
    /// The earlier.
    #[default]
    Earliest,
    /// The later.
    Latest,
}

/// The requests of Takefusa 2010, section 4.1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// Who asks; each has arrivals of their own.
    pub users: Vec<String>,
    /// Mean time between two requests of one user, seconds; exponential.
    pub interarrival_s: f64,
    /// Requests arrive for so long, minutes; as long is the time after it that they are for.
    pub day_min: i64,
    /// At most so many requests.
    pub requests: usize,
    /// CPUs at each site of a request.
    pub cpus: Vec<u64>,
    /// Durations, minutes.
    pub durations_min: Vec<i64>,
    /// Latest less earliest start, in durations.
    pub slack: i64,
    /// Rate of each link, bit/s.
    pub rate_bps: u64,
    /// How the four sites of type 4 are joined.
    pub type4: Type4,
    /// Where the earliest start lies.
    pub earliest: EarliestStarts,
}

/// How the four sites of type 4 are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Type4 {
    /// The first site with each of the others.
    Star,
    /// Each site with the next, the last with the first.
    #[default]
    Ring,
    /// Every site with every other.
    Mesh,
}

/// Where earliest starts lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EarliestStarts {
    /// On a whole minute of the day that is reserved in, so that the latest end lies in it, too.
    #[default]
    InsideDay,
    /// On any minute of that day; windows may end after it.
    Anywhere,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            planner: Solver::Exact.name().to_owned(),
            first_solution: false,
            solver_s: 3_600,
            compared: None,
            strengthened: true,
            route_edges: limits::ROUTE_EDGES_DEFAULT,
            frames: limits::FRAMES_DEFAULT,
            objectives: vec!["start".to_owned(), "preference".to_owned()],
            first: First::Earliest,
            cpu_values: BTreeMap::new(),
            full_duplex: false,
            levels: BTreeMap::new(),
            coordinators: 1,
            lower: Lower::default(),
            asked: RequestTarget::Parent,
            in_turn: false,
            delay_us: 0,
            planning_us: 0,
            workload: Workload::default(),
        }
    }
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            users: vec!["UserA".to_owned(), "UserB".to_owned()],
            interarrival_s: 407.327,
            day_min: 24 * 60,
            requests: 1_000_000,
            cpus: vec![1, 2, 4, 8],
            durations_min: vec![30, 60, 120],
            slack: 3,
            rate_bps: 1_000_000_000,
            type4: Type4::Ring,
            earliest: EarliestStarts::InsideDay,
        }
    }
}

/// Longest delay of a message, and longest planning: a minute. Coordinators lose patience much sooner, which is to be
/// seen as well.
const DELAY_MAX_US: i64 = 60_000_000;

impl Settings {
    /// Checks every number.
    ///
    /// # Errors
    /// The first field that is out of its range, from the settings on.
    pub fn check(&self) -> Result<(), InvalidField> {
        self.planner()?;
        check_range("solver_s", self.solver_s, 1..=24 * 3_600, "s")?;
        if let Some(compared) = &self.compared {
            compared.planner().map_err(|error| error.within("compared"))?;
            check_range("compared.every", compared.every, 1..=1_000_000, "requests")?;
            check_range("compared.frames", compared.frames, 1..=limits::FRAMES_MAX, "frames")?;
        }
        self.ranking()?;
        check_range("route_edges", self.route_edges, 1..=limits::ROUTE_EDGES_MAX, "edges")?;
        check_range("frames", self.frames, 1..=limits::FRAMES_MAX, "frames")?;
        check_range("coordinators", self.coordinators, 1..=1_000, "")?;
        check_range("delay_us", self.delay_us, 0..=DELAY_MAX_US, "us")?;
        check_range("planning_us", self.planning_us, 0..=DELAY_MAX_US, "us")?;
        for (user, percent) in &self.levels {
            check_range(&format!("levels.{user}"), *percent, 1..=100, "percent")?;
        }
        for (site, value) in &self.cpu_values {
            let field = format!("cpu_values.{site}");
            check_range(&field, *value, 0..=limits::UNIT_VALUE_MAX, "points")?;
        }
        if self.asked == RequestTarget::LowerFirst && self.in_turn {
            // Whoever is asked by those above plans for them as well, and cannot let them wait for its users.
            let allowed = "upper, where coordinators take their requests in turn (`in_turn`)";
            return Err(InvalidField::new("asked", "lower-first", allowed));
        }
        self.workload.check().map_err(|error| error.within("workload"))
    }

    /// The planner.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot end at its first solution and is to.
    pub fn planner(&self) -> Result<Planner, InvalidField> {
        Planner::named(&self.planner, self.first_solution)
    }

    /// The programs that a run starts.
    #[must_use]
    pub fn programs(&self) -> BTreeSet<Program> {
        let compared = self.compared.as_ref().and_then(|compared| compared.planner().ok());
        self.planner().ok().into_iter().chain(compared).filter_map(program_of).collect()
    }

    /// What plans are compared by.
    ///
    /// # Errors
    /// When a word is no objective.
    pub fn ranking(&self) -> Result<Ranking, InvalidField> {
        let mut named = Vec::with_capacity(self.objectives.len());
        for (at, word) in self.objectives.iter().enumerate() {
            named.push(Objective::of_word(word).ok_or_else(|| {
                let words = Objective::ALL.map(Objective::word).join(", ");
                InvalidField::new(format!("objectives[{at}]"), InvalidField::quoted(word), words)
            })?);
        }
        Ok(Ranking::of(&named))
    }

    /// What the integer program is strengthened by.
    #[must_use]
    pub const fn ip_options(&self) -> IpOptions {
        self.ip_options_if(self.strengthened)
    }

    /// With or without the additional constraints.
    pub(super) const fn ip_options_if(&self, strengthened: bool) -> IpOptions {
        let route_edges_max = if strengthened { self.route_edges } else { limits::ROUTE_EDGES_MAX };
        IpOptions { route_edges_max, exclude_opposite_arcs: strengthened }
    }
}

impl ComparedPlannerSettings {
    pub(super) fn planner(&self) -> Result<Planner, InvalidField> {
        Planner::named(&self.planner, self.first_solution)
    }
}

impl Workload {
    fn check(&self) -> Result<(), InvalidField> {
        let some = |field: &str, count: usize| {
            check_range(field, count, 1..=limits::REQUEST_SITES_MAX, "of them").map(|_| ())
        };
        some("users", self.users.len())?;
        some("cpus", self.cpus.len())?;
        some("durations_min", self.durations_min.len())?;
        for (at, user) in self.users.iter().enumerate() {
            UserName::parse(&format!("users[{at}]"), user)?;
        }
        if !(self.interarrival_s > 0.001 && self.interarrival_s < 1e9) {
            let allowed = "more than 0.001, less than 1e9 s";
            return Err(InvalidField::new("interarrival_s", self.interarrival_s, allowed));
        }
        check_range("day_min", self.day_min, 1..=60 * 24 * 30, "min")?;
        check_range("slack", self.slack, 0..=1_000, "durations")?;
        check_range("rate_bps", self.rate_bps, 1..=limits::BANDWIDTH_MAX_BPS, "bit/s")?;
        for (at, cpus) in self.cpus.iter().enumerate() {
            check_range(&format!("cpus[{at}]"), *cpus, 1..=limits::CPUS_MAX, "CPUs")?;
        }
        for (at, minutes) in self.durations_min.iter().enumerate() {
            let field = format!("durations_min[{at}]");
            check_range(&field, *minutes, 1..=60 * 24 * 30, "min")?;
            let whole = (self.slack + 1).saturating_mul(*minutes);
            if self.earliest == EarliestStarts::InsideDay && whole > self.day_min {
                let allowed = format!(
                    "at most {} min, so that it and its slack fit the day",
                    self.day_min / (self.slack + 1)
                );
                return Err(InvalidField::new(field, minutes, allowed));
            }
        }
        Ok(())
    }

    /// The minutes of an earliest start, both ends included.
    pub(super) fn earliest_max(&self, minutes: i64) -> i64 {
        match self.earliest {
            EarliestStarts::InsideDay => self.day_min - (self.slack + 1) * minutes,
            EarliestStarts::Anywhere => self.day_min - 1,
        }
    }

    /// For how long requests arrive.
    #[must_use]
    pub fn day(&self) -> Span {
        Span::from_secs(self.day_min * 60)
    }
}
