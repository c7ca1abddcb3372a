//! Sets of bookings, as a coordinator and an RM compare them; docs/PROTOCOL.md, "Reconciliation".

use std::ops::RangeFrom;

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, TransactionId, limits};
use coalloc_proto::v1;
use coalloc_protocol::digest::{BookingSet, Digest, Listed, Member, Part, Summary};

use super::{time_from_wire, time_to_wire};

/// Bytes of one booking in an answer, without its transaction: its digest, its end, and their tags.
const BOOKING_BYTES: usize = 48;

const fn high(digest: Digest) -> u64 {
    (digest.0 >> 64) as u64
}

const fn low(digest: Digest) -> u64 {
    digest.0 as u64
}

const fn digest(high: u64, low: u64) -> Digest {
    Digest(((high as u128) << 64) | low as u128)
}

fn part(field: &str, era: i64, shard: u32) -> Result<Part, InvalidField> {
    let most = u32::from(limits::RECONCILE_SHARDS) - 1;
    let shard = check_range(&format!("{field}.shard"), shard, 0..=most, "")?;
    Ok(Part { era, shard: u8::try_from(shard).unwrap_or_default() })
}

/// The message by which a coordinator tells an RM what it counts on there.
#[must_use]
pub fn compare_to_wire(
    coordinator: &str,
    rm: &str,
    from: Part,
    ours: &[Summary],
) -> v1::CompareBookingsRequest {
    let part = |summary: &Summary| v1::BookingPart {
        era: summary.part.era,
        shard: summary.part.shard.into(),
        count: summary.count,
        digest_high: high(summary.digest),
        digest_low: low(summary.digest),
    };
    v1::CompareBookingsRequest {
        coordinator: coordinator.to_owned(),
        resource_manager: rm.to_owned(),
        from: Some(v1::BookingPart {
            era: from.era,
            shard: from.shard.into(),
            ..v1::BookingPart::default()
        }),
        parts: ours.iter().map(part).collect(),
    }
}

/// Reads the same message: the first part to compare, and what the coordinator counts on.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong.
pub fn compare_from_wire(
    wire: &v1::CompareBookingsRequest,
) -> Result<(Part, Vec<Summary>), InvalidField> {
    let from = wire.from.unwrap_or_default();
    let from = part("from", from.era, from.shard)?;
    check_range("parts", wire.parts.len(), 0..=limits::RECONCILE_PARTS_MAX, "parts")?;
    let summary = |(index, wire): (usize, &v1::BookingPart)| {
        Ok(Summary {
            part: part(&format!("parts[{index}]"), wire.era, wire.shard)?,
            count: wire.count,
            digest: digest(wire.digest_high, wire.digest_low),
        })
    };
    let parts = wire.parts.iter().enumerate().map(summary).collect::<Result<_, _>>()?;
    Ok((from, parts))
}

/// The answer of an RM that has `ours`: the parts that differ, each with all its bookings, as many parts as
/// fit in one answer.
#[must_use]
pub fn compared_to_wire(
    ledger_id: String,
    ours: &BookingSet,
    theirs: &[Summary],
    parts: RangeFrom<Part>,
) -> v1::CompareBookingsResponse {
    let mut response =
        v1::CompareBookingsResponse { ledger_id, ..v1::CompareBookingsResponse::default() };
    let mut bytes = 0;
    for part in ours.differing(theirs, parts) {
        if bytes >= limits::PAGE_BYTES {
            response.more = true;
            break;
        }
        let Listed { part: Part { era, shard }, members } = ours.listed(part);
        let booking = |(txn, member): (TransactionId, Member)| v1::BookingDigest {
            transaction: txn.to_string(),
            digest_high: high(member.digest),
            digest_low: low(member.digest),
            ends: Some(time_to_wire(member.ends)),
        };
        let bookings: Vec<v1::BookingDigest> = members.into_iter().map(booking).collect();
        let size = |booking: &v1::BookingDigest| booking.transaction.len() + BOOKING_BYTES;
        bytes += BOOKING_BYTES + bookings.iter().map(size).sum::<usize>();
        response.parts.push(v1::DifferingPart { era, shard: shard.into(), bookings });
    }
    response
}

/// Reads the parts of an answer, in the order of the answer.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong.
pub fn compared_from_wire(wire: &v1::CompareBookingsResponse) -> Result<Vec<Listed>, InvalidField> {
    let listed = |(index, wire): (usize, &v1::DifferingPart)| {
        let field = format!("parts[{index}]");
        let member = |(at, wire): (usize, &v1::BookingDigest)| {
            let field = format!("{field}.bookings[{at}]");
            let txn = TransactionId::parse(&format!("{field}.transaction"), &wire.transaction)?;
            let ends = wire.ends.unwrap_or_default();
            let ends = time_from_wire(&format!("{field}.ends"), &ends)?;
            let digest = digest(wire.digest_high, wire.digest_low);
            Ok((txn, Member { digest, ends }))
        };
        let part = part(&field, wire.era, wire.shard)?;
        let members = wire.bookings.iter().enumerate().map(member);
        Ok(Listed { part, members: members.collect::<Result<_, InvalidField>>()? })
    };
    wire.parts.iter().enumerate().map(listed).collect()
}

#[cfg(test)]
mod tests {
    use coalloc_common::{Amount, ResourceId, Segment, Span, Time, Window};

    use super::*;

    fn set(count: u32) -> BookingSet {
        let mut set = BookingSet::default();
        for number in 0..count {
            let start = Time::from_us(i64::from(number) * 86_400_000_000);
            let window = Window::starting(start, Span::from_secs(60)).unwrap();
            let resource = ResourceId::composed("A");
            let segment = Segment { resource, amount: Amount(u64::from(number) + 1), window };
            set.insert(&TransactionId::composed(format!("grc-t-{number}/1")), &[segment]);
        }
        set
    }

    #[test]
    fn what_differs_comes_back_as_it_is_listed() {
        let (ours, theirs) = (set(40), set(60));
        let from = Part { era: 3, shard: 5 };
        let wire = compare_to_wire("grc", "rm", from, &ours.summaries(from..));
        let (read, summaries) = compare_from_wire(&wire).unwrap();
        assert_eq!((read, &summaries), (from, &ours.summaries(from..)));
        let answer = compared_to_wire("id".into(), &theirs, &summaries, read..);
        assert!(!answer.more);
        let listed = compared_from_wire(&answer).unwrap();
        let parts = theirs.differing(&summaries, from..);
        assert!(!parts.is_empty());
        let naive: Vec<Listed> = parts.into_iter().map(|part| theirs.listed(part)).collect();
        assert_eq!(listed, naive);
        let equal = compared_to_wire("id".into(), &ours, &summaries, from..);
        assert_eq!((equal.parts, equal.more), (vec![], false));
    }

    #[test]
    fn a_part_that_there_is_none_of_is_named() {
        let mut wire = compare_to_wire("grc", "rm", Part { era: 0, shard: 0 }, &[]);
        wire.parts.push(v1::BookingPart { shard: 32, ..v1::BookingPart::default() });
        let error = compare_from_wire(&wire).unwrap_err().to_string();
        assert!(error.contains("parts[0].shard") && error.contains("31"), "{error}");
    }
}
