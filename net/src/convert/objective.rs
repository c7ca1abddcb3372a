//! Objectives and price schedules, from and to the wire.

use coalloc_common::price::BandText;
use coalloc_common::{InvalidField, Objective, PriceSchedule};
use coalloc_proto::v1;

/// Reads a price schedule.
///
/// # Errors
/// When its bands do not make up a day, or a number is out of its range.
pub fn price_from_wire(
    field: &str,
    wire: &v1::PriceSchedule,
) -> Result<PriceSchedule, InvalidField> {
    let bands = wire.bands.iter().map(|band| BandText {
        from: &band.from,
        to: &band.to,
        unit_price: band.unit_price_millipoints,
    });
    let bands: Vec<BandText<'_>> = bands.collect();
    PriceSchedule::parse(&wire.utc_offset, &bands).map_err(|error| error.within(field))
}

/// Reads objectives, most important first.
///
/// # Errors
/// When one is unknown or is there twice.
pub fn objectives_from_wire(field: &str, wire: &[i32]) -> Result<Vec<Objective>, InvalidField> {
    let mut objectives = Vec::with_capacity(wire.len());
    for (index, number) in wire.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let known = v1::Objective::try_from(*number).ok().and_then(objective);
        let Some(known) = known else {
            let names: Vec<&str> =
                Objective::ALL.map(|one| objective_to_wire(one).as_str_name()).to_vec();
            return Err(InvalidField::new(field, number, names.join(", ")));
        };
        if objectives.contains(&known) {
            let value = objective_to_wire(known).as_str_name();
            return Err(InvalidField::new(field, value, "each objective once"));
        }
        objectives.push(known);
    }
    Ok(objectives)
}

const fn objective(wire: v1::Objective) -> Option<Objective> {
    Some(match wire {
        v1::Objective::Unspecified => return None,
        v1::Objective::Start => Objective::Start,
        v1::Objective::Price => Objective::Price,
        v1::Objective::Quality => Objective::Quality,
        v1::Objective::Load => Objective::Load,
        v1::Objective::Preference => Objective::Preference,
    })
}

/// The wire form of an objective.
#[must_use]
pub const fn objective_to_wire(objective: Objective) -> v1::Objective {
    match objective {
        Objective::Start => v1::Objective::Start,
        Objective::Price => v1::Objective::Price,
        Objective::Quality => v1::Objective::Quality,
        Objective::Load => v1::Objective::Load,
        Objective::Preference => v1::Objective::Preference,
    }
}
