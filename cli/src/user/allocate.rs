//! `coalloc allocate`: reserves whole servers of one site, at the first start at which enough are idle.

use clap::{Args, ValueEnum};
use coalloc_common::{Time, limits};
use coalloc_net::convert::{span_to_wire, time_to_wire};
use coalloc_proto::v1;
use tonic::Status;
use uuid::Uuid;

use crate::kit::exit::{Answer, Failure};
use crate::kit::rpc::{self, GrcArgs, violations};
use crate::kit::text;
use crate::kit::when::{InstantArg, Length};
use crate::user::reserve::{exit, what_to_do};
use crate::user::wording::reservation::describe;

/// Allocate whole servers of one site
///
/// Either so many servers (--servers) at the first start at which they are idle, or exactly those that are picked
/// (--pick). With --step, starts are tried at the earliest start plus a multiple of it; without, the first start of
/// all is found. An allocation with the same --id and the same content is the same allocation.
#[derive(Debug, Clone, Args)]
pub struct AllocateArgs {
    /// How many servers
    #[arg(long, value_name = "N", required_unless_present = "pick",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::SERVERS_MAX)))]
    servers: Option<u32>,
    /// The servers to take, by their whole names: `A/1,A/2`
    #[arg(long, value_name = "SITE/NAME,..", value_delimiter = ',')]
    pick: Vec<String>,
    /// How long: 2h, 30m
    #[arg(long = "for", value_name = "LENGTH")]
    length: Length,
    /// Earliest start: tomorrow 14:00, now+2h, 2026-11-21T10:00:00Z [default: as soon as the coordinator can]
    #[arg(long, value_name = "TIME")]
    start: Option<InstantArg>,
    /// Latest start [default: as late as the resource managers allow; with --pick alone, the earliest start]
    #[arg(long, value_name = "TIME")]
    latest: Option<InstantArg>,
    /// Distance between two starts that are tried: 15m [default: every start at which servers become idle]
    #[arg(long, value_name = "LENGTH")]
    step: Option<Length>,
    /// Maximum number of starts that are tried [default: all up to the latest start]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::ALLOCATION_STARTS_MAX)))]
    attempts: Option<u32>,
    /// The site [default: any]
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Only a site whose servers have so many CPUs together
    #[arg(long, value_name = "N")]
    cpus: Option<u64>,
    /// Which of the idle servers are taken [default: paper]
    #[arg(long, value_name = "NAME")]
    choice: Option<ChoiceArg>,
    /// The user who allocates [default: you; if you are no user, anonymous]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The id of this request [default: a random UUID]
    #[arg(long, value_name = "REQUEST_ID")]
    id: Option<String>,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the Reservation as JSON
    #[arg(long)]
    json: bool,
}

/// Which of the idle servers are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ChoiceArg {
    /// Those that became idle last
    Paper,
    /// Those that the site lists first
    First,
    /// Those whose idle period ends soonest after the window
    BestFit,
    /// The reverse of best-fit
    WorstFit,
}

impl From<ChoiceArg> for v1::ServerChoice {
    fn from(choice: ChoiceArg) -> Self {
        match choice {
            ChoiceArg::Paper => Self::Paper,
            ChoiceArg::First => Self::First,
            ChoiceArg::BestFit => Self::BestFit,
            ChoiceArg::WorstFit => Self::WorstFit,
        }
    }
}

/// The fields of the request, each with the flag that sets it.
const FLAGS: [(&str, &str); 12] = [
    ("servers", "--servers"),
    ("picked", "--pick"),
    ("duration", "--for"),
    ("earliest_start", "--start"),
    ("latest_start", "--latest"),
    ("step", "--step"),
    ("attempts", "--attempts"),
    ("site", "--site"),
    ("cpus", "--cpus"),
    ("choice", "--choice"),
    ("user", "--user"),
    ("request_id", "--id"),
];

impl AllocateArgs {
    fn request(&self, request_id: String, now: Time) -> v1::AllocateRequest {
        let at = |instant: &Option<InstantArg>| instant.as_ref().map(|at| time_to_wire(at.at(now)));
        let choice = self.choice.map(v1::ServerChoice::from).unwrap_or_default();
        v1::AllocateRequest {
            request_id,
            user: self.user.clone().unwrap_or_default(),
            servers: self.servers.unwrap_or_default(),
            cpus: self.cpus.unwrap_or_default(),
            picked: self.pick.clone(),
            site: self.site.clone().unwrap_or_default(),
            duration: Some(span_to_wire(self.length.0)),
            earliest_start: at(&self.start),
            latest_start: at(&self.latest),
            step: self.step.map(|step| span_to_wire(step.0)),
            attempts: self.attempts,
            choice: choice.into(),
        }
    }
}

/// The meaning of a failed call: a mistake that the coordinator found is in the flag of its field.
fn failed(status: &Status, otherwise: Failure) -> Failure {
    let line = |(field, problem): &(String, String)| {
        let name = field.split('[').next().unwrap_or(field);
        let flag = FLAGS.iter().find(|(of, _)| *of == name).map_or(name, |(_, flag)| flag);
        format!("{flag}: {problem}")
    };
    let lines: Vec<String> = violations(status).iter().map(line).collect();
    if lines.is_empty() { otherwise } else { Failure::bad_input(lines.join("\n")) }
}

/// Runs `coalloc allocate`.
///
/// # Errors
/// When a flag is wrong, the coordinator cannot be asked, or the outcome is unknown.
pub async fn run(args: &AllocateArgs) -> Result<Answer, Failure> {
    let request_id = args.id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
    let mut client = args.grc.connect().await?;
    // Printed before the call, so that the user can ask about the request even if this process dies.
    text::note(&format!("request id: {request_id}"));
    let request = args.request(request_id.clone(), coalloc_net::clock::now().wall);
    let response = client.allocate(request).await.map_err(|status| {
        failed(&status, rpc::failure_of_change(&status, &what_to_do(&request_id)))
    })?;
    let v1::AllocateResponse { reservation, starts_tried } = response.into_inner();
    let reservation = reservation.ok_or_else(|| Failure::internal("an answer without content"))?;
    let text = if args.json { text::json(&reservation)? } else { describe(&reservation) };
    if starts_tried > 0 {
        text::note(&format!("{} looked at", text::count(starts_tried as usize, "start")));
    }
    Ok(Answer { text, exit: exit(&reservation) })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::kit::exit::Exit;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: AllocateArgs,
    }

    fn parse(line: &str) -> Result<AllocateArgs, clap::Error> {
        Line::try_parse_from(line.split(' ')).map(|line| line.args)
    }

    #[test]
    fn flags_become_the_request() {
        let args = parse("x --servers 16 --for 2h --step 15m --attempts 3 --choice best-fit");
        let request = args.unwrap().request("r".to_owned(), Time::from_us(0));
        assert_eq!((request.servers, request.attempts), (16, Some(3)));
        assert_eq!(request.duration.map(|length| length.seconds), Some(7_200));
        assert_eq!(request.step.map(|step| step.seconds), Some(900));
        assert_eq!(request.choice(), v1::ServerChoice::BestFit);
        let picked = parse("x --pick A/1,A/2 --for 1h").unwrap();
        assert_eq!(picked.request(String::new(), Time::from_us(0)).picked, ["A/1", "A/2"]);
        assert!(parse("x --for 1h").is_err(), "how many, or which ones?");
        assert!(parse("x --servers 0 --for 1h").is_err());
        assert!(parse("x --servers 1").is_err(), "how long?");
    }

    #[test]
    fn a_mistake_is_blamed_on_its_flag() {
        let error = coalloc_common::InvalidField::new("picked[1]", "A/9", "a server of A");
        let status = coalloc_net::status::invalid(&error);
        let failure = failed(&status, Failure::internal("not this"));
        assert_eq!(failure.exit, Exit::BadInput);
        assert_eq!(failure.message, "--pick: A/9 is not allowed; allowed: a server of A");
    }
}
