//! The differences that coordinators themselves find when they compare bookings with their resource managers.

use coalloc_proto::v1;

use crate::kit::text;
use crate::testbed::audit::hear::Coordinator;
use crate::testbed::audit::violation::{Check, Violation};

/// I6, as the coordinators report it: resource managers have booked what the coordinators count on.
///
/// Returns `None` when no coordinator can compare.
pub(in crate::testbed::audit) fn all_agree(coordinators: &[Coordinator]) -> Option<Check> {
    let all: Vec<&v1::ComparedBookings> =
        coordinators.iter().flat_map(|coordinator| &coordinator.compared).collect();
    if all.is_empty() {
        return None;
    }
    let (mut found, mut compared) = (Vec::new(), 0);
    for one in &all {
        compared += usize::from(one.problem.is_empty());
        // That a node is down is no disagreement about bookings.
        let differ = one.differences.iter().filter(|of| of.kind() != v1::DifferenceKind::Unusable);
        found.extend(differ.map(|difference| violation(one, difference)));
        if one.more > 0 {
            let more = text::count(one.more as usize, "further difference");
            let manager = &one.resource_manager;
            found.push(Violation::new("I6", "", manager, "no difference", more));
        }
    }
    let silent = all.len() - compared;
    let mut sentence = format!(
        "coordinators and resource managers agree about bookings: {compared} compared, {}",
        text::count(found.len(), "difference")
    );
    if silent > 0 {
        sentence += &format!("; {silent} could not be compared");
    }
    Some(Check::new("I6", found, sentence))
}

fn violation(one: &v1::ComparedBookings, difference: &v1::BookingDifference) -> Violation {
    let (expected, found) = match difference.kind() {
        v1::DifferenceKind::MissingThere => (
            "booked, because the coordinator has it recorded as booked",
            "not booked; see `coalloc repair`",
        ),
        v1::DifferenceKind::UnknownHere => (
            "nothing booked, because the coordinator has no such booking",
            "booked; see `coalloc repair`",
        ),
        v1::DifferenceKind::OtherContent
        | v1::DifferenceKind::Unusable
        | v1::DifferenceKind::Unspecified => (
            "booked with the content that the coordinator has recorded",
            "booked with other content; see `coalloc repair`",
        ),
    };
    Violation::new("I6", &difference.transaction, &one.resource_manager, expected, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coordinator(compared: Vec<v1::ComparedBookings>) -> Coordinator {
        let (name, address) = ("grc".to_owned(), String::new());
        Coordinator { name, address, reservations: Vec::new(), compared }
    }

    #[test]
    fn a_difference_is_a_violation_and_a_silent_one_is_counted() {
        assert_eq!(all_agree(&[coordinator(Vec::new())]), None);
        let missing = v1::BookingDifference {
            transaction: "t1".into(),
            kind: v1::DifferenceKind::MissingThere.into(),
            ..v1::BookingDifference::default()
        };
        let crm = v1::ComparedBookings {
            resource_manager: "crm".into(),
            differences: vec![missing],
            ..v1::ComparedBookings::default()
        };
        let nrm = v1::ComparedBookings {
            resource_manager: "nrm".into(),
            problem: "no answer".into(),
            ..v1::ComparedBookings::default()
        };
        let check = all_agree(&[coordinator(vec![crm, nrm])]).unwrap();
        assert!(!check.passed);
        assert!(check.sentence.ends_with("1 compared, 1 difference; 1 could not be compared"));
        let said = check.violations[0].to_string();
        assert!(said.starts_with("I6 t1 at crm: expected booked"), "{said}");
    }
}
