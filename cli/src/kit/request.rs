//! The request that `plan` and `reserve` take: a file and flags that replace parts of it, or flags alone.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use coalloc_common::{InvalidField, Span, Time, limits};
use coalloc_net::convert::{request_from_wire, span_from_wire, span_to_wire, time_to_wire};
use coalloc_plan::{Named, Solver};
use coalloc_proto::file::Document;
use coalloc_proto::v1;
use tonic::Status;

use crate::kit::exit::Failure;
use crate::kit::input_file::{FileKind, read_input};
use crate::kit::request_flags::{FlagRequest, RequestFlags};
use crate::kit::rpc::violations;
use crate::kit::text::{self, time};
use crate::kit::when::{InstantArg, Length, RATE_MEANT_MIN, next_full};

/// The request, and how plans are searched.
#[derive(Debug, Clone, Args)]
pub struct RequestArgs {
    /// The request, a CoAllocationRequest as YAML or JSON; `-` reads standard input. Without a file, --site, --link
    /// and --for make the request
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["site", "link"])]
    pub request: Option<PathBuf>,
    /// The parts of a request without a file.
    #[command(flatten)]
    pub parts: RequestFlags,
    /// When, and for whom.
    #[command(flatten)]
    pub terms: TermFlags,
    /// How plans are searched.
    #[command(flatten)]
    pub search: SearchArgs,
}

/// When a request is wanted, and for whom.
#[derive(Debug, Clone, Default, Args)]
pub struct TermFlags {
    /// Earliest start: tomorrow 14:00, now+2h, 2026-11-21T10:00:00Z. A file's latest start moves along [default: the
    /// file's; without a file, the next full minute that is 30 s ahead]
    #[arg(long, value_name = "TIME", alias = "start")]
    pub earliest_start: Option<InstantArg>,
    /// Begin after this time: the same as --earliest-start
    #[arg(long, value_name = "TIME", conflicts_with = "earliest_start")]
    pub after: Option<InstantArg>,
    /// Latest start [default: the file's; without a file, 24 h after the earliest]
    #[arg(long, value_name = "TIME")]
    pub latest_start: Option<InstantArg>,
    /// End before this time: the latest start is the length sooner
    #[arg(long, value_name = "TIME", conflicts_with = "latest_start")]
    pub before: Option<InstantArg>,
    /// The user [default: the file's; without one, you; if you are no user, anonymous]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
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
#[derive(Debug, Clone, Default)]
pub struct ParsedRequest {
    /// The request.
    pub request: v1::CoAllocationRequest,
    /// How plans are searched.
    pub options: v1::PlanOptions,
    /// The file; `None` for a request that flags made.
    document: Option<Document<v1::CoAllocationRequest>>,
    /// The fields that a flag set, each with its flag.
    replaced: Vec<(String, String)>,
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
    /// Reads the file and applies the flags, or makes the request of flags alone.
    ///
    /// # Errors
    /// When the file cannot be read as a request, or flags contradict one another.
    pub fn load(&self, now: Time) -> Result<ParsedRequest, Failure> {
        let Some(path) = &self.request else {
            return ParsedRequest::of_flags(&self.parts, &self.terms, &self.search, now);
        };
        let document: Document<v1::CoAllocationRequest> = read_input(path, FileKind::Request)?;
        let mut asked = ParsedRequest::new(document.message.clone(), &self.search);
        asked.document = Some(document);
        if let Some((field, problem)) = link_hardly_meant(&asked.request) {
            return Err(asked.mistake(&field, &problem));
        }
        asked.apply(&self.parts, &self.terms, now)?;
        Ok(asked)
    }
}

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

/// The problem with a field as one of the flag that set the field, or a part of it; `None` if no flag did.
#[must_use]
pub fn blamed(flags: &[(String, String)], field: &str, problem: &str) -> Option<String> {
    // What is left of the field behind the part that the flag set.
    let part_of = |set: &str| {
        let rest = field.strip_prefix(set)?;
        match rest.chars().next() {
            None | Some('[') => Some(""),
            Some('.') => rest.strip_prefix('.'),
            Some(_) => None,
        }
    };
    flags.iter().find_map(|(set, flag)| match part_of(set)? {
        "" => Some(format!("{flag}: {problem}")),
        part => Some(format!("{flag}: {part}: {problem}")),
    })
}

/// How far the latest start of a request without a file is from the earliest, unless a flag says it.
const STARTS: Span = Span::from_secs(24 * 3_600);

impl ParsedRequest {
    fn new(request: v1::CoAllocationRequest, search: &SearchArgs) -> Self {
        let options = search.options();
        let mut asked = Self { request, options, document: None, replaced: Vec::new() };
        SearchArgs::FLAGS.iter().for_each(|(field, flag)| asked.blame(field, flag));
        asked
    }

    /// A request that flags make without a file.
    ///
    /// # Errors
    /// When a site or the duration is missing, or flags contradict one another.
    pub fn of_flags(
        parts: &RequestFlags,
        terms: &TermFlags,
        search: &SearchArgs,
        now: Time,
    ) -> Result<Self, Failure> {
        if parts.site.is_empty() || parts.length.is_none() {
            let text = "what is wanted? Name a file, `--request FILE`, or sites and a length, `--site a=4 \
                        --site b=8 --link a-b=2G --for 1h`";
            return Err(Failure::bad_input(text));
        }
        let FlagRequest { request, flags } = parts.request()?;
        let mut asked = Self::new(request, search);
        asked.replaced.extend(flags);
        let soonest = next_full(Span::from_secs(60), now.saturating_add(limits::SOONEST_LEAD));
        asked.request.earliest_start = Some(time_to_wire(soonest));
        asked.request.latest_start = Some(time_to_wire(soonest.saturating_add(STARTS)));
        asked.apply(parts, terms, now)?;
        Ok(asked)
    }

    /// Sets what these flags say about times and user.
    fn apply(&mut self, parts: &RequestFlags, terms: &TermFlags, now: Time) -> Result<(), Failure> {
        if let Some(Length(length)) = parts.length {
            self.request.duration = Some(span_to_wire(length));
            self.blame("duration", "--for");
        }
        if parts.manual_provision {
            self.request.manual_provision = Some(true);
        }
        if let Some(series) = &parts.series {
            self.request.series.clone_from(series);
            self.blame("series", "--series");
        }
        let request = &mut self.request;
        let was = time(request.earliest_start.as_ref());
        let flag = if terms.after.is_some() { "--after" } else { "--earliest-start" };
        let earliest = terms.after.as_ref().or(terms.earliest_start.as_ref());
        let earliest = earliest.map(|when| when.at(now));
        if let Some(earliest) = earliest {
            if let Some((was, latest)) = was.zip(time(request.latest_start.as_ref())) {
                request.latest_start =
                    Some(time_to_wire(earliest.saturating_add(latest.since(was))));
            }
            request.earliest_start = Some(time_to_wire(earliest));
            self.blame("earliest_start", flag);
            if earliest < now && self.request.latest_start.is_some() {
                text::note(&format!(
                    "{flag}: {} has passed; of the starts that are tried, those before now cannot be had",
                    text::moment_of(earliest)
                ));
            }
        }
        if let Some(latest) = &terms.latest_start {
            self.request.latest_start = Some(time_to_wire(latest.at(now)));
            self.blame("latest_start", "--latest-start");
        }
        if let Some(before) = &terms.before {
            let latest = self.latest_start_before(before.at(now), earliest.or(was))?;
            self.request.latest_start = Some(time_to_wire(latest));
            self.blame("latest_start", "--before");
        }
        if let Some(user) = &terms.user {
            self.request.user.clone_from(user);
            self.blame("user", "--user");
        }
        let latest = time(self.request.latest_start.as_ref()).or(earliest);
        match (earliest, latest) {
            (Some(earliest), Some(latest)) if earliest <= latest && latest < now => {
                let problem = format!(
                    "{} has passed, and so has the latest start, {}; allowed: from now on",
                    text::moment_of(earliest),
                    text::moment_of(latest)
                );
                Err(self.mistake("earliest_start", &problem))
            }
            _ => Ok(()),
        }
    }

    /// The latest start of a request that ends at `end` at the latest.
    fn latest_start_before(&self, end: Time, earliest: Option<Time>) -> Result<Time, Failure> {
        let length = self.request.duration.as_ref();
        let length = length.and_then(|wire| span_from_wire("duration", wire).ok());
        let length = length.ok_or_else(|| {
            Failure::bad_input("--before: the file says no duration; say it with --for, like 1h")
        })?;
        match earliest.map(|earliest| earliest.saturating_add(length)) {
            Some(soonest) if soonest > end => Err(Failure::bad_input(format!(
                "--before: what takes {length} cannot end at {}; allowed: {} and later",
                text::moment_of(end),
                text::moment_of(soonest)
            ))),
            _ => Ok(end.saturating_sub(length)),
        }
    }

    /// The request, if flags alone have made it: those flags can say other amounts.
    #[must_use]
    pub const fn of_flags_alone(&self) -> Option<&v1::CoAllocationRequest> {
        if self.document.is_some() { None } else { Some(&self.request) }
    }

    /// How to try more starts than those that were `refused`; nothing if there are no more, or none of them could help.
    #[must_use]
    pub fn how_to_try_more_starts<'a>(
        &self,
        refused: impl IntoIterator<Item = &'a v1::Refusal>,
    ) -> &'static str {
        let is_of_start = |why: &v1::Refusal| {
            use v1::Reason as R;
            !matches!(why.reason(), R::BeyondCapacity | R::OutsideHorizon | R::Unreachable)
        };
        if !refused.into_iter().any(is_of_start) {
            return "";
        }
        let earliest = time(self.request.earliest_start.as_ref());
        let latest = time(self.request.latest_start.as_ref());
        match earliest.zip(latest) {
            Some((earliest, latest)) if earliest < latest => {
                "only some of the starts that are allowed were tried (--frames sets how many);\n\
                 `coalloc find-window` with the same flags looks at all of them\n"
            }
            _ => "",
        }
    }

    /// Checks what needs no federation.
    ///
    /// # Errors
    /// The first mistake, blamed on its flag or its line.
    pub fn check(&self, now: Time) -> Result<(), Failure> {
        let read = request_from_wire(&self.request, now);
        read.map(|_| ()).map_err(|error| self.invalid(&error))
    }

    /// Records that a field comes from a flag, not from the file.
    pub fn blame(&mut self, field: &str, flag: &str) {
        self.replaced.push((field.to_owned(), flag.to_owned()));
    }

    /// An error in the meaning of this request, with the line of the file or the flag that caused it.
    #[must_use]
    pub fn mistake(&self, field: &str, problem: &str) -> Failure {
        let field = field.strip_prefix("request.").unwrap_or(field);
        match (blamed(&self.replaced, field, problem), &self.document) {
            (Some(said), _) => Failure::bad_input(said),
            (None, Some(document)) => document.mistake(field, problem).into(),
            (None, None) => Failure::bad_input(format!("{field}: {problem}")),
        }
    }

    /// The same, for an error of the conversions.
    #[must_use]
    pub fn invalid(&self, error: &InvalidField) -> Failure {
        let problem = error.problem();
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
    use std::path::Path;

    use coalloc_proto::file::read_from;

    use super::*;
    use crate::kit::exit::Exit;

    const TEXT: &str = "\
sites:
  - name: a
    cpus: 0
earliest_start: 2027-01-01T10:00:00Z
latest_start: 2027-01-01T12:00:00Z
duration: 60s
";

    fn asked(flags: impl FnOnce(&mut TermFlags)) -> ParsedRequest {
        let document = read_from(Path::new("request.yaml"), TEXT.as_bytes()).unwrap();
        let mut terms = TermFlags::default();
        flags(&mut terms);
        let request = v1::CoAllocationRequest::clone(&document.message);
        let mut asked = ParsedRequest::new(request, &SearchArgs::default());
        asked.document = Some(document);
        asked.apply(&RequestFlags::default(), &terms, Time::from_us(0)).unwrap();
        asked
    }

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: RequestArgs,
    }

    /// The request of a line of flags, at 1970-01-01T00:00:10Z.
    fn of_line(line: &str) -> Result<ParsedRequest, String> {
        let words = std::iter::once("x").chain(line.split(' '));
        let line = <Line as clap::Parser>::try_parse_from(words).map_err(|e| e.to_string())?;
        line.args.load(Time::from_us(10_000_000)).map_err(|failure| failure.message)
    }

    #[test]
    fn flags_alone_make_a_request() {
        let asked = of_line("--site a=4 --site b=8,storage=2TB@N0 --link a-b=2G --for 1h").unwrap();
        let ParsedRequest { request, .. } = &asked;
        assert_eq!(request.sites[1].pinned_to.as_deref(), Some("N0"));
        assert_eq!(request.sites[1].others[0].amount, 2_000);
        assert_eq!(request.links[0].bandwidth_bps, 2_000_000_000);
        let at = |wire: &Option<coalloc_proto::Timestamp>| time(wire.as_ref()).unwrap().to_string();
        assert_eq!(at(&request.earliest_start), "1970-01-01T00:01:00Z");
        assert_eq!(at(&request.latest_start), "1970-01-02T00:01:00Z");
        assert!(request_from_wire(request, Time::from_us(0)).is_ok());

        let timed = "--site a=4 --for 1h --after 1970-01-03T00:00:00Z";
        let asked = of_line(timed).unwrap();
        assert_eq!(at(&asked.request.latest_start), "1970-01-04T00:00:00Z");
        let asked = of_line(&format!("{timed} --before 1970-01-03T05:00:00Z --user ada")).unwrap();
        assert_eq!(at(&asked.request.latest_start), "1970-01-03T04:00:00Z");
        assert_eq!(asked.request.user, "ada");
        let said = of_line(&format!("{timed} --before 1970-01-03T00:30:00Z")).unwrap_err();
        let expected = "--before: what takes 1 h cannot end at 1970-01-03 00:30 UTC; allowed: \
                        1970-01-03 01:00 UTC and later";
        assert_eq!(said, expected);
    }

    #[test]
    fn flags_that_make_no_request_are_refused() {
        let cases = [
            ("--site a=4", "--for <LENGTH>"),
            ("--for 1h", "Name a file, `--request FILE`, or sites and a length"),
            ("--site a=4 --for 1h -r f.yaml", "cannot be used with"),
            ("--link a-b=2G -r f.yaml", "cannot be used with"),
            ("--site a=4 --for 1", "write `1min` or `1s`"),
            ("--site a=4 --for 1h --link a-b=2G", "--link a-b=2G: `a-b` is not two sites"),
            ("--site a=4 --for 1h --after noon", "`noon` is no time of day"),
        ];
        for (line, part) in cases {
            let said = of_line(line).unwrap_err();
            assert!(said.contains(part), "{line}: {said}");
        }
    }

    #[test]
    fn what_flags_say_is_blamed_on_them_in_their_words() {
        let cases = [
            ("--site a=4 --site b=0 --for 1h", "--site b=0: cpus: 0 is not allowed"),
            ("--site a=1 --site a=2 --for 1h", "--site a=2: name: "),
            ("--site a=1 --site b=1 --link a-b=0G --for 1h", "--link a-b=0G: bandwidth_bps: 0"),
            ("--site a=1 --for 500d", "--for: "),
            ("--site a=1 --for 1h --series _x", "--series: "),
            ("--site a=1 --for 1h --latest-start 1970-01-01T00:00:00Z", "--latest-start: "),
        ];
        for (line, start) in cases {
            let asked = of_line(line).unwrap();
            let error = request_from_wire(&asked.request, Time::from_us(0)).unwrap_err();
            let said = asked.invalid(&error).message;
            assert!(said.starts_with(start), "{line}: {said}");
        }
        for flag in ["--after", "--earliest-start"] {
            let asked = of_line(&format!("--site a=1 --for 1h {flag} now+1h")).unwrap();
            let said = asked.mistake("request.earliest_start", "is too early").message;
            assert_eq!(said, format!("{flag}: is too early"));
        }
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
            asked(|terms| terms.earliest_start = Some("2027-01-02T10:00:00Z".parse().unwrap()));
        let latest = crate::kit::text::instant(asked.request.latest_start.as_ref());
        assert_eq!(latest, "2027-01-02T12:00:00Z");
        let failure = asked.mistake("request.earliest_start", "is too early");
        assert_eq!(failure.message, "--earliest-start: is too early");
    }
}
