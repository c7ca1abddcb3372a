//! The settings of a co-allocation experiment. Every setting that is not given has the paper's value.

pub(crate) mod table;

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::suggest::did_you_mean;
use coalloc_common::{InvalidField, Objective, Ranking, ResourceKind, Span, UserName, limits};
use coalloc_plan::ip::{IpOptions, Program};
use coalloc_plan::{Named, Solver};
use serde::{Deserialize, Serialize};

use crate::experiment::settings;

/// Settings of one run. The federation is given separately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The planner, by the name that users give, such as `exact`, or an external
    /// program: `glpk`, `cbc`, `clasp`, `minisat+`; or a program of your own, `program:./mine`, relative to the
    /// folder of the experiment.
    pub planner: String,
    /// Whether `planner` ends at its first solution. `clasp` and `minisat+` can.
    pub first_solution: bool,
    /// The time limit of a program for one frame, in seconds. If a solver takes several rounds for a frame, each
    /// round gets an equal share, rounded up to whole seconds. If the limit cuts a frame short, the plans
    /// depend on the machine's speed; the metric `cut_short` says so.
    pub solver_s: i64,
    /// A planner that is compared with `planner` on the same frames.
    pub compared: Option<ComparedPlannerSettings>,
    /// Whether the additional constraints of Eq. (10) and (11) apply: `route_edges` limits every link, and no
    /// link uses an edge in both directions. Without them a route may have as many edges as any request may
    /// ask for.
    pub strengthened: bool,
    /// N_max of Eq. (11): the number of edges that one link may use.
    pub route_edges: u32,
    /// N: the number of frames that are planned for each request.
    pub frames: u32,
    /// What plans are compared by, most important first.
    pub objectives: Vec<String>,
    /// Which of the frames' plans is tried first where plans are compared by `start`: the earliest or the
    /// latest.
    pub first: First,
    /// Unit values of CPUs that replace those of the federation, in points. The key is the name of a site, a
    /// domain, or the number of a site's CPUs; the most specific key counts.
    pub cpu_values: BTreeMap<String, u64>,
    /// Whether an edge has its capacity in each direction, as Eq. (8) is printed, or for both directions
    /// together, as the sentence before Eq. (8) says.
    pub full_duplex: bool,
    /// Service levels: the percentage of the free amounts that a user may take, by user.
    pub levels: BTreeMap<String, u32>,
    /// Number of coordinators that compete; requests go to them in turn.
    pub coordinators: u32,
    /// The child coordinators of these coordinators. Each child has some of the resource managers; the
    /// parents plan over the children's abstract topologies.
    pub lower: Lower,
    /// Which coordinators users send requests to, where there are child coordinators.
    pub asked: RequestTarget,
    /// Whether a coordinator takes up a request only when the one before has its outcome. Live coordinators
    /// plan many requests at once, so that the requests of one coordinator compete as much as those of
    /// several do.
    pub in_turn: bool,
    /// Delay of a message in one direction between a coordinator and its RM or child coordinator,
    /// microseconds.
    pub delay_us: i64,
    /// Planning time at each level, in simulated microseconds.
    pub planning_us: i64,
    /// The requests.
    pub workload: Workload,
}

/// A planner that plans the frames of some requests as well. Its planning is timed, and its answers are
/// compared with those of `exact` under the same constraints. What is reserved is what `planner` chose, so
/// that every compared planner gets the same frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ComparedPlannerSettings {
    /// The compared planner, by the names that the setting `planner` allows.
    pub planner: String,
    /// Whether it has the additional constraints of Eq. (10) and (11).
    pub strengthened: bool,
    /// Whether it ends at its first solution.
    pub first_solution: bool,
    /// It plans one of this many requests: the one in their middle.
    pub every: u32,
    /// How many of that request's frames it plans, spread evenly; all of them where there are fewer. Where
    /// the planner of the day ends at the first frame that fits, no later frame is planned by either.
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

/// What a planner's name begins with that is a program of the user; its path follows.
const CUSTOM: &str = "program:";

/// A planner, as the settings name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planner {
    /// A solver that is linked into this program.
    Own(Solver),
    /// An external program, and whether it ends at its first solution.
    Outside(Program, bool),
    /// A program of the user, by its path.
    Custom(String),
}

impl Planner {
    /// The planner of this name.
    fn named(name: &str, first_solution: bool) -> Result<Self, InvalidField> {
        let program = Program::named(name).map(|program| Self::Outside(program, first_solution));
        let custom = name.strip_prefix(CUSTOM).filter(|path| !path.trim().is_empty());
        let custom = || custom.map(|path| Self::Custom(path.to_owned()));
        let own = || Solver::named(name).map(Self::Own);
        let found = program.or_else(own).or_else(custom).ok_or_else(|| {
            let known = || Solver::ALL.iter().map(|solver| solver.name());
            let known = || known().chain(Program::ALL.iter().map(|program| program.name()));
            let allowed = format!(
                "{}; the programs {}; or {CUSTOM}PATH, a program of your own{}",
                Solver::names(),
                Program::names(),
                did_you_mean(name, known())
            );
            InvalidField::new("planner", InvalidField::quoted(name), allowed)
        })?;
        let can = program_of(&found).is_some_and(Program::can_end_at_first);
        if first_solution && !can {
            let able = Program::ALL.iter().filter(|program| program.can_end_at_first());
            let able: Vec<String> = able.map(|able| format!("{:?}", able.name())).collect();
            let allowed = format!("true with {} only", able.join(" and "));
            return Err(InvalidField::new("first_solution", first_solution, allowed));
        }
        Ok(found)
    }
}

const fn program_of(planner: &Planner) -> Option<Program> {
    match planner {
        Planner::Own(_) | Planner::Custom(_) => None,
        Planner::Outside(program, _) => Some(*program),
    }
}

/// Which of two plans that differ only in their start is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum First {
    /// The earlier one.
    #[default]
    Earliest,
    /// The later one.
    Latest,
}

/// The requests of Takefusa 2010, section 4.1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// The users; each has a stream of arrivals of their own.
    pub users: Vec<String>,
    /// Mean of the exponentially distributed time between two requests of one user, seconds.
    pub interarrival_s: f64,
    /// Length of the day in which requests arrive, minutes. The next day, which they reserve in, has the same
    /// length.
    pub day_min: i64,
    /// The largest number of requests.
    pub requests: usize,
    /// CPUs at each site of a request; each request draws one of these values.
    pub cpus: Vec<u64>,
    /// What each site of a request also wants, by the word for the kind (`storage: 100`). By default nothing.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<ResourceKind, u64>,
    /// Durations, minutes; each request draws one of these values.
    pub durations_min: Vec<i64>,
    /// Latest start minus earliest start, as a multiple of the duration.
    pub slack: i64,
    /// Rate of each link, bit/s.
    pub rate_bps: u64,
    /// How the four sites of type 4 are joined.
    pub type4: Type4,
    /// The range of earliest starts.
    pub earliest: EarliestStarts,
}

/// How the four sites of type 4 are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Type4 {
    /// The first site is joined with each of the others.
    Star,
    /// Each site is joined with the next, and the last with the first.
    #[default]
    Ring,
    /// Every site is joined with every other.
    Mesh,
}

/// The range of earliest starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EarliestStarts {
    /// Any whole minute of the reserved day for which the latest end also lies within that day.
    #[default]
    InsideDay,
    /// Any minute of the reserved day; windows may end after the day.
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
            others: BTreeMap::new(),
            durations_min: vec![30, 60, 120],
            slack: 3,
            rate_bps: 1_000_000_000,
            type4: Type4::Ring,
            earliest: EarliestStarts::InsideDay,
        }
    }
}

/// The largest message delay and the largest planning time: a minute. The timeouts of coordinators are much
/// shorter, so runs can show what happens beyond them.
const DELAY_MAX_US: i64 = 60_000_000;
/// The longest day and the longest reservation: 30 days.
const DAY_MAX_MIN: i64 = 60 * 24 * 30;

impl Settings {
    /// Checks every number.
    ///
    /// # Errors
    /// The first field that is out of its range, by its path within the settings.
    pub fn check(&self) -> Result<(), InvalidField> {
        settings::check(table::TABLE, self)?;
        self.planner()?;
        if let Some(compared) = &self.compared {
            compared.planner().map_err(|error| error.within("compared"))?;
        }
        self.ranking()?;
        let users = &self.workload.users;
        if let Some(user) = self.levels.keys().find(|user| !users.contains(user)) {
            let guess = did_you_mean(user, users.iter().map(String::as_str));
            let allowed = format!("a user of workload.users: {}{guess}", users.join(", "));
            return Err(InvalidField::new("levels", InvalidField::quoted(user), allowed));
        }
        if self.asked == RequestTarget::LowerFirst && self.in_turn {
            // A child coordinator also plans for its parents, and cannot let them wait for its own users.
            let allowed = "only `upper` if coordinators take their requests in turn (`in_turn`)";
            return Err(InvalidField::new("asked", "lower-first", allowed));
        }
        self.workload.check().map_err(|error| error.within("workload"))
    }

    /// The planner that the settings name.
    ///
    /// # Errors
    /// When there is no planner of that name, or when it should end at its first solution but cannot.
    pub fn planner(&self) -> Result<Planner, InvalidField> {
        Planner::named(&self.planner, self.first_solution)
    }

    /// The external programs that a run starts.
    #[must_use]
    pub fn programs(&self) -> BTreeSet<Program> {
        self.planners().iter().filter_map(program_of).collect()
    }

    /// The programs of the user that a run starts, by their paths, each with the setting that names it.
    #[must_use]
    pub fn custom_programs(&self) -> BTreeMap<String, &'static str> {
        let named = |planner: Option<Planner>, field| match planner {
            Some(Planner::Custom(path)) => Some((path, field)),
            _ => None,
        };
        let compared = self.compared.as_ref().and_then(|compared| compared.planner().ok());
        let own = named(self.planner().ok(), "planner");
        named(compared, "compared.planner").into_iter().chain(own).collect()
    }

    /// The planner of the day, and the one that is compared with it.
    fn planners(&self) -> Vec<Planner> {
        let compared = self.compared.as_ref().and_then(|compared| compared.planner().ok());
        self.planner().ok().into_iter().chain(compared).collect()
    }

    /// What plans are compared by.
    ///
    /// # Errors
    /// When a word is not an objective.
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

    /// The additional constraints of the integer program, as the settings say.
    #[must_use]
    pub const fn ip_options(&self) -> IpOptions {
        self.ip_options_if(self.strengthened)
    }

    /// The options with or without the additional constraints.
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
        for (at, user) in self.users.iter().enumerate() {
            UserName::parse(&format!("users[{at}]"), user)?;
        }
        for (kind, amount) in &self.others {
            let field = format!("others.{}", kind.word());
            ResourceKind::parse_other(&field, kind.word())?.parse_amount(&field, *amount)?;
        }
        for (at, minutes) in self.durations_min.iter().enumerate() {
            let field = format!("durations_min[{at}]");
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

    /// The last minute at which a request of this duration may have its earliest start; the first is 0.
    pub(super) fn earliest_max(&self, minutes: i64) -> i64 {
        match self.earliest {
            EarliestStarts::InsideDay => self.day_min - (self.slack + 1) * minutes,
            EarliestStarts::Anywhere => self.day_min - 1,
        }
    }

    /// How long requests arrive.
    #[must_use]
    pub fn day(&self) -> Span {
        Span::from_secs(self.day_min * 60)
    }
}

/// Which child coordinators there are, and which resource managers each of them has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected `none`, `domains`, or the names of child coordinators, each with a list \
                 of domains and resource managers: `{grc-n: [N], grc-su: [S, nrm-U, crm-U0]}`"
)]
pub enum Lower {
    /// One of the usual divisions.
    Word(Word),
    /// Child coordinators by name, each with its domains and single resource managers.
    Groups(BTreeMap<String, Vec<String>>),
}

/// The usual divisions of a federation among child coordinators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// There are no child coordinators.
    None,
    /// One child coordinator for each domain, named `grc-DOMAIN`.
    Domains,
}

impl Default for Lower {
    fn default() -> Self {
        Self::Word(Word::None)
    }
}

/// Which coordinators users send their requests to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestTarget {
    /// A parent coordinator.
    #[default]
    #[serde(rename = "upper")]
    Parent,
    /// First a child coordinator, by turns, which plans on its own resource managers alone; then, with what
    /// that child refused, a parent coordinator.
    LowerFirst,
}
