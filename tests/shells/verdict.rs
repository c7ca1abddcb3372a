//! The end of a run: waits until nothing moves any more, asks every daemon over the public API, and lets
//! the auditor judge (`coalloc_cli::testbed::audit`).

use std::time::Duration;

use coalloc_cli::kit::rpc;
use coalloc_cli::testbed::audit::hear::Coordinator;
use coalloc_cli::testbed::audit::{FederationReport, Testimony, judge};
use coalloc_proto::v1;
use tonic::Status;

use crate::clients::Journal;
use crate::federation::{GRC, RMS};
use crate::identities::{Party, Protection};
use crate::trace::Trace;

/// Time after the last fault by which everything has ended (I22): a request may be planned again for a
/// minute, then come a hold's hard expiry (15 s) and the longest pause between two messages (10 s).
const REST: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(500);

/// Waits for rest, and judges.
pub(crate) async fn judge_at_rest(protection: &Protection, journal: &Journal, trace: &Trace) {
    let mut last = "nobody was asked".to_owned();
    let began = turmoil::sim_elapsed().unwrap_or_default();
    while turmoil::sim_elapsed().unwrap_or_default() < began + REST {
        match hear(protection).await {
            Ok(heard) => match restless(&heard) {
                None => {
                    trace.add("audit", format_args!("everything is at rest"));
                    let journal = journal.lock().unwrap();
                    let audit = judge(&heard, Some(&journal));
                    for violation in audit.violations() {
                        trace.accuse(violation.to_string());
                    }
                    for check in &audit.checks {
                        trace.add("audit", format_args!("{}", check.sentence));
                    }
                    return;
                }
                Some(text) => last = text,
            },
            Err(status) => last = format!("{:?}: {}", status.code(), status.message()),
        }
        tokio::time::sleep(LOOK).await;
    }
    trace.accuse(format!("I22: no rest {REST:?} after the last fault: {last}"));
}

/// The answers of all daemons.
///
/// Answers that were read one after the other describe one common point in time only if the coordinator
/// answers the same before and after.
async fn hear(protection: &Protection) -> Result<FederationReport, Status> {
    let mut heard = FederationReport::default();
    let all = v1::ListRequest::default();
    let coordinator = || protection.coordinator(Party::Operator);
    let before = rpc::all_reservations(&mut coordinator(), all.clone()).await?;
    for name in RMS {
        heard
            .testimonies
            .push(Testimony::of(&mut protection.manager(Party::SouthOperator, name)).await?.0);
    }
    let reservations = rpc::all_reservations(&mut coordinator(), all).await?;
    if reservations != before {
        heard.restless.push(format!("{GRC} changed while it was being read"));
    }
    let (name, address) = (GRC.to_owned(), String::new());
    let compared = Vec::new();
    heard.coordinators.push(Coordinator { name, reservations, address, compared });
    Ok(heard)
}

/// Something that still moves, if there is anything.
fn restless(heard: &FederationReport) -> Option<String> {
    if let Some(text) = heard.restless.first() {
        return Some(text.clone());
    }
    let holds = |one: &Testimony| {
        one.bookings.iter().any(|booking| booking.state() == v1::BookingState::Held)
    };
    if let Some(one) = heard.testimonies.iter().find(|one| holds(one)) {
        return Some(format!("{} holds something", one.name));
    }
    let all = heard.coordinators.iter().flat_map(|one| &one.reservations);
    let open = |one: &&v1::Reservation| {
        let change = one.change.as_ref().map(v1::Change::state);
        let changing =
            [Some(v1::ChangeState::Checking), Some(v1::ChangeState::Committing)].contains(&change);
        !one.definite || changing
    };
    all.into_iter().find(open).map(|one| format!("{} is {:?}", one.request_id, one.state()))
}
