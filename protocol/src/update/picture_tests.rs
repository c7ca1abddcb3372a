//! A picture that is fed from a change log agrees with the timetable, whatever updates are lost, doubled or late.

use coalloc_common::timetable::{Layer, Timetable};
use coalloc_common::{BootTime, UserName};
use proptest::prelude::*;

use super::*;
use crate::update::{ChangeLog, DueUpdate, Strategy as Told, Subscription};

const CAPACITY: Amount = Amount(10);

fn t(us: i64) -> Time {
    Time::from_us(us)
}

fn now(us: i64) -> Now {
    Now { wall: t(us), boot: BootTime::from_us(us) }
}

fn window(start: i64, end: i64) -> Window {
    Window::new(t(start), t(end)).expect("a window")
}

fn rm() -> RmName {
    RmName::composed("nrm-N")
}

fn link() -> ResourceId {
    ResourceId::composed("a-b")
}

fn update(kind: UpdateKind, revision: u64, parts: Vec<(Window, Vec<(i64, u64)>)>) -> Update {
    let part = |(window, steps): (Window, Vec<(i64, u64)>)| Part {
        resource: 0,
        window,
        steps: steps.into_iter().map(|(at, free)| (t(at), Amount(free))).collect(),
    };
    Update { epoch: 7, kind, revision, at: t(0), parts: parts.into_iter().map(part).collect() }
}

fn snapshot(revision: u64, more: bool) -> Update {
    let kind = UpdateKind::Snapshot { resources: vec![link()], more };
    update(kind, revision, vec![(window(0, 1_000), vec![(0, 10)])])
}

fn delta(from: u64, revision: u64, steps: Vec<(i64, u64)>, end: i64) -> Update {
    update(UpdateKind::Delta { from }, revision, vec![(window(steps[0].0, end), steps)])
}

fn picture() -> Picture {
    let mut picture = Picture::default();
    picture.expect(&rm(), [(link(), CAPACITY)]);
    picture
}

fn free(picture: &Picture, start: i64, end: i64) -> u64 {
    picture.profile(&rm(), &link()).expect("known").free_min(window(start, end)).0
}

#[test]
fn a_snapshot_in_pieces_counts_when_the_last_has_come() {
    let mut picture = picture();
    picture.merge(&rm(), &snapshot(5, true), now(1)).expect("a piece");
    assert!(picture.known(&rm()).is_none());
    let kind = UpdateKind::Snapshot { resources: Vec::new(), more: false };
    let last = update(kind, 5, vec![(window(100, 200), vec![(100, 3)])]);
    picture.merge(&rm(), &last, now(2)).expect("the last piece");
    assert_eq!((free(&picture, 0, 100), free(&picture, 50, 150)), (10, 3));
    assert_eq!(picture.cursor(&rm()), Some((7, 5)));
    assert_eq!(picture.merge(&rm(), &last, now(3)), Err(Ignored::Unsound), "a piece of nothing");
    assert_eq!(free(&picture, 50, 150), 3, "what was there stays");
}

#[test]
fn what_does_not_fit_is_ignored_whole_and_counted() {
    let mut picture = picture();
    let early = delta(5, 6, vec![(0, 1)], 10);
    assert_eq!(picture.merge(&rm(), &early, now(1)), Err(Ignored::WrongEpoch));
    let stranger = RmName::composed(UserName::composed("nobody").to_string());
    assert_eq!(picture.merge(&stranger, &snapshot(5, false), now(1)), Err(Ignored::Stranger));
    picture.merge(&rm(), &snapshot(5, false), now(1)).expect("a snapshot");
    let cases = [
        (delta(6, 7, vec![(0, 1)], 10), Ignored::Gap { have: 5, from: 6 }),
        (delta(3, 4, vec![(0, 1)], 10), Ignored::Replay { have: 5 }),
        (delta(4, 5, vec![(0, 1)], 10), Ignored::Replay { have: 5 }),
        (Update { epoch: 8, ..delta(5, 6, vec![(0, 1)], 10) }, Ignored::WrongEpoch),
        (
            delta(5, 6, vec![(0, 1), (4, 11)], 10),
            Ignored::AboveCapacity { resource: link(), free: 11, capacity: 10 },
        ),
        (delta(5, 6, vec![(0, 1), (12, 2)], 10), Ignored::Unsound),
    ];
    for (index, (update, why)) in cases.into_iter().enumerate() {
        assert_eq!(picture.merge(&rm(), &update, now(2)), Err(why));
        assert_eq!(free(&picture, 0, 1_000), 10, "nothing of it counts");
        let (_, _, counts) = picture.members().next().expect("one");
        // The delta before the snapshot counts as one; an update from an unknown RM is not counted.
        assert_eq!(counts.ignored, index as u64 + 2);
    }
    let mut other = delta(5, 6, vec![(0, 1)], 10);
    other.parts[0].resource = 1;
    let why = picture.merge(&rm(), &other, now(2)).expect_err("one resource only");
    assert!(matches!(why, Ignored::UnknownResource(_)) && why.needs_snapshot());
}

#[test]
fn facts_are_not_undone_by_updates_that_are_older() {
    let mut picture = picture();
    picture.merge(&rm(), &snapshot(5, false), now(1)).expect("a snapshot");
    let facts = update(UpdateKind::Facts, 9, vec![(window(20, 40), vec![(20, 0)])]);
    picture.merge(&rm(), &facts, now(2)).expect("facts");
    assert_eq!((free(&picture, 0, 20), free(&picture, 20, 21)), (10, 0));
    assert_eq!(picture.cursor(&rm()), Some((7, 5)), "facts are no update");
    // This delta was made before the facts, and arrives after them: it counts only where the facts say nothing.
    picture.merge(&rm(), &delta(5, 7, vec![(10, 4)], 60), now(3)).expect("an update");
    assert_eq!((free(&picture, 10, 20), free(&picture, 20, 40), free(&picture, 40, 60)), (4, 0, 4));
    // This delta was made after the facts, so it counts as a whole.
    picture.merge(&rm(), &delta(7, 9, vec![(20, 6)], 40), now(4)).expect("an update");
    assert_eq!(free(&picture, 20, 40), 6);
}

#[test]
fn a_snapshot_that_is_older_than_facts_does_not_undo_them() {
    let mut picture = picture();
    picture.merge(&rm(), &snapshot(5, false), now(1)).expect("a snapshot");
    let facts = update(UpdateKind::Facts, 9, vec![(window(20, 40), vec![(20, 0)])]);
    picture.merge(&rm(), &facts, now(2)).expect("facts");
    picture.merge(&rm(), &snapshot(7, false), now(3)).expect("a snapshot");
    assert_eq!(
        (free(&picture, 0, 20), free(&picture, 20, 40), free(&picture, 40, 60)),
        (10, 0, 10)
    );
    picture.merge(&rm(), &snapshot(9, false), now(4)).expect("a snapshot");
    assert_eq!(free(&picture, 20, 40), 10, "one that is as young says it all");
}

/// I18: a node whose clock is ahead harms only itself, and only for a while.
#[test]
fn a_clock_that_was_ahead_loses_no_picture() {
    let mut picture = picture();
    picture.merge(&rm(), &snapshot(5, false), now(1)).expect("a snapshot");
    // The scheduler's clock is ahead: what the resource manager reported last stays.
    picture.forget_before(t(500));
    assert_eq!(free(&picture, 0, 1_000), 10);
    // The resource manager's clock is ahead: what it made then says nothing of the present, so a new
    // snapshot is needed.
    let ahead = Update { at: t(800), ..snapshot(6, false) };
    picture.merge(&rm(), &ahead, now(2)).expect("a snapshot");
    let back = delta(6, 7, vec![(100, 4)], 200);
    let why = picture.merge(&rm(), &back, now(3)).expect_err("of a time that it does not know");
    assert!(why == Ignored::ClockSetBack && why.needs_snapshot());
}

/// What can happen between an RM and a scheduler.
#[derive(Debug, Clone)]
enum Step {
    /// A booking of this start, length and amount.
    Book(i64, i64, u64),
    /// The booking with this index ends.
    Release(usize),
    /// The RM makes the update that is due and sends it.
    Publish,
    /// The oldest update on its way arrives.
    Arrive,
    /// The oldest update on its way is lost.
    Lose,
    /// The oldest update on its way arrives, and stays on its way to arrive once more.
    Double,
    /// The scheduler asks about a window of this start and length, and is answered at once.
    Ask(i64, i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0_i64..90, 1_i64..10, 1_u64..4).prop_map(|(at, l, n)| Step::Book(at, l, n)),
        3 => (0_usize..40).prop_map(Step::Release),
        6 => Just(Step::Publish),
        5 => Just(Step::Arrive),
        1 => Just(Step::Lose),
        1 => Just(Step::Double),
        2 => (0_i64..90, 1_i64..10).prop_map(|(at, l)| Step::Ask(at, l)),
    ];
    prop::collection::vec(step, 1..80)
}

/// One RM with one link, and one scheduler that watches it.
struct Pair {
    timetable: Timetable,
    booked: Vec<(Window, Amount)>,
    log: ChangeLog,
    subscription: Subscription,
    way: Vec<Update>,
    picture: Picture,
}

impl Pair {
    fn new(strategy: Told) -> Self {
        Self {
            timetable: Timetable::new(CAPACITY),
            booked: Vec::new(),
            log: ChangeLog::new(12, u32::MAX),
            subscription: Subscription::new(strategy, None, now(0).boot),
            way: Vec::new(),
            picture: picture(),
        }
    }

    fn part(&self, window: Window) -> Part {
        let free = |step: coalloc_common::timetable::Step| {
            (step.start, CAPACITY.saturating_sub(step.held).saturating_sub(step.booked))
        };
        let steps = self.timetable.profile(window).into_iter().map(free).collect();
        Part { resource: 0, window, steps }
    }

    fn make(&self, kind: UpdateKind, windows: &[Window]) -> Update {
        let parts = windows.iter().map(|window| self.part(*window)).collect();
        Update { epoch: 7, kind, revision: self.log.revision(), at: t(0), parts }
    }

    fn publish(&mut self) {
        let update = match self.subscription.due(&self.log, |_| CAPACITY, now(0)) {
            DueUpdate::Snapshot => {
                let kind = UpdateKind::Snapshot { resources: vec![link()], more: false };
                self.make(kind, &[window(0, 1_000)])
            }
            DueUpdate::Delta { from, touched } => {
                let windows = touched.get(&0).map(|of| of.windows.clone()).unwrap_or_default();
                self.make(UpdateKind::Delta { from }, &windows)
            }
            DueUpdate::At(_) | DueUpdate::Nothing => return,
        };
        self.subscription.told(update.revision, now(0).boot);
        self.way.push(update);
    }

    fn arrive(&mut self, update: &Update) {
        if let Err(why) = self.picture.merge(&rm(), update, now(0))
            && why.needs_snapshot()
        {
            // The scheduler subscribes again; updates that are still on their way belong to the old stream.
            self.way.clear();
            let revision = self.picture.cursor(&rm()).map(|(_, revision)| revision);
            self.subscription = Subscription::new(Told::EveryChange, revision, now(0).boot);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Book(at, length, amount) => {
                let (window, amount) = (window(at, at + length), Amount(amount));
                if self.timetable.add(Layer::Booked, window, amount).is_ok() {
                    self.booked.push((window, amount));
                    self.log.begin();
                    self.log.note(0, window, amount);
                }
            }
            Step::Release(which) if which < self.booked.len() => {
                let (window, amount) = self.booked.swap_remove(which);
                self.timetable.remove(Layer::Booked, window, amount).expect("booked");
                self.log.begin();
                self.log.note(0, window, amount);
            }
            Step::Publish => self.publish(),
            Step::Arrive if !self.way.is_empty() => {
                let update = self.way.remove(0);
                self.arrive(&update);
            }
            Step::Lose if !self.way.is_empty() => drop(self.way.remove(0)),
            Step::Double if !self.way.is_empty() => {
                let update = self.way[0].clone();
                self.arrive(&update);
            }
            Step::Ask(at, length) => {
                let facts = self.make(UpdateKind::Facts, &[window(at, at + length)]);
                if self.picture.merge(&rm(), &facts, now(0)).is_ok() {
                    let (free, said) = (free(&self.picture, at, at + length), &facts.parts[0]);
                    assert_eq!(Some(free), said.steps.iter().map(|(_, free)| free.0).min());
                }
            }
            Step::Release(_) | Step::Arrive | Step::Lose | Step::Double => {}
        }
    }

    /// Lets every update that is due be sent and arrive.
    fn settle(&mut self) {
        for _ in 0..4 {
            self.publish();
            while !self.way.is_empty() {
                self.step(Step::Arrive);
            }
        }
    }
}

proptest! {
    /// I12, I13: whatever happens to updates on their way, once they arrive the picture agrees with the timetable.
    #[test]
    fn once_updates_arrive_the_picture_is_the_timetable(steps in steps()) {
        let mut pair = Pair::new(Told::EveryChange);
        let mut last = 0;
        for step in steps {
            pair.step(step);
            if let Some((_, revision)) = pair.picture.cursor(&rm()) {
                prop_assert!(revision >= last, "I13");
                last = revision;
            }
        }
        // A loss of the last update shows only with the next change. In a daemon it also shows with the next
        // sign of life (an update without parts).
        pair.step(Step::Book(95, 1, 1));
        pair.settle();
        let known = pair.picture.profile(&rm(), &link()).expect("known");
        prop_assert_eq!(known.over(window(0, 1_000)), {
            let mut profile = Profile::constant(t(0), Amount(0));
            profile.replace(window(0, 1_000), &pair.part(window(0, 1_000)).steps);
            profile.over(window(0, 1_000))
        });
    }
}
