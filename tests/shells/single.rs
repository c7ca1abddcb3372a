//! Without any fault: clients that go away, or set a deadline shorter than their transaction, cancel only
//! their own waiting (F8).

use std::time::Duration;

use coalloc_proto::v1;
use tonic::{Code, Request};

use crate::clients::wanted;
use crate::federation::USERS;
use crate::identities::{Identities, Party, Protection};
use crate::run::{Ledgers, federation};
use crate::trace::Trace;

/// A reservation takes some 200 ms; these clients leave before it, in the middle of it and after it.
const MOMENTS: u64 = 20;
const STEP: Duration = Duration::from_millis(15);

/// How a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Silently,
    ByDeadline,
}

async fn everything_begun_is_finished(protection: Protection, leaves: Leaves) -> turmoil::Result {
    let coordinator = || protection.coordinator(Party::User);
    // Wait until the coordinator knows every resource manager.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut unanswered = 0;
    for moment in 0..MOMENTS {
        let after = STEP * u32::try_from(moment)? + Duration::from_millis(1);
        let mut request = Request::new(v1::ReserveRequest {
            request_id: format!("r{moment}"),
            request: Some(wanted(1, 50, moment % 4)),
            ..Default::default()
        });
        let mut client = coordinator();
        let left = match leaves {
            Leaves::Silently => tokio::time::timeout(after, client.reserve(request)).await.is_err(),
            Leaves::ByDeadline => {
                request.set_timeout(after);
                client.reserve(request).await.is_err()
            }
        };
        unanswered += u64::from(left);
    }
    // This is longer than any transaction; nobody asks for any of them again.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let (mut confirmed, mut never_came) = (0, 0);
    for moment in 0..MOMENTS {
        let id = format!("r{moment}");
        match coordinator().get(v1::GetRequest { id: id.clone() }).await {
            Ok(answer) => {
                let found = answer.into_inner().reservation.unwrap_or_default();
                let state = found.state();
                assert!(found.definite && state.is_booked(), "{id}: {state:?}");
                confirmed += 1;
            }
            Err(status) if status.code() == Code::NotFound => never_came += 1,
            Err(status) => return Err(status.into()),
        }
    }
    assert_eq!(confirmed + never_came, MOMENTS);
    assert!(
        unanswered > never_came + 3,
        "{unanswered} left, {never_came} never came: too few between"
    );
    Ok(())
}

fn in_peace(leaves: Leaves) {
    for protection in [Protection::PlainText, Protection::Tls(Identities::create(|_| None))] {
        in_peace_with(&protection, leaves);
    }
}

fn in_peace_with(protection: &Protection, leaves: Leaves) {
    let trace = Trace::default();
    let (mut sim, _) = federation(1, Ledgers::Sound, protection, &trace);
    sim.client(USERS, everything_begun_is_finished(protection.clone(), leaves));
    sim.run().unwrap_or_else(|error| panic!("{error}\n{}", trace.lines().join("\n")));
    assert!(trace.faults().is_empty(), "{:?}", trace.faults());
}

#[test]
fn a_client_that_vanishes_cancels_nothing() {
    in_peace(Leaves::Silently);
}

#[test]
fn a_deadline_shorter_than_the_transaction_cancels_nothing() {
    in_peace(Leaves::ByDeadline);
}
