//! `coalloc bookings`: what is held and booked at the resource managers, by their own word.
//!
//! Resource managers tell that to operators and auditors only. `coalloc usage` draws the same, and for users their own.

use clap::Args;
use coalloc_common::suggest::did_you_mean;
use coalloc_common::{Span, Time, Window};
use coalloc_net::client::Dialer;
use coalloc_net::convert::{window_from_wire, window_to_wire};
use coalloc_proto::v1;
use serde_json::json;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::output::{OutputArgs, OutputFormat, csv_line};
use crate::kit::resources::{DescribedResource, described, taken};
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::text;
use crate::kit::when::{InstantArg, Length};
use crate::kit::zone::{ZoneArgs, ZoneClock};

/// How long a resource manager may take to answer before it counts as silent.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
/// The longest window that can be asked for.
pub(super) const YEAR: Span = Span::from_secs(366 * 86_400);
/// The columns of `-o csv`: a line for each segment.
const CSV_HEAD: [&str; 10] = [
    "transaction",
    "resource_manager",
    "coordinator",
    "user",
    "state",
    "resource",
    "amount",
    "unit",
    "start",
    "end",
];

/// List what is held and booked at the resource managers, as they say themselves
///
/// Resource managers tell it to operators and auditors only; `coalloc usage` shows users their own. Windows are to the
/// minute; `-o wide` has the seconds, and everything that was cut.
///
/// Exit code 5: at least one resource manager did not answer; what the others told is listed.
#[derive(Debug, Clone, Args)]
pub struct BookingsArgs {
    /// Only this resource manager; may be given several times
    #[arg(long, value_name = "NAME")]
    rm: Vec<String>,
    /// Only what is taken after this time: tomorrow 14:00, now+2h [default: now; with --all, everything]
    #[arg(long, value_name = "TIME")]
    start: Option<InstantArg>,
    /// Only what is taken within so long after the start [default: 366 days]
    #[arg(long = "for", value_name = "LENGTH")]
    length: Option<Length>,
    /// Also what has ended: aborted, expired, refused, released or replaced
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    grc: GrcArgs,
}

/// What one resource manager has answered.
#[derive(Debug)]
pub(super) struct ManagerAnswer {
    /// Its name.
    pub(super) name: String,
    /// Its resources; none if it has never described itself.
    pub(super) resources: Vec<DescribedResource>,
    /// Its bookings and holds, or why it told none.
    pub(super) bookings: Result<Vec<v1::Booking>, Status>,
}

impl ManagerAnswer {
    /// Whether it does not tell this caller what others have booked.
    pub(super) fn is_denied(&self) -> bool {
        let denied = [Code::PermissionDenied, Code::Unauthenticated];
        self.bookings.as_ref().is_err_and(|status| denied.contains(&status.code()))
    }

    /// The bookings that it told.
    pub(super) fn told(&self) -> impl Iterator<Item = &v1::Booking> {
        self.bookings.iter().flatten()
    }
}

/// The resource managers of these names, or all without names.
///
/// # Errors
/// When there is none of a name.
pub(super) fn managers(
    federation: &v1::DescribeFederationResponse,
    names: &[String],
) -> Result<Vec<v1::ResourceManagerStatus>, Failure> {
    let all = &federation.resource_managers;
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|rm| rm.name != **name)) {
        let known: Vec<String> = all.iter().map(|rm| rm.name.clone()).collect();
        let guess = did_you_mean(unknown, known.iter().map(String::as_str));
        return Err(Failure::bad_input(format!(
            "--rm: there is no resource manager {unknown:?}; allowed: {}{guess}",
            text::enumerate(&known)
        )));
    }
    let is_wanted = |rm: &&v1::ResourceManagerStatus| names.is_empty() || names.contains(&rm.name);
    Ok(all.iter().filter(is_wanted).cloned().collect())
}

/// Asks all these resource managers at once for their bookings; the answers are in their order.
pub(super) async fn ask(
    dialer: &Dialer,
    managers: &[v1::ResourceManagerStatus],
    request: &v1::ListBookingsRequest,
) -> Vec<ManagerAnswer> {
    let mut calls = JoinSet::new();
    let mut answers = Vec::with_capacity(managers.len());
    for (at, manager) in managers.iter().enumerate() {
        let (dialer, address, request) = (dialer.clone(), manager.address.clone(), request.clone());
        calls.spawn(async move { (at, ask_one(&dialer, &address, request).await) });
        answers.push(ManagerAnswer {
            name: manager.name.clone(),
            resources: manager.description.as_ref().map(described).unwrap_or_default(),
            bookings: Err(Status::internal("it was not asked")),
        });
    }
    while let Some(call) = calls.join_next().await {
        if let Ok((at, bookings)) = call {
            answers[at].bookings = bookings;
        }
    }
    answers
}

async fn ask_one(
    dialer: &Dialer,
    address: &str,
    request: v1::ListBookingsRequest,
) -> Result<Vec<v1::Booking>, Status> {
    if address.is_empty() {
        // Coordinators tell addresses to operators and auditors only.
        return Err(Status::permission_denied("the coordinator does not tell where it is"));
    }
    let client = rpc::resource_manager(dialer, address);
    let mut client = client.map_err(|failure| Status::unavailable(failure.message))?;
    let answer = tokio::time::timeout(PATIENCE, rpc::all_bookings(&mut client, request)).await;
    let late = || Status::deadline_exceeded(format!("no answer in {} s", PATIENCE.as_secs()));
    answer.unwrap_or_else(|_| Err(late()))
}

/// A line for each resource manager that was asked and did not tell, with the reason.
pub(super) fn silent<'a>(answers: impl IntoIterator<Item = &'a ManagerAnswer>) -> Vec<String> {
    let line = |answer: &ManagerAnswer| {
        let status = answer.bookings.as_ref().err()?;
        let why = format!("did not answer: {}: {}", answer.name, rpc::cause_of(status));
        Some(text::wrap(&why, usize::from(text::width())).join("\n"))
    };
    answers.into_iter().filter_map(line).collect()
}

/// Runs `coalloc bookings`.
///
/// # Errors
/// When a flag is wrong, the coordinator cannot be asked, or no resource manager tells.
pub async fn run(args: &BookingsArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    let request = v1::ListBookingsRequest {
        window: args.window(now)?.map(window_to_wire),
        include_ended: args.all,
        ..Default::default()
    };
    let mut client = args.grc.connect().await?;
    let federation = client.describe_federation(v1::DescribeFederationRequest {}).await;
    let federation = federation.map_err(|status| rpc::failure(&status))?.into_inner();
    let managers = managers(&federation, &args.rm)?;
    let answers = ask(&args.grc.identity.dialer()?, &managers, &request).await;
    if !answers.is_empty() && answers.iter().all(|answer| answer.bookings.is_err()) {
        return Err(nothing_told(&answers));
    }
    let silent = silent(&answers);
    let table = BookingTable { clock: args.zone.clock(now), rows: rows(&answers) };
    let text = match args.output.format() {
        None => table.brief() + &table.count(&silent),
        Some(OutputFormat::Wide) => table.wide() + &table.count(&silent),
        Some(OutputFormat::Csv) => {
            silent.iter().for_each(|line| text::note(line));
            table.csv()
        }
        Some(OutputFormat::Json) => json_of(&answers)?,
    };
    Ok(Answer { text, exit: exit(&answers) })
}

/// Whether all have answered that may tell this caller.
pub(super) fn exit(answers: &[ManagerAnswer]) -> Exit {
    let is_silent = |answer: &ManagerAnswer| answer.bookings.is_err() && !answer.is_denied();
    if answers.iter().any(is_silent) { Exit::CallFailed } else { Exit::Done }
}

impl BookingsArgs {
    /// The window of the flags; `None` is all of time.
    fn window(&self, now: Time) -> Result<Option<Window>, Failure> {
        if self.all && self.start.is_none() && self.length.is_none() {
            return Ok(None);
        }
        let start = self.start.as_ref().map_or(now, |start| start.at(now));
        let length = self.length.map_or(YEAR, |length| length.0);
        Ok(Some(Window::parse("--for", start, start.saturating_add(length))?))
    }
}

/// Why there is nothing to list.
pub(super) fn nothing_told(answers: &[ManagerAnswer]) -> Failure {
    if answers.iter().all(ManagerAnswer::is_denied) {
        let text = "resource managers tell what they have booked to operators and auditors only; \
                    `coalloc usage` and `coalloc list` show your own";
        return Failure::new(Exit::Refused, text);
    }
    Failure::new(Exit::CallFailed, silent(answers).join("\n"))
}

/// All answers as JSON: bookings are messages of the schema.
fn json_of(answers: &[ManagerAnswer]) -> Result<String, Failure> {
    let told = answers.iter().filter_map(|answer| {
        let bookings = answer.bookings.as_ref().ok()?;
        Some(json!({"name": answer.name, "bookings": bookings}))
    });
    let silent = answers.iter().filter_map(|answer| {
        let status = answer.bookings.as_ref().err()?;
        Some(json!({"name": answer.name, "problem": rpc::cause_of(status)}))
    });
    let (told, silent): (Vec<_>, Vec<_>) = (told.collect(), silent.collect());
    text::json(&json!({"resourceManagers": told, "silent": silent}))
}

/// A booking with where it is.
struct BookingRow<'a> {
    manager: &'a ManagerAnswer,
    booking: &'a v1::Booking,
    /// From the first start to the last end of its segments.
    window: Option<Window>,
}

/// All bookings, by their start.
fn rows(answers: &[ManagerAnswer]) -> Vec<BookingRow<'_>> {
    let of = |manager| {
        let bookings = ManagerAnswer::told(manager);
        bookings.map(move |booking| BookingRow { manager, booking, window: hull(booking) })
    };
    let mut rows: Vec<_> = answers.iter().flat_map(of).collect();
    rows.sort_by_key(|row| (row.window.map(Window::start), &row.booking.transaction));
    rows
}

fn hull(booking: &v1::Booking) -> Option<Window> {
    let windows = booking.segments.iter();
    let windows = windows.filter_map(|one| window_from_wire("window", one.window.as_ref()).ok());
    windows.reduce(|all, one| {
        let (start, end) = (all.start().min(one.start()), all.end().max(one.end()));
        Window::new(start, end).unwrap_or(all)
    })
}

fn state(booking: &v1::Booking) -> String {
    booking.state().as_str_name().trim_start_matches("BOOKING_STATE_").to_lowercase()
}

/// Makes lines of bookings, with times by one clock.
struct BookingTable<'a> {
    clock: ZoneClock,
    rows: Vec<BookingRow<'a>>,
}

impl BookingTable<'_> {
    fn window_head(&self) -> String {
        let windows = self.rows.iter().filter_map(|row| row.window);
        let zone = self.clock.name(windows.flat_map(|window| [window.start(), window.end()]));
        format!("window ({zone})")
    }

    /// A line each that fits the page, if the names do.
    fn brief(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let window = self.window_head();
        let head = ["transaction", "at", "user", "state", &window, "what"];
        let mut table = text::table(&head);
        for row in &self.rows {
            let window = row.window.map(|window| self.clock.window(window));
            table.add_row([
                row.booking.transaction.clone(),
                row.manager.name.clone(),
                row.booking.user.clone(),
                state(row.booking),
                window.unwrap_or_else(|| "-".to_owned()),
                row.what(),
            ]);
        }
        text::finish_in_lines(table)
    }

    /// Everything, a line each of any width.
    fn wide(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let window = self.window_head();
        let head = [
            "transaction",
            "at",
            "coordinator",
            "user",
            "state",
            &window,
            "ends in",
            "replaces",
            "servers",
            "what",
        ];
        let mut table = text::table(&head);
        for row in &self.rows {
            let booking = row.booking;
            let left = booking.expires_in.as_ref();
            let servers = booking.servers.iter().flat_map(|of| of.servers.iter().cloned());
            let window = row.window.map(|window| self.clock.exact_window(window));
            table.add_row([
                booking.transaction.clone(),
                row.manager.name.clone(),
                booking.coordinator.clone(),
                booking.user.clone(),
                state(booking),
                window.unwrap_or_else(|| "-".to_owned()),
                left.map_or_else(String::new, |left| text::span(Some(left))),
                booking.replaces.clone(),
                servers.collect::<Vec<_>>().join(" "),
                row.what(),
            ]);
        }
        text::finish_wide(table)
    }

    /// A line for each segment as CSV, with times in UTC.
    fn csv(&self) -> String {
        let mut out = csv_line(&CSV_HEAD);
        for row in &self.rows {
            for segment in &row.booking.segments {
                out += &csv_line(&row.csv(segment).map(|field| text::line(&field).into_owned()));
            }
        }
        out
    }

    /// How many there are, and who did not answer.
    fn count(&self, silent: &[String]) -> String {
        let is_held = |row: &&BookingRow<'_>| row.booking.state() == v1::BookingState::Held;
        let held = self.rows.iter().filter(is_held).count();
        let is_booked = |row: &&BookingRow<'_>| row.booking.state() == v1::BookingState::Booked;
        let booked = self.rows.iter().filter(is_booked).count();
        let ended = match self.rows.len() - held - booked {
            0 => String::new(),
            ended => format!(", {ended} ended"),
        };
        let (booked, held) = (text::count(booked, "booking"), text::count(held, "hold"));
        let lines = std::iter::once(format!("{booked}, {held}{ended}"));
        lines.chain(silent.iter().cloned()).map(|line| line + "\n").collect()
    }
}

impl BookingRow<'_> {
    fn what(&self) -> String {
        let segments = self.booking.segments.iter();
        let all: Vec<_> = segments.map(|one| taken(one, &self.manager.resources)).collect();
        all.join(", ")
    }

    fn csv(&self, segment: &v1::Segment) -> [String; CSV_HEAD.len()] {
        let resource = self.manager.resources.iter().find(|one| one.name == segment.resource);
        let window = window_from_wire("window", segment.window.as_ref()).ok();
        let end = |end: fn(Window) -> Time| {
            window.map_or_else(String::new, |window| end(window).to_string())
        };
        [
            self.booking.transaction.clone(),
            self.manager.name.clone(),
            self.booking.coordinator.clone(),
            self.booking.user.clone(),
            state(self.booking),
            segment.resource.clone(),
            segment.amount.to_string(),
            resource.map_or_else(String::new, |one| one.kind.unit().to_owned()),
            end(Window::start),
            end(Window::end),
        ]
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::ResourceKind;
    use jiff::tz::TimeZone;

    use super::*;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    fn answers() -> Vec<ManagerAnswer> {
        let window = Window::starting(NOON, Span::from_secs(3_600)).map(window_to_wire);
        let segment =
            v1::Segment { resource: "N0".into(), amount: 4, window, ..Default::default() };
        let booking = v1::Booking {
            transaction: "grc-74c72d14-4/4".into(),
            coordinator: "grc".into(),
            user: "alice".into(),
            state: v1::BookingState::Booked.into(),
            segments: vec![segment],
            ..Default::default()
        };
        let resource = DescribedResource {
            name: "N0".into(),
            kind: ResourceKind::Cpus,
            capacity: 8,
            of: "N0".into(),
            ends: None,
        };
        let answer = |name: &str, bookings| ManagerAnswer {
            name: name.into(),
            resources: vec![resource.clone()],
            bookings,
        };
        let down = Err(Status::unavailable("connection refused"));
        vec![answer("crm-N0", Ok(vec![booking])), answer("crm-N1", down)]
    }

    #[test]
    fn a_booking_is_a_line_and_who_is_silent_is_named() {
        let answers = answers();
        let clock = ZoneClock::new(TimeZone::UTC, NOON);
        let table = BookingTable { clock, rows: rows(&answers) };
        let brief = table.brief() + &table.count(&silent(&answers));
        let expected = "\
transaction       at      user   state   window (UTC)       what
grc-74c72d14-4/4  crm-N0  alice  booked  11-21 12:00-13:00  N0 4 CPUs
1 booking, 0 holds
did not answer: crm-N1: connection refused
";
        assert_eq!(brief, expected);
        let line = "grc-74c72d14-4/4,crm-N0,grc,alice,booked,N0,4,CPUs,\
                    2026-11-21T12:00:00Z,2026-11-21T13:00:00Z";
        assert!(table.csv().contains(line), "{}", table.csv());
        assert!(!nothing_told(&answers[1..]).message.contains("operators"));
        let json = json_of(&answers).unwrap();
        assert!(json.contains("\"problem\": \"connection refused\""), "{json}");
    }

    #[tokio::test]
    async fn a_resource_manager_whose_address_is_not_told_counts_as_one_that_denies() {
        let manager = v1::ResourceManagerStatus { name: "crm-N0".into(), ..Default::default() };
        let answers = ask(&Dialer::plain_text(), &[manager], &Default::default()).await;
        assert!(answers[0].is_denied());
    }

    #[test]
    fn a_caller_who_is_told_nothing_learns_what_shows_its_own() {
        let denied = ManagerAnswer {
            name: "crm-N0".into(),
            resources: Vec::new(),
            bookings: Err(Status::permission_denied("users may not")),
        };
        let failure = nothing_told(&[denied]);
        assert_eq!(failure.exit, Exit::Refused);
        assert!(failure.message.contains("`coalloc usage`"), "{failure}");
    }
}
