//! The request that `plan` and `reserve` take: a file, and flags that replace parts of it.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use coalloc_common::{InvalidField, Time, limits};
use coalloc_net::convert::time_to_wire;
use coalloc_plan::{Named, Solver};
use coalloc_proto::file::{Document, read, read_from};
use coalloc_proto::v1;
use tonic::Status;

use crate::kit::exit::Failure;
use crate::kit::rpc::violations;
use crate::kit::text::time;
use crate::kit::when::InstantArg;

/// The request, and how plans are searched.
#[derive(Debug, Clone, Args)]
pub struct RequestArgs {
    /// The request, a CoAllocationRequest as YAML or JSON; `-` reads standard input
    #[arg(short, long, value_name = "FILE")]
    pub request: PathBuf,
    /// Replaces earliest_start: 2026-11-21T10:00:00Z, now, now+2h. The file's latest start moves along
    #[arg(long, value_name = "TIME")]
    pub earliest_start: Option<InstantArg>,
    /// Replaces latest_start
    #[arg(long, value_name = "TIME")]
    pub latest_start: Option<InstantArg>,
    /// Replaces user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// How plans are searched.
    #[command(flatten)]
    pub search: SearchArgs,
}

/// How plans are searched.
#[derive(Debug, Clone, Default, Args)]
pub struct SearchArgs {
    /// Time frames to try between the earliest and the latest start [default: the coordinator's setting; 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::FRAMES_MAX)))]
    pub frames: Option<u32>,
    /// Maximum number of paths that one link may be made of [default: the coordinator's setting; 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::ROUTE_EDGES_MAX)))]
    pub max_paths: Option<u32>,
    /// What matters, most important first: `price,start` [default: the coordinator's setting; start,preference]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub objective: Vec<ObjectiveArg>,
    /// Maximum number of plans [default: one for each time frame that has one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::FRAMES_MAX)))]
    pub plans: Option<u32>,
    /// The solver [default: the coordinator's setting; exact]
    #[arg(long, value_name = "NAME", value_parser = planner_parser::<Solver>())]
    pub solver: Option<Solver>,
}

/// The objectives that can be asked for; a lower value is better for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ObjectiveArg {
    /// An early start
    Start,
    /// A low price, by the price schedules
    Price,
    /// Little loss against full quality
    Quality,
    /// Resources that are little used
    Load,
    /// Low unit values: the resource managers that the operators prefer
    Preference,
}

impl From<ObjectiveArg> for v1::Objective {
    fn from(objective: ObjectiveArg) -> Self {
        match objective {
            ObjectiveArg::Start => Self::Start,
            ObjectiveArg::Price => Self::Price,
            ObjectiveArg::Quality => Self::Quality,
            ObjectiveArg::Load => Self::Load,
            ObjectiveArg::Preference => Self::Preference,
        }
    }
}

/// Parses the name of a planner of this kind; `--help` lists them all.
pub fn planner_parser<P: Named>() -> impl TypedValueParser<Value = P> {
    let listed = P::ALL.iter().map(|one| PossibleValue::new(one.name()).help(one.about()));
    let named = |name: String| P::named(&name).ok_or_else(|| format!("not {}", P::WHAT));
    PossibleValuesParser::new(listed).try_map(named)
}

/// A request with the flags applied, which still knows where each of its parts was written.
#[derive(Debug, Clone)]
pub struct ParsedRequest {
    /// The request.
    pub request: v1::CoAllocationRequest,
    /// How plans are searched.
    pub options: v1::PlanOptions,
    document: Document<v1::CoAllocationRequest>,
    /// The fields that a flag replaced, each with its flag.
    replaced: Vec<(&'static str, &'static str)>,
}

impl SearchArgs {
    /// The fields of a call that these flags set, each with its flag.
    pub const FLAGS: [(&'static str, &'static str); 1] = [("options.objectives", "--objective")];

    /// The options that the flags set; all others are unset.
    #[must_use]
    pub fn options(&self) -> v1::PlanOptions {
        let solver = self.solver.map(|solver| solver.name().to_owned());
        v1::PlanOptions {
            frames: self.frames,
            max_paths_per_link: self.max_paths,
            solver,
            objectives: self.objective.iter().map(|o| v1::Objective::from(*o).into()).collect(),
            plans: self.plans,
            alternatives: None,
        }
    }
}

/// The flags that set the same options.
#[must_use]
pub fn flags(options: &v1::PlanOptions) -> String {
    let number = |flag: &str, set: Option<u32>| set.map(|number| format!("{flag} {number}"));
    let word = |one: i32| {
        let name = v1::Objective::try_from(one).unwrap_or_default().as_str_name();
        name.trim_start_matches("OBJECTIVE_").to_lowercase()
    };
    let objectives: Vec<String> = options.objectives.iter().copied().map(word).collect();
    let objectives = format!("--objective {}", objectives.join(","));
    let flags = [
        number("--frames", options.frames),
        number("--max-paths", options.max_paths_per_link),
        Some(objectives).filter(|_| !options.objectives.is_empty()),
        number("--plans", options.plans),
        options.solver.as_ref().map(|solver| format!("--solver {solver}")),
    ];
    flags.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

impl RequestArgs {
    /// Reads the file and applies the flags.
    ///
    /// # Errors
    /// When the file cannot be read as a request.
    pub fn load(&self, now: Time) -> Result<ParsedRequest, Failure> {
        let document: Document<v1::CoAllocationRequest> = if self.request == Path::new("-") {
            read_from(Path::new("standard input"), std::io::stdin())?
        } else {
            read(&self.request)?
        };
        let options = self.search.options();
        let request = document.message.clone();
        let replaced = SearchArgs::FLAGS.to_vec();
        let mut asked = ParsedRequest { request, options, document, replaced };
        if let Some((field, problem)) = link_hardly_meant(&asked.request) {
            return Err(asked.mistake(&field, &problem));
        }
        self.apply(&mut asked, now);
        Ok(asked)
    }

    fn apply(&self, asked: &mut ParsedRequest, now: Time) {
        let ParsedRequest { request, replaced, .. } = asked;
        if let Some(earliest) = self.earliest_start.map(|when| when.at(now)) {
            let moved =
                time(request.earliest_start.as_ref()).zip(time(request.latest_start.as_ref()));
            if let Some((was, latest)) = moved {
                request.latest_start =
                    Some(time_to_wire(earliest.saturating_add(latest.since(was))));
            }
            request.earliest_start = Some(time_to_wire(earliest));
            replaced.push(("earliest_start", "--earliest-start"));
        }
        if let Some(latest) = self.latest_start {
            request.latest_start = Some(time_to_wire(latest.at(now)));
            replaced.push(("latest_start", "--latest-start"));
        }
        if let Some(user) = &self.user {
            request.user.clone_from(user);
            replaced.push(("user", "--user"));
        }
    }
}

/// A rate below this that was written without a unit is probably a mistake.
const RATE_MEANT_MIN: u64 = 1_000;

/// Returns what a suspiciously low rate in bit/s most likely means, or `None` if the rate may be meant.
///
/// A rate of zero is left to the coordinator to refuse.
#[must_use]
pub fn rate_hardly_meant(bps: u64) -> Option<String> {
    if bps == 0 || bps >= RATE_MEANT_MIN {
        return None;
    }
    let mbps = bps * 1_000_000;
    Some(format!(
        "{bps} is {bps} bit/s; did you mean {bps} Mbit/s, {mbps}? Rates are in bit/s; allowed: \
         {RATE_MEANT_MIN} and more"
    ))
}

/// The first link of a request with a suspiciously low rate: its field, and the problem with it.
#[must_use]
pub fn link_hardly_meant(request: &v1::CoAllocationRequest) -> Option<(String, String)> {
    let mut links = request.links.iter().enumerate();
    links.find_map(|(at, link)| {
        let problem = rate_hardly_meant(link.bandwidth_bps)?;
        Some((format!("links[{at}].bandwidth_bps"), problem))
    })
}

impl ParsedRequest {
    /// Records that a field comes from a flag, not from the file.
    pub fn blame(&mut self, field: &'static str, flag: &'static str) {
        self.replaced.push((field, flag));
    }

    /// An error in the meaning of this request, with the line of the file or the flag that caused it.
    #[must_use]
    pub fn mistake(&self, field: &str, problem: &str) -> Failure {
        let field = field.strip_prefix("request.").unwrap_or(field);
        let of = |replaced: &str| {
            field
                .strip_prefix(replaced)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('['))
        };
        if let Some((_, flag)) = self.replaced.iter().find(|(replaced, _)| of(replaced)) {
            return Failure::bad_input(format!("{flag}: {problem}"));
        }
        self.document.mistake(field, problem).into()
    }

    /// The same, for an error of the conversions.
    #[must_use]
    pub fn invalid(&self, error: &InvalidField) -> Failure {
        let problem = format!("{} is not allowed; allowed: {}", error.value, error.allowed);
        self.mistake(&error.field, &problem)
    }

    /// The meaning of a failed call that sent this request.
    ///
    /// Returns the lines of the fields that the server refused, or `otherwise` when it refused none.
    #[must_use]
    pub fn failure(&self, status: &Status, otherwise: Failure) -> Failure {
        let lines: Vec<String> = violations(status)
            .iter()
            .map(|(field, problem)| self.mistake(field, problem).message)
            .collect();
        if lines.is_empty() { otherwise } else { Failure::bad_input(lines.join("\n")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::exit::Exit;
    use coalloc_net::convert::request_from_wire;

    const TEXT: &str = "\
sites:
  - name: a
    cpus: 0
earliest_start: 2027-01-01T10:00:00Z
latest_start: 2027-01-01T12:00:00Z
duration: 60s
";

    fn asked(flags: impl FnOnce(&mut RequestArgs)) -> ParsedRequest {
        let document = read_from(Path::new("request.yaml"), TEXT.as_bytes()).unwrap();
        let mut args = RequestArgs {
            request: "request.yaml".into(),
            earliest_start: None,
            latest_start: None,
            user: None,
            search: SearchArgs::default(),
        };
        flags(&mut args);
        let request = v1::CoAllocationRequest::clone(&document.message);
        let options = v1::PlanOptions::default();
        let mut asked = ParsedRequest { request, options, document, replaced: Vec::new() };
        args.apply(&mut asked, Time::from_us(0));
        asked
    }

    #[test]
    fn mistakes_of_sense_name_file_line_field_and_range() {
        let asked = asked(|_| ());
        let error = request_from_wire(&asked.request, Time::from_us(0)).unwrap_err();
        let expected =
            "request.yaml:3: sites[0].cpus: 0 is not allowed; allowed: 1 to 10000000 CPUs";
        assert_eq!(asked.invalid(&error), Failure::bad_input(expected));
        let status = coalloc_net::status::invalid(&error.within("request"));
        let failure = asked.failure(&status, Failure::internal("not this"));
        assert_eq!(failure, Failure::bad_input(expected));
    }

    #[test]
    fn a_rate_that_is_hardly_meant_is_asked_about() {
        let meant = |bps| rate_hardly_meant(bps).is_none();
        assert!(meant(0) && meant(1_000) && meant(1_000_000_000));
        assert!(!meant(1) && !meant(999));
        let link = |bandwidth_bps| v1::LinkRequest { bandwidth_bps, ..Default::default() };
        let links = vec![link(1_000_000), link(100)];
        let request = v1::CoAllocationRequest { links, ..Default::default() };
        let (field, problem) = link_hardly_meant(&request).unwrap();
        assert_eq!(field, "links[1].bandwidth_bps");
        assert!(problem.contains("did you mean 100 Mbit/s, 100000000?"), "{problem}");
    }

    #[test]
    fn a_call_that_failed_otherwise_is_not_blamed_on_the_file() {
        let otherwise = Failure::new(Exit::CallFailed, "gone");
        let status = Status::unavailable("gone");
        assert_eq!(asked(|_| ()).failure(&status, otherwise.clone()), otherwise);
    }

    #[test]
    fn a_new_earliest_start_takes_the_latest_along_and_is_blamed_by_its_flag() {
        let asked =
            asked(|args| args.earliest_start = Some("2027-01-02T10:00:00Z".parse().unwrap()));
        let latest = crate::kit::text::instant(asked.request.latest_start.as_ref());
        assert_eq!(latest, "2027-01-02T12:00:00Z");
        let failure = asked.mistake("request.earliest_start", "is too early");
        assert_eq!(failure.message, "--earliest-start: is too early");
    }
}
