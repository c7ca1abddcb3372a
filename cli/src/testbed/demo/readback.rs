//! Reads everything back over the public API once the federation is at rest.

use std::time::{Duration, Instant};

use coalloc_proto::v1;
use tonic::Status;

use crate::kit::exit::{Exit, Failure};
use crate::kit::rpc;
use crate::testbed::audit::{Lower, Testimony, testimony};
use crate::testbed::local::layout::Post;
use crate::user::daemons::PAUSE;
use crate::user::serve::Kind;

/// How long aborts and clean-ups may take after the last answer.
const REST_PATIENCE: Duration = Duration::from_secs(20);

/// What every daemon reports once all is at rest.
#[derive(Debug, Default)]
pub struct Readback {
    /// The reports of the resource managers.
    pub testimonies: Vec<Testimony>,
    /// The reports of the child coordinators.
    pub lower: Vec<Lower>,
}

impl Readback {
    fn has_hold(&self) -> bool {
        let lower = self.lower.iter().map(|lower| &lower.testimony);
        self.testimonies.iter().chain(lower).any(Testimony::has_hold)
    }
}

/// Waits until every reservation is definite, then asks every resource manager and every coordinator of
/// `lower` until no hold is left.
///
/// If the time runs out, this returns anyway, and the audit reports the holds. `reservations` are brought
/// up to date; they were distributed to `clients` in turn.
///
/// # Errors
/// When a daemon does not answer.
pub async fn hear(
    clients: &mut [rpc::Coordinator],
    posts: &[Post],
    lower: &[Post],
    reservations: &mut [v1::Reservation],
) -> Result<Readback, Failure> {
    let end = Instant::now() + REST_PATIENCE;
    loop {
        let turns = clients.len();
        for (index, reservation) in reservations.iter_mut().enumerate() {
            if reservation.definite {
                continue;
            }
            let request = v1::GetRequest { id: reservation.request_id.clone() };
            let answer = clients[index % turns].get(request).await;
            let answer = answer.map_err(|status| failed("grc", &status))?;
            if let Some(now) = answer.into_inner().reservation {
                *reservation = now;
            }
        }
        let mut heard = Readback::default();
        // Sites come before paths, here and in everything that is built from this.
        let of = |kind| posts.iter().filter(move |post| post.kind == kind);
        for post in of(Kind::Crm).chain(of(Kind::Nrm)) {
            let heard_of = Testimony::hear(&post.dialer, &post.address).await;
            let (testimony, _) = heard_of.map_err(|status| failed(&post.name, &status))?;
            heard.testimonies.push(testimony);
        }
        for post in lower {
            let heard_of = Testimony::hear(&post.dialer, &post.address).await;
            let (testimony, _) = heard_of.map_err(|status| failed(&post.name, &status))?;
            let mut coordinator = rpc::coordinator(&post.dialer, &post.address)?;
            let reservations = testimony::reservations(&mut coordinator).await;
            let reservations = reservations.map_err(|status| failed(&post.name, &status))?;
            heard.lower.push(Lower { testimony, reservations });
        }
        let inner = heard.lower.iter().flat_map(|lower| &lower.reservations);
        let definite = reservations.iter().chain(inner).all(|reservation| reservation.definite);
        if (definite && !heard.has_hold()) || Instant::now() > end {
            return Ok(heard);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn failed(name: &str, status: &Status) -> Failure {
    let (code, message) = (status.code(), status.message());
    Failure::new(Exit::CallFailed, format!("{name} could not be asked: {code:?}: {message}"))
}
