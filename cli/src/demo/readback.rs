//! Reads everything back over the public API, once the federation is at rest.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use tonic::Status;
use tonic::transport::Channel;

use super::audit::Testimony;
use super::daemons::PAUSE;
use super::layout::Post;
use crate::exit::{Exit, Failure};
use crate::rpc;
use crate::serve::Kind;

/// How long aborts and clean-ups may take after the last answer.
const REST_PATIENCE: Duration = Duration::from_secs(20);

/// Waits until every reservation is definite, then asks every resource manager until no hold is left
/// (or the patience ends: the audit will say so). `reservations` are brought up to date.
///
/// # Errors
/// When someone does not answer.
pub async fn testimonies(
    client: &mut CoordinatorClient<Channel>,
    posts: &[Post],
    reservations: &mut [v1::Reservation],
) -> Result<Vec<Testimony>, Failure> {
    let end = Instant::now() + REST_PATIENCE;
    loop {
        for reservation in reservations.iter_mut().filter(|one| !one.definite) {
            let request = v1::GetRequest { id: reservation.request_id.clone() };
            let answer = client.get(request).await.map_err(|status| failed("grc", &status))?;
            if let Some(now) = answer.into_inner().reservation {
                *reservation = now;
            }
        }
        let mut testimonies = Vec::with_capacity(posts.len());
        // Sites stand above paths, here and in everything that is made of this.
        let of = |kind| posts.iter().filter(move |post| post.kind == kind);
        for post in of(Kind::Crm).chain(of(Kind::Nrm)) {
            let testimony = testimony(post).await;
            testimonies.push(testimony.map_err(|status| failed(&post.name, &status))?);
        }
        let definite = reservations.iter().all(|reservation| reservation.definite);
        if (definite && !testimonies.iter().any(has_hold)) || Instant::now() > end {
            return Ok(testimonies);
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
    Ok(Testimony { name: post.name.clone(), capacities: capacities(&described), bookings })
}

/// What there is of each resource.
fn capacities(described: &v1::DescribeResponse) -> BTreeMap<String, u64> {
    let mut capacities = BTreeMap::new();
    capacities.extend(described.sites.iter().map(|site| (site.name.clone(), site.cpus)));
    for path in &described.paths {
        let suffixes: &[&str] = if path.full_duplex { &[":ab", ":ba"] } else { &[""] };
        for suffix in suffixes {
            capacities.insert(format!("{}{suffix}", path.name), path.capacity_bps);
        }
    }
    capacities
}
