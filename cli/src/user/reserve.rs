//! `coalloc reserve`: plans, and reserves the first plan that every resource manager agrees to.

use clap::Args;
use coalloc_proto::v1;
use uuid::Uuid;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::request::{ParsedRequest, RequestArgs};
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::text;
use crate::user::plan;
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
    /// The id of this request [default: a random UUID]
    #[arg(long, value_name = "REQUEST_ID")]
    id: Option<String>,
    /// Reserve exactly this plan, as `coalloc plan` showed it for the same request: its digest, or at least
    /// the 12 digits of it that are shown
    #[arg(long, value_name = "DIGEST")]
    plan: Option<String>,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the Reservation as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc reserve`.
///
/// # Errors
/// When the file is wrong, the coordinator cannot be asked, or the outcome is unknown.
pub async fn run(args: &ReserveArgs) -> Result<Answer, Failure> {
    let mut asked = args.request.load(coalloc_net::clock::now().wall)?;
    let request_id = args.id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
    asked.blame("plan_digest", "--plan");
    let mut client = args.grc.connect().await?;
    // Printed before the call, so that the user can ask about the request even if this process dies.
    text::note(&format!("request id: {request_id}"));
    let manual = asked.request.manual_provision();
    let request = v1::ReserveRequest {
        request_id: request_id.clone(),
        request: Some(asked.request.clone()),
        // If the request is refused, a person wants to know what could be reserved instead.
        options: Some(v1::PlanOptions { alternatives: Some(true), ..asked.options.clone() }),
        plan_digest: args.plan.clone().unwrap_or_default(),
    };
    let response = client.reserve(rpc::with_needs(request, manual)).await.map_err(|status| {
        asked.failure(&status, rpc::failure_of_change(&status, &what_to_do(&request_id)))
    })?;
    let v1::ReserveResponse { reservation, fresh_plans } = response.into_inner();
    let reservation = reservation.ok_or_else(|| Failure::internal("an answer without content"))?;
    let text = if args.json {
        text::json(&reservation)?
    } else {
        describe(&reservation) + &instead(fresh_plans, &asked)
    };
    Ok(Answer { text, exit: exit(&reservation) })
}

/// The plans that are still possible when the chosen plan no longer is.
fn instead(plans: Vec<v1::Plan>, asked: &ParsedRequest) -> String {
    if plans.is_empty() {
        return String::new();
    }
    let response = v1::PlanResponse { plans, ..v1::PlanResponse::default() };
    format!("\nplans that can be made now:\n\n{}", plan::describe_as(&response, asked))
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
