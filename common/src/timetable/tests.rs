//! Tests of the timetable against a model that is too simple to be wrong: the list of everything that
//! was taken.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::breakpoints::{Breakpoints, SeekGoal};
use super::level::{Extremes, Level};
use super::*;

/// Number of instants in the model: small, so that the ends of windows coincide often.
const INSTANTS: i64 = 24;
const CAPACITY: i64 = 10;

fn at(us: i64) -> Time {
    Time::from_us(us)
}

fn window(start: i64, end: i64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

fn step(start: i64, held: u64, booked: u64) -> Step {
    Step { start: at(start), held: Amount(held), booked: Amount(booked) }
}

/// Everything that was ever added or removed. A level is a sum over all entries.
#[derive(Default)]
struct Model {
    entries: Vec<(Layer, Window, i64)>,
}

impl Model {
    fn level(&self, layer: Layer, time: i64) -> i64 {
        let rules = |window: Window| window.start() <= at(time) && at(time) < window.end();
        let entries = self.entries.iter().filter(|(of, window, _)| *of == layer && rules(*window));
        entries.map(|(_, _, amount)| amount).sum()
    }
    fn total(&self, time: i64) -> i64 {
        self.level(Layer::Held, time) + self.level(Layer::Booked, time)
    }
    fn free(&self, time: i64) -> i64 {
        (CAPACITY - self.total(time)).max(0)
    }

    /// The lowest level in a window, and the first instant at which the level is below `wanted`.
    fn lowest(window: Window, wanted: i64, level: impl Fn(i64) -> i64) -> (Amount, Option<Time>) {
        let instants = || window.start().as_us()..window.end().as_us();
        let lowest = instants().map(&level).min().unwrap();
        let short = instants().find(|&time| level(time) < wanted);
        (Amount(u64::try_from(lowest).unwrap()), short.map(at))
    }

    fn add(&mut self, layer: Layer, window: Window, amount: i64) -> Result<(), Shortfall> {
        let (available, short) = Self::lowest(window, amount, |time| self.free(time));
        if let Some(at) = short {
            return Err(Shortfall { available, requested: super::amount(amount), at });
        }
        self.entries.push((layer, window, amount));
        Ok(())
    }
    fn remove(&mut self, layer: Layer, window: Window, amount: i64) -> Result<(), Underflow> {
        let (available, short) = Self::lowest(window, amount, |time| self.level(layer, time));
        if let Some(at) = short {
            return Err(Underflow { layer, available, requested: super::amount(amount), at });
        }
        self.entries.push((layer, window, -amount));
        Ok(())
    }
    fn commit(&mut self, window: Window, amount: i64) -> Result<(), Underflow> {
        self.remove(Layer::Held, window, amount)?;
        self.entries.push((Layer::Booked, window, amount));
        Ok(())
    }

    fn profile(&self, window: Window) -> Vec<Step> {
        let instants = window.start().as_us()..window.end().as_us();
        let levels = |time| (self.level(Layer::Held, time), self.level(Layer::Booked, time));
        let mut steps = instants
            .map(|time| Step {
                start: at(time),
                held: super::amount(levels(time).0),
                booked: super::amount(levels(time).1),
            })
            .collect::<Vec<_>>();
        steps.dedup_by_key(|step| (step.held, step.booked));
        steps
    }

    fn overcommitted(&self, from: i64) -> Option<Overcommitment> {
        let excess = |time| self.total(time) - CAPACITY;
        let first = (from..=INSTANTS).find(|&time| excess(time) > 0)?;
        let most = (from..=INSTANTS).map(excess).max().unwrap();
        Some(Overcommitment { first: at(first), excess: super::amount(most) })
    }

    fn earliest_fit(&self, amount: i64, length: i64, within: Window) -> Option<Window> {
        let starts = within.start().as_us()..=within.end().as_us() - length;
        let fits = |start: i64| (start..start + length).all(|time| self.free(time) >= amount);
        starts.into_iter().find(|&start| fits(start)).map(|start| window(start, start + length))
    }
}

#[derive(Debug, Clone)]
enum Op {
    Add(Layer, Window, i64),
    Restore(Layer, Window, i64),
    Commit(Window, i64),
    Remove(Layer, Window, i64),
    /// Removes what an earlier add took, chosen by its index, so that tables are emptied as well as
    /// filled.
    RemoveAdded(prop::sample::Index),
    FreeMin(Window),
    Profile(Window),
    EarliestFit(i64, i64, Window),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let layers = || prop_oneof![Just(Layer::Held), Just(Layer::Booked)];
    let windows = || {
        (0..INSTANTS, 0..INSTANTS)
            .prop_map(|(a, b)| if a <= b { window(a, b + 1) } else { window(b, a) })
    };
    let amounts = || 0..CAPACITY / 2;
    let op = prop_oneof![
        4 => (layers(), windows(), amounts()).prop_map(|(l, w, a)| Op::Add(l, w, a)),
        1 => (layers(), windows(), amounts()).prop_map(|(l, w, a)| Op::Restore(l, w, a)),
        2 => (windows(), amounts()).prop_map(|(w, a)| Op::Commit(w, a)),
        2 => (layers(), windows(), amounts()).prop_map(|(l, w, a)| Op::Remove(l, w, a)),
        2 => any::<prop::sample::Index>().prop_map(Op::RemoveAdded),
        1 => windows().prop_map(Op::FreeMin),
        1 => windows().prop_map(Op::Profile),
        2 => (0..=CAPACITY + 1, 1..INSTANTS, windows())
            .prop_map(|(a, l, w)| Op::EarliestFit(a, l, w)),
    ];
    prop::collection::vec(op, 1..60)
}

fn apply(table: &mut Timetable, model: &mut Model, op: &Op) -> Result<(), TestCaseError> {
    let amount = super::amount;
    match *op {
        Op::Add(layer, window, n) => {
            prop_assert_eq!(table.add(layer, window, amount(n)), model.add(layer, window, n));
        }
        Op::Restore(layer, window, n) => {
            prop_assert_eq!(table.restore(layer, window, amount(n)), Ok(()));
            model.entries.push((layer, window, n));
        }
        Op::Commit(window, n) => {
            prop_assert_eq!(table.commit(window, amount(n)), model.commit(window, n));
        }
        Op::Remove(layer, window, n) => {
            prop_assert_eq!(table.remove(layer, window, amount(n)), model.remove(layer, window, n));
        }
        Op::RemoveAdded(index) if !model.entries.is_empty() => {
            let (layer, window, n) = *index.get(&model.entries);
            let n = n.abs();
            prop_assert_eq!(table.remove(layer, window, amount(n)), model.remove(layer, window, n));
        }
        Op::RemoveAdded(_) => {}
        Op::FreeMin(window) => {
            let (free, _) = Model::lowest(window, 0, |time| model.free(time));
            prop_assert_eq!(table.free_min(window), free);
        }
        Op::Profile(window) => {
            prop_assert_eq!(table.profile(window), model.profile(window));
        }
        Op::EarliestFit(n, length, within) => {
            let fit = table.earliest_fit(amount(n), Span::from_us(length), within);
            prop_assert_eq!(fit, model.earliest_fit(n, length, within));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_timetable_does_what_the_model_does(ops in ops()) {
        let (mut table, mut model) = (Timetable::new(super::amount(CAPACITY)), Model::default());
        for op in &ops {
            let before = table.clone();
            apply(&mut table, &mut model, op)?;
            prop_assert_eq!(table.check_invariants(), Ok(()));
            let all = window(0, INSTANTS + 1);
            prop_assert_eq!(table.profile(all), model.profile(all));
            for from in 0..=INSTANTS {
                prop_assert_eq!(table.overcommitted(at(from)), model.overcommitted(from));
                let falls = |time: &i64| model.total(*time) < model.total(time - 1);
                let relief = (from + 1..=INSTANTS + 1).find(falls).map(at);
                prop_assert_eq!(table.next_relief(at(from)), relief);
            }
            let same = before.profile(all) == table.profile(all);
            prop_assert_eq!(before == table, same, "equal by content, and only then");
        }
    }
}

proptest! {
    // The list is slow, and one case has hundreds of changes.
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// With four changes per leaf and four branches per node, a few dozen instants make a tall tree.
    #[test]
    fn a_tall_tree_does_what_a_sorted_list_does(
        changes in prop::collection::vec((0..90_i64, -1..3_i64, -2..2_i64), 1..400),
    ) {
        tree_against_list::<4, 4>(&changes)?;
        tree_against_list::<8, 6>(&changes)?;
    }
}

fn tree_against_list<const L: usize, const N: usize>(
    changes: &[(i64, i64, i64)],
) -> Result<(), TestCaseError> {
    let (mut tree, mut list) = (Breakpoints::<L, N>::new(), BTreeMap::<i64, Level>::new());
    for &(time, held, booked) in changes {
        tree.change(at(time), Level { held, booked });
        *list.entry(time).or_default() += Level { held, booked };
        list.retain(|_, delta| *delta != Level::ZERO);
        prop_assert_eq!(tree.check(), Ok(()));
        prop_assert_eq!(tree.tree.count(), list.len());
        let (from, to) = (time.min(60 - held), time.max(60 - held) + 1);
        prop_assert_eq!(tree.extremes(at(from), at(to)), extremes_of(&list, from, to));
        for goal in [
            SeekGoal::TotalAbove(held),
            SeekGoal::TotalAtMost(booked),
            SeekGoal::HeldBelow(held),
            SeekGoal::BookedBelow(booked),
        ] {
            prop_assert_eq!(tree.seek(at(from), goal), seek_in(&list, from, goal), "{:?}", goal);
        }
        let mut walk = tree.walk_after(at(from));
        prop_assert_eq!(walk.level(), level_at(&list, from));
        let after = list.range(from + 1..).map(|(&time, _)| (at(time), level_at(&list, time)));
        prop_assert!(walk.by_ref().eq(after));
    }
    for now in [-1, 0, 20, 45, 90] {
        let mut left = tree.clone();
        left.forget_before(at(now));
        prop_assert_eq!(left.check(), Ok(()));
        let mut walk = left.walk_after(at(now));
        prop_assert_eq!(walk.level(), level_at(&list, now));
        let after = list.range(now + 1..).map(|(&time, _)| (at(time), level_at(&list, time)));
        prop_assert!(walk.by_ref().eq(after));
        prop_assert!(left.tree.count() <= list.range(now..).count() + 1, "the past is forgotten");
    }
    for (&time, delta) in &list {
        tree.change(at(time), Level { held: -delta.held, booked: -delta.booked });
        prop_assert_eq!(tree.check(), Ok(()));
    }
    prop_assert_eq!((tree.tree.count(), tree.walk().count()), (0, 0));
    Ok(())
}

fn level_at(list: &BTreeMap<i64, Level>, time: i64) -> Level {
    let mut level = Level::ZERO;
    list.range(..=time).for_each(|(_, &delta)| level += delta);
    level
}

fn extremes_of(list: &BTreeMap<i64, Level>, from: i64, to: i64) -> Extremes {
    let levels = || (from..to).map(|time| level_at(list, time));
    Extremes {
        max_total: levels().map(Level::total).max().unwrap(),
        min_total: levels().map(Level::total).min().unwrap(),
        min_held: levels().map(|level| level.held).min().unwrap(),
        min_booked: levels().map(|level| level.booked).min().unwrap(),
    }
}

fn seek_in(list: &BTreeMap<i64, Level>, from: i64, goal: SeekGoal) -> Option<Time> {
    let met = |level: Level| match goal {
        SeekGoal::TotalAbove(bound) => level.held + level.booked > bound,
        SeekGoal::TotalAtMost(bound) => level.held + level.booked <= bound,
        SeekGoal::HeldBelow(bound) => level.held < bound,
        SeekGoal::BookedBelow(bound) => level.booked < bound,
    };
    (from..200).find(|&time| met(level_at(list, time))).map(at)
}

/// Checks the table against a sorted list of levels, over all of time.
fn assert_is(table: &Timetable, live: &[(Layer, Window, i64)]) {
    let mut list = BTreeMap::<i64, Level>::new();
    for &(layer, window, amount) in live {
        *list.entry(window.start().as_us()).or_default() += layer.level(amount);
        *list.entry(window.end().as_us()).or_default() += layer.level(-amount);
    }
    list.retain(|_, delta| *delta != Level::ZERO);
    assert_eq!(table.check_invariants(), Ok(()));
    assert_eq!(table.breakpoints(), list.len());
    let mut level = Level::ZERO;
    let mut steps = vec![Step::new(Time::MIN, level)];
    for (time, delta) in list {
        level += delta;
        steps.push(Step::new(at(time), level));
    }
    let all = Window::new(Time::MIN, Time::MAX).unwrap();
    assert!(table.profile(all) == steps, "the profile differs from the list");
    let peak = steps.iter().map(|step| step.held.0 + step.booked.0).max().unwrap();
    assert_eq!(table.free_min(all).0, table.capacity().0 - peak);
}

#[test]
fn a_long_run_of_splits_and_merges_ends_with_nothing() {
    let mut random = ChaCha8Rng::seed_from_u64(20_261_121);
    let mut table = Timetable::new(Amount(600));
    let (mut live, mut refused) = (Vec::<(Layer, Window, i64)>::new(), 0);
    // The table fills, is half emptied, fills again and is emptied: leaves and inner nodes split and
    // merge.
    for (rounds, adds) in [(30_000, 90), (30_000, 25), (20_000, 90), (usize::MAX, 0)] {
        for round in 0..rounds {
            if random.random_range(0..100) < adds {
                let start = random.random_range(0..10_000_000);
                let window = window(start, start + random.random_range(1..400_000));
                let amount = random.random_range(1..3);
                match table.add(Layer::Held, window, super::amount(amount)) {
                    Ok(()) => live.push((Layer::Held, window, amount)),
                    Err(_) => refused += 1,
                }
            } else if live.is_empty() {
                break;
            } else {
                let index = random.random_range(0..live.len());
                let (layer, window, amount) = live[index];
                if layer == Layer::Held && random.random_bool(0.5) {
                    table.commit(window, super::amount(amount)).unwrap();
                    live[index].0 = Layer::Booked;
                } else {
                    table.remove(layer, window, super::amount(amount)).unwrap();
                    live.swap_remove(index);
                }
            }
            if round % 5_000 == 0 {
                assert_is(&table, &live);
            }
        }
        assert_is(&table, &live);
    }
    assert!(refused > 100, "the run never met its capacity: {refused} refused");
    assert_eq!((live.len(), table.breakpoints()), (0, 0));
    assert_eq!(table, Timetable::new(Amount(600)));
    assert_eq!(table.heap_bytes(), Timetable::new(Amount(600)).heap_bytes());
}

#[test]
fn instants_in_order_and_in_reverse_keep_the_tree_whole() {
    for reverse in [false, true] {
        let mut table = Timetable::new(Amount(3));
        let place = |n: i64| if reverse { 10_000 - n } else { n } * 10;
        for n in 0..5_000 {
            let window = window(place(n), place(n) + 7);
            table.add(Layer::Booked, window, Amount(1)).unwrap();
        }
        assert_eq!((table.check_invariants(), table.breakpoints()), (Ok(()), 10_000));
        for n in 0..5_000 {
            let window = window(place(n), place(n) + 7);
            table.remove(Layer::Booked, window, Amount(1)).unwrap();
        }
        assert_eq!((table.check_invariants(), table.breakpoints()), (Ok(()), 0));
    }
}

#[test]
fn bookings_disjoint_in_time_never_add_up_against_a_third_that_spans_both() {
    let mut table = Timetable::new(Amount(10));
    table.add(Layer::Booked, window(0, 10), Amount(6)).unwrap();
    table.add(Layer::Booked, window(20, 30), Amount(6)).unwrap();
    // The sum of all that overlaps the window would leave nothing.
    assert_eq!(table.free_min(window(0, 30)), Amount(4));
    table.add(Layer::Held, window(0, 30), Amount(4)).unwrap();
    assert_eq!(table.free_min(window(0, 30)), Amount(0));
}

#[test]
fn windows_are_half_open() {
    let mut table = Timetable::new(Amount(5));
    table.add(Layer::Held, window(0, 10), Amount(5)).unwrap();
    table.add(Layer::Held, window(10, 20), Amount(5)).unwrap();
    assert_eq!(table.breakpoints(), 2, "nothing changes at 10");
    assert_eq!(table.free_min(window(20, 21)), Amount(5));
    assert_eq!(table.free_min(window(-1, 0)), Amount(5));
    assert_eq!(table.free_min(window(19, 21)), Amount(0));
}

#[test]
fn a_shortfall_tells_what_is_free_and_where_it_is_short_first() {
    let mut table = Timetable::new(Amount(10));
    table.add(Layer::Booked, window(10, 20), Amount(4)).unwrap();
    table.add(Layer::Held, window(30, 40), Amount(9)).unwrap();
    let before = table.clone();
    let error = table.add(Layer::Held, window(0, 50), Amount(7)).unwrap_err();
    // The window is short at 10 already, where 6 are free; over the whole window only 1 is free.
    assert_eq!(error, Shortfall { available: Amount(1), requested: Amount(7), at: at(10) });
    let huge = table.add(Layer::Held, window(0, 5), Amount(u64::MAX)).unwrap_err();
    let expected = Shortfall { available: Amount(10), requested: Amount(u64::MAX), at: at(0) };
    assert_eq!(huge, expected);
    assert_eq!(table, before, "refused, and nothing changed");
    assert_eq!(
        error.to_string(),
        "7 requested, 1 free over the whole window, short at 1970-01-01T00:00:00.000010Z"
    );
}

#[test]
fn an_underflow_tells_the_layer_and_where_and_changes_nothing() {
    let mut table = Timetable::new(Amount(10));
    table.add(Layer::Held, window(0, 20), Amount(3)).unwrap();
    table.add(Layer::Booked, window(0, 40), Amount(5)).unwrap();
    let before = table.clone();
    let expected =
        Underflow { layer: Layer::Held, available: Amount(0), requested: Amount(3), at: at(20) };
    // The total would be enough, but the layer has too little.
    assert_eq!(table.remove(Layer::Held, window(10, 30), Amount(3)), Err(expected));
    assert_eq!(table.commit(window(10, 30), Amount(3)), Err(expected));
    let error = table.remove(Layer::Booked, window(0, 41), Amount(u64::MAX)).unwrap_err();
    assert_eq!((error.layer, error.available, error.at), (Layer::Booked, Amount(0), at(0)));
    assert_eq!(table, before);
}

#[test]
fn a_commit_moves_the_amount_even_when_nothing_is_free() {
    let mut table = Timetable::new(Amount(4));
    table.add(Layer::Held, window(0, 10), Amount(4)).unwrap();
    table.commit(window(2, 6), Amount(3)).unwrap();
    let steps = vec![step(-1, 0, 0), step(0, 4, 0), step(2, 1, 3), step(6, 4, 0), step(10, 0, 0)];
    assert_eq!(table.profile(window(-1, 11)), steps);
    assert_eq!(table.profile(window(3, 4)), vec![step(3, 1, 3)]);
    assert_eq!(table.free_min(window(0, 10)), Amount(0));
    assert_eq!(table.check_invariants(), Ok(()));
}

#[test]
fn what_is_restored_beyond_the_capacity_stays_and_admits_nothing_beside_it() {
    let mut table = Timetable::new(Amount(4));
    table.restore(Layer::Booked, window(10, 20), Amount(3)).unwrap();
    table.restore(Layer::Held, window(15, 30), Amount(6)).unwrap();
    assert_eq!(table.check_invariants(), Ok(()));
    assert_eq!(table.free_min(window(10, 15)), Amount(1));
    assert_eq!(table.free_min(window(0, 30)), Amount(0));
    let over = |first, excess| Some(Overcommitment { first: at(first), excess: Amount(excess) });
    assert_eq!(table.overcommitted(Time::MIN), over(15, 5));
    assert_eq!(table.overcommitted(at(20)), over(20, 2), "what is over no longer counts");
    assert_eq!((table.overcommitted(at(30)), table.overcommitted(Time::MAX)), (None, None));
    let short = table.add(Layer::Held, window(0, 40), Amount(1)).unwrap_err();
    assert_eq!((short.available, short.at), (Amount(0), at(15)));
    table.add(Layer::Held, window(10, 15), Amount(1)).unwrap();
    table.add(Layer::Held, window(0, 40), Amount::ZERO).unwrap();
    let fit = |amount| table.earliest_fit(Amount(amount), Span::from_us(5), window(10, 40));
    assert_eq!((fit(1), fit(0)), (Some(window(30, 35)), Some(window(10, 15))));
    table.commit(window(15, 30), Amount(6)).unwrap();
    table.remove(Layer::Booked, window(15, 30), Amount(6)).unwrap();
    assert_eq!(table.overcommitted(Time::MIN), None);
    assert_eq!(table.check_invariants(), Ok(()));
    table.add(Layer::Held, window(15, 30), Amount(1)).unwrap();
}

#[test]
fn what_is_forgotten_is_no_longer_over() {
    let mut table = Timetable::new(Amount(4));
    table.restore(Layer::Booked, window(10, 20), Amount(7)).unwrap();
    table.restore(Layer::Held, window(10, 40), Amount(2)).unwrap();
    table.forget_before(at(25));
    assert_eq!(table.overcommitted(at(25)), None);
    assert_eq!(table.check_invariants(), Ok(()));
    assert_eq!(table.free_min(window(25, 50)), Amount(2));
    table.remove(Layer::Held, window(25, 40), Amount(2)).unwrap();
    assert_eq!(table.free_min(window(25, 50)), Amount(4));
}

#[test]
fn beyond_the_capacity_by_any_other_way_is_a_broken_invariant() {
    let mut table = Timetable::new(Amount(4));
    table.change(window(0, 10), Layer::Held.level(5), Layer::Held.level(-5));
    assert!(table.check_invariants().unwrap_err().starts_with("I1"));
    let mut table = Timetable::new(Amount(4));
    table.restore(Layer::Held, window(0, 10), Amount(6)).unwrap();
    table.change(window(20, 30), Layer::Held.level(7), Layer::Held.level(-7));
    assert!(table.check_invariants().unwrap_err().starts_with("I1"));
}

#[test]
fn no_more_is_restored_than_any_capacity_ever_was() {
    let mut table = Timetable::new(Amount::ZERO);
    let most = Timetable::new(Amount(u64::MAX)).capacity();
    table.restore(Layer::Booked, window(0, 10), most).unwrap();
    for amount in [Amount(1), Amount(u64::MAX)] {
        let short = table.restore(Layer::Held, window(-5, 10), amount).unwrap_err();
        let at = if amount == Amount(1) { at(0) } else { at(-5) };
        assert_eq!((short.available, short.at), (Amount(0), at));
    }
    assert_eq!(table.check_invariants(), Ok(()));
    table.remove(Layer::Booked, window(0, 10), most).unwrap();
    assert_eq!(table, Timetable::new(Amount::ZERO));
}

#[test]
fn equality_is_by_content() {
    let (mut one, mut other) = (Timetable::new(Amount(9)), Timetable::new(Amount(9)));
    one.add(Layer::Held, window(0, 30), Amount(2)).unwrap();
    for part in [window(20, 30), window(0, 10), window(10, 20)] {
        assert_ne!(one, other);
        other.add(Layer::Held, part, Amount(2)).unwrap();
    }
    assert_eq!(one, other);
    other.commit(window(0, 30), Amount(2)).unwrap();
    assert_ne!(one, other, "held and booked are not the same");
    assert_ne!(Timetable::new(Amount(1)), Timetable::new(Amount(2)));
}

#[test]
fn the_earliest_fit_skips_what_is_too_full_or_too_short() {
    let mut table = Timetable::new(Amount(10));
    for (start, end) in [(0, 10), (14, 20), (29, 40)] {
        table.add(Layer::Booked, window(start, end), Amount(8)).unwrap();
    }
    let fit = |amount, length, start, end| {
        table.earliest_fit(Amount(amount), Span::from_us(length), window(start, end))
    };
    assert_eq!(fit(3, 4, 0, 100), Some(window(10, 14)));
    assert_eq!(fit(3, 5, 0, 100), Some(window(20, 25)));
    assert_eq!(fit(3, 10, 0, 100), Some(window(40, 50)));
    assert_eq!(fit(3, 10, 0, 50), Some(window(40, 50)), "the end is not inside");
    assert_eq!(fit(3, 10, 0, 49), None);
    assert_eq!(fit(2, 30, 5, 35), Some(window(5, 35)), "2 are free all along");
    assert_eq!(fit(11, 1, 0, 100), None);
    assert_eq!(fit(3, 0, 0, 100), None);
    assert_eq!(fit(3, 101, 0, 100), None);
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut table = Timetable::new(Amount(u64::MAX));
    let capacity = table.capacity();
    assert_eq!(capacity, Amount((1 << 62) - 1));
    let (early, late) = (
        Window::new(Time::MIN, Time::from_us(0)).unwrap(),
        Window::new(Time::from_us(0), Time::MAX).unwrap(),
    );
    let all = Window::new(Time::MIN, Time::MAX).unwrap();
    table.add(Layer::Held, late, capacity).unwrap();
    table.add(Layer::Booked, early, capacity).unwrap();
    table.commit(late, capacity).unwrap();
    assert_eq!((table.check_invariants(), table.breakpoints()), (Ok(()), 2));
    assert_eq!(table.free_min(all), Amount(0));
    assert_eq!(table.earliest_fit(capacity, Span::from_us(i64::MAX), all), None);
    table.remove(Layer::Booked, all, capacity).unwrap();
    let half = Window::new(Time::MIN, Time::from_us(-1)).unwrap();
    assert_eq!(table.earliest_fit(capacity, half.length(), all), Some(half));
    table.add(Layer::Held, all, Amount::ZERO).unwrap();
    assert_eq!(table.breakpoints(), 0);
}
