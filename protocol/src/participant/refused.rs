//! What is kept of a Hold that was refused.
//!
//! A refused Hold is on record so that its repetitions get the same answer (I8), and so that another Hold under its
//! transaction is noticed. Nothing is taken for it, but it may be as long as any other, and whoever is refused may send
//! the next one at once. So only the beginning of a long one is kept, for people, and the digest of all of it.
//!
//! Left out: Holds that were held. They are kept whole, also after their end.

use std::fmt::Write as _;

use coalloc_common::limits;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::message::HoldOrder;

/// The SHA-256 of a Hold's content, as lower-case hexadecimal digits. It is computed over the order's JSON text, as a
/// record has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderDigest(String);

impl OrderDigest {
    /// The digest of an order.
    #[must_use]
    pub fn of(order: &HoldOrder) -> Self {
        // An order has texts and numbers only, and no map with other keys, so it always has a JSON text.
        let text = serde_json::to_vec(order).unwrap_or_default();
        let mut digits = String::new();
        for byte in Sha256::digest(text) {
            // Writing to a String cannot fail.
            let _ = write!(digits, "{byte:02x}");
        }
        Self(digits)
    }
}

/// Is an order so long that only its beginning is kept when it was refused?
pub(crate) fn is_long(order: &HoldOrder) -> bool {
    let picked = order.servers.as_ref().map_or(0, |wish| wish.picked.len());
    order.segments.len().max(picked) > limits::REFUSED_SEGMENTS_KEPT
}

/// Is this the order of which `known` is on record? With `whole`, `known` is only its beginning.
pub(crate) fn is_same(order: &HoldOrder, known: &HoldOrder, whole: Option<&OrderDigest>) -> bool {
    match whole {
        Some(whole) => OrderDigest::of(order) == *whole,
        None => known == order,
    }
}

/// What is kept of a refused order: the order itself, or, if it is long, its first segments and the digest of the whole.
pub(crate) fn kept_of_refused(mut order: HoldOrder) -> (HoldOrder, Option<OrderDigest>) {
    if !is_long(&order) {
        return (order, None);
    }
    let most = limits::REFUSED_SEGMENTS_KEPT;
    let whole = OrderDigest::of(&order);
    order.segments.truncate(most);
    order.segments.shrink_to_fit();
    if let Some(wish) = &mut order.servers {
        wish.picked.truncate(most);
        wish.picked.shrink_to_fit();
    }
    (order, Some(whole))
}

#[cfg(test)]
mod tests {
    use coalloc_common::Amount;

    use super::super::tests::{at, config, hold, order, window};
    use super::super::{Participant, ParticipantInput};
    use super::*;
    use crate::core::Core as _;
    use crate::message::Answer;

    /// More than there is, in so many segments.
    fn long(segments: usize) -> HoldOrder {
        let whole = order("t", 2_000, window(600, 1_200));
        let segments = vec![whole.segments[0].clone(); segments];
        HoldOrder { segments, ..whole }
    }

    #[test]
    fn a_long_refused_hold_leaves_its_beginning_and_answers_as_if_it_were_whole() {
        let started = || {
            let mut p = Participant::new(config(&[("N0-N1", 1_000)]));
            let _ = p.step(ParticipantInput::Start { boot: "first".into() }, at(0));
            p
        };
        let most = limits::REFUSED_SEGMENTS_KEPT;
        for segments in [1, most, most + 1, limits::HOLD_SEGMENTS_MAX] {
            let mut p = started();
            let refused = hold(&mut p, long(segments), at(1));
            assert!(matches!(refused, Answer::Refused(_)), "{refused:?}");
            let entry = &p.entries()[&long(1).txn];
            let kept = entry.order.as_ref().unwrap();
            assert_eq!(kept.segments.len(), segments.min(most));
            assert_eq!(entry.whole.is_some(), segments > most);
            // The same Hold has the same answer; one that differs in its last segment is another one.
            assert_eq!(hold(&mut p, long(segments), at(2)), refused);
            let mut other = long(segments);
            other.segments.last_mut().unwrap().amount = Amount(3_000);
            assert_eq!(hold(&mut p, other, at(3)), Answer::OtherContent);
            if segments > most {
                assert_eq!(
                    hold(&mut p, kept_of_refused(long(segments)).0, at(4)),
                    Answer::OtherContent
                );
            }
        }
    }

    #[test]
    fn a_record_without_a_digest_has_the_whole_hold() {
        let order = serde_json::to_value(long(1)).unwrap();
        let at = serde_json::to_value(at(1)).unwrap();
        let refusal = serde_json::json!({"reason": "aborted", "detail": "x"});
        let old =
            serde_json::json!({"record": "refused", "order": order, "refusal": refusal, "at": at});
        let record: super::super::ParticipantRecord = serde_json::from_value(old).unwrap();
        assert!(!serde_json::to_string(&record).unwrap().contains("whole"));
    }
}
