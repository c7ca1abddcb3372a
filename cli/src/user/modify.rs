//! `coalloc modify`: changes a reservation, or leaves it exactly as it was.
//!
//! The coordinator takes the complete new version. This module builds the new version from the last version
//! that was asked for and the flags, or reads it from a file. It does not repeat the coordinator's checks.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use coalloc_common::Time;
use coalloc_net::convert::{span_to_wire, time_to_wire};
use coalloc_proto::file::{Document, read};
use coalloc_proto::v1;
use tonic::{Code, Status};
use uuid::Uuid;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::request::{SearchArgs, blamed, link_hardly_meant};
use crate::kit::request_flags::{LinkFlag, SiteFlag};
use crate::kit::rpc::{self, Coordinator, GrcArgs};
use crate::kit::text;
use crate::kit::when::{InstantArg, Length};
use crate::user::series;
use crate::user::wording::reservation::{describe, why_refused};

/// Change a reservation, future or active: all of the new version, or nothing
///
/// Everything that no flag names stays as it was last asked for. If the reservation has begun, its start
/// stays, and everything it has is kept for the half minute that the change may take. Plans are searched as
/// they were when the reservation was made, or last changed; a flag given here replaces the earlier
/// setting.
#[derive(Debug, Clone, Args)]
pub struct ModifyArgs {
    /// The id of the reservation, or of the request
    #[arg(required_unless_present = "series")]
    id: Option<String>,
    /// Change each reservation of this series that has not begun; each change is told on a line
    #[arg(long, value_name = "SERIES", conflicts_with_all = ["id", "request", "start", "end"])]
    series: Option<String>,
    /// The whole new version, a CoAllocationRequest as YAML or JSON; if it sets no start, the start stays
    #[arg(short, long, value_name = "FILE", conflicts_with_all =
        ["start", "length", "end", "extend", "shorten", "site", "link", "drop_site"])]
    request: Option<PathBuf>,
    /// Begin at this time: tomorrow 14:00, now+2h, 2026-11-21T10:00:00Z. Without --end the length stays
    #[arg(long, value_name = "TIME")]
    start: Option<InstantArg>,
    /// Take this long: 2h, 1h30
    #[arg(long = "for", value_name = "LENGTH", conflicts_with_all = ["end", "extend", "shorten"])]
    length: Option<Length>,
    /// End at this time
    #[arg(long, value_name = "TIME", conflicts_with_all = ["extend", "shorten"])]
    end: Option<InstantArg>,
    /// End this much later: 1h, 30m
    #[arg(long, value_name = "LENGTH", conflicts_with = "shorten", allow_hyphen_values = true,
          value_parser = |text: &str| later_or_sooner(text, "--shorten"))]
    extend: Option<Length>,
    /// End this much sooner
    #[arg(long, value_name = "LENGTH", allow_hyphen_values = true,
          value_parser = |text: &str| later_or_sooner(text, "--extend"))]
    shorten: Option<Length>,
    /// CPUs of a site of the request (`a=8`), its storage (`a=8,storage=2TB`), and where it must be (`a=8@N0`); may be
    /// given several times
    #[arg(long, visible_alias = "cpus", value_name = "NAME=CPUS")]
    site: Vec<SiteFlag>,
    /// Rate of a link of the request (`a-b=2G`), and its largest latency (`a-b=2G,latency=5ms`); may be given several
    /// times
    #[arg(long, visible_alias = "rate", value_name = "FROM-TO=RATE")]
    link: Vec<LinkFlag>,
    /// Drop this site of the request and its links; may be given several times
    #[arg(long, value_name = "SITE")]
    drop_site: Vec<String>,
    /// Sites of both versions may move; otherwise they stay where they are
    #[arg(long)]
    may_move: bool,
    /// The user; the coordinator refuses anyone but the reservation's user [default: the reservation's user]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The id of this change: sent again with the same content, it gets the same answer [default: a
    /// random UUID]
    #[arg(long, value_name = "CHANGE_ID")]
    change_id: Option<String>,
    #[command(flatten)]
    search: SearchArgs,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the Reservation as JSON; of a series a ListResponse
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc modify`.
///
/// # Errors
/// When a flag or the file is wrong, the coordinator cannot be asked, or the outcome is unknown.
pub async fn run(args: &ModifyArgs) -> Result<Answer, Failure> {
    args.check_says_something()?;
    let mut client = args.grc.connect().await?;
    if let Some(series) = &args.series {
        return run_series(args, &mut client, series).await;
    }
    let (old, new) = match change(args, &mut client).await {
        Ok(changed) => changed,
        Err(failure) => {
            return Err(series::failure_of_id(&mut client, failure, args.id(), "modify").await);
        }
    };
    let text = if args.json { text::json(&new)? } else { compare(&old, &new) };
    Ok(Answer { text, exit: exit(&new) })
}

/// Changes each reservation of a series that has not begun.
async fn run_series(
    args: &ModifyArgs,
    client: &mut Coordinator,
    series: &str,
) -> Result<Answer, Failure> {
    let (mut out, mut exits, mut reservations) = (String::new(), Vec::new(), Vec::new());
    for one in series::members(client, series, args.user.as_deref())
        .await?
        .iter()
        .filter(|one| !series::has_ended(one))
    {
        let id = &one.request_id;
        let start =
            one.plan.as_ref().and_then(|plan| text::time(plan.window.as_ref()?.start.as_ref()));
        let has_begun = start.is_some_and(|start| start <= coalloc_net::clock::now().wall);
        let line = if has_begun {
            "has begun, and stays as it is".to_owned()
        } else {
            let args = ModifyArgs { id: Some(id.clone()), ..args.clone() };
            let changed = change(&args, client).await;
            exits.push(changed.as_ref().map_or_else(|failure| failure.exit, |(_, new)| exit(new)));
            let line = match &changed {
                Ok((_, new)) => told(new),
                Err(failure) => failure.message.replace('\n', "; "),
            };
            reservations.extend(changed.ok().map(|(_, new)| new));
            line
        };
        out += &text::outcome_line(&format!("{id}:"), &line);
    }
    if out.is_empty() {
        out = "nothing is left to change\n".to_owned();
    }
    let exit = Exit::worst(exits);
    if !args.json {
        return Ok(Answer { text: out, exit });
    }
    if reservations.is_empty() && exit != Exit::Done {
        return Err(Failure::new(exit, out.trim_end()));
    }
    // The list has no place for what became of those without an answer.
    text::note(out.trim_end());
    let all = v1::ListResponse { reservations, ..v1::ListResponse::default() };
    Ok(Answer { text: text::json(&all)?, exit })
}

/// The outcome of a change, and the window that the reservation has now.
fn told(new: &v1::Reservation) -> String {
    let outcome = match &new.change {
        Some(change) if change.state() == v1::ChangeState::Done => "changed",
        Some(change) if change.state() == v1::ChangeState::Refused && new.definite => "refused",
        Some(change) if change.state() == v1::ChangeState::Refused => {
            "refused, not finished: holds are being dropped, ask `coalloc show`"
        }
        _ => "not finished: ask `coalloc show`",
    };
    let why = new.change.as_ref().and_then(|change| change.refusal.as_ref());
    let why = why.map_or_else(String::new, |why| format!(": {}", text::refusal(why)));
    let window = text::window(new.plan.as_ref().and_then(|plan| plan.window.as_ref()));
    format!("{outcome}{why}; {window}")
}

/// Changes one reservation: as it was, and as it is now.
async fn change(
    args: &ModifyArgs,
    client: &mut Coordinator,
) -> Result<(v1::Reservation, v1::Reservation), Failure> {
    let response = client.get(v1::GetRequest { id: args.id().to_owned() }).await;
    let response = response.map_err(|status| rpc::failure(&status))?.into_inner();
    let old = response.reservation.ok_or_else(|| Failure::internal("an answer without content"))?;
    let now = coalloc_net::clock::now().wall;
    let document = match &args.request {
        Some(path) => Some(read::<v1::CoAllocationRequest>(path)?),
        None => None,
    };
    if let Some(document) = &document
        && let Some((field, problem)) = link_hardly_meant(&document.message)
    {
        return Err(document.mistake(&field, &problem).into());
    }
    let mut request = match &document {
        Some(document) => v1::CoAllocationRequest::clone(&document.message),
        None => args.new_version(&old, now)?,
    };
    if let Some(user) = &args.user {
        request.user.clone_from(user);
    } else if document.is_none() || request.user.is_empty() {
        request.user.clone_from(&old.user);
    }
    let flags = args.flags(&request);
    let change_id = args.change_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
    if args.series.is_none() {
        // Printed before the call, so that the user can ask about the change even if this process dies.
        text::note(&format!("change id: {change_id}"));
    }
    let needs = rpc::needs_of(&request);
    let wire = v1::ModifyRequest {
        id: args.id().to_owned(),
        change_id,
        request: Some(request),
        // If the change is refused, a person wants to know what would be possible instead.
        options: Some(v1::PlanOptions {
            alternatives: Some(args.series.is_none()),
            ..args.search.options()
        }),
        may_move: args.may_move,
    };
    let response = client.modify(rpc::with_needs(wire, needs)).await;
    let response =
        response.map_err(|status| failure(&status, document.as_ref(), &flags, args.id()))?;
    let new = response.into_inner().reservation;
    let new = new.ok_or_else(|| Failure::internal("an answer without content"))?;
    Ok((old, new))
}

impl ModifyArgs {
    /// The id of the reservation that is changed; of a series, its name.
    fn id(&self) -> &str {
        self.id.as_deref().or(self.series.as_deref()).unwrap_or_default()
    }

    /// Checks that the flags ask for some change.
    ///
    /// That sites may move, or another way to search, counts as a change: the same request may then fit better.
    fn check_says_something(&self) -> Result<(), Failure> {
        let times = [self.start.is_some(), self.end.is_some(), self.extend.is_some()];
        let amounts = [self.site.is_empty(), self.link.is_empty(), self.drop_site.is_empty()];
        let says = self.request.is_some()
            || self.shorten.is_some()
            || self.length.is_some()
            || times.contains(&true)
            || amounts.contains(&false)
            || self.may_move
            || self.search.options() != v1::PlanOptions::default();
        if says {
            return Ok(());
        }
        let (id, named) = (self.id(), if self.series.is_some() { "--series " } else { "" });
        Err(Failure::bad_input(format!(
            "nothing of {id} would change: say what to change, like `coalloc modify {named}{id} --extend \
             1h` or `--site NAME=8`; `coalloc modify --help` lists all that can change"
        )))
    }

    /// Checks that the new version differs from the old one, unless the call may be a repetition of an
    /// earlier change.
    fn check_differs(
        &self,
        request: &v1::CoAllocationRequest,
        old: (&v1::CoAllocationRequest, Time, Time),
        new: (Time, Time),
    ) -> Result<(), Failure> {
        let (was, start, end) = old;
        let same = request.sites == was.sites && request.links == was.links && new == (start, end);
        let anew = self.may_move || self.search.options() != v1::PlanOptions::default();
        // Of a series, some may have been changed by the same command before.
        if !same || anew || self.change_id.is_some() || self.series.is_some() {
            return Ok(());
        }
        let id = self.id();
        Err(Failure::bad_input(format!("{id} is like that already: nothing would change")))
    }

    /// The version that was last asked for, with the flags applied.
    fn new_version(
        &self,
        old: &v1::Reservation,
        now: Time,
    ) -> Result<v1::CoAllocationRequest, Failure> {
        let unknown = || {
            let text = "the coordinator does not say what was asked for; give --request FILE";
            Failure::bad_input(text)
        };
        let mut request = old.request.clone().ok_or_else(unknown)?;
        // It stays as it is, also if somebody provisions the reservation meanwhile.
        request.manual_provision = None;
        let plan = old.plan.as_ref().ok_or_else(|| {
            let (id, state) = (self.id(), text::state(old.state()));
            Failure::new(Exit::Refused, format!("{id} is {state}: there is nothing to change"))
        })?;
        let window = plan.window.as_ref();
        let ends =
            window.and_then(|w| text::time(w.start.as_ref()).zip(text::time(w.end.as_ref())));
        let (was_start, was_end) = ends.ok_or_else(unknown)?;
        let start = self.start.as_ref().map_or(was_start, |when| when.at(now));
        let length = self.length.map_or(was_end.since(was_start), |length| length.0);
        let end = match (&self.end, self.extend, self.shorten) {
            (Some(end), _, _) => end.at(now),
            (_, Some(Length(more)), _) => start.saturating_add(length).saturating_add(more),
            (_, _, Some(Length(less))) => start.saturating_add(length).saturating_sub(less),
            _ => start.saturating_add(length),
        };
        if end <= start {
            let [end, start] = [end, start].map(text::moment_of);
            let text = format!("it would end at {end}, which is not after its start, {start}");
            return Err(Failure::bad_input(text));
        }
        request.earliest_start = self.start.as_ref().map(|_| time_to_wire(start));
        request.latest_start = None;
        request.duration = Some(span_to_wire(end.since(start)));
        self.set_amounts(&mut request)?;
        if let Some(was) = &old.request {
            self.check_differs(&request, (was, was_start, was_end), (start, end))?;
        }
        Ok(request)
    }

    /// The fields of the new version and of its options that flags set, each with its flag.
    fn flags(&self, request: &v1::CoAllocationRequest) -> Vec<(String, String)> {
        let mut flags: Vec<(String, String)> = Vec::new();
        for (index, site) in request.sites.iter().enumerate() {
            // The last of several flags for one site is the one that counts.
            let flag = self.site.iter().rev().find(|flag| flag.name == site.name);
            let flag = flag.map(|flag| format!("--site {}", flag.written));
            flags.extend(flag.map(|flag| (format!("sites[{index}]"), flag)));
        }
        for (index, link) in request.links.iter().enumerate() {
            let ends = format!("{}-{}", link.from, link.to);
            let flag = self.link.iter().rev().find(|flag| flag.ends == ends);
            let flag = flag.map(|flag| format!("--link {}", flag.written));
            flags.extend(flag.map(|flag| (format!("links[{index}]"), flag)));
        }
        let set = [
            ("earliest_start", "--start", self.start.is_some()),
            ("duration", "--for", self.length.is_some()),
            ("duration", "--end", self.end.is_some()),
            ("duration", "--extend", self.extend.is_some()),
            ("duration", "--shorten", self.shorten.is_some()),
            ("user", "--user", self.user.is_some()),
        ];
        let set = set.iter().filter(|(_, _, set)| *set).map(|(field, flag, _)| (*field, *flag));
        let set = set.chain(SearchArgs::FLAGS);
        flags.extend(set.map(|(field, flag)| (field.to_owned(), flag.to_owned())));
        flags
    }

    fn set_amounts(&self, request: &mut v1::CoAllocationRequest) -> Result<(), Failure> {
        let names = |request: &v1::CoAllocationRequest| -> Vec<String> {
            request.sites.iter().map(|site| site.name.clone()).collect()
        };
        for name in &self.drop_site {
            let known = names(request);
            if !known.contains(name) {
                return Err(not_there("--drop-site", name, &known));
            }
            if request.sites.len() == 1 {
                let id = self.id();
                return Err(Failure::bad_input(format!(
                    "--drop-site {name}: it is the last site of the request; allowed: a site that leaves another one. \
                     To give up everything: coalloc release {id}"
                )));
            }
            request.sites.retain(|site| site.name != *name);
            request.links.retain(|link| link.from != *name && link.to != *name);
        }
        for flag in &self.site {
            let known = names(request);
            let site = request.sites.iter_mut().find(|site| site.name == flag.name);
            flag.apply(site.ok_or_else(|| not_there("--site", &flag.name, &known))?);
        }
        for flag in &self.link {
            let of = |link: &v1::LinkRequest| format!("{}-{}", link.from, link.to);
            let known: Vec<String> = request.links.iter().map(of).collect();
            let link = request.links.iter_mut().find(|link| of(link) == flag.ends);
            flag.apply(link.ok_or_else(|| not_there("--link", &flag.ends, &known))?);
        }
        Ok(())
    }
}

/// The length of a flag; of a negative one, the flag that says it.
fn later_or_sooner(text: &str, opposite: &str) -> Result<Length, String> {
    text.parse().map_err(|problem| match text.strip_prefix('-').map(str::parse::<Length>) {
        Some(Ok(_)) => format!("write `{opposite} {}` instead", &text[1..]),
        _ => problem,
    })
}

fn not_there(flag: &str, name: &str, known: &[String]) -> Failure {
    let known = text::enumerate(known);
    Failure::bad_input(format!("{flag}: the request has no {name}; it has {known}"))
}

/// The meaning of a failed call: a mistake in a line of the file, a state in which nothing can be changed,
/// or an unknown outcome.
fn failure(
    status: &Status,
    document: Option<&Document<v1::CoAllocationRequest>>,
    flags: &[(String, String)],
    id: &str,
) -> Failure {
    let mistakes = rpc::violations(status).into_iter().filter_map(|(field, problem)| {
        let field = field.strip_prefix("request.").unwrap_or(&field);
        let problem = problem.replace("`may_move` is set", "sites may move (--may-move)");
        let of_file = || document.map(|document| document.mistake(field, &problem).to_string());
        blamed(flags, field, &problem).or_else(of_file)
    });
    let mistakes: Vec<String> = mistakes.collect();
    if !mistakes.is_empty() {
        return Failure::bad_input(mistakes.join("\n"));
    }
    if status.code() == Code::FailedPrecondition {
        return Failure::new(Exit::Refused, status.message());
    }
    rpc::failure_of_change(
        status,
        &format!("ask `coalloc show {id}`: the change may still be going on"),
    )
}

/// How a change ended.
#[must_use]
pub fn exit(reservation: &v1::Reservation) -> Exit {
    use v1::ChangeState as C;
    match reservation.change.as_ref().map(v1::Change::state) {
        Some(C::Done) => Exit::Done,
        Some(C::Refused) if reservation.definite => Exit::Refused,
        _ => Exit::Unfinished,
    }
}

/// The earlier version, the outcome of the change, and the reservation as it stands now.
fn compare(old: &v1::Reservation, new: &v1::Reservation) -> String {
    let mut out = String::new();
    if new.version != old.version {
        let shown = |one: &v1::Reservation| {
            let plan = one.plan.as_ref();
            let sites = plan.iter().flat_map(|plan| &plan.placements);
            let sites = sites.map(|site| {
                let others = site.others.iter().map(|one| text::amount_of(&one.kind, one.amount));
                let cpus = site.cpus.to_string() + &own_window(site.window.as_ref());
                let all: Vec<String> = std::iter::once(cpus).chain(others).collect();
                format!("{} {} at {}", site.site, all.join(", "), site.at)
            });
            let routes = plan.iter().flat_map(|plan| &plan.routes);
            let routes = routes.map(|r| {
                let when = own_window(r.window.as_ref());
                format!("{}-{} {}{when}", r.from, r.to, text::rate(r.bandwidth_bps))
            });
            let what: Vec<String> = sites.chain(routes).collect();
            let window = text::window(plan.and_then(|plan| plan.window.as_ref()));
            format!("version {}: {window}; {}", one.version, what.join(", "))
        };
        // Writing to a String cannot fail.
        let _ = writeln!(out, "was {}\nis  {}\n", shown(old), shown(new));
    }
    if let Some(change) = &new.change
        && change.state() == v1::ChangeState::Refused
    {
        let why = change.refusal.as_ref().map(why_refused).unwrap_or_default();
        let what = if new.definite { "nothing has changed" } else { "its holds are being dropped" };
        let _ = writeln!(out, "refused, and {what}: {why}\n");
        // Said once is enough.
        let change = Some(v1::Change { refusal: None, ..change.clone() });
        return out + &describe(&v1::Reservation { change, ..new.clone() });
    }
    out + &describe(new)
}

/// The window of a part behind the part; nothing for a part that has the window of the plan.
fn own_window(window: Option<&v1::Window>) -> String {
    window.map_or_else(String::new, |window| format!(" ({})", text::window(Some(window))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use coalloc_common::{InvalidField, Span};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ModifyArgs,
    }

    fn args(line: &str) -> ModifyArgs {
        Line::try_parse_from(line.split(' ')).unwrap().args
    }

    fn reservation() -> v1::Reservation {
        let site = |name: &str| v1::SiteRequest {
            name: name.to_owned(),
            cpus: 4,
            ..v1::SiteRequest::default()
        };
        let link = v1::LinkRequest {
            from: "a".to_owned(),
            to: "b".to_owned(),
            bandwidth_bps: 1_000_000_000,
            ..v1::LinkRequest::default()
        };
        let request = v1::CoAllocationRequest {
            sites: vec![site("a"), site("b")],
            links: vec![link],
            earliest_start: Some(time_to_wire(Time::from_us(0))),
            latest_start: Some(time_to_wire(Time::from_us(9_000_000_000))),
            duration: Some(span_to_wire(Span::from_secs(3_600))),
            user: "alice".to_owned(),
            manual_provision: None,
            series: String::new(),
        };
        let at = |s: i64| Some(time_to_wire(Time::from_us(s * 1_000_000)));
        let window = Some(v1::Window { start: at(7_200), end: at(10_800) });
        let plan = v1::Plan { window, ..v1::Plan::default() };
        v1::Reservation { request: Some(request), plan: Some(plan), ..Default::default() }
    }

    fn new(line: &str) -> Result<v1::CoAllocationRequest, Failure> {
        args(line).new_version(&reservation(), Time::from_us(0))
    }

    fn seconds(request: &v1::CoAllocationRequest) -> i64 {
        request.duration.as_ref().unwrap().seconds
    }

    #[test]
    fn the_end_moves_and_the_start_stays_where_the_reservation_is_not_where_it_was_wanted() {
        let request = new("x r1 --extend 1h30m").unwrap();
        assert_eq!((seconds(&request), request.earliest_start), (9_000, None));
        assert_eq!(request.latest_start, None);
        assert_eq!(seconds(&new("x r1 --shorten 10m").unwrap()), 3_000);
        assert_eq!(seconds(&new("x r1 --for 2h").unwrap()), 7_200);
        assert_eq!(seconds(&new("x r1 --end 1970-01-01T04:00:00Z").unwrap()), 7_200);
        let moved = new("x r1 --start 1970-01-01T01:00:00Z").unwrap();
        assert_eq!((seconds(&moved), moved.earliest_start.unwrap().seconds), (3_600, 3_600));
        assert_eq!(new("x r1 --shorten 1h").unwrap_err().exit, Exit::BadInput);
    }

    #[test]
    fn amounts_change_by_the_names_of_the_request() {
        let request = new("x r1 --cpus a=8 --rate a-b=2G").unwrap();
        assert_eq!((request.sites[0].cpus, request.sites[1].cpus), (8, 4));
        assert_eq!(request.links[0].bandwidth_bps, 2_000_000_000);
        let request = new("x r1 --site a=6,storage=2TB@N0 --link a-b=2.5G,latency=5ms").unwrap();
        let site = &request.sites[0];
        assert_eq!((site.cpus, site.others[0].amount), (6, 2_000));
        assert_eq!(site.pinned_to.as_deref(), Some("N0"));
        assert_eq!(request.links[0].bandwidth_bps, 2_500_000_000);
        let request = new("x r1 --drop-site b").unwrap();
        assert_eq!((request.sites.len(), request.links.len()), (1, 0));
        for wrong in ["x r1 --cpus z=8", "x r1 --rate b-a=1G", "x r1 --drop-site z"] {
            let failure = new(wrong).unwrap_err();
            assert_eq!(failure.exit, Exit::BadInput);
            assert!(failure.message.contains("it has a"), "{failure}");
        }
        let failure = new("x r1 --drop-site a --drop-site b").unwrap_err();
        assert!(failure.message.contains("last site") && failure.message.contains("release r1"));
        let said = Line::try_parse_from(["x", "r1", "--extend", "-1h"]).unwrap_err().to_string();
        assert!(said.contains("write `--shorten 1h` instead"), "{said}");
        for wrong in ["--rate a-b=fast", "--rate a-b=2.5X", "--cpus a", "--extend -1h"] {
            assert!(Line::try_parse_from(format!("x r1 {wrong}").split(' ')).is_err(), "{wrong}");
        }
        assert!(Line::try_parse_from("x r1 --request f --extend 1h".split(' ')).is_err());
    }

    #[test]
    fn a_change_that_changes_nothing_is_an_error() {
        for nothing in ["x r1", "x r1 --user alice --json", "x r1 --change-id again"] {
            let failure = args(nothing).check_says_something().unwrap_err();
            assert_eq!(failure.exit, Exit::BadInput);
            assert!(failure.message.contains("nothing of r1 would change"), "{failure}");
        }
        for one in ["--extend 1h", "--shorten 1h", "--cpus a=8", "--drop-site b", "--may-move"] {
            assert!(args(&format!("x r1 {one}")).check_says_something().is_ok(), "{one}");
        }
        assert!(args("x r1 --objective price").check_says_something().is_ok());
        for same in ["--cpus a=4", "--rate a-b=1G", "--end 1970-01-01T03:00:00Z"] {
            let failure = new(&format!("x r1 {same}")).unwrap_err();
            assert_eq!(failure.exit, Exit::BadInput);
            assert!(failure.message.contains("nothing would change"), "{failure}");
            assert!(new(&format!("x r1 {same} --change-id again")).is_ok(), "it may be sent again");
            assert!(new(&format!("x r1 {same} --may-move")).is_ok());
        }
    }

    #[test]
    fn a_rate_without_a_unit_is_refused_with_what_it_may_mean() {
        let said = Line::try_parse_from("x r1 --link a-b=100".split(' ')).unwrap_err().to_string();
        assert!(said.contains("write `100M` for Mbit/s or `100G` for Gbit/s"), "{said}");
        assert!(Line::try_parse_from("x r1 --rate a-b=1K".split(' ')).is_ok());
    }

    #[test]
    fn what_is_refused_is_blamed_on_its_flag() {
        let args = args("x r1 --site a=8 --site b=0 --link a-b=0G --for 500d");
        let flags = args.flags(reservation().request.as_ref().unwrap());
        let cases = [
            ("options.objectives[1]", "--objective: price is not"),
            ("request.sites[1].cpus", "--site b=0: cpus: price is not"),
            ("request.links[0].bandwidth_bps", "--link a-b=0G: bandwidth_bps: price is not"),
            ("request.duration", "--for: price is not"),
        ];
        for (field, start) in cases {
            let error = InvalidField::new(field, "price", "each at most once");
            let failure = failure(&coalloc_net::status::invalid(&error), None, &flags, "r1");
            assert_eq!(failure.exit, Exit::BadInput);
            assert!(failure.message.starts_with(start), "{failure}");
        }
    }

    #[test]
    fn the_exit_code_is_that_of_the_change() {
        use v1::ChangeState as C;
        let cases = [
            (C::Done, true, Exit::Done),
            (C::Refused, true, Exit::Refused),
            (C::Refused, false, Exit::Unfinished),
            (C::Checking, false, Exit::Unfinished),
            (C::Committing, false, Exit::Unfinished),
        ];
        for (state, definite, expected) in cases {
            let change = Some(v1::Change { state: state.into(), ..Default::default() });
            let one = v1::Reservation { change, definite, ..Default::default() };
            assert_eq!(exit(&one), expected, "{state:?}");
        }
        let status = Status::failed_precondition("it is terminated");
        assert_eq!(failure(&status, None, &[], "r1").exit, Exit::Refused);
    }
}
