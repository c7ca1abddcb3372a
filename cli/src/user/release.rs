//! `coalloc release`: ends reservations, or what is left of one that has begun.
//!
//! Of several reservations each one is released, whatever happens to the others. Each has a line, and the exit code is
//! the worst of all.

use clap::Args;
use coalloc_proto::v1;
use tokio::task::JoinSet;
use tonic::{Code, Status};
use uuid::Uuid;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, Coordinator, GrcArgs};
use crate::kit::text;
use crate::user::modify;
use crate::user::series;
use crate::user::wording::reservation::describe;

/// Reservations that are released at the same time: a year of weeks, and few enough for a coordinator that bounds the calls
/// of a user.
const AT_ONCE: usize = 64;

/// Release reservations and free what they have booked
///
/// A reservation that is released is over: what it has booked is free at once, its past included. --rest ends a reservation
/// that has begun, and keeps its past. Of several reservations each one is released, whatever happens to the others. The exit
/// code is then the worst of all; from bad to worse: 6 (no such reservation), 3, 2, 4, 5.
#[derive(Debug, Clone, Args)]
pub struct ReleaseArgs {
    /// The ids of the reservations, or of their requests
    #[arg(required_unless_present = "series")]
    id: Vec<String>,
    /// Release all reservations of this series that have not ended
    #[arg(long, value_name = "SERIES", conflicts_with_all = ["id", "rest"])]
    series: Option<String>,
    /// Give back what is left of a reservation that has begun: it ends about 30 s from now, the time that a change may
    /// take; its past stays booked and counted
    #[arg(long)]
    rest: bool,
    /// The user who releases them; the coordinator refuses anyone but the reservation's user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the Reservation as JSON, or a ListResponse with those of several ids
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc release`.
///
/// # Errors
/// When the coordinator cannot be asked. Of a single id: also when there is no such reservation, or the outcome is
/// unknown.
pub async fn run(args: &ReleaseArgs) -> Result<Answer, Failure> {
    let mut client = args.grc.connect().await?;
    if let [id] = &args.id[..] {
        let (reservation, exit) = match args.release(&mut client, id).await {
            Ok(released) => released,
            Err(failure) => {
                return Err(series::failure_of_id(&mut client, failure, id, "release").await);
            }
        };
        let text = if args.json { text::json(&reservation)? } else { describe(&reservation) };
        return Ok(Answer { text, exit });
    }
    let ids = match &args.series {
        Some(series) => {
            let members = series::members(&mut client, series, args.user.as_deref()).await?;
            let left = members.into_iter().filter(|one| !series::has_ended(one));
            left.map(|one| one.request_id).collect()
        }
        None => args.id.clone(),
    };
    let mut all = ReleaseReport::default();
    // One after the other would wait for a silent resource manager as often as there are reservations.
    for some in ids.chunks(AT_ONCE) {
        let mut calls = JoinSet::new();
        for (at, id) in some.iter().enumerate() {
            let (args, mut client, id) = (args.clone(), client.clone(), id.clone());
            calls.spawn(async move { (at, args.release(&mut client, &id).await) });
        }
        let mut released = calls.join_all().await;
        released.sort_by_key(|(at, _)| *at);
        for (at, one) in released {
            all.add(&some[at], one);
        }
    }
    all.answer(args.json)
}

impl ReleaseArgs {
    /// Releases one reservation: the reservation as it is now, and how that ended.
    async fn release(
        &self,
        client: &mut Coordinator,
        id: &str,
    ) -> Result<(v1::Reservation, Exit), Failure> {
        let (id, user) = (id.to_owned(), self.user.clone().unwrap_or_default());
        let answer = if self.rest {
            let change_id = Uuid::new_v4().to_string();
            let request = v1::ReleaseRestRequest { id: id.clone(), change_id, user };
            client.release_rest(request).await.map(|answer| answer.into_inner().reservation)
        } else {
            let request = v1::ReleaseReservationRequest { id: id.clone(), user };
            client.release(request).await.map(|answer| answer.into_inner().reservation)
        };
        let again = if self.rest { "coalloc release --rest" } else { "coalloc release" };
        let reservation = answer.map_err(|status| failure(&status, &id, again))?;
        let empty = || Failure::internal("the coordinator sent an answer without content");
        let reservation = reservation.ok_or_else(empty)?;
        let exit = if self.rest { modify::exit(&reservation) } else { exit(&reservation) };
        Ok((reservation, exit))
    }
}

/// What became of several reservations, a line each.
#[derive(Default)]
struct ReleaseReport {
    lines: String,
    reservations: Vec<v1::Reservation>,
    exits: Vec<Exit>,
}

impl ReleaseReport {
    fn add(&mut self, id: &str, released: Result<(v1::Reservation, Exit), Failure>) {
        let (line, exit) = match released {
            Ok((one, exit)) => {
                let end = one.plan.as_ref().and_then(|plan| plan.window.as_ref()?.end.as_ref());
                let state = text::state(one.state());
                let line = match (&one.change, one.state()) {
                    // Only the rest was released, so the reservation goes on until its new end.
                    (Some(_), v1::ReservationState::Active | v1::ReservationState::Confirmed) => {
                        format!("{state} until {}", text::moment(end))
                    }
                    _ if one.awaited.is_empty() => state.to_owned(),
                    _ => format!("{state}: waits for {}", text::enumerate(&one.awaited)),
                };
                self.reservations.push(one);
                (line, exit)
            }
            Err(failure) => (failure.message.replace('\n', "; "), failure.exit),
        };
        self.lines += &text::outcome_line(&format!("{id}:"), &line);
        self.exits.push(exit);
    }

    fn answer(self, json: bool) -> Result<Answer, Failure> {
        let exit = Exit::worst(self.exits);
        if !json {
            let nothing = "nothing is left to release\n";
            let text = if self.lines.is_empty() { nothing.to_owned() } else { self.lines };
            return Ok(Answer { text, exit });
        }
        text::note(self.lines.trim_end());
        let reservations = self.reservations;
        let all = v1::ListResponse { reservations, ..v1::ListResponse::default() };
        Ok(Answer { text: text::json(&all)?, exit })
    }
}

/// The meaning of a failed call, which the command `again` repeats.
fn failure(status: &Status, id: &str, again: &str) -> Failure {
    match status.code() {
        Code::FailedPrecondition => Failure::new(Exit::Refused, text::line(status.message())),
        _ => {
            let what_to_do = format!("ask `coalloc show {id}`, or type `{again} {id}` again");
            rpc::failure_of_change(status, &what_to_do)
        }
    }
}

/// The exit code of a release: done when nothing is reserved any more.
#[must_use]
pub fn exit(reservation: &v1::Reservation) -> Exit {
    use v1::ReservationState as S;
    match reservation.state() {
        S::Terminated | S::Failed | S::PassedEndTime if reservation.definite => Exit::Done,
        _ => Exit::Unfinished,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_done_when_nothing_is_reserved_any_more() {
        use v1::ReservationState as S;
        let cases = [
            (S::Terminated, true, Exit::Done),
            (S::Failed, true, Exit::Done),
            (S::Failed, false, Exit::Unfinished),
            (S::Terminating, false, Exit::Unfinished),
            (S::Confirmed, true, Exit::Unfinished),
            (S::Active, true, Exit::Unfinished),
        ];
        for (state, definite, expected) in cases {
            let one = v1::Reservation { state: state.into(), definite, ..Default::default() };
            assert_eq!(exit(&one), expected, "{state:?}");
        }
    }

    #[test]
    fn each_of_several_has_its_line_and_the_worst_code_wins() {
        let of = |state: v1::ReservationState| v1::Reservation {
            state: state.into(),
            definite: true,
            ..v1::Reservation::default()
        };
        let mut all = ReleaseReport::default();
        all.add("a", Ok((of(v1::ReservationState::Terminated), Exit::Done)));
        all.add(
            "b",
            Err(failure(&Status::not_found("there is no reservation b"), "b", "coalloc release")),
        );
        all.add("c", Ok((of(v1::ReservationState::Terminating), Exit::Unfinished)));
        let answer = all.answer(false).unwrap();
        assert_eq!(answer.exit, Exit::Unfinished);
        let expected = "a: terminated\nb: there is no reservation b\nc: terminating\n";
        assert_eq!(answer.text, expected);
    }

    #[test]
    fn what_has_no_rest_to_give_back_is_refused() {
        let status = Status::failed_precondition("r1 begins tomorrow");
        assert_eq!(
            failure(&status, "r1", "coalloc release"),
            Failure::new(Exit::Refused, "r1 begins tomorrow")
        );
    }
}
