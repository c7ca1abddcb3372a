//! `coalloc demo servers`: a federation of by-server sites as real processes. Many users allocate whole servers at
//! once, one of them picks a server that another one has, and every single server is audited.

use std::path::Path;

use clap::Args;
use coalloc_common::{Amount, Span, Time};
use coalloc_net::convert::{span_to_wire, time_to_wire, window_from_wire};
use coalloc_proto::file::{Document, parse};
use coalloc_proto::v1;
use serde_json::json;
use tokio::task::JoinSet;

use super::readback;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::gantt::{self, Row};
use crate::kit::rpc::{self, Coordinator};
use crate::kit::when::next_full;
use crate::kit::{text, zone};
use crate::testbed::audit::report::lines;
use crate::testbed::audit::rules::audit;
use crate::testbed::audit::{Check, Testimony};
use crate::testbed::local::layout::Setup;
use crate::testbed::local::{Folder, start};
use crate::user::daemons::{Daemons, first_death, stop};
use crate::user::offline::Federation;
use crate::user::wording::servers::counted;

/// Two by-server sites.
const SERVERS: &str = include_str!("../../../../deploy/federations/servers.yaml");
/// Distance between two starts that are tried.
const STEP: Span = Span::from_secs(900);
const HOUR: Span = Span::from_secs(3_600);

/// Users allocate whole servers, all at once; every server is audited
///
/// A federation of two by-server sites. Every user wants some servers at one site and one start, for one to four
/// hours from early in one day on; starts are tried every 15 minutes (Castillo 2009). Of users that are after the
/// same servers one gets them, and the others go on at later starts. Then somebody picks servers that are taken.
/// At the end everything is read back and checked: no server has two holders at any instant.
#[derive(Debug, Clone, Args)]
pub struct ServersArgs {
    /// Number of allocations
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    requests: u32,
    /// Draw the chart with ASCII characters only
    #[arg(long)]
    ascii: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// What happened.
struct Report {
    day: Time,
    wanted: Vec<v1::AllocateRequest>,
    reservations: Vec<v1::Reservation>,
    /// The pick of servers that were taken, and what came of it.
    picked: Option<(Vec<String>, v1::Reservation)>,
    testimonies: Vec<Testimony>,
    checks: Vec<Check>,
}

/// Runs `coalloc demo servers`.
///
/// # Errors
/// When the federation does not come up, a daemon does not answer, or the demo is interrupted.
pub async fn run(args: &ServersArgs) -> Result<Answer, Failure> {
    let folder = Folder::new(None)?;
    let mut daemons = Daemons::default();
    let outcome = tokio::select! {
        outcome = scenario(args, folder.path(), &mut daemons) => outcome,
        () = coalloc_net::server::stop_signal() => {
            Err(Failure::new(Exit::Interrupted, "interrupted; the daemons are stopped"))
        }
    };
    stop(&mut daemons);
    let report = outcome?;
    let exit = if report.is_proven() { Exit::Done } else { Exit::Failed };
    let ink = if args.ascii { gantt::ASCII } else { gantt::BLOCKS };
    let text = if args.json { report.json()? } else { report.text(ink) };
    Ok(Answer { text, exit })
}

fn federation() -> Result<v1::FederationFile, Failure> {
    let path = Path::new("servers.yaml");
    let document: Document<v1::FederationFile> = parse(path, SERVERS.to_owned())?;
    Ok(Federation::of(document)?.file)
}

async fn scenario(
    args: &ServersArgs,
    folder: &Path,
    daemons: &mut Daemons,
) -> Result<Report, Failure> {
    let file = federation()?;
    let posts = start(&Setup::new(folder, &file), daemons, true).await?;
    let coordinator = posts.last().ok_or_else(|| Failure::internal("no coordinator"))?;
    let mut client = rpc::coordinator(&coordinator.dialer, &coordinator.address)?;
    let day = next_full(HOUR, coalloc_net::clock::now().wall).saturating_add(HOUR);
    let wanted: Vec<v1::AllocateRequest> =
        (0..args.requests).map(|number| wanted(number, day)).collect();
    let mut reservations = tokio::select! {
        reservations = send_all(&client, &wanted) => reservations?,
        failure = first_death(daemons) => return Err(failure),
    };
    let picked = pick_again(&mut client, &reservations).await?;
    let mut clients = [client];
    let heard = readback::hear(&mut clients, &posts, &[], &mut reservations).await?;
    let checks = audit(&heard.testimonies, &reservations);
    let testimonies = heard.testimonies;
    Ok(Report { day, wanted, reservations, picked, testimonies, checks })
}

/// What one user wants. The sizes follow from the number, so that every run has the same requests.
fn wanted(number: u32, day: Time) -> v1::AllocateRequest {
    let [servers, hours, quarter] = [1 + number * 5 % 7, 1 + number * 3 % 4, number * 7 % 12];
    let length = HOUR.saturating_mul(hours.into());
    let earliest = day.saturating_add(STEP.saturating_mul(quarter.into()));
    v1::AllocateRequest {
        request_id: format!("servers-{}", number + 1),
        user: format!("user{}", number % 5 + 1),
        servers,
        duration: Some(span_to_wire(length)),
        earliest_start: Some(time_to_wire(earliest)),
        step: Some(span_to_wire(STEP)),
        ..v1::AllocateRequest::default()
    }
}

/// Sends all requests at once; the answers are in the order of the requests.
async fn send_all(
    client: &Coordinator,
    wanted: &[v1::AllocateRequest],
) -> Result<Vec<v1::Reservation>, Failure> {
    let mut calls = JoinSet::new();
    for (number, request) in wanted.iter().enumerate() {
        let (mut client, request) = (client.clone(), request.clone());
        calls.spawn(async move { (number, allocate(&mut client, request).await) });
    }
    let mut answers = Vec::with_capacity(wanted.len());
    while let Some(ended) = calls.join_next().await {
        let (number, answer) =
            ended.map_err(|error| Failure::internal(format!("a request failed: {error}")))?;
        answers.push((number, answer?));
    }
    answers.sort_by_key(|(number, _)| *number);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

async fn allocate(
    client: &mut Coordinator,
    request: v1::AllocateRequest,
) -> Result<v1::Reservation, Failure> {
    let answer = client.allocate(request).await.map_err(|status| rpc::failure(&status))?;
    let empty = || Failure::internal("an answer without content");
    answer.into_inner().reservation.ok_or_else(empty)
}

/// Somebody picks servers that the first user with servers has, for the same time.
async fn pick_again(
    client: &mut Coordinator,
    reservations: &[v1::Reservation],
) -> Result<Option<(Vec<String>, v1::Reservation)>, Failure> {
    let Some(granted) = reservations.iter().flat_map(|one| &one.servers).next() else {
        return Ok(None);
    };
    let Ok(window) = window_from_wire("window", granted.window.as_ref()) else { return Ok(None) };
    let picked: Vec<String> = granted.servers.iter().take(2).cloned().collect();
    let request = v1::AllocateRequest {
        request_id: "servers-picked".to_owned(),
        user: "late".to_owned(),
        picked: picked.clone(),
        duration: Some(span_to_wire(window.length())),
        earliest_start: Some(time_to_wire(window.start())),
        ..v1::AllocateRequest::default()
    };
    Ok(Some((picked, allocate(client, request).await?)))
}

impl Report {
    /// Does the audit hold, and was the pick of taken servers refused?
    fn is_proven(&self) -> bool {
        let refused = |(_, one): &(_, v1::Reservation)| one.state() == v1::ReservationState::Failed;
        self.checks.iter().all(|check| check.passed) && self.picked.as_ref().is_none_or(refused)
    }

    fn text(&self, ink: gantt::Ink) -> String {
        let mut table =
            text::table(&["#", "user", "wanted from", "for", "got from", "servers", "tries"]);
        text::align_right(&mut table, &[0, 6]);
        for (number, (wanted, got)) in self.wanted.iter().zip(&self.reservations).enumerate() {
            let plan = got.plan.clone().unwrap_or_default();
            let start = plan.window.as_ref().and_then(|window| window.start.as_ref());
            let sites: Vec<String> =
                plan.placements.iter().map(|site| counted(&site.at, &got.servers)).collect();
            table.add_row([
                (number + 1).to_string(),
                wanted.user.clone(),
                text::instant(wanted.earliest_start.as_ref()),
                text::span(wanted.duration.as_ref()),
                text::instant(start),
                got.refusal.as_ref().map_or_else(|| sites.join(" "), text::refusal),
                got.attempts.to_string(),
            ]);
        }
        let mut out = text::finish(&table);
        let chart =
            gantt::draw_day(self.day, &self.rows(), text::width().into(), ink, zone::shown());
        out += &format!("\nHeld, as the resource managers say:\n\n{chart}");
        if let Some((picked, answer)) = &self.picked {
            let why = answer.refusal.as_ref().map_or_else(|| "reserved".to_owned(), text::refusal);
            out +=
                &format!("\nSomebody picks {} for the same time:\n  {why}\n", picked.join(" and "));
        }
        let verdict = if self.is_proven() { "The proof holds" } else { "The proof FAILS" };
        let managers = text::count(self.testimonies.len(), "resource manager");
        out + &format!("\n{verdict}; read back from {managers}:\n{}", lines(&self.checks))
    }

    /// One row for each server.
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for testimony in &self.testimonies {
            for server in testimony.servers.values().flat_map(|servers| servers.keys()) {
                let granted = testimony.bookings.iter().flat_map(|booking| &booking.servers);
                let own = granted.filter(|granted| granted.servers.contains(server));
                let taken = own.filter_map(|granted| {
                    let window = window_from_wire("window", granted.window.as_ref()).ok()?;
                    Some((window, Amount(1)))
                });
                rows.push(Row { name: server.clone(), capacity: 1, taken: taken.collect() });
            }
        }
        rows
    }

    fn json(&self) -> Result<String, Failure> {
        text::json(&json!({
            "reservations": self.reservations,
            "picked": self.picked.as_ref().map(|(_, answer)| answer),
            "checks": self.checks,
            "proven": self.is_proven(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_is_for_more_servers_than_the_greatest_site_has() {
        let file = federation().unwrap();
        let sites = file.computes.iter().flat_map(|compute| &compute.sites);
        let declared = sites.map(|site| {
            let declared = coalloc_net::convert::declared_servers("site", site).unwrap();
            declared.unwrap().servers.len()
        });
        assert_eq!(declared.collect::<Vec<_>>(), [8, 7]);
        let sizes: Vec<u32> =
            (0..100).map(|number| wanted(number, Time::from_us(0)).servers).collect();
        assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&1), Some(&7)));
    }
}
