//! What the equipment has of a reservation, as people read it.

use coalloc_proto::{Timestamp, v1};

use crate::kit::text;

/// One line for each resource that some equipment has, and one for each resource manager that gave no answer. Nothing when
/// there is no equipment. If nobody has told of any, those that gave no answer may have some.
#[must_use]
pub fn describe(answer: &v1::GetDataPlaneResponse) -> String {
    let lines = answer.data_plane.iter().map(line);
    if answer.data_plane.is_empty() {
        let silent = answer.silent.iter().map(|rm| {
            format!("if {} has equipment, its state is not known: {}\n", rm.name, rm.problem)
        });
        return silent.collect();
    }
    let silent =
        answer.silent.iter().map(|rm| format!("  {}: no answer: {}\n", rm.name, rm.problem));
    format!("equipment:\n{}", lines.chain(silent).collect::<String>())
}

fn line(one: &v1::DataPlane) -> String {
    // Nobody needs to know it to the microsecond.
    let since = one.since.map(|at| Timestamp { nanos: 0, ..at });
    let since = since.map(|at| format!(" since {}", text::moment(Some(&at)))).unwrap_or_default();
    format!("  {} at {}: {}{since}\n", one.resource, one.resource_manager, state(one))
}

/// What the equipment has of one resource.
#[must_use]
pub fn state(one: &v1::DataPlane) -> String {
    use v1::ProvisionState as P;
    let state = match (one.provision_state(), one.active) {
        (P::Provisioned, true) => "active",
        (P::Provisioned, false) => "granted, outside its window",
        (P::Provisioning, _) => "not there yet",
        (P::Releasing, _) => "being removed",
        (P::Released | P::Unspecified, _) if one.handle.is_empty() => "nothing is there",
        (P::Released | P::Unspecified, _) => "reserved, not granted yet",
    };
    let handle = if one.handle.is_empty() { String::new() } else { format!(" as {}", one.handle) };
    let version =
        if one.version_consistent { "" } else { ", with another version than the one booked" };
    let trouble = match one.trouble.as_str() {
        "" => String::new(),
        trouble => format!("; trouble: {trouble}"),
    };
    format!("{state}{handle}{version}{trouble}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_where_there_is_no_equipment() {
        assert_eq!(describe(&v1::GetDataPlaneResponse::default()), "");
    }

    #[test]
    fn a_line_says_state_name_and_trouble() {
        let one = v1::DataPlane {
            resource: "N0".into(),
            resource_manager: "crm-N0".into(),
            provision_state: v1::ProvisionState::Provisioned.into(),
            active: true,
            version_consistent: true,
            handle: "co-1-2".into(),
            trouble: "node n1 is down".into(),
            ..Default::default()
        };
        let silent = v1::SilentResourceManager { name: "nrm-N".into(), problem: "late".into() };
        let mut answer = v1::GetDataPlaneResponse { data_plane: vec![one], silent: vec![silent] };
        let expected = "equipment:\n  N0 at crm-N0: active as co-1-2; trouble: node n1 is down\n  \
                        nrm-N: no answer: late\n";
        assert_eq!(describe(&answer), expected);
        answer.data_plane.clear();
        let expected = "if nrm-N has equipment, its state is not known: late\n";
        assert_eq!(describe(&answer), expected);
    }
}
