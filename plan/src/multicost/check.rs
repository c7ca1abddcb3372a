//! Verifies, slot by slot, that a plan does what the task requests on this picture. Uses only the
//! vectors and the task, and shares nothing with the planners except types.

use coalloc_common::{AvailabilityVector, Span, Time, Window};

use super::{Signalling, TaskInstance, TaskPlan};

/// Verifies a plan of any planner.
///
/// # Errors
/// A text that says what is wrong.
pub fn check(instance: &TaskInstance<'_>, plan: &TaskPlan) -> Result<(), String> {
    let (task, picture) = (instance.task(), instance.picture());
    let cluster = picture.clusters().get(plan.cluster).ok_or("there is no such cluster")?;
    let delay = path(instance, plan)?;
    if delay != plan.delay {
        return Err(format!("the path's delay is {delay}, not {}", plan.delay));
    }
    data(instance, plan)?;
    // The run.
    if cluster.capacity < task.cpus {
        return Err(format!("{} has only {}", cluster.name, cluster.capacity));
    }
    if plan.run.start() < plan.arrival {
        return Err(format!("runs at {} before data arrive at {}", plan.run.start(), plan.arrival));
    }
    let needed = u128::from(task.work_mi) * 1_000_000;
    let done = u128::from(plan.run.length().as_us().unsigned_abs()) * u128::from(cluster.mips);
    if done < needed {
        return Err(format!("{} is too short for {} MI", plan.run, task.work_mi));
    }
    if !is_free(&cluster.free, plan.run) {
        return Err(format!("{} is not free over {}", cluster.name, plan.run));
    }
    match task.deadline {
        Some(deadline) if plan.run.end() > deadline => Err(format!("{} is late", plan.run)),
        _ => Ok(()),
    }
}

/// Whether every slot that a window touches is free.
fn is_free(vector: &AvailabilityVector, window: Window) -> bool {
    let mut slot = vector.grid().containing(window.start());
    while vector.grid().start_of(slot) < window.end() {
        if !vector.is_free(slot) {
            return false;
        }
        slot = slot.plus(1);
    }
    true
}

/// Checks that the path leads from the source to the cluster, passes no vertex twice, and uses
/// links that can carry the rate. Returns its delay, with each link's rounded up to slots.
fn path(instance: &TaskInstance<'_>, plan: &TaskPlan) -> Result<Span, String> {
    let (task, picture) = (instance.task(), instance.picture());
    let slot = picture.link_grid().slot().as_us();
    let (mut at, mut delay, mut seen) = (task.source, 0, vec![task.source]);
    for leg in &plan.legs {
        let link = picture.links().get(leg.link).ok_or("there is no such link")?;
        if link.from != at || seen.contains(&link.to) {
            return Err(format!("{} does not continue the path, or closes a circle", link.name));
        }
        if link.capacity < task.rate {
            return Err(format!("{} can only carry {}", link.name, link.capacity));
        }
        at = link.to;
        seen.push(at);
        delay += (link.delay.as_us() + slot - 1) / slot * slot;
    }
    let end = picture.clusters()[plan.cluster].vertex;
    if at != end {
        return Err(format!("the path ends at vertex {}, but the cluster is at {}", at.0, end.0));
    }
    Ok(Span::from_us(delay))
}

/// Checks that data leave no earlier than they may, that each leg has the window it should have,
/// and that the links are free.
fn data(instance: &TaskInstance<'_>, plan: &TaskPlan) -> Result<(), String> {
    let (task, picture) = (instance.task(), instance.picture());
    let (lead, travels) = match task.signalling {
        Signalling::TellAndGo { lead } => (lead, 0),
        Signalling::TellAndWait { lead } => (lead, 2),
    };
    let ready = task.ready.saturating_add(lead).saturating_add(plan.delay.saturating_mul(travels));
    let Some(last) = plan.legs.last() else {
        let stays = plan.arrival == plan.departure && plan.arrival >= ready;
        return if stays {
            Ok(())
        } else {
            Err("data that stay must arrive when they depart, and not before they are ready".into())
        };
    };
    if plan.departure < ready {
        return Err(format!("data leave at {}, before {ready}", plan.departure));
    }
    let slot = picture.link_grid().slot();
    let guard = slot.saturating_mul(i64::from(picture.guard()));
    let mut head = plan.departure;
    let mut tail = plan.departure;
    for (index, leg) in plan.legs.iter().enumerate() {
        let link = &picture.links()[leg.link];
        tail = leg.window.end();
        let from = Time::from_us(head.as_us() - guard.as_us());
        if leg.window.start() != from {
            return Err(format!("{} is taken from {}, not {from}", link.name, leg.window.start()));
        }
        let carried = u128::from(tail.since(head).as_us().unsigned_abs()) * u128::from(task.rate.0);
        if tail <= head || carried < u128::from(task.data_bytes) * 8_000_000 {
            return Err(format!("{} is too short for the data", leg.window));
        }
        let vector = link.free.get(plan.wavelength).ok_or("there is no such wavelength")?;
        if index < plan.vouched && !is_free(vector, leg.window) {
            return Err(format!("{} is not free over {}", link.name, leg.window));
        }
        let delay = (link.delay.as_us() + slot.as_us() - 1) / slot.as_us() * slot.as_us();
        head = head.saturating_add(Span::from_us(delay));
        tail = tail.saturating_add(Span::from_us(delay));
    }
    if plan.arrival < tail || last.window.end() > plan.arrival {
        return Err(format!("data arrive at {tail}, not {}", plan.arrival));
    }
    Ok(())
}
