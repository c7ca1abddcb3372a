//! Reads everything back over the public API, once the federation is at rest.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use tonic::Status;
use tonic::transport::Channel;

use super::audit::{Lower, Testimony};
use super::daemons::PAUSE;
use super::layout::Post;
use crate::exit::{Exit, Failure};
use crate::rpc;
use crate::serve::Kind;

/// How long aborts and clean-ups may take after the last answer.
const REST_PATIENCE: Duration = Duration::from_secs(20);

/// What everybody says once all is at rest.
#[derive(Debug, Default)]
pub struct Heard {
    /// Resource managers.
    pub testimonies: Vec<Testimony>,
    /// Coordinators below another one.
    pub lower: Vec<Lower>,
}

impl Heard {
    fn has_hold(&self) -> bool {
        let lower = self.lower.iter().map(|lower| &lower.testimony);
        self.testimonies.iter().chain(lower).any(has_hold)
    }
}

/// Waits until every reservation is definite, then asks every resource manager, and every coordinator of
/// `lower`, until no hold is left (or the patience ends: the audit will say so). `reservations` are brought
/// up to date; they were dealt to `clients` in turn.
///
/// # Errors
/// When someone does not answer.
pub async fn hear(
    clients: &mut [CoordinatorClient<Channel>],
    posts: &[Post],
    lower: &[Post],
    reservations: &mut [v1::Reservation],
) -> Result<Heard, Failure> {
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
        let mut heard = Heard::default();
        // Sites stand above paths, here and in everything that is made of this.
        let of = |kind| posts.iter().filter(move |post| post.kind == kind);
        for post in of(Kind::Crm).chain(of(Kind::Nrm)) {
            let testimony = testimony(post).await;
            heard.testimonies.push(testimony.map_err(|status| failed(&post.name, &status))?);
        }
        for post in lower {
            let testimony = testimony(post).await.map_err(|status| failed(&post.name, &status))?;
            let mut coordinator = rpc::coordinator(&post.address)?;
            let all = v1::ListRequest::default();
            let reservations = rpc::all_reservations(&mut coordinator, all).await;
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

fn has_hold(testimony: &Testimony) -> bool {
    testimony.bookings.iter().any(|booking| booking.state() == v1::BookingState::Held)
}

fn failed(name: &str, status: &Status) -> Failure {
    let (code, message) = (status.code(), status.message());
    Failure::new(Exit::CallFailed, format!("{name} could not be asked: {code:?}: {message}"))
}

async fn testimony(post: &Post) -> Result<Testimony, Status> {
    let client = rpc::resource_manager(&post.address);
    let mut client = client.map_err(|failure| Status::invalid_argument(failure.message))?;
    let described = client.describe(v1::DescribeRequest {}).await?.into_inner();
    let bookings = rpc::all_bookings(&mut client).await?;
    let (capacities, ends) = resources(&described);
    Ok(Testimony { name: post.name.clone(), capacities, ends, bookings })
}

/// What there is of each resource, and where those that are paths end.
fn resources(
    described: &v1::DescribeResponse,
) -> (BTreeMap<String, u64>, BTreeMap<String, [String; 2]>) {
    let (mut capacities, mut ends) = (BTreeMap::new(), BTreeMap::new());
    capacities.extend(described.sites.iter().map(|site| (site.name.clone(), site.cpus)));
    for path in &described.paths {
        let suffixes: &[&str] = if path.full_duplex { &[":ab", ":ba"] } else { &[""] };
        for suffix in suffixes {
            let name = format!("{}{suffix}", path.name);
            capacities.insert(name.clone(), path.capacity_bps);
            ends.insert(name, [path.a.clone(), path.b.clone()]);
        }
    }
    (capacities, ends)
}
