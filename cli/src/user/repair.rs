//! `coalloc repair`: shows where the bookings of resource managers, or the equipment behind them, differ from what their
//! coordinator counts on, shows the repair offered for each difference, and makes the repairs with `--apply`.
//!
//! Releases come first: booking something again may need what they free. A booking that was opened by
//! another ledger of the coordinator's name is only released when the user names it, because somebody may
//! count on it.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::Args;
use coalloc_proto::v1;
use serde::Serialize;
use tonic::Code;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, Coordinator, GrcArgs};
use crate::kit::text;

/// Show where bookings at resource managers differ from what the coordinator counts on, and repair them
///
/// After a resource manager has lost its ledger, or was given an older one, its bookings are no longer what
/// the coordinator counts on. Without --apply nothing is changed: every difference is shown with the repair
/// that is offered. With --apply the repairs are made: what is confirmed and missing is booked again where
/// it is free; bookings that belong to no reservation are released; reservations whose equipment cannot be used are moved
/// onto other equipment. Exit code 0 means that nothing differs any more, 1 that something does, 3 that something was refused.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc repair\n  \
    coalloc repair --apply --why 'crm-berlin was given a new disk'\n  \
    coalloc repair --apply grc-1f2e3d4c-17 --rm crm-berlin")]
pub struct RepairArgs {
    /// Only these transactions or reservations, by their ids
    ids: Vec<String>,
    /// Only with this resource manager
    #[arg(long, value_name = "NAME")]
    rm: Option<String>,
    /// Make the repairs that are offered
    #[arg(long)]
    apply: bool,
    /// Why; recorded with what is released
    #[arg(long, value_name = "TEXT", default_value = "")]
    why: String,
    /// Who makes the repairs; recorded [default: $USER]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print a ListDifferencesResponse, or with --apply what was done, as JSON
    #[arg(long)]
    json: bool,
}

/// One difference, with its resource manager.
#[derive(Debug, Clone, PartialEq)]
struct LocatedDifference {
    manager: String,
    difference: v1::BookingDifference,
}

/// The outcome of one repair.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct RepairOutcome {
    transaction: String,
    resource_manager: String,
    outcome: &'static str,
    detail: String,
    #[serde(skip)]
    exit: Exit,
}

impl LocatedDifference {
    fn is_meant(&self, ids: &[String]) -> bool {
        ids.is_empty() || self.is_named(ids)
    }

    fn is_named(&self, ids: &[String]) -> bool {
        let Self { difference, .. } = self;
        ids.iter().any(|id| *id == difference.transaction || *id == difference.reservation)
    }

    /// Does the booking belong to no reservation that the coordinator knows?
    fn is_strange(&self) -> bool {
        self.difference.reservation.is_empty()
    }
}

/// Runs `coalloc repair`.
///
/// # Errors
/// When the coordinator cannot be asked, or an id was named for which nothing differs.
pub async fn run(args: &RepairArgs) -> Result<Answer, Failure> {
    let mut client = args.grc.connect().await?;
    let response = ask(&mut client, args).await?;
    let mut found = found(&response);
    found.retain(|one| one.is_meant(&args.ids));
    if let Some(id) =
        args.ids.iter().find(|id| !found.iter().any(|one| one.is_named(&[(*id).clone()])))
    {
        let text = format!("{id} differs at none of the resource managers that were compared");
        return Err(Failure::new(Exit::NotFound, text));
    }
    if !args.apply {
        let text = if args.json { text::json(&response)? } else { describe(&response, &found) };
        return Ok(Answer { text, exit: exit(&response, !found.is_empty()) });
    }
    let mut all = Vec::new();
    for one in in_order(&found) {
        all.push(repair(&mut client, args, one).await);
    }
    let after = ask(&mut client, args).await?;
    let left = self::found(&after).into_iter().filter(|one| one.is_meant(&args.ids)).count();
    let worst = all.iter().map(|done| done.exit).find(|exit| *exit != Exit::Done);
    let text = if args.json { text::json(&all)? } else { tell(&all, left) };
    Ok(Answer { text, exit: worst.unwrap_or_else(|| exit(&after, left > 0)) })
}

async fn ask(
    client: &mut Coordinator,
    args: &RepairArgs,
) -> Result<v1::ListDifferencesResponse, Failure> {
    let resource_manager = args.rm.clone().unwrap_or_default();
    let request = v1::ListDifferencesRequest { resource_manager, fresh: true };
    let answer = client.list_differences(request).await;
    answer.map(tonic::Response::into_inner).map_err(|status| rpc::failure(&status))
}

fn found(response: &v1::ListDifferencesResponse) -> Vec<LocatedDifference> {
    let of = |one: &v1::ComparedBookings| {
        let found = |difference: &v1::BookingDifference| LocatedDifference {
            manager: one.resource_manager.clone(),
            difference: difference.clone(),
        };
        one.differences.iter().map(found).collect::<Vec<_>>()
    };
    response.resource_managers.iter().flat_map(of).collect()
}

/// Releases come first. A transaction that is booked again or moved is so only once, at however many places it is missing or
/// unusable.
fn in_order(found: &[LocatedDifference]) -> Vec<&LocatedDifference> {
    let books = |one: &&LocatedDifference| {
        let repair = one.difference.repair();
        matches!(repair, v1::RepairKind::BookAgain | v1::RepairKind::Relocate)
    };
    let mut seen = BTreeSet::new();
    let (mut again, rest): (Vec<&LocatedDifference>, Vec<&LocatedDifference>) =
        found.iter().partition(books);
    again.retain(|one| seen.insert(&one.difference.transaction));
    rest.into_iter().chain(again).collect()
}

async fn repair(
    client: &mut Coordinator,
    args: &RepairArgs,
    one: &LocatedDifference,
) -> RepairOutcome {
    let LocatedDifference { manager, difference } = one;
    let done = |outcome, detail: &str, exit| RepairOutcome {
        transaction: difference.transaction.clone(),
        resource_manager: manager.clone(),
        outcome,
        detail: detail.to_owned(),
        exit,
    };
    match difference.repair() {
        v1::RepairKind::Unspecified => {
            return done("nothing offered", &difference.why, Exit::Failed);
        }
        v1::RepairKind::Release if one.is_strange() && !one.is_named(&args.ids) => {
            let text = format!("{}; name it to have it released", difference.why);
            return done("left alone", &text, Exit::Failed);
        }
        v1::RepairKind::Release | v1::RepairKind::BookAgain | v1::RepairKind::Relocate => {}
    }
    let by = args.by.clone().or_else(|| std::env::var("USER").ok()).unwrap_or_default();
    let request = v1::RepairRequest {
        repair_id: uuid::Uuid::new_v4().simple().to_string(),
        resource_manager: manager.clone(),
        transaction: difference.transaction.clone(),
        by,
        why: args.why.clone(),
    };
    let answer = match client.repair(request).await {
        Ok(answer) => answer.into_inner(),
        // It was repaired in the meantime, or is correct again: the next comparison will show it.
        Err(status) if status.code() == Code::FailedPrecondition => {
            return done("not done", status.message(), Exit::Refused);
        }
        Err(status) => {
            let failure = rpc::failure_of_change(&status, "compare again");
            return done("unknown", &failure.message, failure.exit);
        }
    };
    match answer.reservation {
        None if answer.released => done("released", "", Exit::Done),
        None => done("being released", "it has not acknowledged yet", Exit::Unfinished),
        Some(reservation) => {
            let (moved, moving) = match difference.repair() {
                v1::RepairKind::Relocate => ("moved", "being moved"),
                _ => ("booked again", "being booked"),
            };
            let change = reservation.change.unwrap_or_default();
            let why = change.refusal.as_ref().map(text::refusal).unwrap_or_default();
            match change.state() {
                v1::ChangeState::Done => done(moved, "", Exit::Done),
                v1::ChangeState::Refused => done("refused", &why, Exit::Refused),
                _ => done(moving, "it is not over yet", Exit::Unfinished),
            }
        }
    }
}

fn exit(response: &v1::ListDifferencesResponse, differ: bool) -> Exit {
    let failed = response.resource_managers.iter().any(|one| !one.problem.is_empty());
    match (differ, failed) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::CallFailed,
        (false, false) => Exit::Done,
    }
}

fn kind(difference: &v1::BookingDifference) -> &'static str {
    match difference.kind() {
        v1::DifferenceKind::MissingThere => "missing there",
        v1::DifferenceKind::UnknownHere => "unknown here",
        v1::DifferenceKind::OtherContent => "other content",
        v1::DifferenceKind::Unusable => "unusable there",
        v1::DifferenceKind::Unspecified => "differs",
    }
}

fn offer(difference: &v1::BookingDifference) -> &'static str {
    match difference.repair() {
        v1::RepairKind::BookAgain => "book again",
        v1::RepairKind::Relocate => "move",
        v1::RepairKind::Release if difference.reservation.is_empty() => "release, if named",
        v1::RepairKind::Release => "release",
        v1::RepairKind::Unspecified => "-",
    }
}

fn describe(response: &v1::ListDifferencesResponse, found: &[LocatedDifference]) -> String {
    let mut out = String::new();
    if !found.is_empty() {
        let header =
            ["resource manager", "transaction", "user", "ends", "differs", "offered", "why"];
        let mut table = text::table(&header);
        for LocatedDifference { manager, difference } in found {
            table.add_row([
                manager.as_str(),
                &difference.transaction,
                &difference.user,
                &text::moment(difference.ends.as_ref()),
                kind(difference),
                offer(difference),
                &difference.why,
            ]);
        }
        out += &text::finish(&table);
        out.push('\n');
    }
    let mut compared = 0;
    for one in &response.resource_managers {
        // Writing to a String cannot fail, here and below.
        if !one.problem.is_empty() {
            let problem = text::line(&one.problem);
            let _ = writeln!(out, "{} could not be compared: {problem}", one.resource_manager);
            continue;
        }
        compared += 1;
        if one.more > 0 {
            let more = text::count(one.more as usize, "further difference");
            let _ = writeln!(out, "{}: {more} not shown", one.resource_manager);
        }
    }
    let (compared, all) = (text::count(compared, "resource manager"), found.len());
    let _ = match all {
        0 => writeln!(
            out,
            "{compared} compared: all bookings agree with the records of the coordinator"
        ),
        _ => {
            let all = text::count(all, "difference");
            writeln!(out, "{compared} compared, {all}; --apply makes the offered repairs")
        }
    };
    out
}

fn tell(all: &[RepairOutcome], left: usize) -> String {
    let mut out = String::new();
    for RepairOutcome { transaction, resource_manager, outcome, detail, .. } in all {
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "{transaction} at {resource_manager}: {outcome}{detail}");
    }
    let _ = match left {
        0 => writeln!(out, "nothing differs any more"),
        left => writeln!(out, "{} left", text::count(left, "difference")),
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(
        manager: &str,
        txn: &str,
        repair: v1::RepairKind,
        reservation: &str,
    ) -> LocatedDifference {
        let difference = v1::BookingDifference {
            transaction: txn.into(),
            reservation: reservation.into(),
            repair: repair.into(),
            ..v1::BookingDifference::default()
        };
        LocatedDifference { manager: manager.into(), difference }
    }

    #[test]
    fn releases_come_first_and_what_is_missing_twice_is_booked_once() {
        let again = v1::RepairKind::BookAgain;
        let found = [
            one("a", "t1", again, "r1"),
            one("b", "t1", again, "r1"),
            one("b", "t2", v1::RepairKind::Release, "r2"),
        ];
        let order: Vec<&str> =
            in_order(&found).into_iter().map(|one| one.difference.transaction.as_str()).collect();
        assert_eq!(order, ["t2", "t1"]);
    }

    #[test]
    fn what_is_named_may_be_a_transaction_or_its_reservation() {
        let found = one("a", "t1", v1::RepairKind::BookAgain, "r1");
        for (ids, meant) in
            [(vec![], true), (vec!["r1"], true), (vec!["t1"], true), (vec!["x"], false)]
        {
            let ids: Vec<String> = ids.into_iter().map(str::to_owned).collect();
            assert_eq!(found.is_meant(&ids), meant, "{ids:?}");
        }
    }
}
