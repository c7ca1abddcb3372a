//! The answers of one daemon about itself, read over the public API only.

use std::collections::BTreeMap;

use coalloc_net::client::Dialer;
use coalloc_net::convert::declared_servers;
use coalloc_proto::v1;
use tonic::Status;

use crate::kit;
use crate::kit::rpc::{self, Coordinator, ResourceManager, Workflows};

/// What one resource manager answered over its public API.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Testimony {
    /// Its name.
    pub name: String,
    /// Its resources and their capacities, from Describe.
    pub capacities: BTreeMap<String, u64>,
    /// The two ends of each resource that is a path, from Describe.
    pub ends: BTreeMap<String, [String; 2]>,
    /// The servers of each by-server site with their CPUs, from Describe.
    pub servers: BTreeMap<String, BTreeMap<String, u64>>,
    /// Its live holds and bookings, from ListBookings.
    pub bookings: Vec<v1::Booking>,
    /// Its holds and bookings that have ended, from ListBookings.
    pub ended: Vec<v1::Booking>,
}

/// The answers of a child coordinator, both as a resource manager and as a coordinator.
#[derive(Debug, Clone, PartialEq)]
pub struct Lower {
    /// Its answers to its parent coordinator.
    pub testimony: Testimony,
    /// Its reservations at its own resource managers.
    pub reservations: Vec<v1::Reservation>,
}

impl Testimony {
    /// Asks the resource manager at an address; if it is a child coordinator, also returns the coordinators
    /// below it.
    ///
    /// # Errors
    /// The status of the call that failed.
    pub async fn hear(dialer: &Dialer, address: &str) -> Result<(Self, Vec<String>), Status> {
        let client = rpc::resource_manager(dialer, address);
        Self::of(&mut client.map_err(|failure| Status::invalid_argument(failure.message))?).await
    }

    /// Asks the resource manager that a client is connected to, like [`Testimony::hear`].
    ///
    /// # Errors
    /// The status of the call that failed.
    pub async fn of(client: &mut ResourceManager) -> Result<(Self, Vec<String>), Status> {
        let described = client.describe(v1::DescribeRequest {}).await?.into_inner();
        let all = v1::ListBookingsRequest { include_ended: true, ..Default::default() };
        let all = rpc::all_bookings(client, all).await?;
        let (bookings, ended) = all.into_iter().partition(is_live);
        let resources = kit::resources::described(&described).into_iter();
        let (mut capacities, mut ends) = (BTreeMap::new(), BTreeMap::new());
        for resource in resources {
            if let Some(both) = resource.ends {
                ends.insert(resource.name.clone(), both);
            }
            capacities.insert(resource.name, resource.capacity);
        }
        let servers = servers(&described);
        let testimony = Self { name: described.name, capacities, ends, servers, bookings, ended };
        Ok((testimony, described.coordinators_below))
    }

    /// Is anything of a reservation held or booked?
    pub(crate) fn has_live(&self, reservation: &str) -> bool {
        let of = format!("{reservation}/");
        let is_live = |booking: &v1::Booking| {
            matches!(booking.state(), v1::BookingState::Held | v1::BookingState::Booked)
        };
        self.bookings.iter().any(|booking| is_live(booking) && booking.transaction.starts_with(&of))
    }

    pub(crate) fn has_hold(&self) -> bool {
        self.bookings.iter().any(|booking| booking.state() == v1::BookingState::Held)
    }
}

/// Every reservation of a coordinator.
///
/// # Errors
/// The status of the call that failed.
pub async fn reservations(client: &mut Coordinator) -> Result<Vec<v1::Reservation>, Status> {
    rpc::all_reservations(client, v1::ListRequest::default()).await
}

/// The same with the segments of workflows, which a listing does not have.
///
/// # Errors
/// The status of the call that failed.
pub async fn whole_reservations(
    client: &mut Coordinator,
    workflows: &mut Workflows,
) -> Result<Vec<v1::Reservation>, Status> {
    let mut all = reservations(client).await?;
    for one in all.iter_mut().filter(|one| one.workflow.is_some()) {
        let whole = rpc::whole_workflow(workflows, &one.id).await?;
        let plan = whole.workflow.and_then(|workflow| workflow.plan);
        if let (Some(own), Some(plan)) = (&mut one.plan, plan) {
            own.segments = plan.segments;
        }
    }
    Ok(all)
}

pub(super) fn is_live(booking: &v1::Booking) -> bool {
    matches!(booking.state(), v1::BookingState::Held | v1::BookingState::Booked)
}

/// The servers of each by-server site, with their CPUs.
fn servers(described: &v1::DescribeResponse) -> BTreeMap<String, BTreeMap<String, u64>> {
    let of_site = |site: &v1::Site| {
        // A resource manager that describes something impossible has no servers that could be checked.
        let declared = declared_servers("site", site).ok().flatten()?;
        let servers = declared.servers.into_iter();
        let servers = servers.map(|server| (server.name.to_string(), declared.cpus_each));
        Some((site.name.clone(), servers.collect()))
    };
    described.sites.iter().filter_map(of_site).collect()
}
