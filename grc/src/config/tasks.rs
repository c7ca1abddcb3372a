//! The section `tasks` of a coordinator's configuration, checked.

use coalloc_common::{InvalidField, Span, limits};
use coalloc_net::convert::{check_task_options, span_from_wire, update_policy_from_wire};
use coalloc_proto::v1;

/// Which knowledge of profiles tasks are planned on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Profiles that every RM is asked for anew, for each task.
    #[default]
    Central,
    /// A picture that updates keep up to date.
    Distributed,
}

impl Mode {
    /// The mode's name in configurations and answers.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Central => "central",
            Self::Distributed => "distributed",
        }
    }
}

/// How a coordinator plans tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSettings {
    /// Which knowledge of profiles tasks are planned on.
    pub mode: Mode,
    /// Planning options, used where a request does not set them.
    pub planning: v1::TaskOptions,
    /// Whether plans are booked one-way, used where a request does not say.
    pub one_way: bool,
    /// When RMs send updates. `None`: as each RM is configured.
    pub updates: Option<v1::UpdatePolicy>,
    /// Shortest time between planning and the first segment of the plan; 0 s to [`limits::LATENCY_MAX`].
    pub lead: Span,
}

impl Default for TaskSettings {
    fn default() -> Self {
        Self {
            mode: Mode::Central,
            planning: v1::TaskOptions::default(),
            one_way: false,
            updates: None,
            lead: limits::TASK_LEAD_DEFAULT,
        }
    }
}

impl TaskSettings {
    /// Reads and checks the settings of a configuration file. Without a message, they are the defaults.
    ///
    /// # Errors
    /// [`InvalidField`] for the first wrong field; its path begins with `tasks`.
    pub fn parse(wire: Option<&v1::TaskSettings>) -> Result<Self, InvalidField> {
        let Some(wire) = wire else { return Ok(Self::default()) };
        let unknown = |_| {
            let allowed = "TASK_MODE_CENTRAL or TASK_MODE_DISTRIBUTED";
            InvalidField::new("tasks.mode", wire.mode, allowed)
        };
        let mode = match v1::TaskMode::try_from(wire.mode).map_err(unknown)? {
            v1::TaskMode::Unspecified | v1::TaskMode::Central => Mode::Central,
            v1::TaskMode::Distributed => Mode::Distributed,
        };
        let planning = wire.planning.clone().unwrap_or_default();
        check_task_options(&planning).map_err(|error| InvalidField {
            field: error.field.replacen("options", "tasks.planning", 1),
            ..error
        })?;
        if planning.plans.is_some_and(|plans| plans != 1) {
            let allowed = "1: one plan of a task is tried at a time";
            let plans = planning.plans.unwrap_or_default();
            return Err(InvalidField::new("tasks.planning.plans", plans, allowed));
        }
        if let Some(updates) = &wire.updates {
            update_policy_from_wire("tasks.updates", updates)?;
            if mode == Mode::Central {
                let allowed = "unset, because with TASK_MODE_CENTRAL nobody is watched";
                return Err(InvalidField::new("tasks.updates", "something", allowed));
            }
        }
        let lead = match &wire.lead {
            None => limits::TASK_LEAD_DEFAULT,
            Some(lead) => span_from_wire("tasks.lead", lead)?,
        };
        if !(Span::ZERO..=limits::LATENCY_MAX).contains(&lead) {
            let allowed = format!("0 s to {}", limits::LATENCY_MAX);
            return Err(InvalidField::new("tasks.lead", lead, allowed));
        }
        let one_way = one_way("tasks.reservation", wire.reservation)?.unwrap_or(false);
        Ok(Self { mode, planning, one_way, updates: wire.updates, lead })
    }
}

/// Reads the way of reservation: `Some(true)` is one-way, `Some(false)` is two-phase, and `None` means unspecified.
///
/// # Errors
/// When the number is no value of `TaskReservation`.
pub fn one_way(field: &str, wire: i32) -> Result<Option<bool>, InvalidField> {
    use v1::TaskReservation as Wire;
    let unknown = |_| {
        let allowed = "TASK_RESERVATION_TWO_PHASE or TASK_RESERVATION_ONE_WAY";
        InvalidField::new(field, wire, allowed)
    };
    Ok(match Wire::try_from(wire).map_err(unknown)? {
        Wire::Unspecified => None,
        Wire::TwoPhase => Some(false),
        Wire::OneWay => Some(true),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coalloc_proto::Duration;

    #[test]
    fn unset_is_central_and_two_phase() {
        assert_eq!(TaskSettings::parse(None), Ok(TaskSettings::default()));
        let empty = v1::TaskSettings::default();
        assert_eq!(TaskSettings::parse(Some(&empty)), Ok(TaskSettings::default()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        type Spoil = fn(&mut v1::TaskSettings);
        let cases: [(&str, Spoil); 8] = [
            ("tasks.mode", |s| s.mode = 9),
            ("tasks.reservation", |s| s.reservation = 9),
            ("tasks.lead", |s| s.lead = Some(Duration { seconds: 11, nanos: 0 })),
            ("tasks.lead", |s| s.lead = Some(Duration { seconds: -1, nanos: 0 })),
            ("tasks.planning.planner", |s| {
                s.planning =
                    Some(v1::TaskOptions { planner: Some("MC-T".into()), ..Default::default() });
            }),
            ("tasks.planning.plans", |s| {
                s.planning = Some(v1::TaskOptions { plans: Some(2), ..Default::default() });
            }),
            ("tasks.updates.period", |s| {
                s.mode = 2;
                s.updates = Some(v1::UpdatePolicy { strategy: 2, ..Default::default() });
            }),
            ("tasks.updates", |s| s.updates = Some(v1::UpdatePolicy::default())),
        ];
        for (field, spoil) in cases {
            let mut wire = v1::TaskSettings::default();
            spoil(&mut wire);
            let error = TaskSettings::parse(Some(&wire)).unwrap_err();
            assert_eq!(error.field, field, "{error}");
        }
    }
}
