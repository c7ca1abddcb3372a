//! Sentences about a reservation: its last change, and the resource managers that were given up on.

use coalloc_proto::v1;

use crate::kit::text;

/// One sentence about the last change of a reservation.
#[must_use]
pub fn change(change: &v1::Change, definite: bool) -> String {
    use v1::ChangeState as C;
    let id = &change.change_id;
    let attempts = text::count(change.attempts as usize, "attempt");
    let why = change.refusal.as_ref().map(text::refusal).unwrap_or_default();
    match change.state() {
        C::Done => format!("change {id}: done, {attempts}"),
        C::Refused if definite => format!("change {id}: refused, nothing has changed: {why}"),
        C::Refused => format!("change {id}: refused, holds are being dropped: {why}"),
        C::Committing => format!("change {id}: decided, being booked"),
        C::Checking | C::Unspecified => {
            format!("change {id}: being held; nothing changes until it is decided")
        }
    }
}

/// A resource manager that was given up on, as a sentence for people.
#[must_use]
pub fn given_up(one: &v1::GivenUp) -> String {
    let v1::GivenUp { resource_manager: rm, by, why, .. } = one;
    let time = text::instant(one.time.as_ref());
    let begin = format!("{rm} was given up on by {by} ({why}) at {time}");
    match (&one.ended, &one.booked_until) {
        (Some(ended), _) => {
            let ended = text::instant(Some(ended));
            format!("{begin}; it has returned, and has had nothing of it since {ended}")
        }
        (None, Some(until)) => {
            let until = text::instant(Some(until));
            format!(
                "{begin}: it may still have it booked until {until}, and is told to end it when it returns"
            )
        }
        (None, None) => {
            format!("{begin}: it is told to end what it still has of it when it returns")
        }
    }
}
