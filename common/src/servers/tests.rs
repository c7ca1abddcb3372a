//! The paper's example, and all three indices against plain lists of instants.

use proptest::prelude::*;

use super::*;

/// Instants of the model; windows lie within them.
const INSTANTS: i64 = 60;

const fn at(us: i64) -> Time {
    Time::from_us(us)
}

fn window(start: i64, end: i64) -> Window {
    Window::new(at(start), at(end)).unwrap()
}

fn slots(slot: i64, slots: usize, tails: Tails) -> SlotTreesConfig {
    SlotTreesConfig { origin: at(0), slot: Span::from_us(slot), slots, tails }
}

/// The servers of Fig. 1, counted from 0: X, Y, Z, V. The text gives X = [4, 25); V from 7 to at most 20;
/// Y and Z from after 7 to 29 or later.
const X: ServerIndex = ServerIndex(0);
const Y: ServerIndex = ServerIndex(1);
const Z: ServerIndex = ServerIndex(2);
const V: ServerIndex = ServerIndex(3);

fn figure_1(tails: Tails) -> ServerTimetable<SlotTrees> {
    let index = SlotTrees::new(slots(10, 5, tails), 4).unwrap();
    let mut servers = ServerTimetable::new(4, index);
    for (server, from, to) in [
        (X, 0, 4),
        (X, 25, 42),
        (Y, 0, 15),
        (Y, 33, 42),
        (Z, 0, 11),
        (Z, 29, 42),
        (V, 0, 7),
        (V, 20, 42),
    ] {
        servers.take(server, window(from, to)).unwrap();
    }
    servers
}

#[test]
fn figure_2_has_the_medians_7_and_25_and_the_request_finds_y_and_z() {
    for tails in [Tails::Apart, Tails::Printed] {
        let servers = figure_1(tails);
        assert_eq!(servers.index().medians(1), Some((at(7), at(25))));
        let found = servers.find(window(17, 29), 2, Choice::Paper);
        assert_eq!(found, Some(vec![Y, Z]), "four candidates, of which two end late enough");
        assert_eq!(servers.index().candidates(at(17)), 4);
        assert_eq!(servers.find(window(17, 29), 3, Choice::Paper), None);
        let idle = servers.idle(window(17, 29));
        let period = |server, start, end| IdlePeriod { server, start: at(start), end: at(end) };
        assert_eq!(idle, [period(Y, 15, 33), period(Z, 11, 29)]);
    }
}

/// A median that equals the start or the end marks a subtree.
#[test]
fn a_median_equal_to_start_or_end_loses_no_period() {
    let servers = figure_1(Tails::Printed);
    let found = |start, end, count| servers.find(window(start, end), count, Choice::Paper);
    assert_eq!(found(7, 20, 2), Some(vec![V, X]), "by rising end");
    assert_eq!(found(7, 25, 1), Some(vec![X]));
    assert_eq!(found(17, 25, 3), Some(vec![Y, Z, X]));
    assert_eq!(found(4, 25, 1), Some(vec![X]));
}

#[test]
fn a_server_that_is_taken_says_from_when_until_when() {
    let mut servers = figure_1(Tails::Apart);
    let taken = servers.take(V, window(10, 30)).unwrap_err();
    assert_eq!(taken, ServerTaken { server: V, taken: window(20, 42) });
    let text = taken.to_string();
    assert!(text.starts_with("server 3 is taken from 1970-01-01T00:00:00.000020Z to "), "{text}");
    let idle = servers.give(V, window(10, 30)).unwrap_err();
    assert_eq!(idle, NotTaken { server: V, window: window(10, 30), idle_from: at(10) });
    let idle = servers.give(V, window(30, 50)).unwrap_err();
    assert_eq!(idle.idle_from, at(42));
    let stranger = ServerIndex(4);
    assert_eq!(servers.take(stranger, window(1, 2)).unwrap_err().server, stranger);
    assert_eq!(servers.give(stranger, window(1, 2)).unwrap_err().idle_from, at(1));
    assert_eq!(servers.check_invariants(), Ok(()));
}

#[test]
fn several_servers_are_taken_together_or_not_at_all() {
    let mut servers = figure_1(Tails::Apart);
    let before = servers.count().clone();
    assert_eq!(servers.take_all(&[Y, X, Z], window(17, 29)).unwrap_err().server, X);
    assert_eq!(servers.take_all(&[Y, Z, Y], window(17, 29)).unwrap_err().server, Y);
    assert_eq!(servers.count(), &before);
    servers.take_all(&[Y, Z], window(17, 29)).unwrap();
    assert_eq!(servers.idle(window(17, 29)), []);
    assert_eq!(servers.take_all(&[], window(17, 29)), Ok(()));
    assert_eq!(servers.check_invariants(), Ok(()));
}

#[test]
fn slots_that_are_too_many_are_refused_before_anything_is_allocated() {
    let slot = Span::from_us(1);
    let bits = SlotBits::new(at(0), slot, 1 << 30, 8).unwrap_err();
    assert_eq!(
        (bits.field.as_str(), bits.allowed.as_str()),
        ("slots", "1 to 268435456 for 8 servers")
    );
    let trees = SlotTrees::new(slots(1, 1 << 30, Tails::Apart), 8).unwrap_err();
    assert_eq!(trees.field, "slots");
    assert_eq!(SlotBits::new(at(0), Span::ZERO, 8, 8).unwrap_err().field, "slot");
    assert_eq!(SlotBits::new(at(0), slot, 0, 8).unwrap_err().field, "slots");
}

/// For each server, whether it is taken at each instant.
#[derive(Clone)]
struct PlainLists(Vec<[bool; INSTANTS as usize]>);

impl PlainLists {
    fn taken(&self, server: usize, window: Window) -> &[bool] {
        let index = |time: Time| usize::try_from(time.as_us()).unwrap();
        &self.0[server][index(window.start())..index(window.end())]
    }

    fn idle(&self, window: Window) -> Vec<ServerIndex> {
        let idle = (0..self.0.len()).filter(|&server| !self.taken(server, window).contains(&true));
        idle.map(|server| ServerIndex(u32::try_from(server).unwrap())).collect()
    }

    fn change(&mut self, server: usize, window: Window, taken: bool) -> bool {
        let possible = !self.taken(server, window).contains(&taken);
        if possible {
            (window.start().as_us()..window.end().as_us())
                .for_each(|time| self.0[server][usize::try_from(time).unwrap()] = taken);
        }
        possible
    }

    fn first_start(
        &self,
        wanted: usize,
        length: i64,
        within: Window,
        step: i64,
    ) -> Option<(Time, u64)> {
        let starts = (within.start().as_us()..=within.end().as_us() - length)
            .step_by(usize::try_from(step.max(1)).unwrap());
        let mut attempts = 0;
        for start in starts {
            attempts += 1;
            if self.idle(window(start, start + length)).len() >= wanted {
                return Some((at(start), attempts));
            }
        }
        None
    }
}

#[derive(Debug, Clone)]
enum Op {
    Take(usize, Window),
    Give(usize, Window),
    /// Time goes on: slots that have ended are dropped, and all of the past, if so said.
    Advance(i64, bool),
}

fn windows() -> impl Strategy<Value = Window> {
    (0..INSTANTS - 1, 1..20_i64)
        .prop_map(|(start, length)| window(start, (start + length).min(INSTANTS)))
}

fn ops(servers: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        10 => (0..servers, windows()).prop_map(|(server, window)| Op::Take(server, window)),
        8 => (0..servers, windows()).prop_map(|(server, window)| Op::Give(server, window)),
        1 => (1..6_i64, any::<bool>()).prop_map(|(by, forget)| Op::Advance(by, forget)),
    ];
    prop::collection::vec(op, 1..60)
}

/// Applies all to an index and to plain lists, and compares every answer.
fn index_against_lists<I: IdleIndex + Clone>(
    servers: usize,
    index: I,
    ops: &[Op],
    asked: &[(Window, usize)],
) -> Result<Vec<Vec<IdlePeriod>>, TestCaseError> {
    let mut table = ServerTimetable::new(u32::try_from(servers).unwrap(), index);
    let mut lists = PlainLists(vec![[false; INSTANTS as usize]; servers]);
    let (mut now, mut answers) = (0, Vec::new());
    for op in ops {
        if let Op::Advance(by, forget) = op {
            now = (now + by).min(INSTANTS - 2);
            match forget {
                true => table.forget_before(at(now)),
                false => table.advance(at(now)),
            }
        }
        let from_now = |window: &Window| Window::new(window.start().max(at(now)), window.end());
        match op {
            Op::Take(server, window) => {
                let Some(window) = from_now(window) else { continue };
                let index = ServerIndex(u32::try_from(*server).unwrap());
                let answer = table.take(index, window);
                prop_assert_eq!(answer.is_ok(), lists.change(*server, window, true));
                if let Err(ServerTaken { taken, .. }) = answer {
                    prop_assert!(taken.start() >= window.start() && taken.overlaps(window));
                    let end = taken.end().min(at(INSTANTS));
                    let stretch = Window::new(taken.start(), end).unwrap();
                    prop_assert!(!lists.taken(*server, stretch).contains(&false));
                    if let Some(before) = Window::new(window.start(), taken.start()) {
                        prop_assert!(!lists.taken(*server, before).contains(&true));
                    }
                    prop_assert!(table.period_at(index, taken.end()).is_some());
                }
            }
            Op::Give(server, window) => {
                let Some(window) = from_now(window) else { continue };
                let index = ServerIndex(u32::try_from(*server).unwrap());
                let given = table.give(index, window);
                prop_assert_eq!(given.is_ok(), lists.change(*server, window, false));
            }
            Op::Advance(..) => {}
        }
        prop_assert_eq!(table.check_invariants(), Ok(()));
        for (window, wanted) in asked {
            let Some(window) = from_now(window) else { continue };
            compare(&table, &lists, window, *wanted)?;
            answers.push(table.idle(window));
        }
    }
    Ok(answers)
}

/// Compares what is idle through one window, and the first starts from its beginning on.
fn compare<I: IdleIndex>(
    table: &ServerTimetable<I>,
    lists: &PlainLists,
    window: Window,
    wanted: usize,
) -> Result<(), TestCaseError> {
    let idle = table.idle(window);
    let servers: Vec<ServerIndex> = idle.iter().map(|period| period.server).collect();
    prop_assert_eq!(&servers, &lists.idle(window));
    prop_assert!(idle.iter().all(|period| period.contains(window)));
    let chosen = |choice| table.find(window, wanted, choice);
    if idle.len() < wanted {
        prop_assert_eq!(chosen(Choice::Paper), None);
    } else {
        let mut any = chosen(Choice::Paper).unwrap();
        any.sort_unstable();
        any.dedup();
        prop_assert_eq!(any.len(), wanted);
        prop_assert!(any.iter().all(|server| servers.contains(server)));
        prop_assert_eq!(chosen(Choice::First).unwrap(), &servers[..wanted]);
        let best = chosen(Choice::BestFit).unwrap();
        let slack = |server: &ServerIndex| {
            let period = idle.iter().find(|period| period.server == *server).unwrap();
            (period.end, std::cmp::Reverse(period.start))
        };
        let worst_of_best = best.iter().map(slack).max();
        let others = servers.iter().filter(|server| !best.contains(server)).map(slack).min();
        prop_assert!(others.is_none() || worst_of_best <= others);
        let worst = chosen(Choice::WorstFit).unwrap();
        let best_of_worst = worst.iter().map(slack).min();
        let others = servers.iter().filter(|server| !worst.contains(server)).map(slack).max();
        prop_assert!(others.is_none() || best_of_worst.is_none() || best_of_worst >= others);
    }
    let others: BTreeSet<ServerIndex> = servers.iter().copied().step_by(2).collect();
    let beside = servers.iter().copied().filter(|server| !others.contains(server));
    for choice in [Choice::Paper, Choice::First, Choice::BestFit, Choice::WorstFit] {
        let found = table.find_beside(&others, window, wanted, choice);
        prop_assert_eq!(found.is_some(), beside.clone().count() >= wanted);
        let found: BTreeSet<ServerIndex> = found.into_iter().flatten().collect();
        prop_assert!(found.is_empty() || found.len() == wanted);
        prop_assert!(found.iter().all(|one| servers.contains(one) && !others.contains(one)));
    }
    let length = window.length().as_us();
    let together = [ServerIndex(0), ServerIndex(1), ServerIndex(4)];
    let are_idle = |start: &i64| {
        let end = (start + length).min(INSTANTS);
        let idle = lists.idle(super::tests::window(*start, end));
        together.iter().all(|server| idle.contains(server))
    };
    // Beyond the model everything is idle.
    let first = (window.start().as_us()..INSTANTS).find(are_idle).unwrap_or(INSTANTS);
    let found = table.first_start_together(&together, Span::from_us(length), window.start());
    prop_assert_eq!(found, Some(at(first)));
    let within = Window::new(window.start(), at(INSTANTS)).unwrap();
    for step in [0, 1, 4] {
        let first = table.first_start(wanted, Span::from_us(length), within, Span::from_us(step));
        let expected = lists.first_start(wanted, length, within, step);
        prop_assert_eq!(first.map(|first| first.start), expected.map(|(start, _)| start));
        if step > 0 {
            let attempts = first.map(|first| first.attempts);
            prop_assert_eq!(attempts, expected.map(|(_, attempts)| attempts));
        }
    }
    Ok(())
}

/// What is taken at once is what is taken one after the other.
fn at_once<I: IdleIndex + Clone>(
    index: &I,
    taken: &[(usize, Window)],
) -> Result<(), TestCaseError> {
    let mut one_by_one = ServerTimetable::new(5, index.clone());
    let (mut all, mut refused) = (Vec::new(), None);
    for &(server, window) in taken {
        let server = ServerIndex(u32::try_from(server).unwrap());
        match one_by_one.take(server, window) {
            Ok(()) => all.push((server, window)),
            Err(taken) => {
                let until_here = [&all[..], &[(server, window)]].concat();
                refused = refused.or(Some((until_here, taken)));
            }
        }
    }
    let whole = ServerTimetable::with_taken(5, &all, index.clone()).unwrap();
    prop_assert_eq!(whole.check_invariants(), Ok(()));
    prop_assert_eq!(&whole.idle, &one_by_one.idle);
    if let Some((until_there, taken)) = refused {
        let refusal = ServerTimetable::with_taken(5, &until_there, index.clone()).err();
        prop_assert_eq!(refusal, Some(taken));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn many_are_taken_at_once_as_one_after_the_other(
        taken in prop::collection::vec((0..5_usize, windows()), 0..30),
    ) {
        at_once(&PeriodTree::new(), &taken)?;
        at_once(&SlotBits::new(at(0), Span::from_us(7), 9, 5).unwrap(), &taken)?;
        for tails in [Tails::Apart, Tails::Printed] {
            at_once(&SlotTrees::new(slots(7, 10, tails), 5).unwrap(), &taken)?;
        }
    }

    #[test]
    fn every_index_says_what_plain_lists_say(
        ops in ops(5),
        asked in prop::collection::vec((windows(), 1..6_usize), 1..4),
    ) {
        let tree = index_against_lists(5, PeriodTree::new(), &ops, &asked)?;
        let bits = SlotBits::new(at(0), Span::from_us(7), 9, 5).unwrap();
        let bits = index_against_lists(5, bits, &ops, &asked)?;
        prop_assert_eq!(&tree, &bits);
        for (tails, slot) in [(Tails::Apart, 7), (Tails::Printed, 7), (Tails::Printed, 1)] {
            let trees = SlotTrees::new(slots(slot, 70 / usize::try_from(slot).unwrap(), tails), 5);
            let trees = index_against_lists(5, trees.unwrap(), &ops, &asked)?;
            prop_assert_eq!(&tree, &trees);
        }
    }
}
