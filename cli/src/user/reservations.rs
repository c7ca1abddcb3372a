//! `coalloc list` and `show`: the outcome of requests.

use clap::{Args, ValueEnum};
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, GrcArgs, all_reservations};
use crate::kit::text;
use crate::user::wording::reservation::{describe, is_being_planned};
use crate::user::wording::{data_plane, servers};
use tonic::Code;

/// List the reservations, in the order they were made
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Only reservations of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only reservations in this state; may be given several times
    #[arg(long)]
    state: Vec<StateArg>,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print a ListResponse with all of them as JSON
    #[arg(long)]
    json: bool,
}

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

/// The states of a reservation, as they are written on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum StateArg {
    Checking,
    Committing,
    /// Booked everywhere, and not in use
    Confirmed,
    /// In use: its window has begun
    Active,
    Aborting,
    Failed,
    Terminating,
    Terminated,
    /// The reservation's window is over
    Passed,
}

impl From<StateArg> for v1::ReservationState {
    fn from(state: StateArg) -> Self {
        match state {
            StateArg::Checking => Self::Checking,
            StateArg::Committing => Self::Committing,
            StateArg::Confirmed => Self::Confirmed,
            StateArg::Active => Self::Active,
            StateArg::Aborting => Self::Aborting,
            StateArg::Failed => Self::Failed,
            StateArg::Terminating => Self::Terminating,
            StateArg::Terminated => Self::Terminated,
            StateArg::Passed => Self::PassedEndTime,
        }
    }
}

/// Runs `coalloc list`.
///
/// # Errors
/// When the coordinator cannot be asked.
pub async fn list(args: &ListArgs) -> Result<Answer, Failure> {
    let mut client = args.grc.connect().await?;
    let request = v1::ListRequest {
        user: args.user.clone().unwrap_or_default(),
        states: args.state.iter().map(|state| v1::ReservationState::from(*state).into()).collect(),
        ..Default::default()
    };
    let reservations = all_reservations(&mut client, request).await;
    let reservations = reservations.map_err(|status| rpc::failure(&status))?;
    if args.json {
        let all = v1::ListResponse { reservations, next_page_token: String::new() };
        return Ok(Answer::done(text::json(&all)?));
    }
    Ok(Answer::done(tabulate(&reservations)))
}

/// Runs `coalloc show`.
///
/// # Errors
/// When there is no such reservation or the coordinator cannot be asked.
pub async fn show(args: &ShowArgs) -> Result<Answer, Failure> {
    let mut client = args.grc.connect().await?;
    let response = client.get(v1::GetRequest { id: args.id.clone() }).await;
    let response = response.map_err(|status| rpc::failure(&status))?.into_inner();
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

fn tabulate(reservations: &[v1::Reservation]) -> String {
    if reservations.is_empty() {
        return "no reservations\n".to_owned();
    }
    let mut table = text::table(&["id", "user", "state", "window", "sites", "cost"]);
    text::align_right(&mut table, &[5]);
    for one in reservations {
        let plan = one.plan.clone().unwrap_or_default();
        let sites = plan.placements.iter().map(|site| servers::counted(&site.at, &one.servers));
        let of_workflow = one.workflow.iter().flat_map(|summary| summary.sites.iter().cloned());
        let sites: Vec<String> = sites.chain(of_workflow).collect();
        // A workflow has no cost.
        let booked = one.plan.is_some() && one.workflow.is_none();
        let window = text::window(plan.window.as_ref());
        let why = one.refusal.as_ref().map(text::refusal).unwrap_or_default();
        table.add_row(vec![
            if one.id.is_empty() { one.request_id.clone() } else { one.id.clone() },
            one.user.clone(),
            state_of(one),
            window,
            if why.is_empty() { sites.join(" ") } else { why },
            if booked { text::points(plan.cost_millipoints) } else { String::new() },
        ]);
    }
    let total = text::count(reservations.len(), "reservation");
    format!("{}\n{total}\n", text::finish(&table))
}

/// The state of a reservation, and where something is wrong with it.
fn state_of(one: &v1::Reservation) -> String {
    let state = text::state(one.state());
    let troubled = one.equipment_trouble.iter().map(|told| told.resource_manager.clone());
    match troubled.collect::<Vec<_>>() {
        rms if rms.is_empty() => state.to_owned(),
        rms => format!("{state}, trouble at {}", text::enumerate(&rms)),
    }
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
