//! Tests of every operation against its definition, bit by bit, and the papers' worked example.

use proptest::prelude::*;

use super::{AvailabilityVector, Slot, SlotGrid, kernel};
use crate::amount::Amount;
use crate::limits;
use crate::time::{Span, Time, Window};
use crate::timetable::{Layer, Timetable};

fn grid(us: i64) -> SlotGrid {
    SlotGrid::new(Span::from_us(us)).unwrap()
}

fn vector(first: i64, bits: &[bool]) -> AvailabilityVector {
    AvailabilityVector::of_bits(grid(1_000), Slot(first), bits.iter().copied()).unwrap()
}

/// Bits as they are written in a test: `1` is free, `0` is not, and blanks only make them easier to
/// read.
fn parse(first: i64, text: &str) -> AvailabilityVector {
    let bits: Vec<bool> = text.chars().filter(|c| *c != ' ').map(|c| c == '1').collect();
    vector(first, &bits)
}

/// Long and short runs, which together fill from a fraction of a word to several words.
fn bits(longest: usize) -> impl Strategy<Value = Vec<bool>> {
    prop::collection::vec((any::<bool>(), 1_usize..100), 1..6).prop_map(move |runs| {
        let runs = runs.into_iter().flat_map(|(bit, length)| std::iter::repeat_n(bit, length));
        runs.take(longest).collect()
    })
}

fn at(bits: &[bool], index: i64) -> bool {
    usize::try_from(index).ok().and_then(|index| bits.get(index)).copied().unwrap_or(false)
}

fn words(bits: &[bool]) -> Vec<u64> {
    let mut words = vec![0; kernel::words_for(bits.len())];
    for (index, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
        words[index / 64] |= 1 << (index % 64);
    }
    words
}

fn unpacked(words: &[u64]) -> Vec<bool> {
    (0..words.len() * 64).map(|index| words[index / 64] >> (index % 64) & 1 == 1).collect()
}

fn naive_run(bits: &[bool], from: usize, length: usize) -> Option<usize> {
    let fits = |start: &usize| (*start..start + length).all(|index| at(bits, index as i64));
    (from..bits.len()).find(fits)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn shifted_and_is_what_eq_1_says(
        a in bits(400), b in bits(400), into_words in 0_usize..8, shift in -300_i64..300,
    ) {
        let mut into = vec![u64::MAX; into_words];
        kernel::and_shifted(&mut into, &words(&a), &words(&b), shift);
        for (k, bit) in (0..).zip(unpacked(&into)) {
            prop_assert_eq!(bit, at(&a, k) && at(&b, k + shift), "position {}", k);
        }
    }

    #[test]
    fn cover_is_component_by_component(a in bits(400), b in bits(400), shift in -300_i64..300) {
        let naive = (0..).zip(&b).position(|(k, bit)| *bit && !at(&a, k + shift));
        prop_assert_eq!(kernel::first_uncovered(&words(&a), &words(&b), shift), naive);
        // Random vectors rarely cover each other, so also check a part of a shifted vector, which the
        // vector covers.
        let mut part = vec![0; words(&b).len()];
        kernel::and_shifted(&mut part, &words(&b), &words(&a), shift);
        prop_assert_eq!(kernel::first_uncovered(&words(&a), &part, shift), None);
    }

    #[test]
    fn runs_weights_and_starts_are_those_of_the_bits(
        bits in bits(400), from in 0_usize..450, length in 0_usize..130,
    ) {
        let packed = words(&bits);
        prop_assert_eq!(kernel::weight(&packed), bits.iter().filter(|bit| **bit).count());
        if length > 0 {
            prop_assert_eq!(kernel::first_run(&packed, from, length), naive_run(&bits, from, length));
        }
        prop_assert_eq!(kernel::first_one(&packed, from), naive_run(&bits, from, 1));
        let zero = (from..).find(|index| index / 64 >= packed.len() || !at(&bits, *index as i64));
        prop_assert_eq!(Some(kernel::first_zero(&packed, from)), zero);
        let mut starts = vec![u64::MAX; packed.len()];
        kernel::starts(&mut starts, &packed, length);
        for (start, bit) in unpacked(&starts).into_iter().enumerate() {
            let runs = naive_run(&bits, start, length.max(1)) == Some(start);
            prop_assert_eq!(bit, runs, "start {}", start);
        }
    }

    #[test]
    fn ranges_are_set_and_cleared(
        bits in bits(400), from in 0_usize..450, to in 0_usize..450, put in any::<bool>(),
    ) {
        let mut packed = words(&bits);
        if put { kernel::set(&mut packed, from, to) } else { kernel::clear(&mut packed, from, to) }
        for (index, bit) in unpacked(&packed).into_iter().enumerate() {
            let inside = (from..to).contains(&index);
            prop_assert_eq!(bit, if inside { put } else { at(&bits, index as i64) });
        }
    }

    #[test]
    fn a_vector_never_leaves_a_bit_beyond_its_length(
        a in bits(300), b in bits(300), ahead in 0_i64..200, by in 0_u64..200,
    ) {
        let (a, b) = (vector(1_000, &a), vector(1_000 + ahead, &b));
        let masked = a.masked_until(Slot(1_000 + ahead));
        for result in [a.along(by, &b).unwrap(), a.shifted_left(by), masked, a.starts(7)] {
            prop_assert_eq!(result.len(), a.len());
            prop_assert_eq!(result.weight(), result.bits().filter(|bit| *bit).count());
        }
        let everything = AvailabilityVector::everything(a.grid(), a.first(), a.len()).unwrap();
        prop_assert_eq!(everything.weight(), a.len());
        prop_assert!(everything.covers(&a) && a.covers(&a.masked_until(Slot(1_100))));
    }

    #[test]
    fn slots_before_and_after_a_vector_are_not_free(
        a in bits(300), b in bits(300), apart in -200_i64..200, travel in 0_u64..100,
    ) {
        let (a, b) = (vector(500, &a), vector(500 + apart, &b));
        let both = a.along(travel, &b).unwrap();
        for k in 200..1_000 {
            let later = Slot(k).plus(travel);
            prop_assert_eq!(both.is_free(Slot(k)), a.is_free(Slot(k)) && b.is_free(later));
        }
        let covers = (200..1_000).all(|k| a.is_free(Slot(k)) || !b.is_free(Slot(k)));
        prop_assert_eq!(a.covers(&b), covers);
    }

    #[test]
    fn paths_are_composed_from_either_end(
        a in bits(200), b in bits(300), c in bits(300), x in 0_u64..50, y in 0_u64..50,
    ) {
        let (a, b, c) = (vector(0, &a), vector(0, &b), vector(0, &c));
        let from_the_start = a.along(x, &b).unwrap().along(x + y, &c).unwrap();
        let from_the_end = a.along(x, &b.along(y, &c).unwrap()).unwrap();
        prop_assert_eq!(from_the_start, from_the_end);
    }

    #[test]
    fn a_slot_is_free_when_enough_is_free_throughout(
        bookings in prop::collection::vec((0_i64..3_000, 1_i64..700, 1_u64..6), 0..12),
        amount in 0_u64..11, slot in 1_i64..90, first in 0_i64..20, slots in 1_usize..130,
    ) {
        let mut timetable = Timetable::new(Amount(10));
        for (index, (start, length, taken)) in bookings.into_iter().enumerate() {
            let window = Window::starting(Time::from_us(start), Span::from_us(length)).unwrap();
            let layer = if index % 2 == 0 { Layer::Held } else { Layer::Booked };
            // A booking that does not fit is left out.
            let _ = timetable.add(layer, window, Amount(taken));
        }
        let (grid, first) = (grid(slot), Slot(first));
        let vector =
            AvailabilityVector::of_timetable(&timetable, Amount(amount), grid, first, slots).unwrap();
        for k in 0..slots as u64 {
            let slot = first.plus(k);
            let window = Window::new(grid.start_of(slot), grid.start_of(slot.plus(1))).unwrap();
            let free = timetable.free_min(window) >= Amount(amount);
            prop_assert_eq!(vector.is_free(slot), free, "slot {}", k);
        }
        for (from, to) in [(0, slots as i64), (3, 9), (5, 5), (-1, 4), (2, slots as i64 + 1)] {
            let (from, to) = (Slot(first.0 + from), Slot(first.0 + to));
            let naive = (from.0..to.0).all(|slot| vector.is_free(Slot(slot)));
            prop_assert_eq!(vector.is_free_over(from, to), naive);
        }
    }

    #[test]
    fn rounding_never_promises_what_is_not_there(us in 1_i64..5_000, at in 0_i64..100_000) {
        let (grid, time) = (grid(us), Time::from_us(at));
        let ready = grid.first_from(time);
        prop_assert!(grid.start_of(ready) >= time && grid.start_of(ready).since(time).as_us() < us);
        let inside = grid.containing(time);
        prop_assert!(grid.start_of(inside) <= time && time < grid.start_of(inside.plus(1)));
        let slots = grid.slots_for(Span::from_us(at));
        prop_assert!(grid.length_of(slots).as_us() >= at && grid.length_of(slots).as_us() - at < us);
    }
}

/// Figs. 7 to 9 of Stevens 2009 (Figs. 2 to 4 of Christodoulopoulos 2008): `d_SB` = 2, `d_SBE` = 6, b =
/// 3, R = 0, EST = 9, and the part of the cluster's vector that remains is `MUV_9`. The papers do not
/// print the bits; the bits here give the numbers that they do print.
#[test]
fn the_papers_example_in_relative_positions() {
    let (d_sb, d_sbe, b) = (2, 6, 3);
    let sb = parse(0, "1111 1100 0111 1100");
    let be = parse(0, "0110 1111 1000 0111");
    let sbe = sb.along(0, &be.shifted_left(2 * d_sb)).unwrap();
    assert_eq!(sbe, parse(0, "1111 1000 0111 0000"));
    let r = sbe.first_run(Slot(0), b).unwrap();
    assert_eq!(r, Slot(0));
    let est = r.plus(b as u64 + d_sbe);
    assert_eq!(est, Slot(9));
    let cluster = parse(0, "1111 1111 0011 1111");
    assert_eq!(cluster.masked_until(est), parse(0, "0000 0000 0011 1111"));
    // Without the travel time of the data, the task would have started in slot 0; with it, it starts in
    // slot 10.
    assert_eq!(cluster.first_run(Slot(0), 4), Some(Slot(0)));
    assert_eq!(cluster.masked_until(est).first_run(Slot(0), 4), Some(Slot(10)));
}

/// The same with absolute slots: the vector that `B` sent `d_SB` ago begins `d_SB` earlier, so only the
/// travel time is left as a shift.
#[test]
fn absolute_slots_make_one_of_the_two_shifts() {
    let (now, d_sb) = (1_000, 2_u64);
    let sb = parse(now, "1111 1100 0111 1100");
    let relative = "0110 1111 1000 0111";
    let be = parse(now - d_sb as i64, relative);
    let sbe = sb.along(d_sb, &be).unwrap();
    let printed = parse(now, "1111 1100 0111 1100")
        .along(0, &parse(now, relative).shifted_left(2 * d_sb))
        .unwrap();
    assert_eq!(sbe, printed);
    assert_eq!(sbe.first_run(Slot(now), 3), Some(Slot(now)));
}

#[test]
fn what_cannot_be_a_vector_is_refused_by_field_value_and_range() {
    let grid = grid(1_000);
    let error = AvailabilityVector::nothing(grid, Slot(0), 0).unwrap_err().to_string();
    assert_eq!(error, "slots: 0 is not allowed; allowed: 1 to 131072 slots");
    let endless = std::iter::repeat(true);
    let error = AvailabilityVector::of_bits(grid, Slot(0), endless).unwrap_err();
    assert_eq!(error.field, "slots");
    let error = AvailabilityVector::nothing(grid, Slot(-1), 10).unwrap_err();
    assert_eq!(error.field, "first");
    let last = grid.last_slot();
    assert!(AvailabilityVector::nothing(grid, last, 1).is_ok());
    assert!(AvailabilityVector::nothing(grid, last, 2).is_err());
    assert!(SlotGrid::new(Span::ZERO).is_err());
    let error = SlotGrid::new(limits::SLOT_MAX.saturating_add(Span::from_us(1))).unwrap_err();
    assert_eq!(error.allowed, "1 us to 1 d");
    let (a, b) =
        (parse(0, "1"), AvailabilityVector::everything(self::grid(7), Slot(0), 1).unwrap());
    assert_eq!(a.along(0, &b).unwrap_err().allowed, "a vector with slots of 1 ms");
}

#[test]
fn a_vector_that_goes_with_the_time_is_the_one_made_anew() {
    let grid = grid(7);
    let at = Time::from_us;
    let mut table = Timetable::new(Amount(10));
    let amount = Amount(4);
    let made = |table: &Timetable, first: i64| {
        AvailabilityVector::of_timetable(table, amount, grid, Slot(first), 150).unwrap()
    };
    let mut vector = made(&table, 3);
    // A simple generator is enough: the numbers only have to differ.
    let mut state = 88_172_645_463_325_252_u64;
    let mut draw = |n: i64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n.unsigned_abs()) as i64
    };
    let mut first = 3;
    for _ in 0..2_000 {
        let begin = first * 7 + draw(1_400) - 200;
        let window = Window::new(at(begin.max(0)), at(begin.max(0) + 1 + draw(90))).unwrap();
        if table.add(Layer::Booked, window, Amount(1 + draw(7).unsigned_abs())).is_ok() {
            let wide = grid.widened(window);
            let steps = table.profile(wide).into_iter();
            let steps = steps.map(|step| (step.start, Amount(10 - step.booked.0)));
            vector.replace(window, steps, amount);
        }
        if draw(3) == 0 {
            let old_end = vector.end();
            let most = if draw(20) == 0 { 400 } else { 9 };
            first += draw(most);
            vector.advance(Slot(first));
            let new = Window::new(grid.start_of(old_end), grid.start_of(vector.end()));
            if let Some(new) = new {
                let steps = table.profile(new).into_iter();
                vector.replace(new, steps.map(|s| (s.start, Amount(10 - s.booked.0))), amount);
            }
        }
        assert_eq!(vector, made(&table, first));
    }
}
