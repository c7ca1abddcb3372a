//! Updates of profiles and their policies, from and to the wire.
//!
//! Left out: whether an update fits a picture, which only [`coalloc_protocol::update::Picture`] knows. What
//! can be checked of an update alone is checked here.

use coalloc_common::invalid::check_range;
use coalloc_common::profile::FreeStep;
use coalloc_common::{Amount, InvalidField, ResourceId, Span, Time, Window, limits};
use coalloc_proto::{Duration, v1};
use coalloc_protocol::update::{Part, Strategy, Update, UpdateKind, UpdatePolicy};

use super::{span_from_wire, span_to_wire};

/// Reads an update. `field` is its path in the message.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong: an unknown kind, more parts or steps than one update
/// may have, steps outside their window, or a field that is not allowed for this kind.
pub fn update_from_wire(field: &str, wire: &v1::ProfileUpdate) -> Result<Update, InvalidField> {
    let kind = kind_from_wire(field, wire)?;
    let at = time(&format!("{field}.at_us"), wire.at_us)?;
    let most = limits::UPDATE_PARTS_MAX;
    check_range(&format!("{field}.parts"), wire.parts.len(), 0..=most, "parts")?;
    // Checked before anything is built: each part has at least one step, and the sum of this many lengths
    // cannot overflow.
    let steps: usize = wire.parts.iter().map(|part| part.free.len()).sum();
    check_range(&format!("{field}.parts"), steps, 0..=limits::UPDATE_STEPS_MAX, "steps in all")?;
    let part = |(index, part)| part_from_wire(&format!("{field}.parts[{index}]"), part);
    let parts = wire.parts.iter().enumerate().map(part).collect::<Result<_, _>>()?;
    Ok(Update { epoch: wire.epoch, kind, revision: wire.revision, at, parts })
}

/// Reads the kind of an update. Fields that only other kinds have must be unset.
fn kind_from_wire(field: &str, wire: &v1::ProfileUpdate) -> Result<UpdateKind, InvalidField> {
    use v1::ProfileUpdateKind as Wire;
    let kind = Wire::try_from(wire.kind).unwrap_or(Wire::Unspecified);
    if kind == Wire::Unspecified {
        let allowed = "SNAPSHOT, DELTA or FACTS";
        return Err(InvalidField::new(format!("{field}.kind"), wire.kind, allowed));
    }
    if kind != Wire::Snapshot && (wire.more || !wire.resources.is_empty()) {
        let (name, value) = match wire.more {
            true => ("more", "true".to_owned()),
            false => ("resources", format!("{} names", wire.resources.len())),
        };
        return Err(InvalidField::new(
            format!("{field}.{name}"),
            value,
            "unset, except in a SNAPSHOT",
        ));
    }
    if kind != Wire::Delta && wire.from != 0 {
        return Err(InvalidField::new(
            format!("{field}.from"),
            wire.from,
            "unset, except in a DELTA",
        ));
    }
    match kind {
        Wire::Snapshot => {
            let most = limits::RM_RESOURCES_MAX;
            let names = wire.resources.len();
            check_range(&format!("{field}.resources"), names, 0..=most, "resources")?;
            let name = |(index, name): (usize, &String)| {
                ResourceId::parse(&format!("{field}.resources[{index}]"), name)
            };
            let resources =
                wire.resources.iter().enumerate().map(name).collect::<Result<_, _>>()?;
            Ok(UpdateKind::Snapshot { resources, more: wire.more })
        }
        Wire::Delta => {
            if wire.from > wire.revision {
                let allowed = format!("at most the update's revision, {}", wire.revision);
                return Err(InvalidField::new(format!("{field}.from"), wire.from, allowed));
            }
            Ok(UpdateKind::Delta { from: wire.from })
        }
        Wire::Facts | Wire::Unspecified => Ok(UpdateKind::Facts),
    }
}

fn part_from_wire(field: &str, wire: &v1::ProfilePart) -> Result<Part, InvalidField> {
    // A number below the largest possible count. Whether there is such a resource is checked by the picture.
    let most = limits::RM_RESOURCES_MAX as u32 - 1;
    let resource = check_range(&format!("{field}.resource"), wire.resource, 0..=most, "")?;
    let start = time(&format!("{field}.from_us"), wire.from_us)?;
    // Time from the start to the end of the allowed years; below 2^53.
    let left = (limits::TIME_MAX_US - start.as_us()).unsigned_abs();
    let length = check_range(&format!("{field}.length_us"), wire.length_us, 1..=left, "us")?;
    let end = start.saturating_add(Span::from_us(length as i64));
    let outside = || InvalidField::new(format!("{field}.length_us"), length, "at least 1 us");
    let window = Window::new(start, end).ok_or_else(outside)?;
    if wire.free.is_empty() {
        return Err(InvalidField::missing(format!("{field}.free"), "at least one step"));
    }
    if wire.after_us.len() + 1 != wire.free.len() {
        let allowed = format!("{}, one for each step after the first", wire.free.len() - 1);
        return Err(InvalidField::new(format!("{field}.after_us"), wire.after_us.len(), allowed));
    }
    let mut steps: Vec<FreeStep> = Vec::with_capacity(wire.free.len());
    let mut left = length;
    for (index, free) in wire.free.iter().enumerate() {
        let free = check_range(
            &format!("{field}.free[{index}]"),
            *free,
            0..=limits::BANDWIDTH_MAX_BPS,
            "CPUs or bit/s",
        )?;
        if let Some(after) = index.checked_sub(1).map(|before| wire.after_us[before]) {
            if after == 0 || after >= left {
                let field = format!("{field}.after_us[{}]", index - 1);
                let allowed =
                    format!("more than 0, and less than the {left} us left of the window");
                return Err(InvalidField::new(field, after, allowed));
            }
            left -= after;
        }
        steps.push((end.saturating_sub(Span::from_us(left as i64)), Amount(free)));
    }
    Ok(Part { resource, window, steps })
}

fn time(field: &str, us: i64) -> Result<Time, InvalidField> {
    check_range(field, us, 0..=limits::TIME_MAX_US, "us since 1970").map(Time::from_us)
}

/// The wire form of an update.
#[must_use]
pub fn update_to_wire(update: &Update) -> v1::ProfileUpdate {
    use v1::ProfileUpdateKind as Wire;
    let mut wire = v1::ProfileUpdate {
        epoch: update.epoch,
        revision: update.revision,
        at_us: update.at.as_us(),
        parts: update.parts.iter().map(part_to_wire).collect(),
        ..v1::ProfileUpdate::default()
    };
    match &update.kind {
        UpdateKind::Snapshot { resources, more } => {
            wire.set_kind(Wire::Snapshot);
            wire.resources = resources.iter().map(ToString::to_string).collect();
            wire.more = *more;
        }
        UpdateKind::Delta { from } => {
            wire.set_kind(Wire::Delta);
            wire.from = *from;
        }
        UpdateKind::Facts => wire.set_kind(Wire::Facts),
    }
    wire
}

fn part_to_wire(part: &Part) -> v1::ProfilePart {
    // Never negative: steps rise, and a window has a length.
    let length = |span: Span| span.as_us().unsigned_abs();
    let after = |pair: &[FreeStep]| length(pair[1].0.since(pair[0].0));
    v1::ProfilePart {
        resource: part.resource,
        from_us: part.window.start().as_us(),
        length_us: length(part.window.length()),
        free: part.steps.iter().map(|(_, free)| free.0).collect(),
        after_us: part.steps.windows(2).map(after).collect(),
    }
}

/// Reads an update policy.
///
/// # Errors
/// [`InvalidField`] for a period, a threshold or a delay that is missing, out of its range, or not allowed
/// with this strategy.
pub fn update_policy_from_wire(
    field: &str,
    wire: &v1::UpdatePolicy,
) -> Result<UpdatePolicy, InvalidField> {
    use v1::UpdateStrategy as Wire;
    let percent_field = format!("{field}.threshold_percent");
    let period = wire.period.as_ref();
    let unknown = |_| {
        let allowed =
            "UPDATE_STRATEGY_EVERY_CHANGE, UPDATE_STRATEGY_PERIODIC or UPDATE_STRATEGY_THRESHOLD";
        InvalidField::new(format!("{field}.strategy"), wire.strategy, allowed)
    };
    let strategy = match Wire::try_from(wire.strategy).map_err(unknown)? {
        Wire::Unspecified | Wire::EveryChange => {
            if let Some(period) = period {
                let (field, allowed) = (format!("{field}.period"), "unset with every change");
                return Err(InvalidField::new(field, shown(period), allowed));
            }
            Strategy::EveryChange
        }
        Wire::Periodic => Strategy::Periodic(update_period(field, period)?),
        Wire::Threshold => Strategy::Threshold {
            percent: check_range(&percent_field, wire.threshold_percent, 1..=100, "percent")?,
            period: update_period(field, period)?,
        },
    };
    if !matches!(strategy, Strategy::Threshold { .. }) && wire.threshold_percent != 0 {
        let allowed = "unset without UPDATE_STRATEGY_THRESHOLD";
        return Err(InvalidField::new(percent_field, wire.threshold_percent, allowed));
    }
    let delay = match &wire.delay {
        None => Span::ZERO,
        Some(delay) => {
            span(&format!("{field}.delay"), delay, Span::ZERO, limits::UPDATE_DELAY_MAX)?
        }
    };
    Ok(UpdatePolicy { strategy, delay })
}

fn update_period(field: &str, wire: Option<&Duration>) -> Result<Span, InvalidField> {
    let field = format!("{field}.period");
    let (low, high) = (limits::UPDATE_PERIOD_MIN, limits::UPDATE_PERIOD_MAX);
    let missing = || InvalidField::missing(&field, format!("{low} to {high}"));
    span(&field, wire.ok_or_else(missing)?, low, high)
}

fn span(field: &str, wire: &Duration, low: Span, high: Span) -> Result<Span, InvalidField> {
    let bad = || InvalidField::new(field, shown(wire), format!("{low} to {high}"));
    let span = span_from_wire(field, wire).map_err(|_| bad())?;
    if (low..=high).contains(&span) { Ok(span) } else { Err(bad()) }
}

fn shown(wire: &Duration) -> String {
    format!("{} s and {} ns", wire.seconds, wire.nanos)
}

/// The wire form of an update policy.
#[must_use]
pub fn update_policy_to_wire(policy: UpdatePolicy) -> v1::UpdatePolicy {
    use v1::UpdateStrategy as Wire;
    let (strategy, period, threshold_percent) = match policy.strategy {
        Strategy::EveryChange => (Wire::EveryChange, None, 0),
        Strategy::Periodic(period) => (Wire::Periodic, Some(period), 0),
        Strategy::Threshold { percent, period } => (Wire::Threshold, Some(period), percent),
    };
    v1::UpdatePolicy {
        strategy: strategy.into(),
        period: period.map(span_to_wire),
        threshold_percent,
        delay: (policy.delay > Span::ZERO).then(|| span_to_wire(policy.delay)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(kind: UpdateKind) -> Update {
        let start = Time::from_us(1_795_219_200_000_000);
        let window = Window::starting(start, Span::from_secs(100)).expect("a window");
        let later = start.saturating_add(Span::from_us(1));
        let last = window.end().saturating_sub(Span::from_us(1));
        let steps = vec![(start, Amount(7)), (later, Amount(0)), (last, Amount(1_000))];
        let parts = vec![Part { resource: 3, window, steps }];
        Update { epoch: u64::MAX, kind, revision: 9, at: start, parts }
    }

    fn snapshot() -> Update {
        let resources = ["N0-N1:ab", "N0-N1:ba"].map(ResourceId::composed).to_vec();
        update(UpdateKind::Snapshot { resources, more: true })
    }

    fn delta() -> v1::ProfileUpdate {
        update_to_wire(&update(UpdateKind::Delta { from: 8 }))
    }

    #[test]
    fn updates_go_there_and_back() {
        let nothing = Update { parts: Vec::new(), ..update(UpdateKind::Delta { from: 9 }) };
        for update in [snapshot(), update(UpdateKind::Facts), nothing] {
            assert_eq!(update_from_wire("update", &update_to_wire(&update)), Ok(update));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        type Spoil = fn(&mut v1::ProfileUpdate);
        let cases: [(&str, Spoil); 14] = [
            ("update.kind", |u| u.kind = 0),
            ("update.kind", |u| u.kind = 77),
            ("update.more", |u| u.more = true),
            ("update.resources", |u| u.resources = vec!["x".to_owned()]),
            ("update.from", |u| u.from = 10),
            ("update.at_us", |u| u.at_us = -1),
            ("update.parts", |u| u.parts = vec![u.parts[0].clone(); 342]),
            ("update.parts[0].resource", |u| u.parts[0].resource = 10_000),
            ("update.parts[0].from_us", |u| u.parts[0].from_us = i64::MAX),
            ("update.parts[0].length_us", |u| u.parts[0].length_us = 0),
            ("update.parts[0].length_us", |u| u.parts[0].length_us = u64::MAX),
            ("update.parts[0].free", |u| u.parts[0].free.clear()),
            ("update.parts[0].after_us", |u| u.parts[0].after_us.truncate(1)),
            ("update.parts[0].free[1]", |u| u.parts[0].free[1] = u64::MAX),
        ];
        for (field, spoil) in cases {
            let mut wire = delta();
            spoil(&mut wire);
            let error = update_from_wire("update", &wire).expect_err(field);
            assert_eq!(error.field, field, "{error}");
        }
        // Steps that do not rise, or that end after the window.
        for after in [0, 100_000_000, u64::MAX] {
            let mut wire = delta();
            wire.parts[0].after_us[1] = after;
            let error = update_from_wire("update", &wire).expect_err("not a step");
            assert_eq!(error.field, "update.parts[0].after_us[1]", "{error}");
        }
        let mut wire = update_to_wire(&snapshot());
        wire.resources[1] = "no name!".to_owned();
        let error = update_from_wire("update", &wire).expect_err("not a name");
        assert_eq!(error.field, "update.resources[1]");
        wire.resources.clear();
        wire.from = 1;
        assert_eq!(update_from_wire("update", &wire).expect_err("of deltas").field, "update.from");
    }

    #[test]
    fn policies_go_there_and_back_and_bad_ones_are_refused() {
        let period = Span::from_millis(250);
        let delay = Span::from_secs(5);
        let strategies = [
            Strategy::EveryChange,
            Strategy::Periodic(period),
            Strategy::Threshold { percent: 100, period },
        ];
        for strategy in strategies {
            for delay in [Span::ZERO, delay] {
                let policy = UpdatePolicy { strategy, delay };
                let wire = update_policy_to_wire(policy);
                assert_eq!(update_policy_from_wire("updates", &wire), Ok(policy));
            }
        }
        let default = update_policy_from_wire("updates", &v1::UpdatePolicy::default());
        assert_eq!(default, Ok(UpdatePolicy::default()));
        let (every, periodic, threshold) = (1, 2, 3);
        let long = |us| Some(span_to_wire(Span::from_us(us)));
        let of = |strategy, period, threshold_percent, delay| v1::UpdatePolicy {
            strategy,
            period,
            threshold_percent,
            delay,
        };
        let negative = Some(Duration { seconds: -1, nanos: 0 });
        let bad = [
            (of(9, None, 0, None), "updates.strategy"),
            (of(every, long(1_000), 0, None), "updates.period"),
            (of(every, None, 5, None), "updates.threshold_percent"),
            (of(every, None, 0, long(60_000_001)), "updates.delay"),
            (of(every, None, 0, negative), "updates.delay"),
            (of(periodic, None, 0, None), "updates.period"),
            (of(periodic, long(999), 0, None), "updates.period"),
            (of(periodic, negative, 0, None), "updates.period"),
            (of(periodic, long(3_600_000_001), 0, None), "updates.period"),
            (of(periodic, long(1_000), 5, None), "updates.threshold_percent"),
            (of(threshold, long(1_000), 0, None), "updates.threshold_percent"),
            (of(threshold, long(1_000), 101, None), "updates.threshold_percent"),
            (of(threshold, None, 5, None), "updates.period"),
        ];
        for (wire, field) in bad {
            let error = update_policy_from_wire("updates", &wire).expect_err(field);
            assert_eq!(error.field, field, "{error}");
        }
    }
}
