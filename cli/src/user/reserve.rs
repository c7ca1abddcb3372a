//! `coalloc reserve`: plans, and reserves the first plan that every resource manager agrees to, or the plan that a person
//! chooses.

use std::io::{self, BufRead, IsTerminal as _, Write};

use clap::Args;
use coalloc_common::id::RequestId;
use coalloc_proto::v1;
use uuid::Uuid;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::recurrence::Recurrence;
use crate::kit::request::{ParsedRequest, RequestArgs};
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::when::own_zone;
use crate::kit::{colour, text};
use crate::user::plan;
use crate::user::series::{SeriesFlags, SeriesRequest};
use crate::user::wording::reservation::describe;

/// Reserve a request
///
/// The request is a file (--request), or flags: `--site a=4 --site b=8 --link a-b=2G --for 1h`.
/// A request with the same --id and the same content is the same request: sent again, it gets the same answer.
/// Times relative to now (`now+2h`, or none at all) make different content each time.
#[derive(Debug, Clone, Args)]
pub struct ReserveArgs {
    #[command(flatten)]
    request: RequestArgs,
    /// The id of this request; with --repeat the name of the series, whose requests are ID-1 to ID-N [default: a random
    /// UUID]
    #[arg(long, value_name = "REQUEST_ID")]
    id: Option<String>,
    /// Reserve exactly this plan, as `coalloc plan` showed it for the same request: its digest, or at least
    /// the 12 digits of it that are shown
    #[arg(long, value_name = "DIGEST")]
    plan: Option<String>,
    /// On a terminal: list the plans, ask for the number of one, and reserve it
    #[arg(long, conflicts_with_all = ["plan", "json"])]
    choose: bool,
    #[command(flatten)]
    series: SeriesFlags,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the Reservation as JSON; of a series a ListResponse
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc reserve`.
///
/// # Errors
/// When the file is wrong, the coordinator cannot be asked, or the outcome is unknown.
pub async fn run(args: &ReserveArgs) -> Result<Answer, Failure> {
    if args.choose && !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        let text = "--choose asks which plan to reserve, and this is no terminal; allowed: --plan DIGEST, with the \
                    digest that `coalloc plan` prints";
        return Err(Failure::bad_input(text));
    }
    let mut asked = args.request.load(coalloc_net::clock::now().wall)?;
    let request_id = args.id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
    asked.blame("plan_digest", "--plan");
    asked.blame("request_id", "--id");
    let digest = match &args.plan {
        _ if args.choose => match chosen(args, &asked).await? {
            Ok(digest) => digest,
            Err(text) => return Ok(Answer { text, exit: Exit::Refused }),
        },
        plan => plan.clone().unwrap_or_default(),
    };
    if let Some(recurrence) = args.series.repeat {
        return reserve_series(args, &asked, recurrence, &request_id).await;
    }
    let mut client = args.grc.connect().await?;
    if let Err(error) = RequestId::parse("request_id", &request_id) {
        return Err(asked.invalid(&error));
    }
    // Printed before the call, so that the user can ask about the request even if this process dies.
    text::note(&format!("request id: {request_id}"));
    let needs = rpc::needs_of(&asked.request);
    let request = v1::ReserveRequest {
        request_id: request_id.clone(),
        request: Some(asked.request.clone()),
        // If the request is refused, a person wants to know what could be reserved instead.
        options: Some(v1::PlanOptions { alternatives: Some(true), ..asked.options.clone() }),
        plan_digest: digest,
    };
    let response = client.reserve(rpc::with_needs(request, needs)).await.map_err(|status| {
        asked.failure(&status, rpc::failure_of_change(&status, &what_to_do(&request_id)))
    })?;
    let v1::ReserveResponse { reservation, fresh_plans } = response.into_inner();
    let reservation = reservation.ok_or_else(|| Failure::internal("an answer without content"))?;
    let text = if args.json {
        text::json(&reservation)?
    } else {
        // A resource manager that refuses a plan is no matter of starts.
        let unplanned = reservation.refusal.as_ref().filter(|_| reservation.plan.is_none());
        let more_starts = asked.how_to_try_more_starts(unplanned);
        describe(&reservation) + more_starts + &instead(fresh_plans, &asked)
    };
    Ok(Answer { text, exit: exit(&reservation) })
}

/// Reserves the request again and again.
async fn reserve_series(
    args: &ReserveArgs,
    first: &ParsedRequest,
    recurrence: Recurrence,
    series: &str,
) -> Result<Answer, Failure> {
    let mut client = args.grc.connect().await?;
    if args.id.is_none() {
        // Printed before the calls, so that the same command can go on even if this process dies.
        text::note(&format!("series: {series}"));
    }
    let terms = &args.request.terms;
    let begins = terms.after.as_ref().or(terms.earliest_start.as_ref());
    let zone = begins.and_then(|when| when.zone().cloned()).unwrap_or_else(own_zone);
    let of_file = args.request.request.is_some();
    let has_latest = of_file || terms.latest_start.is_some() || terms.before.is_some();
    let all = SeriesRequest { series, first, recurrence, zone, has_latest, flags: &args.series };
    all.reserve(&mut client, args.json).await
}

/// The digest of the plan that a person chooses; or the text that ends the command, because there is no plan or none is
/// wanted.
async fn chosen(
    args: &ReserveArgs,
    asked: &ParsedRequest,
) -> Result<Result<String, String>, Failure> {
    let response = plan::ask(&args.grc, asked).await?;
    let text = plan::summarize(&response, asked);
    if response.plans.is_empty() {
        return Ok(Err(text));
    }
    let failed = |error: io::Error| Failure::internal(format!("the terminal: {error}"));
    let mut terminal = io::stdout();
    writeln!(terminal, "{}", colour::lines(text.trim_end())).map_err(failed)?;
    let number = choose(response.plans.len(), &mut io::stdin().lock(), &mut terminal);
    Ok(match number.map_err(failed)? {
        Some(number) => Ok(response.plans[number - 1].digest.clone()),
        None => Err("no plan was chosen: nothing is reserved\n".to_owned()),
    })
}

impl ReserveArgs {
    /// Does the command ask a person something?
    #[must_use]
    pub const fn asks(&self) -> bool {
        self.choose
    }
}

/// Asks for the number of a plan, 1 to `count`, until there is one; `None`: none of them.
fn choose(
    count: usize,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Option<usize>> {
    loop {
        write!(output, "which plan to reserve? 1 to {count}, or Enter for none: ")?;
        output.flush()?;
        let mut line = String::new();
        input.read_line(&mut line)?;
        match (line.trim(), line.trim().parse()) {
            ("", _) => return Ok(None),
            (_, Ok(number)) if (1..=count).contains(&number) => return Ok(Some(number)),
            _ => writeln!(output, "there is no such plan")?,
        }
    }
}

/// The plans that are still possible when the chosen plan no longer is.
fn instead(plans: Vec<v1::Plan>, asked: &ParsedRequest) -> String {
    if plans.is_empty() {
        return String::new();
    }
    let response = v1::PlanResponse { plans, ..v1::PlanResponse::default() };
    format!("\nplans that can be made now:\n\n{}", plan::summarize(&response, asked))
}

/// What the user can do when the answer was lost.
#[must_use]
pub fn what_to_do(request_id: &str) -> String {
    // The advice is not "send it again": times relative to now would make a different request.
    format!("ask `coalloc show {request_id}`: the request may still be going on")
}

/// How a request to reserve ended.
#[must_use]
pub fn exit(reservation: &v1::Reservation) -> Exit {
    use v1::ReservationState as S;
    match reservation.state() {
        S::Confirmed | S::Active | S::PassedEndTime => Exit::Done,
        S::Failed | S::Terminated if reservation.definite => Exit::Refused,
        S::Failed | S::Terminated | S::Unspecified => Exit::Unfinished,
        S::Checking | S::Held | S::Committing | S::Aborting | S::Terminating => Exit::Unfinished,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_lost_answer_the_advice_is_true_for_relative_times_too() {
        let status = tonic::Status::unavailable("gone");
        let failure = rpc::failure_of_change(&status, &what_to_do("r7"));
        assert_eq!(failure.exit, Exit::Unfinished);
        assert!(failure.message.contains("ask `coalloc show r7`"), "{failure}");
        assert!(!failure.message.contains("again"), "{failure}");
    }

    #[test]
    fn a_plan_is_chosen_by_its_number() {
        let chosen = |said: &str| {
            let mut output = Vec::new();
            let number = choose(3, &mut said.as_bytes(), &mut output).unwrap();
            (number, String::from_utf8(output).unwrap())
        };
        assert_eq!(chosen("2\n").0, Some(2));
        assert_eq!(chosen("\n").0, None);
        assert_eq!(chosen("").0, None, "the input has ended");
        let (number, said) = chosen("4\nx\n 3 \n");
        assert_eq!((number, said.matches("there is no such plan").count()), (Some(3), 2));
    }

    #[test]
    fn the_exit_code_is_that_of_the_state() {
        use v1::ReservationState as S;
        let cases = [
            (S::Confirmed, true, Exit::Done),
            (S::Active, true, Exit::Done),
            (S::Failed, true, Exit::Refused),
            (S::Failed, false, Exit::Unfinished),
            (S::Checking, false, Exit::Unfinished),
            (S::Committing, false, Exit::Unfinished),
            (S::Aborting, false, Exit::Unfinished),
            (S::Terminated, true, Exit::Refused),
            (S::PassedEndTime, true, Exit::Done),
        ];
        for (state, definite, expected) in cases {
            let reservation =
                v1::Reservation { state: state.into(), definite, ..Default::default() };
            assert_eq!(exit(&reservation), expected, "{state:?}");
        }
    }
}
