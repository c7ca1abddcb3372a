//! Moves reservations off equipment that cannot be used: a node that is down, a link that has failed.
//!
//! Resource managers tell which equipment of a booking cannot be used (`protocol`'s `coordinator::usage`). The move is a
//! change of the reservation that wants what it has ([`GrcService::relocate`]), so the reservation is whole all the time:
//! all of it has moved, or it stays as it is with its trouble told. Whether it is made is the operator's policy
//! ([`RepairPolicy`]): nobody makes it, an operator does (`coalloc repair`), or the coordinator does by itself.
//!
//! By itself it moves a reservation that has begun, or begins within [`limits::RELOCATION_AHEAD`], once the equipment has been
//! unusable for [`limits::RELOCATION_PATIENCE`]. What is refused is tried again after a pause, because something may become
//! free.
//!
//! Left out: what is no co-allocation. Tasks and allocations are not changed, and workflows are revised by reports.

use std::collections::BTreeMap;

use coalloc_common::{
    BootTime, InvalidField, Now, ReservationId, RmName, Span, Time, TransactionId, limits,
};
use coalloc_net::convert::time_to_wire;
use coalloc_net::{status, traces};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{Coordinator, Reservation, UnusableParts};
use tokio::task::JoinSet;
use tonic::Status;

use crate::calls::modify::unchangeable;
use crate::calls::service::GrcService;

/// Who moves reservations off equipment that cannot be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RepairPolicy {
    /// Nobody.
    Never,
    /// An operator who asks for it.
    #[default]
    Offered,
    /// The coordinator.
    Automatic,
}

impl RepairPolicy {
    /// Reads the policy of a configuration file.
    ///
    /// # Errors
    /// [`InvalidField`] for a number that is no policy.
    pub fn parse(wire: i32) -> Result<Self, InvalidField> {
        match v1::RepairPolicy::try_from(wire) {
            Ok(v1::RepairPolicy::Unspecified | v1::RepairPolicy::Offer) => Ok(Self::Offered),
            Ok(v1::RepairPolicy::None) => Ok(Self::Never),
            Ok(v1::RepairPolicy::Automatic) => Ok(Self::Automatic),
            Err(_) => Err(InvalidField::new(
                "repair",
                wire,
                "REPAIR_POLICY_NONE, REPAIR_POLICY_OFFER or REPAIR_POLICY_AUTOMATIC",
            )),
        }
    }
}

/// When a stranded reservation is moved.
#[derive(Debug, Clone, Copy)]
struct RelocationTurn {
    due: BootTime,
    /// The pause after the next refusal.
    pause: Span,
    is_moving: bool,
    /// It was tried to move it, so `due` is the end of a pause.
    was_tried: bool,
}

/// The reservations that wait to be moved.
#[derive(Debug, Default)]
struct RelocationQueue {
    turns: BTreeMap<ReservationId, RelocationTurn>,
}

impl RelocationQueue {
    /// Takes over which reservations are stranded, and returns those to move now, at most so many.
    fn due(
        &mut self,
        stranded: &BTreeMap<ReservationId, Time>,
        most: usize,
        now: Now,
    ) -> Vec<ReservationId> {
        // One that was moved keeps its pause, because equipment may fail again and again.
        self.turns.retain(|id, turn| {
            let is_resting = turn.was_tried && now.boot < turn.due;
            turn.is_moving || is_resting || stranded.contains_key(id)
        });
        let soon = now.wall.saturating_add(limits::RELOCATION_AHEAD);
        let mut due = Vec::new();
        for (id, starts) in stranded {
            let first = now.boot.saturating_add(limits::RELOCATION_PATIENCE);
            let pause = limits::RELOCATION_RETRY;
            let new = RelocationTurn { due: first, pause, is_moving: false, was_tried: false };
            let turn = self.turns.entry(id.clone()).or_insert(new);
            let is_due = !turn.is_moving && turn.due <= now.boot && *starts <= soon;
            if is_due && due.len() < most {
                turn.is_moving = true;
                due.push(id.clone());
            }
        }
        due
    }

    /// A try has ended. If the reservation is stranded after it, it is moved after a pause, which gets longer each time that it
    /// has not moved.
    fn ended(&mut self, id: &ReservationId, has_moved: bool, now: BootTime) {
        if let Some(turn) = self.turns.get_mut(id) {
            (turn.is_moving, turn.was_tried) = (false, true);
            let longer = turn.pause.saturating_mul(2).min(limits::RELOCATION_RETRY_MAX);
            turn.due = now.saturating_add(turn.pause);
            turn.pause = if has_moved { limits::RELOCATION_RETRY } else { longer };
        }
    }
}

/// What of a booked reservation cannot be used at an RM, as a difference for which a repair is offered.
pub(super) fn differences_at(
    core: &Coordinator,
    rm: &RmName,
    policy: RepairPolicy,
) -> Vec<v1::BookingDifference> {
    let here = core.unusable().filter(|(_, parts)| parts.contains_key(rm));
    here.map(|(known, _)| difference(known, rm, policy)).collect()
}

fn difference(known: &Reservation, rm: &RmName, policy: RepairPolicy) -> v1::BookingDifference {
    let trouble = known.usage.trouble.get(rm);
    let trouble = trouble.map_or("some of its equipment cannot be used", String::as_str);
    let (repair, help) = match (unchangeable(&known.notes), policy) {
        (Some((_, text)), _) => (v1::RepairKind::Unspecified, text),
        (None, RepairPolicy::Never) => (
            v1::RepairKind::Unspecified,
            "the coordinator's file says `repair: REPAIR_POLICY_NONE`",
        ),
        (None, RepairPolicy::Offered) => {
            (v1::RepairKind::Relocate, "it is moved onto other equipment if some is free")
        }
        (None, RepairPolicy::Automatic) => {
            (v1::RepairKind::Relocate, "the coordinator moves it by itself as soon as it can")
        }
    };
    v1::BookingDifference {
        transaction: known.transaction.as_ref().map(ToString::to_string).unwrap_or_default(),
        kind: v1::DifferenceKind::Unusable.into(),
        reservation: known.id.to_string(),
        user: known.ticket.user.to_string(),
        ends: windows_of(known).map(|(_, end)| time_to_wire(end)),
        repair: repair.into(),
        why: format!("{trouble}; {help}"),
    }
}

/// The start of the first window of a reservation, and the end of its last one.
fn windows_of(known: &Reservation) -> Option<(Time, Time)> {
    let segments = known.candidate.as_ref()?.segments.values().flatten();
    let windows = segments.map(|segment| (segment.window.start(), segment.window.end()));
    windows.reduce(|(start, end), (other, last)| (start.min(other), end.max(last)))
}

impl GrcService {
    /// Moves stranded reservations for as long as the process serves, if that is the policy.
    pub(crate) async fn keep_relocating(self) {
        if self.repair_policy != RepairPolicy::Automatic {
            return;
        }
        let (mut queue, mut moves) = (RelocationQueue::default(), JoinSet::new());
        while !self.handle.is_stopping() {
            tokio::select! {
                () = tokio::time::sleep(limits::RELOCATION_LOOK.to_std()) => {}
                Some(Ok((id, has_moved))) = moves.join_next() => {
                    queue.ended(&id, has_moved, self.handle.now().boot);
                }
            }
            // The core is too busy: it is asked again.
            let Ok(stranded) = self.handle.read(stranded).await else { continue };
            let most = limits::RELOCATIONS_AT_ONCE.saturating_sub(moves.len());
            for id in queue.due(&stranded, most, self.handle.now()) {
                moves.spawn(self.clone().relocate_stranded(id));
            }
        }
    }

    /// Tries to move a stranded reservation. Returns whether it has moved.
    async fn relocate_stranded(self, id: ReservationId) -> (ReservationId, bool) {
        let _followed = traces::follow_reservation(&id);
        let wanted = id.clone();
        let look = move |core: &Coordinator| {
            let known = core.find(wanted.as_str())?;
            // Users give ids to changes, too.
            let mut changes = (known.changes + 1..).map(|number| format!("repair-{number}"));
            let change = changes.find(|change| core.find_change(&known.id, change).is_none())?;
            Some((change, core.unusable_of(known)))
        };
        let Ok(Some((change, off))) = self.handle.read(look).await else {
            return (id, false);
        };
        match self.relocate(id.as_str(), &change, &off).await {
            Ok(known) => {
                let outcome = known.change.unwrap_or_default();
                let has_moved = outcome.state() == v1::ChangeState::Done;
                let state = outcome.state().as_str_name();
                let why = outcome.refusal.map(|refusal| refusal.detail).unwrap_or_default();
                tracing::info!(reservation = %id, change, state, why, "tried to move it off unusable equipment");
                (id, has_moved)
            }
            Err(status) => {
                let why = status.message();
                tracing::warn!(reservation = %id, change, why, "not moved off unusable equipment");
                (id, false)
            }
        }
    }

    /// What of the reservation with this transaction cannot be used, and whether it may be moved at an operator's wish.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when it may not.
    pub(super) async fn stranded_of(
        &self,
        rm: &RmName,
        txn: &TransactionId,
    ) -> Result<Option<(ReservationId, UnusableParts)>, Status> {
        let (rm, txn, policy) = (rm.clone(), txn.clone(), self.repair_policy);
        let look = move |core: &Coordinator| {
            let is_meant = |known: &Reservation| known.transaction.as_ref() == Some(&txn);
            let mut all = core.unusable();
            let (known, off) = all.find(|(known, off)| is_meant(known) && off.contains_key(&rm))?;
            let offered = difference(known, &rm, policy);
            match offered.repair() {
                v1::RepairKind::Relocate => Some(Ok((known.id.clone(), off))),
                _ => Some(Err(status::not_now("transaction", txn.as_str(), offered.why))),
            }
        };
        self.handle.read(look).await?.transpose()
    }
}

/// The reservations that can be moved and of which something cannot be used, and when their first windows begin.
fn stranded(core: &Coordinator) -> BTreeMap<ReservationId, Time> {
    let movable = core.unusable().filter(|(known, _)| unchangeable(&known.notes).is_none());
    let free = movable.filter(|(known, _)| !known.is_changing());
    let one =
        |(known, _): (&Reservation, UnusableParts)| Some((known.id.clone(), windows_of(known)?.0));
    free.filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Now {
        let wall = Time::from_us((1_000_000 + second) * 1_000_000);
        Now { wall, boot: BootTime::from_us(second * 1_000_000) }
    }

    fn one(name: &str, starts: i64) -> (ReservationId, Time) {
        (ReservationId::composed(name), at(starts).wall)
    }

    fn due(queue: &mut RelocationQueue, all: &[(ReservationId, Time)], second: i64) -> Vec<String> {
        let due = queue.due(&all.iter().cloned().collect(), 2, at(second));
        due.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_back_soon_or_begins_late_is_not_moved() {
        let (patience, ahead) = (10, 3_600);
        assert_eq!(limits::RELOCATION_PATIENCE, Span::from_secs(patience));
        assert_eq!(limits::RELOCATION_AHEAD, Span::from_secs(ahead));
        let mut queue = RelocationQueue::default();
        let all = [one("a", 0), one("late", ahead + 30)];
        assert!(due(&mut queue, &all, 0).is_empty());
        assert!(due(&mut queue, &[], 5).is_empty(), "it is back");
        assert!(due(&mut queue, &all, 6).is_empty());
        assert!(due(&mut queue, &all, 15).is_empty());
        assert_eq!(due(&mut queue, &all, 16), ["a"]);
        assert!(due(&mut queue, &all, 29).is_empty());
        assert_eq!(due(&mut queue, &all, 30), ["late"]);
        assert!(due(&mut queue, &all, 31).is_empty(), "both are being moved");
    }

    #[test]
    fn few_move_at_once_and_what_is_refused_waits_longer_each_time() {
        let mut queue = RelocationQueue::default();
        let all = ["a", "b", "c"].map(|name| one(name, 0));
        assert!(due(&mut queue, &all, 0).is_empty());
        assert_eq!(due(&mut queue, &all, 10), ["a", "b"]);
        queue.ended(&ReservationId::composed("a"), false, at(11).boot);
        assert_eq!(due(&mut queue, &all, 11), ["c"]);
        assert!(due(&mut queue, &all, 40).is_empty());
        assert_eq!(due(&mut queue, &all, 41), ["a"]);
        queue.ended(&ReservationId::composed("a"), false, at(42).boot);
        assert!(due(&mut queue, &[], 60).is_empty(), "it is well for a moment");
        assert!(due(&mut queue, &all, 101).is_empty());
        assert_eq!(due(&mut queue, &all, 102), ["a"]);
        queue.ended(&ReservationId::composed("a"), true, at(103).boot);
        assert!(due(&mut queue, &[], 300).is_empty());
        assert!(due(&mut queue, &all[..1], 301).is_empty(), "its pause is forgotten");
        assert_eq!(due(&mut queue, &all[..1], 311), ["a"]);
        queue.ended(&ReservationId::composed("a"), true, at(312).boot);
        assert!(due(&mut queue, &all[..1], 341).is_empty(), "as long as after the first refusal");
        assert_eq!(due(&mut queue, &all[..1], 342), ["a"]);
    }
}
