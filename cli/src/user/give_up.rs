//! `coalloc give-up`: stops waiting for a resource manager that does not acknowledge the end of reservations.

use std::fmt::Write as _;

use clap::Args;
use coalloc_proto::v1;
use tonic::Code;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, Coordinator, GrcArgs};
use crate::kit::text;
use crate::user::wording::reservation;

/// Stop waiting for a resource manager that is gone, so that a release can finish
///
/// A released reservation is "terminating", and a failed reservation "aborting", until every resource
/// manager has acknowledged. If an operator knows that a resource manager will not do so, or not soon, this
/// command says so. It is recorded with who and why, the reservation ends, and its user is told which
/// resource manager may still have it booked, and until when. The resource manager is told to end the
/// booking when it returns. A reservation that is still wanted must be released first.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc give-up grc-1f2e3d4c-17 --rm crm-berlin --why 'the machine room burnt down'\n  \
    coalloc give-up --all --rm crm-berlin --why 'the machine room burnt down'")]
pub struct GiveUpArgs {
    /// The id of the reservation, or of the request
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    id: Option<String>,
    /// The resource manager; it need not be configured any more
    #[arg(long, value_name = "NAME")]
    rm: String,
    /// For every reservation whose end this resource manager owes
    #[arg(long)]
    all: bool,
    /// Why; recorded, and told to the reservations' users
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Who gives up; recorded [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the Reservation, or with --all a GiveUpResponse, as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc give-up`.
///
/// # Errors
/// When the coordinator cannot be asked or refuses, or the outcome is unknown.
pub async fn run(args: &GiveUpArgs) -> Result<Answer, Failure> {
    let mut client = args.grc.connect().await?;
    if args.all {
        return all(&mut client, args).await;
    }
    let response = ask(&mut client, args).await?;
    let missing = || Failure::internal("the coordinator sent an answer without content");
    let reservation = response.reservation.ok_or_else(missing)?;
    let text = match args.json {
        true => text::json(&reservation)?,
        false => reservation::describe(&reservation),
    };
    Ok(Answer { text, exit: if reservation.definite { Exit::Done } else { Exit::Unfinished } })
}

/// Calls until no reservation is left.
async fn all(client: &mut Coordinator, args: &GiveUpArgs) -> Result<Answer, Failure> {
    let mut total = v1::GiveUpResponse::default();
    loop {
        let response = ask(client, args).await?;
        let done = response.given_up.is_empty() || response.more == 0;
        total.given_up.extend(response.given_up);
        (total.more, total.wanted) = (response.more, response.wanted);
        if done {
            break;
        }
    }
    let text = if args.json { text::json(&total)? } else { tell(&args.rm, &total) };
    Ok(Answer { text, exit: if total.wanted == 0 { Exit::Done } else { Exit::Unfinished } })
}

async fn ask(client: &mut Coordinator, args: &GiveUpArgs) -> Result<v1::GiveUpResponse, Failure> {
    let by = args.by.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_default();
    let request = v1::GiveUpRequest {
        resource_manager: args.rm.clone(),
        id: args.id.clone().unwrap_or_default(),
        all: args.all,
        by,
        why: args.why.clone(),
    };
    match client.give_up(request).await {
        Ok(answer) => Ok(answer.into_inner()),
        // The reservation is still wanted, so nothing was done.
        Err(status) if status.code() == Code::FailedPrecondition => {
            Err(Failure::new(Exit::Refused, status.message()))
        }
        Err(status) => {
            let what_to_do = "send the same command again: nothing is done twice";
            Err(rpc::failure_of_change(&status, what_to_do))
        }
    }
}

fn tell(rm: &str, total: &v1::GiveUpResponse) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail, here and below.
    for id in &total.given_up {
        let _ = writeln!(out, "{id}: {rm} is no longer waited for");
    }
    let _ = match total.given_up.len() {
        0 => writeln!(out, "no reservation that is ending waits for {rm}"),
        count => {
            let count = text::count(count, "reservation");
            writeln!(out, "{count}; {rm} is told to end what it still has of them when it returns")
        }
    };
    if total.wanted > 0 {
        let count = text::count(total.wanted as usize, "reservation");
        let _ = writeln!(
            out,
            "{count} not given up: still wanted (release them first), or of a parent coordinator"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use coalloc_proto::Timestamp;

    use super::*;

    #[test]
    fn whoever_looks_is_told_what_may_be_left_until_it_is_not() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let mut one = v1::GivenUp {
            resource_manager: "crm-b".into(),
            by: "alice".into(),
            why: "disk burnt".into(),
            time: at(1_795_262_400),
            booked_until: at(1_795_266_000),
            ..v1::GivenUp::default()
        };
        let text = reservation::given_up(&one);
        assert!(text.contains("by alice (disk burnt) at 2026-11-21 12:00 UTC"), "{text}");
        assert!(text.contains("may still have it booked until 2026-11-21 13:00 UTC"), "{text}");
        let reservation = v1::Reservation {
            state: v1::ReservationState::Failed.into(),
            definite: true,
            refusal: Some(v1::Refusal::default()),
            given_up: vec![one.clone()],
            ..v1::Reservation::default()
        };
        assert!(!reservation::describe(&reservation).contains("nothing is held"));
        one.ended = at(1_795_269_600);
        let text = reservation::given_up(&one);
        assert!(text.contains("has had nothing of it since 2026-11-21 14:00 UTC"), "{text}");
        let reservation = v1::Reservation { given_up: vec![one], ..reservation };
        assert!(reservation::describe(&reservation).contains("nothing is held"));
    }

    #[test]
    fn of_all_it_says_what_stays_as_it_was() {
        let given_up = vec!["grc-1-1".to_owned(), "grc-1-2".to_owned()];
        let total = v1::GiveUpResponse { given_up, wanted: 1, ..Default::default() };
        let text = tell("crm-b", &total);
        assert!(text.contains("grc-1-1: crm-b is no longer waited for\n"), "{text}");
        assert!(
            text.contains("2 reservations; crm-b is told")
                && text.contains("1 reservation not given up")
        );
    }
}
