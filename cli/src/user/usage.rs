//! `coalloc usage`: a chart of what is held and booked in a live federation, a row for each resource.
//!
//! Resource managers tell operators and auditors everything. To users they tell nothing, so a user's chart is made of its
//! own reservations, which the coordinator has. Which of the two is drawn is said above the chart, for each resource
//! manager if they differ: an operator of one domain may be nobody in another.

use std::collections::BTreeSet;

use clap::Args;
use coalloc_common::suggest::did_you_mean;
use coalloc_common::{Amount, Span, Time, Window};
use coalloc_net::convert::{window_from_wire, window_to_wire};
use coalloc_proto::v1;
use serde_json::json;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::gantt::{self, ASCII, BLOCKS, Row};
use crate::kit::resources::DescribedResource;
use crate::kit::rpc::{self, Coordinator, GrcArgs, all_reservations};
use crate::kit::text;
use crate::kit::when::{InstantArg, Length};
use crate::kit::zone::{ZoneArgs, ZoneClock};
use crate::user::bookings::{self, ManagerAnswer};

/// Length of the chart when none is given.
const DAY: Span = Span::from_secs(86_400);
/// The states of reservations that take something.
const TAKING: [v1::ReservationState; 5] = [
    v1::ReservationState::Held,
    v1::ReservationState::Committing,
    v1::ReservationState::Confirmed,
    v1::ReservationState::Active,
    v1::ReservationState::Terminating,
];

/// Draw what is held and booked, one row for each resource
///
/// Operators and auditors see everything, users their own reservations; the first line says which.
#[derive(Debug, Clone, Args)]
pub struct UsageArgs {
    /// Only this site; may be given several times
    #[arg(long, value_name = "NAME")]
    site: Vec<String>,
    /// Only this path; may be given several times
    #[arg(long, value_name = "NAME")]
    path: Vec<String>,
    /// Only this resource manager; may be given several times
    #[arg(long, value_name = "NAME")]
    rm: Vec<String>,
    /// Start of the chart: tomorrow 14:00, 2026-11-21T10:00:00Z [default: the hour that has begun]
    #[arg(long, value_name = "TIME")]
    start: Option<InstantArg>,
    /// Length of the chart: 12h, 7d [default: 24h]
    #[arg(long = "for", value_name = "LENGTH")]
    length: Option<Length>,
    /// Draw with ASCII only
    #[arg(long)]
    ascii: bool,
    #[command(flatten)]
    zone: ZoneArgs,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print every amount of every resource as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc usage`.
///
/// # Errors
/// When a flag is wrong, or the coordinator cannot be asked.
pub async fn run(args: &UsageArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    let clock = args.zone.clock(now);
    let window = args.window(now, &clock)?;
    let mut client = args.grc.connect().await?;
    let federation = client.describe_federation(v1::DescribeFederationRequest {}).await;
    let federation = federation.map_err(|status| rpc::failure(&status))?.into_inner();
    let managers = bookings::managers(&federation, &args.rm)?;
    let answers = told(args, &managers, window).await?;
    let tells = |answer: &ManagerAnswer| answer.bookings.is_ok() || answer.is_denied();
    if !answers.is_empty() && !answers.iter().any(tells) {
        return Err(bookings::nothing_told(&answers));
    }
    args.check_names(&answers)?;
    let own = if answers.iter().any(ManagerAnswer::is_denied) {
        own_segments(&mut client, args, window).await?
    } else {
        Vec::new()
    };
    let mut usage = Usage { window, rows: args.rows(&answers, &own), answers, next: None };
    let far = Window::starting(window.end(), bookings::YEAR);
    if let Some(later) = far.filter(|_| !args.json && usage.is_empty()) {
        let answers = told(args, &managers, later).await?;
        let own = match answers.iter().any(ManagerAnswer::is_denied) {
            true => own_segments(&mut client, args, later).await?,
            false => Vec::new(),
        };
        let rows = args.rows(&answers, &own);
        usage.next = rows.iter().flat_map(|row| &row.row.taken).map(|(one, _)| one.start()).min();
    }
    let text = if args.json { usage.json()? } else { usage.draw(&clock, args.ascii) };
    Ok(Answer { text, exit: bookings::exit(&usage.answers) })
}

impl UsageArgs {
    fn window(&self, now: Time, clock: &ZoneClock) -> Result<Window, Failure> {
        let start = self.start.as_ref().map(|start| start.at(now));
        let length = self.length.map_or(DAY, |length| length.0);
        // A day begins with the full hour. A short window would be over before now.
        let is_long = length > Span::from_secs(3_600);
        let start = start.unwrap_or_else(|| if is_long { clock.full_hour(now) } else { now });
        Ok(Window::parse("--for", start, start.saturating_add(length))?)
    }

    /// Is there every site and every path that was named?
    fn check_names(&self, answers: &[ManagerAnswer]) -> Result<(), Failure> {
        for (flag, names, is_path) in [("--site", &self.site, false), ("--path", &self.path, true)]
        {
            let all = answers.iter().flat_map(|answer| &answer.resources);
            let known = all.filter(|one| one.ends.is_some() == is_path).map(|one| &one.of);
            let known: BTreeSet<&String> = known.collect();
            if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
                let guess = did_you_mean(unknown, known.iter().map(|name| name.as_str()));
                let known: Vec<String> = known.into_iter().cloned().collect();
                let allowed = text::enumerate(&known);
                let text = format!("{flag}: there is no {unknown:?}; allowed: {allowed}{guess}");
                return Err(Failure::bad_input(text));
            }
        }
        Ok(())
    }

    fn is_wanted(&self, resource: &DescribedResource) -> bool {
        let names = if resource.ends.is_some() { &self.path } else { &self.site };
        let has_all = self.site.is_empty() && self.path.is_empty();
        has_all || names.contains(&resource.of)
    }

    /// A row for each resource that is wanted: what its resource manager told, or of `own` if it tells nothing.
    fn rows(&self, answers: &[ManagerAnswer], own: &[v1::Segment]) -> Vec<UsageRow> {
        let mut rows = Vec::new();
        for answer in answers {
            let segments: Vec<&v1::Segment> = if answer.is_denied() {
                own.iter().filter(|one| one.resource_manager == answer.name).collect()
            } else {
                answer.told().flat_map(|booking| &booking.segments).collect()
            };
            for resource in answer.resources.iter().filter(|one| self.is_wanted(one)) {
                let mine = segments.iter().filter(|one| one.resource == resource.name);
                let taken = mine.filter_map(|one| {
                    let window = window_from_wire("window", one.window.as_ref()).ok()?;
                    Some((window, Amount(one.amount)))
                });
                let (name, capacity) = (resource.name.clone(), resource.capacity);
                let row = Row { name, capacity, taken: taken.collect() };
                rows.push(UsageRow {
                    manager: answer.name.clone(),
                    unit: resource.kind.unit(),
                    row,
                });
            }
        }
        rows
    }
}

/// What these resource managers tell of a window.
async fn told(
    args: &UsageArgs,
    managers: &[v1::ResourceManagerStatus],
    window: Window,
) -> Result<Vec<ManagerAnswer>, Failure> {
    let request =
        v1::ListBookingsRequest { window: Some(window_to_wire(window)), ..Default::default() };
    Ok(bookings::ask(&args.grc.identity.dialer()?, managers, &request).await)
}

/// What the caller's own reservations take in a window; of a workflow, its whole plan is read.
async fn own_segments(
    client: &mut Coordinator,
    args: &UsageArgs,
    window: Window,
) -> Result<Vec<v1::Segment>, Failure> {
    let failed = |status| rpc::failure(&status);
    let states = TAKING.map(Into::into).to_vec();
    let request = v1::ListRequest { states, ..Default::default() };
    let mut segments = Vec::new();
    for one in all_reservations(client, request).await.map_err(failed)? {
        let Some(plan) = one.plan else { continue };
        let overlaps = window_from_wire("window", plan.window.as_ref());
        if !overlaps.is_ok_and(|own| own.overlaps(window)) {
            continue;
        }
        if one.workflow.is_none() {
            segments.extend(plan.segments);
            continue;
        }
        let mut workflows = args.grc.connect_workflows().await?;
        let whole = rpc::whole_workflow(&mut workflows, &one.id).await.map_err(failed)?;
        let plan = whole.workflow.and_then(|workflow| workflow.plan);
        segments.extend(plan.unwrap_or_default().segments);
    }
    Ok(segments)
}

/// A row of the chart.
#[derive(Debug)]
struct UsageRow {
    manager: String,
    unit: &'static str,
    row: Row,
}

/// What is taken in a window.
#[derive(Debug)]
struct Usage {
    window: Window,
    rows: Vec<UsageRow>,
    answers: Vec<ManagerAnswer>,
    /// If nothing is taken: when something is, after the window.
    next: Option<Time>,
}

impl Usage {
    fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.row.taken.is_empty())
    }

    fn draw(&self, clock: &ZoneClock, ascii: bool) -> String {
        let width = usize::from(text::width());
        let ends = [self.window.start(), self.window.end()];
        let when = format!("{} {}", clock.window(self.window), clock.name(ends));
        let mut lines = text::wrap(&self.whose(), width);
        lines.extend([when, String::new()]);
        let rows: Vec<Row> = self.rows.iter().map(|row| row.row.clone()).collect();
        let ink = if ascii { ASCII } else { BLOCKS };
        let chart = gantt::draw(self.window, &rows, width, ink, clock);
        let next = self.next.map_or_else(String::new, |next| {
            format!("; the next begins {} (`--start {next}` shows it)", clock.minute(next))
        });
        match chart.is_empty() {
            true if bookings::exit(&self.answers) != Exit::Done => {
                lines.push(format!("nothing is booked at those that answered{next}"));
            }
            true => lines.push(format!("nothing is booked{next}")),
            false => lines.extend(chart.lines().map(str::to_owned)),
        }
        let is_silent = |answer: &&ManagerAnswer| !answer.is_denied();
        let silent = self.answers.iter().filter(is_silent);
        lines.extend(bookings::silent(silent));
        lines.join("\n") + "\n"
    }

    /// Whose bookings these are.
    fn whose(&self) -> String {
        let denied: Vec<_> = self.answers.iter().filter(|one| one.is_denied()).collect();
        let told: Vec<_> = self.answers.iter().filter(|one| one.bookings.is_ok()).collect();
        let is_all = denied.is_empty() && told.len() == self.answers.len();
        let names = |answers: &[&ManagerAnswer]| {
            text::enumerate(&answers.iter().map(|one| one.name.clone()).collect::<Vec<_>>())
        };
        match (denied.is_empty(), told.is_empty()) {
            (true, _) if is_all => "Everything that is held and booked:".to_owned(),
            (true, _) => format!("Everything that is held and booked at {}:", names(&told)),
            (false, true) => "The reservations that you may see (what others have booked is told to operators and \
                              auditors only):"
                .to_owned(),
            (false, false) => format!(
                "Everything at {}; the reservations that you may see at {}, which tell operators and auditors only \
                 what others have booked:",
                names(&told),
                names(&denied)
            ),
        }
    }

    fn json(&self) -> Result<String, Failure> {
        let taken = |row: &Row| {
            let one = |(window, amount): &(Window, Amount)| json!({"window": window_to_wire(*window), "amount": amount.0.to_string()});
            row.taken.iter().map(one).collect::<Vec<_>>()
        };
        let rows = self.rows.iter().map(|row| {
            json!({
                "resource": row.row.name,
                "resourceManager": row.manager,
                "unit": row.unit,
                "capacity": row.row.capacity.to_string(),
                "taken": taken(&row.row),
            })
        });
        let managers = self.answers.iter().map(|answer| {
            let told = match &answer.bookings {
                Ok(_) => "everything",
                Err(_) if answer.is_denied() => "own reservations",
                Err(_) => "nothing",
            };
            let silent = answer.bookings.as_ref().err().filter(|_| !answer.is_denied());
            let problem = silent.map(rpc::cause_of);
            json!({"name": answer.name, "shows": told, "problem": problem})
        });
        text::json(&json!({
            "window": window_to_wire(self.window),
            "resources": rows.collect::<Vec<_>>(),
            "resourceManagers": managers.collect::<Vec<_>>(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::ResourceKind;
    use jiff::tz::TimeZone;
    use tonic::Status;

    use super::*;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    fn args() -> UsageArgs {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: UsageArgs,
        }
        <Line as clap::Parser>::try_parse_from(["x"]).unwrap().args
    }

    fn answer(name: &str, bookings: Result<Vec<v1::Booking>, Status>) -> ManagerAnswer {
        let resource = DescribedResource {
            name: name.replace("crm-", ""),
            kind: ResourceKind::Cpus,
            capacity: 8,
            of: name.replace("crm-", ""),
            ends: None,
        };
        ManagerAnswer { name: name.into(), resources: vec![resource], bookings }
    }

    fn segment(resource: &str, manager: &str) -> v1::Segment {
        let window = Window::starting(NOON, Span::from_secs(3_600)).map(window_to_wire);
        let resource_manager = manager.to_owned();
        v1::Segment { resource: resource.into(), amount: 8, window, resource_manager }
    }

    fn drawn(answers: Vec<ManagerAnswer>) -> String {
        let clock = ZoneClock::new(TimeZone::UTC, NOON);
        let window = args().window(NOON, &clock).unwrap();
        let rows = args().rows(&answers, &[segment("N1", "crm-N1")]);
        Usage { window, rows, answers, next: None }.draw(&clock, true)
    }

    #[test]
    fn an_operator_sees_everything_and_who_is_silent() {
        let booking = v1::Booking { segments: vec![segment("N0", "")], ..v1::Booking::default() };
        let text = drawn(vec![
            answer("crm-N0", Ok(vec![booking])),
            answer("crm-N1", Err(Status::unavailable("connection refused"))),
        ]);
        assert!(
            text.starts_with("Everything that is held and booked at crm-N0:\n11-21 12:00"),
            "{text}"
        );
        assert!(text.contains("\nN0 |@@") && !text.contains("\nN1 |"), "{text}");
        assert!(text.ends_with("did not answer: crm-N1: connection refused\n"), "{text}");
    }

    #[test]
    fn a_user_sees_its_own_and_is_told_so() {
        let denied = || Err(Status::permission_denied("users may not"));
        let text = drawn(vec![answer("crm-N0", denied()), answer("crm-N1", denied())]);
        assert!(text.starts_with("The reservations that you may see"), "{text}");
        assert!(text.contains("\nN1 |@@") && !text.contains("did not answer"), "{text}");
        let text = drawn(vec![answer("crm-N0", Ok(Vec::new())), answer("crm-N1", denied())]);
        assert!(
            text.starts_with("Everything at crm-N0; the reservations that you may see at crm-N1"),
            "{text}"
        );
    }

    #[test]
    fn a_name_that_is_not_there_is_answered_with_those_that_are() {
        let mut wrong = args();
        wrong.site.push("N7".into());
        let failure = wrong.check_names(&[answer("crm-N0", Ok(Vec::new()))]).unwrap_err();
        assert_eq!(failure.message, "--site: there is no \"N7\"; allowed: N0; did you mean N0?");
    }
}
