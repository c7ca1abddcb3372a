//! `coalloc show`: the outcome of one request.

use clap::Args;
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::text;
use crate::user::series;
use crate::user::wording::data_plane;
use crate::user::wording::reservation::{describe, is_being_planned};
use tonic::Code;

/// Show one reservation
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// The id of the reservation, or of the request
    id: String,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the Reservation as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc show`.
///
/// # Errors
/// When there is no such reservation or the coordinator cannot be asked.
pub async fn show(args: &ShowArgs) -> Result<Answer, Failure> {
    let mut client = args.grc.connect().await?;
    let response = client.get(v1::GetRequest { id: args.id.clone() }).await;
    let response = match response {
        Ok(response) => response.into_inner(),
        Err(status) => {
            let failure = rpc::failure(&status);
            return Err(series::failure_of_id(&mut client, failure, &args.id, "list").await);
        }
    };
    let reservation = given(response.reservation)?;
    if args.json {
        return Ok(Answer { text: text::json(&reservation)?, exit: exit_of_show(&reservation) });
    }
    let equipment = client.get_data_plane(v1::GetDataPlaneRequest { id: args.id.clone() }).await;
    let equipment = match equipment {
        Ok(answer) => answer.into_inner(),
        // The coordinator is of a release that knows no equipment.
        Err(status) if status.code() == Code::Unimplemented => v1::GetDataPlaneResponse::default(),
        Err(status) => return Err(rpc::failure(&status)),
    };
    let text = describe(&reservation) + &data_plane::describe(&equipment);
    Ok(Answer { text, exit: exit_of_show(&reservation) })
}

/// The exit code of `show`: done, unless there is nothing to show yet.
#[must_use]
pub fn exit_of_show(reservation: &v1::Reservation) -> Exit {
    if is_being_planned(reservation) { Exit::Unfinished } else { Exit::Done }
}

fn given(reservation: Option<v1::Reservation>) -> Result<v1::Reservation, Failure> {
    reservation.ok_or_else(|| Failure::internal("the coordinator sent an answer without content"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_being_planned_says_so_and_nothing_of_an_id() {
        let one = v1::Reservation {
            request_id: "mine".into(),
            user: "alice".into(),
            state: v1::ReservationState::Checking.into(),
            ..v1::Reservation::default()
        };
        let text = describe(&one);
        assert!(text.contains("request mine of alice: being planned"), "{text}");
        assert!(text.contains("nothing is held yet"), "{text}");
        assert!(!text.contains("no reservation"), "{text}");
        assert_eq!(exit_of_show(&one), Exit::Unfinished);
        let checked = v1::Reservation { id: "grc-1a2b-7".into(), ..one };
        assert_eq!(exit_of_show(&checked), Exit::Done);
    }
}
