//! Series of reservations: `coalloc reserve --repeat` makes one, and `release` and `modify --series` work on one.
//!
//! Each occurrence is a request of its own, `<series>-1` to `<series>-N`, so the same command again is the same requests. The
//! coordinator keeps the name of the series with each reservation, and does not know what a series is otherwise.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::Args;
use coalloc_common::{Span, Time, limits};
use coalloc_net::convert::{span_from_wire, time_to_wire};
use coalloc_proto::v1;
use coalloc_protocol::capability::Capability;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::recurrence::Recurrence;
use crate::kit::request::ParsedRequest;
use crate::kit::rpc::{self, Coordinator};
use crate::kit::text;
use crate::kit::when::{TimeZone, local_window};
use crate::user::reserve;

/// How a request repeats.
#[derive(Debug, Clone, Default, Args)]
pub struct SeriesFlags {
    /// Reserve the same again and again: daily, weekly (at the same time of the clock, also when daylight saving begins or ends),
    /// or after a length like 36h. Each occurrence begins when the request may begin earliest, unless a latest start is
    /// given. All are reserved, or none is kept
    #[arg(long, value_name = "daily|weekly|LENGTH", requires = "count", help_heading = "Series",
          conflicts_with_all = ["plan", "choose", "series"])]
    pub repeat: Option<Recurrence>,
    /// How many times, the first included
    #[arg(long, value_name = "N", requires = "repeat", help_heading = "Series",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::SERIES_OCCURRENCES_MAX)))]
    pub count: Option<u32>,
    /// Keep the occurrences that could be reserved when others are refused
    #[arg(long, requires = "repeat", help_heading = "Series")]
    pub those_that_fit: bool,
}

/// A series that is being reserved.
pub struct SeriesRequest<'a> {
    /// The name of the series.
    pub series: &'a str,
    /// The first occurrence.
    pub first: &'a ParsedRequest,
    /// How it repeats.
    pub recurrence: Recurrence,
    /// The zone whose clock counts days and weeks.
    pub zone: TimeZone,
    /// Whether the user has said when it begins latest; if not, it begins when it may begin earliest.
    pub has_latest: bool,
    /// How many times, and what happens when some are refused.
    pub flags: &'a SeriesFlags,
}

/// An occurrence, and how its request ended.
struct Occurrence {
    /// Its number, counted from 1.
    number: usize,
    id: String,
    window: String,
    outcome: String,
    exit: Exit,
    reservation: Option<v1::Reservation>,
    /// An earlier command has asked for it.
    is_earlier: bool,
    /// It was reserved, and is released again because another occurrence was refused.
    is_released_again: bool,
}

impl SeriesRequest<'_> {
    /// Reserves the series.
    ///
    /// # Errors
    /// When the request is wrong. Whatever happens to an occurrence is part of the answer.
    pub async fn reserve(&self, client: &mut Coordinator, json: bool) -> Result<Answer, Failure> {
        let first = text::time(self.first.request.earliest_start.as_ref());
        let first = first.ok_or_else(|| Failure::bad_input("--repeat: when? Give --after TIME"))?;
        let count = self.flags.count.unwrap_or(1);
        let starts = self.recurrence.starts(first, count, &self.zone);
        let starts = starts.map_err(|said| Failure::bad_input(format!("--count: {said}")))?;
        if !["", self.series].contains(&self.first.request.series.as_str()) {
            return Err(self
                .first
                .mistake("series", "--repeat makes a series of its own; allowed: none"));
        }
        // What an earlier command has reserved is never given back.
        let earlier = rpc::all_reservations(client, of_series(self.series, None)).await;
        let earlier = earlier.map_err(|status| rpc::failure(&status))?;
        let earlier: BTreeSet<String> = earlier.into_iter().map(|one| one.request_id).collect();
        let mut made: Vec<Occurrence> = Vec::new();
        for start in starts {
            let mut one = self.reserve_one(client, made.len() + 1, (first, start)).await?;
            one.is_earlier = earlier.contains(&one.id);
            let is_refused = one.exit != Exit::Done;
            let is_certain = matches!(one.exit, Exit::Refused | Exit::BadInput);
            made.push(one);
            // After a lost call the rest is left to the same command again.
            if is_refused && !(is_certain && self.flags.those_that_fit) {
                break;
            }
        }
        let has_refused = made.iter().any(|one| matches!(one.exit, Exit::Refused | Exit::BadInput));
        if has_refused && !self.flags.those_that_fit {
            release_again(client, &mut made).await;
        }
        self.answer(made, count as usize, json)
    }

    /// Reserves the occurrence with this number.
    async fn reserve_one(
        &self,
        client: &mut Coordinator,
        number: usize,
        (first, start): (Time, Time),
    ) -> Result<Occurrence, Failure> {
        let id = format!("{}-{number}", self.series);
        let request = self.occurrence(first, start);
        let needs = rpc::needs_of(&request);
        let wire = v1::ReserveRequest {
            request_id: id.clone(),
            request: Some(request),
            options: Some(self.first.options.clone()),
            plan_digest: String::new(),
        };
        let span = self.first.request.duration.as_ref();
        let span =
            span.and_then(|wire| span_from_wire("duration", wire).ok()).unwrap_or(Span::ZERO);
        let wanted = local_window(start, span, &self.zone);
        let occurrence = |outcome, exit, reservation| {
            let (id, window) = (id.clone(), wanted.clone());
            Occurrence {
                number,
                id,
                window,
                outcome,
                exit,
                reservation,
                is_earlier: false,
                is_released_again: false,
            }
        };
        let answer = client.reserve(rpc::with_needs(wire, needs)).await;
        let one = match answer.map(|answer| answer.into_inner().reservation.unwrap_or_default()) {
            Ok(one) => one,
            Err(status) => {
                let lost = rpc::failure_of_change(&status, "send the same command again");
                let failure = self.first.failure(&status, lost);
                // What is wrong with the first is wrong with all.
                if number == 1 {
                    return Err(failure);
                }
                return Ok(occurrence(failure.message.replace('\n', "; "), failure.exit, None));
            }
        };
        let exit = reserve::exit(&one);
        let outcome = match (&one.refusal, exit) {
            (Some(why), Exit::Refused) => format!("refused: {}", text::refusal(why)),
            _ => outcome_of(&one),
        };
        let start =
            one.plan.as_ref().and_then(|plan| text::time(plan.window.as_ref()?.start.as_ref()));
        let mut occurrence = occurrence(outcome, exit, Some(one));
        if let Some(start) = start {
            occurrence.window = local_window(start, span, &self.zone);
        }
        Ok(occurrence)
    }

    /// The request of the occurrence that begins at `start`.
    fn occurrence(&self, first: Time, start: Time) -> v1::CoAllocationRequest {
        let mut request = self.first.request.clone();
        self.series.clone_into(&mut request.series);
        request.earliest_start = Some(time_to_wire(start));
        let latest = text::time(request.latest_start.as_ref()).filter(|_| self.has_latest);
        let latest = latest.map(|latest| start.saturating_add(latest.since(first)));
        request.latest_start = latest.map(time_to_wire);
        request
    }

    fn answer(&self, made: Vec<Occurrence>, count: usize, json: bool) -> Result<Answer, Failure> {
        let series = self.series;
        let mut out = format!("series {series}: {series}-1 to {series}-{count}\n");
        for one in &made {
            out +=
                &text::outcome_line(&format!("{:>4}  {} ", one.number, one.window), &one.outcome);
        }
        // Writing to a String cannot fail, here and below.
        if made.len() < count {
            let next = made.len() + 1;
            let last = if next == count { String::new() } else { format!(" to {count}") };
            let _ = writeln!(out, "{next:>4}{last}: not tried");
        }
        // Of those that were all tried and refused, there are none to keep.
        let could_keep_some = made.len() < count || made.iter().any(|one| one.is_released_again);
        let kept = made.iter().filter(|one| one.exit == Exit::Done).count();
        let is_open =
            |one: &Occurrence| !matches!(one.exit, Exit::Done | Exit::Refused | Exit::BadInput);
        let exit = match Exit::worst(made.iter().map(|one| one.exit)) {
            Exit::Refused | Exit::BadInput if kept > 0 && self.flags.those_that_fit => Exit::Done,
            Exit::BadInput => Exit::Refused,
            worst => worst,
        };
        let _ = if made.iter().any(is_open) {
            writeln!(out, "not finished; the same command with --id {series} goes on")
        } else if kept == 0 && (self.flags.those_that_fit || !could_keep_some) {
            writeln!(out, "this command has reserved nothing")
        } else if kept == 0 {
            writeln!(
                out,
                "this command has reserved nothing; --those-that-fit, with another --id,\n\
                 keeps the occurrences that fit"
            )
        } else {
            writeln!(
                out,
                "{kept} of {count} are reserved; `coalloc release --series {series}` releases them"
            )
        };
        if !json {
            return Ok(Answer { text: out, exit });
        }
        text::note(out.trim_end());
        let reservations = made.into_iter().filter_map(|one| one.reservation).collect();
        let all = v1::ListResponse { reservations, ..v1::ListResponse::default() };
        Ok(Answer { text: text::json(&all)?, exit })
    }
}

/// The state of a reservation, and its sites.
fn outcome_of(one: &v1::Reservation) -> String {
    let state = text::state(one.state());
    let plan = one.plan.as_ref().filter(|_| reserve::exit(one) == Exit::Done);
    let sites: Vec<&str> =
        plan.iter().flat_map(|plan| &plan.placements).map(|site| site.at.as_str()).collect();
    if sites.is_empty() { state.to_owned() } else { format!("{state} at {}", sites.join(", ")) }
}

/// Releases what this command has reserved of a series of which something is refused.
async fn release_again(client: &mut Coordinator, made: &mut [Occurrence]) {
    for one in made.iter_mut().filter(|one| one.exit == Exit::Done && !one.is_earlier) {
        one.is_released_again = true;
        let id = one.id.clone();
        let request = v1::ReleaseReservationRequest { id, user: String::new() };
        let released = client.release(request).await;
        let released = released.map(|answer| answer.into_inner().reservation.unwrap_or_default());
        (one.outcome, one.exit) = match released {
            Ok(known) if known.definite => ("released again".to_owned(), Exit::Refused),
            Ok(known) => (text::state(known.state()).to_owned(), Exit::Unfinished),
            Err(status) => {
                let id = &one.id;
                let what_to_do = format!("release {id} yourself");
                let failure = rpc::failure_of_change(&status, &what_to_do);
                (failure.message.replace('\n', "; "), Exit::Unfinished)
            }
        };
    }
}

/// Asks for the reservations of a series, and of a user if one is named.
fn of_series(series: &str, user: Option<&str>) -> v1::ListRequest {
    v1::ListRequest {
        series: series.to_owned(),
        user: user.unwrap_or_default().to_owned(),
        ..v1::ListRequest::default()
    }
}

/// The reservations of a series, in the order in which they were made.
///
/// # Errors
/// When the coordinator cannot be asked, has no reservation of this series, or several users have one of this name, which
/// only an operator sees.
pub async fn members(
    client: &mut Coordinator,
    series: &str,
    user: Option<&str>,
) -> Result<Vec<v1::Reservation>, Failure> {
    let all = rpc::all_reservations(client, of_series(series, user)).await;
    let all = all.map_err(|status| rpc::failure(&status))?;
    if all.is_empty() {
        let text = format!("there is no series {series:?}: no reservation belongs to it");
        return Err(Failure::new(Exit::NotFound, text));
    }
    check_one_user(series, &all)?;
    Ok(all)
}

/// A failure about an id that nobody has; if it is the name of a series, what to type instead behind `coalloc`.
pub async fn failure_of_id(
    client: &mut Coordinator,
    failure: Failure,
    id: &str,
    instead: &str,
) -> Failure {
    if failure.exit != Exit::NotFound {
        return failure;
    }
    let request = v1::ListRequest { page_size: Some(1), ..of_series(id, None) };
    let found = client.list(rpc::with_needs(request, Some(Capability::Series))).await;
    let is_series = found.is_ok_and(|page| !page.get_ref().reservations.is_empty());
    if !is_series {
        return failure;
    }
    let id = text::shell_word(id);
    let text =
        format!("{id} is a series, and not one reservation: `coalloc {instead} --series {id}`");
    Failure::new(Exit::NotFound, text)
}

/// Checks that the reservations of a series are of one user, because a series is one user's own.
fn check_one_user(series: &str, all: &[v1::Reservation]) -> Result<(), Failure> {
    let users: BTreeSet<&String> = all.iter().map(|one| &one.user).collect();
    if users.len() < 2 {
        return Ok(());
    }
    let users: Vec<String> = users.into_iter().cloned().collect();
    Err(Failure::bad_input(format!(
        "--series {series}: {} have a series of this name; allowed: that of one of them, with --user NAME",
        text::enumerate(&users)
    )))
}

/// Has the reservation ended, whatever way?
#[must_use]
pub fn has_ended(one: &v1::Reservation) -> bool {
    !text::NOT_ENDED.contains(&one.state())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn made(number: usize, exit: Exit, outcome: &str) -> Occurrence {
        Occurrence {
            number,
            id: format!("lab-{number}"),
            window: "Mon 2026-12-07 09:00 to 10:00 CET".to_owned(),
            outcome: outcome.to_owned(),
            exit,
            reservation: None,
            is_earlier: false,
            is_released_again: outcome == "released again",
        }
    }

    fn parsed() -> ParsedRequest {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: crate::kit::request::RequestArgs,
        }
        let line = "x --site a=4 --for 1h --after 2026-12-07T08:00:00Z --latest-start 2026-12-07T09:00:00Z";
        let line = <Line as clap::Parser>::try_parse_from(line.split(' ')).unwrap();
        line.args.load(Time::from_us(0)).unwrap()
    }

    fn series<'a>(first: &'a ParsedRequest, flags: &'a SeriesFlags) -> SeriesRequest<'a> {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let (series, recurrence) = ("lab", Recurrence::Weekly);
        SeriesRequest { series, first, recurrence, zone, has_latest: true, flags }
    }

    #[test]
    fn of_two_users_with_a_series_of_one_name_one_must_be_named() {
        let of = |user: &str| v1::Reservation { user: user.to_owned(), ..Default::default() };
        assert_eq!(check_one_user("lab", &[of("ann"), of("ann")]), Ok(()));
        let failure = check_one_user("lab", &[of("bob"), of("ann"), of("bob")]).unwrap_err();
        assert_eq!(failure.exit, Exit::BadInput);
        assert!(failure.message.contains("ann and bob have a series"), "{failure}");
    }

    #[test]
    fn an_occurrence_takes_its_latest_start_along_and_belongs_to_the_series() {
        let (first, flags) = (parsed(), SeriesFlags::default());
        let all = series(&first, &flags);
        let at = |text: &str| Time::from_us(text.parse::<Timestamp>().unwrap().as_microsecond());
        let (begin, later) = (at("2026-12-07T08:00:00Z"), at("2026-12-14T08:00:00Z"));
        let one = all.occurrence(begin, later);
        assert_eq!(one.series, "lab");
        assert_eq!(text::instant(one.latest_start.as_ref()), "2026-12-14T09:00:00Z");
        let exact = SeriesRequest { has_latest: false, ..all };
        assert_eq!(exact.occurrence(begin, later).latest_start, None);
    }

    #[test]
    fn each_occurrence_has_its_line_and_the_end_says_what_is_kept() {
        let (first, flags) = (parsed(), SeriesFlags::default());
        let all = series(&first, &flags);
        let answer = |made| all.answer(made, 3, false).unwrap();
        let done = answer((1..=3).map(|n| made(n, Exit::Done, "confirmed at N0")).collect());
        assert_eq!(done.exit, Exit::Done);
        assert!(
            done.text.contains("   3  Mon 2026-12-07 09:00 to 10:00 CET  confirmed at N0\n3 of 3")
        );
        let none = answer(vec![
            made(1, Exit::Refused, "released again"),
            made(
                2,
                Exit::Refused,
                "refused: no site that a may land on has 4 CPUs free at that time",
            ),
        ]);
        assert_eq!(none.exit, Exit::Refused);
        assert!(
            none.text
                .contains("\n   3: not tried\nthis command has reserved nothing; --those-that-fit"),
            "{}",
            none.text
        );
        assert!(none.text.lines().all(|line| line.chars().count() <= 80), "{}", none.text);
        let hopeless = answer((1..=3).map(|n| made(n, Exit::Refused, "refused")).collect());
        assert!(
            hopeless.text.ends_with("\nthis command has reserved nothing\n"),
            "{}",
            hopeless.text
        );
        let some = || vec![made(1, Exit::Done, "confirmed"), made(2, Exit::Refused, "refused")];
        let earlier = answer(some());
        assert_eq!(earlier.exit, Exit::Refused, "{}", earlier.text);
        let fitting = SeriesFlags { those_that_fit: true, ..SeriesFlags::default() };
        let fitting = series(&first, &fitting).answer(some(), 3, false).unwrap();
        assert_eq!(fitting.exit, Exit::Done);
        let lost =
            answer(vec![made(1, Exit::Done, "confirmed"), made(2, Exit::Unfinished, "lost")]);
        assert_eq!(lost.exit, Exit::Unfinished);
        assert!(lost.text.contains("the same command with --id lab goes on"), "{}", lost.text);
    }
}
