//! `coalloc find-window`: when a request would fit, over a whole range of starts; nothing is held.
//!
//! A start is tried every so often (`--step`). One call plans at most [`limits::FRAMES_MAX`] starts, so a longer range is
//! searched in several calls, the earliest starts first. What is free between two starts that were tried is not known, and
//! others may reserve between two calls: the answer is what was so, start by start.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use coalloc_common::{Span, Time, limits};
use coalloc_net::convert::time_to_wire;
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::request::{ParsedRequest, RequestArgs, SearchArgs, flags};
use crate::kit::rpc::{self, Coordinator, GrcArgs};
use crate::kit::text;
use crate::kit::when::{Length, next_full};
use crate::kit::zone::{ZoneArgs, ZoneClock};
use crate::user::offline::Federation;
use crate::user::wording::plan::{body, headline};
use crate::user::wording::refusal;

/// Time between two starts when none is given and the range is not too long.
const STEP: Span = Span::from_secs(300);
/// Most starts that are tried when no step is given: four calls.
const STARTS: i64 = 4 * limits::FRAMES_MAX as i64;
/// Most starts that are tried at all.
const STARTS_MAX: i64 = 10_000;
/// How far the starts reach when nothing says when the latest one is.
const RANGE: Span = Span::from_secs(86_400);
const MINUTE: Span = Span::from_secs(60);
/// Most ranges of starts, and most reasons, that are listed.
const LISTED_MAX: usize = 10;

/// Find the starts at which a request would fit, and hold nothing
///
/// The request is a file (--request), or flags: `--site a=4 --site b=8 --link a-b=2G --for 1h`. The starts reach from
/// --after to --before; without a latest start in flags or file, 24 h. The exit codes are those of `plan`.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("frames", |arg| arg.hide(true)), mut_arg("plans", |arg| arg.hide(true)))]
pub struct FindWindowArgs {
    #[command(flatten)]
    request: RequestArgs,
    /// Try a start this often: 1min, 1h [default: 5 min; more where that would be over 1,024 starts]
    #[arg(long, value_name = "LENGTH", conflicts_with_all = ["frames", "plans"])]
    step: Option<Length>,
    /// Search offline, on this FederationFile (YAML or JSON)
    #[arg(long, value_name = "FILE", conflicts_with = "grc")]
    federation: Option<PathBuf>,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print a PlanResponse with every start that was tried as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc find-window`.
///
/// # Errors
/// When a flag or a file is wrong, or the coordinator cannot be asked.
pub async fn run(args: &FindWindowArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    let search = &args.request.search;
    if search.frames.is_some() || search.plans.is_some() {
        let text = "--frames and --plans are for `coalloc plan`; here every start is tried, one each --step";
        return Err(Failure::bad_input(text));
    }
    let mut asked = args.request.load(now)?;
    let starts = StartRange::of(args, &mut asked, now)?;
    let mut planner = match &args.federation {
        Some(path) => Planner::Offline(Box::new(Federation::read(path)?)),
        None => Planner::Coordinator(args.grc.connect().await?),
    };
    let response = starts.search(&mut planner, &asked, now).await?;
    let exit = if response.plans.is_empty() { Exit::Refused } else { Exit::Done };
    let text = if args.json {
        text::json(&response)?
    } else {
        describe(&response, asked.of_flags_alone(), &starts, &args.zone.clock(now), |start| {
            args.reserve_at(start)
        })
    };
    Ok(Answer { text, exit })
}

/// Who plans.
enum Planner {
    Offline(Box<Federation>),
    Coordinator(Coordinator),
}

impl Planner {
    async fn plan(
        &mut self,
        asked: &ParsedRequest,
        now: Time,
    ) -> Result<v1::PlanResponse, Failure> {
        match self {
            Self::Offline(federation) => federation.plan(asked, next_full(MINUTE, now)),
            Self::Coordinator(client) => {
                let (request, options) = (asked.request.clone(), asked.options.clone());
                let request = v1::PlanRequest { request: Some(request), options: Some(options) };
                let response = client.plan(request).await;
                let failed = |status| asked.failure(&status, rpc::failure(&status));
                Ok(response.map_err(failed)?.into_inner())
            }
        }
    }
}

/// The starts to try: `count` of them, one each `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StartRange {
    first: Time,
    step: Span,
    /// At least 1.
    count: i64,
}

impl StartRange {
    /// The range of the flags and the request, which gets a latest start if it has none.
    fn of(args: &FindWindowArgs, asked: &mut ParsedRequest, now: Time) -> Result<Self, Failure> {
        let request = &mut asked.request;
        let soonest = next_full(MINUTE, now.saturating_add(limits::SOONEST_LEAD));
        let first = text::time(request.earliest_start.as_ref()).unwrap_or(soonest);
        let terms = &args.request.terms;
        let is_told = terms.latest_start.is_some() || terms.before.is_some();
        let latest = text::time(request.latest_start.as_ref());
        let latest = latest.filter(|latest| is_told || *latest != first);
        let latest = latest.unwrap_or_else(|| first.saturating_add(RANGE));
        request.earliest_start = Some(time_to_wire(first));
        request.latest_start = Some(time_to_wire(latest));
        // What is wrong with the request is told as it was written, before it is cut into pages.
        asked.check(now)?;
        Self::over(first, latest, args.step.map(|step| step.0))
    }

    fn over(first: Time, latest: Time, step: Option<Span>) -> Result<Self, Failure> {
        let range = latest.since(first).as_us();
        let step = step.unwrap_or_else(|| {
            let least = Span::from_us(div_ceil(range, STARTS - 1));
            let minutes = div_ceil(least.as_us(), MINUTE.as_us()).saturating_mul(MINUTE.as_us());
            STEP.max(Span::from_us(minutes))
        });
        let count = range / step.as_us().max(1) + 1;
        if count > STARTS_MAX {
            let least = Span::from_secs(div_ceil(range, 1_000_000 * (STARTS_MAX - 1)));
            return Err(Failure::bad_input(format!(
                "--step: {step} makes {count} starts; allowed: at most {STARTS_MAX}, so {least} and more"
            )));
        }
        Ok(Self { first, step, count })
    }

    fn start(&self, index: i64) -> Time {
        self.first.saturating_add(self.step.saturating_mul(index))
    }

    fn last(&self) -> Time {
        self.start(self.count - 1)
    }

    /// Plans every start, as many in a call as it takes, and puts the answers together.
    async fn search(
        &self,
        planner: &mut Planner,
        asked: &ParsedRequest,
        now: Time,
    ) -> Result<v1::PlanResponse, Failure> {
        let page_max = i64::from(limits::FRAMES_MAX);
        let mut whole = v1::PlanResponse::default();
        for from in (0..self.count).step_by(limits::FRAMES_MAX as usize) {
            let to = (from + page_max).min(self.count) - 1;
            let mut page = asked.clone();
            page.request.earliest_start = Some(time_to_wire(self.start(from)));
            page.request.latest_start = Some(time_to_wire(self.start(to)));
            page.options.frames = u32::try_from(to - from + 1).ok();
            page.options.alternatives = Some(false);
            let answer = planner.plan(&page, now).await?;
            whole.plans.extend(answer.plans);
            whole.refused.extend(answer.refused);
            whole.unreachable.extend(answer.unreachable);
        }
        // Alternatives are worth their time only if there is nothing else to tell. What is smaller is wanted soon.
        if whole.plans.is_empty() {
            let mut page = asked.clone();
            let last = (self.count - 1).min(page_max - 1);
            page.request.earliest_start = Some(time_to_wire(self.start(0)));
            page.request.latest_start = Some(time_to_wire(self.start(last)));
            page.options.frames = u32::try_from(last + 1).ok();
            page.options.alternatives = Some(true);
            whole.alternatives = planner.plan(&page, now).await?.alternatives;
        }
        whole.unreachable.sort();
        whole.unreachable.dedup();
        Ok(whole)
    }

    /// The ranges of neighbouring starts that fit: first start, last start.
    fn fitting(&self, plans: &[v1::Plan]) -> Vec<(Time, Time)> {
        let starts = plans.iter().filter_map(start_of);
        let fits: std::collections::BTreeSet<Time> = starts.collect();
        let mut ranges: Vec<(Time, Time)> = Vec::new();
        for at in fits {
            match ranges.last_mut() {
                Some((_, last)) if at.since(*last) <= self.step => *last = at,
                _ => ranges.push((at, at)),
            }
        }
        ranges
    }
}

/// The quotient, rounded up; both are positive.
fn div_ceil(of: i64, by: i64) -> i64 {
    of / by + i64::from(of % by > 0)
}

fn start_of(plan: &v1::Plan) -> Option<Time> {
    text::time(plan.window.as_ref()?.start.as_ref())
}

/// The answer for people.
fn describe(
    response: &v1::PlanResponse,
    asked: Option<&v1::CoAllocationRequest>,
    starts: &StartRange,
    clock: &ZoneClock,
    reserve_at: impl FnOnce(Time) -> String,
) -> String {
    let mut out = String::new();
    let first = response.plans.iter().filter_map(|plan| Some((start_of(plan)?, plan)));
    // Of the plans with one start the first is the best.
    let first = first.min_by_key(|(start, _)| *start);
    // Writing to a String cannot fail, here and below.
    if let Some((_, plan)) = first {
        let _ = write!(out, "first fit: {}\n{}", headline(plan), body(plan));
        out += &listed_ranges(&starts.fitting(&response.plans), clock);
    }
    if !response.refused.is_empty() {
        out += &refused(&response.refused);
    }
    if !response.unreachable.is_empty() {
        let names = text::enumerate(&response.unreachable);
        let _ = writeln!(out, "did not answer, so their resources counted as taken: {names}\n");
    }
    if let Some(found) = &response.alternatives {
        let _ = writeln!(out, "{}", refusal::alternatives(found, asked));
    }
    out += &tried(response, starts, clock);
    if let Some((start, _)) = first {
        let _ = writeln!(out, "\nreserve the first:\n  {}", reserve_at(start));
    }
    out
}

/// Why the other starts do not fit, within the page.
fn refused(frames: &[v1::RefusedFrame]) -> String {
    let width = usize::from(text::width()).saturating_sub(6);
    let mut out = String::from("what does not fit:\n");
    let lines = refusal::frames(frames);
    let all: Vec<&str> = lines.lines().collect();
    for line in all.iter().take(LISTED_MAX) {
        let indent = line.len() - line.trim_start().len();
        let between = format!("\n{:indent$}  ", "");
        out += &format!("{:indent$}{}\n", "", text::wrap(line, width - indent).join(&between));
    }
    if all.len() > LISTED_MAX {
        out += &format!("  and {} more lines; --json has all\n", all.len() - LISTED_MAX);
    }
    out + "\n"
}

fn listed_ranges(ranges: &[(Time, Time)], clock: &ZoneClock) -> String {
    let zone = clock.name(ranges.iter().flat_map(|(first, last)| [*first, *last]));
    let mut out = format!("\nstarts that fit ({zone}):\n");
    for (first, last) in ranges.iter().take(LISTED_MAX) {
        let (from, to) = (clock.minute(*first), clock.minute(*last));
        out += &if first == last { format!("  {from}\n") } else { format!("  {from} to {to}\n") };
    }
    if ranges.len() > LISTED_MAX {
        out += &format!("  and {} more ranges; --json has all\n", ranges.len() - LISTED_MAX);
    }
    out + "\n"
}

/// What was searched, in two lines.
fn tried(response: &v1::PlanResponse, starts: &StartRange, clock: &ZoneClock) -> String {
    let fit = starts_that_fit(&response.plans);
    let (first, last) = (starts.first, starts.last());
    let range = match starts.count {
        1 => clock.minute(first),
        _ => format!("every {}, {} to {}", starts.step, clock.minute(first), clock.minute(last)),
    };
    let zone = clock.name([first, last]);
    let tried = text::count(usize::try_from(starts.count).unwrap_or(usize::MAX), "start");
    format!("tried {tried}: {range} {zone}\n{fit} of them fit; nothing is reserved\n")
}

fn starts_that_fit(plans: &[v1::Plan]) -> usize {
    plans.iter().filter_map(start_of).collect::<std::collections::BTreeSet<_>>().len()
}

impl FindWindowArgs {
    /// The command that reserves the request at a start.
    fn reserve_at(&self, start: Time) -> String {
        let RequestArgs { request, parts, terms, search } = &self.request;
        let mut words = vec!["coalloc reserve".to_owned()];
        let mut add = |flag: &str, value: &str| {
            words.push(format!("{flag} {}", text::shell_word(value)));
        };
        if let Some(path) = request {
            let path = if path == Path::new("-") { Path::new("FILE") } else { path };
            add("--request", &path.to_string_lossy());
        }
        parts.site.iter().for_each(|site| add("--site", &site.written));
        parts.link.iter().for_each(|link| add("--link", &link.written));
        if let Some(Length(length)) = parts.length {
            add("--for", &length.to_string().replace(' ', ""));
        }
        add("--earliest-start", &start.to_string());
        add("--latest-start", &start.to_string());
        if let Some(user) = &terms.user {
            add("--user", user);
        }
        if let Some(series) = &parts.series {
            add("--series", series);
        }
        // There is one start now, and one plan is reserved.
        let search = SearchArgs { frames: None, plans: None, ..search.clone() };
        words.extend(Some(flags(&search.options())).filter(|flags| !flags.is_empty()));
        if parts.manual_provision {
            words.push("--manual-provision".to_owned());
        }
        words.join(" \\\n    ")
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::Window;
    use coalloc_net::convert::window_to_wire;
    use jiff::tz::TimeZone;

    use super::*;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: FindWindowArgs,
    }

    fn args(line: &str) -> FindWindowArgs {
        let words = std::iter::once("x").chain(line.split(' '));
        <Line as clap::Parser>::try_parse_from(words).unwrap().args
    }

    fn after(minutes: i64) -> Time {
        NOON.saturating_add(MINUTE.saturating_mul(minutes))
    }

    fn plan_at(minutes: i64) -> v1::Plan {
        let window = Window::starting(after(minutes), Span::from_secs(3_600)).map(window_to_wire);
        v1::Plan { window, ..Default::default() }
    }

    #[test]
    fn a_start_is_tried_every_five_minutes_unless_that_is_too_often() {
        let over = |minutes, step| StartRange::over(NOON, after(minutes), step);
        let day = over(24 * 60, None).unwrap();
        assert_eq!((day.step, day.count), (STEP, 289));
        let month = over(30 * 24 * 60, None).unwrap();
        assert_eq!((month.step, month.count), (Span::from_secs(43 * 60), 1_005));
        assert_eq!(over(0, None).unwrap().count, 1);
        let wrong = over(24 * 60, Some(Span::from_secs(1))).unwrap_err().message;
        assert!(wrong.contains("at most 10000") && wrong.contains("and more"), "{wrong}");
    }

    #[test]
    fn a_request_without_a_latest_start_is_searched_for_a_day() {
        let args = args("--site a=4 --for 1h --earliest-start 2026-11-21T12:00:00Z");
        let mut asked = args.request.load(NOON).unwrap();
        asked.request.latest_start = None;
        let starts = StartRange::of(&args, &mut asked, NOON).unwrap();
        assert_eq!((starts.first, starts.last()), (NOON, after(24 * 60)));
    }

    #[tokio::test]
    async fn what_is_smaller_is_offered_for_the_soonest_starts() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/federations/elgl.yaml");
        let mut planner = Planner::Offline(Box::new(Federation::read(&file).unwrap()));
        // More starts than one call has.
        let args = args("--site a=500 --for 1h --earliest-start 2026-11-21T12:00:00Z --step 1min");
        let mut asked = args.request.load(NOON).unwrap();
        asked.request.latest_start = Some(time_to_wire(after(300)));
        let starts = StartRange::over(NOON, after(300), Some(MINUTE)).unwrap();
        assert!(starts.count > i64::from(limits::FRAMES_MAX), "{starts:?}");
        let answer = starts.search(&mut planner, &asked, NOON).await.unwrap();
        assert!(answer.plans.is_empty());
        let smaller = &answer.alternatives.unwrap().smaller;
        let start = smaller[0].plan.as_ref().and_then(start_of).unwrap();
        assert!(start < starts.start(i64::from(limits::FRAMES_MAX)), "{start}");
        let all = answer.refused.len();
        assert_eq!(i64::try_from(all).unwrap(), starts.count, "each start is refused once");
    }

    #[test]
    fn neighbouring_starts_that_fit_are_one_range_and_the_first_can_be_reserved() {
        let starts = StartRange { first: NOON, step: STEP, count: 10 };
        let plans = vec![plan_at(5), plan_at(10), plan_at(25)];
        let ranges = [(after(5), after(10)), (after(25), after(25))];
        assert_eq!(starts.fitting(&plans), ranges);
        let args = args("--site a=4 --site b=8 --link a-b=2G --for 1h30");
        let response = v1::PlanResponse { plans, ..Default::default() };
        let clock = ZoneClock::new(TimeZone::UTC, NOON);
        let text = describe(&response, None, &starts, &clock, |start| args.reserve_at(start));
        let ranges = "starts that fit (UTC):\n  11-21 12:05 to 11-21 12:10\n  11-21 12:25\n";
        assert!(text.contains(ranges), "{text}");
        let tried = "tried 10 starts: every 5 min, 11-21 12:00 to 11-21 12:45 UTC\n3 of them fit";
        assert!(text.contains(tried), "{text}");
        let reserve =
            "--link a-b=2G \\\n    --for 1h30min \\\n    --earliest-start 2026-11-21T12:05:00Z";
        assert!(text.contains(reserve), "{text}");
    }
}
