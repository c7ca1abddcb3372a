//! The picture for people to look at: whose profiles it has, how old they are, and when an amount is believed free.

use std::collections::BTreeMap;

use coalloc_common::invalid::check_range;
use coalloc_common::{
    Amount, AvailabilityVector, InvalidField, ResourceId, ResourceKind, RmName, SlotGrid, Time,
    Topology, limits,
};
use coalloc_net::convert::{span_from_wire, span_to_wire, time_from_wire, time_to_wire};
use coalloc_net::status;
use coalloc_proto::v1;
use coalloc_protocol::update::{Counts, RmPicture};
use tonic::Status;

use super::store::Pictures;
use crate::config::tasks::Mode;

/// A client's query of the picture, checked.
struct PictureQuery {
    rate: Amount,
    cpus: Amount,
    from: Time,
    grid: SlotGrid,
    slots: usize,
}

impl PictureQuery {
    fn parse(wire: &v1::ReadPictureRequest, now: Time) -> Result<Self, InvalidField> {
        let most = limits::BANDWIDTH_MAX_BPS;
        let rate = check_range("bandwidth_bps", wire.bandwidth_bps, 1..=most, "bit/s")?;
        let cpus = check_range("cpus", wire.cpus, 1..=limits::CPUS_MAX, "CPUs")?;
        let from = wire.from.as_ref().map_or(Ok(now), |from| time_from_wire("from", from))?;
        let none = || InvalidField::missing("slot", "1 us to 1 day");
        let slot = span_from_wire("slot", wire.slot.as_ref().ok_or_else(none)?)?;
        let grid =
            SlotGrid::new(slot).map_err(|error| InvalidField { field: "slot".into(), ..error })?;
        let most = limits::PICTURE_SHOWN_SLOTS_MAX;
        let slots = check_range("slots", wire.slots, 1..=most, "slots")? as usize;
        let asked = Self { rate: Amount(rate), cpus: Amount(cpus), from, grid, slots };
        // Checks that such a vector can be made at all.
        AvailabilityVector::nothing(grid, grid.containing(from), slots)?;
        Ok(asked)
    }
}

/// Reads the picture for a client.
///
/// # Errors
/// FAILED_PRECONDITION when this coordinator keeps none; INVALID_ARGUMENT naming field, value and allowed range.
pub fn picture(
    pictures: &Pictures,
    topology: &Topology,
    wire: &v1::ReadPictureRequest,
    now: Time,
) -> Result<v1::ReadPictureResponse, Status> {
    let mode = pictures.settings().mode;
    let asked = PictureQuery::parse(wire, now).map_err(|error| status::invalid(&error))?;
    if mode == Mode::Central {
        let text = "it keeps no picture: it plans tasks centrally and asks for each of them \
                    (`tasks.mode` of its configuration)";
        return Err(status::precondition("coordinator", "picture", text));
    }
    // A copy is cut, so that the lock is not held meanwhile.
    let (picture, bytes) = pictures.look(|picture, bytes| (picture.clone(), bytes.clone()));
    let of_sites = topology.sites().flat_map(|(_, vertex, _)| vertex.resources());
    let sites = of_sites.map(|of| ((of.rm, of.resource), of.kind)).collect();
    let part = |(rm, known, counts): (&RmName, Option<&RmPicture>, Counts)| {
        let bytes = bytes.get(rm).copied().unwrap_or_default();
        part(rm, known, counts, bytes, &sites, &asked, now)
    };
    let parts = picture.members().map(part).collect::<Result<Vec<_>, InvalidField>>();
    let parts = parts.map_err(|error| status::invalid(&error))?;
    Ok(v1::ReadPictureResponse { mode: mode.word().to_owned(), at: Some(time_to_wire(now)), parts })
}

fn part(
    rm: &RmName,
    known: Option<&RmPicture>,
    counts: Counts,
    bytes: u64,
    sites: &BTreeMap<(&RmName, &ResourceId), ResourceKind>,
    asked: &PictureQuery,
    now: Time,
) -> Result<v1::PicturePart, InvalidField> {
    let mut vectors = Vec::new();
    for (resource, profile) in known.into_iter().flat_map(RmPicture::profiles) {
        let amount = match sites.get(&(rm, resource)) {
            Some(ResourceKind::Cpus) => asked.cpus,
            // Tasks want CPUs and bandwidth only.
            Some(_) => continue,
            None => asked.rate,
        };
        let first = asked.grid.containing(asked.from);
        let steps = profile.steps().iter().copied();
        let vector = AvailabilityVector::of_profile(steps, amount, asked.grid, first, asked.slots)?;
        let free = vector.bits().map(|free| if free { '1' } else { '0' }).collect();
        vectors.push(v1::PictureVector { resource: resource.to_string(), free });
    }
    Ok(v1::PicturePart {
        resource_manager: rm.to_string(),
        age: known.map(|known| span_to_wire(known.age(now))),
        revision: known.map_or(0, |known| known.revision),
        updates: counts.snapshots + counts.deltas + counts.facts,
        bytes,
        ignored: counts.ignored,
        vectors,
    })
}
