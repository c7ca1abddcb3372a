//! The search: all states without a fault, then all states with one fault, and so on.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::checks::{Check, Judge};
use super::federation::{Fault, Federation, State};
use super::scenarios::Scenario;
use super::trace;

/// The bounds of a search.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// The largest number of faults, all kinds together.
    pub faults: u32,
    /// The kinds of faults that may happen.
    pub kinds: &'static [Fault],
    /// The largest number of states. A search that meets more stops, and reports that it was not exhaustive.
    pub states: usize,
    /// The search ends when this check has failed, without looking for other failures. A faulty program may
    /// have endlessly many states: a coordinator that sends for ever reaches ever new ones.
    pub until: Option<Check>,
}

impl Bound {
    /// Every kind of fault.
    pub const KINDS: &'static [Fault] =
        &[Fault::Loss, Fault::Double, Fault::Stranger, Fault::Death, Fault::Late, Fault::Haste];

    /// Up to this many faults, of all kinds.
    #[must_use]
    pub const fn faults(faults: u32) -> Self {
        Self { faults, kinds: Self::KINDS, states: 100_000_000, until: None }
    }
}

/// A check that failed.
#[derive(Debug, Clone)]
pub struct FailedCheck {
    /// Number of faults on the path.
    pub faults: u32,
    /// Number of choices on the path.
    pub choices: usize,
    /// Why the check failed.
    pub what: String,
    /// The path to the state, line by line.
    pub trace: Vec<String>,
    /// Number of states in which the check failed.
    pub states: u64,
}

/// The results of a search.
#[derive(Debug, Clone, Default)]
pub struct Explored {
    /// The number of states, by the number of faults that it takes to reach them.
    pub states: Vec<usize>,
    /// Choices that were taken.
    pub choices: u64,
    /// States of single cores that were met.
    pub cores: usize,
    /// Steps of cores that were made.
    pub steps: usize,
    /// The longest path to a state, in choices.
    pub depth: u32,
    /// The search was exhaustive within its bounds.
    pub whole: bool,
    /// The shortest path to a failure of each check that failed.
    pub found: BTreeMap<Check, FailedCheck>,
}

impl Explored {
    /// Number of all states.
    #[must_use]
    pub fn all(&self) -> usize {
        self.states.iter().sum()
    }
}

/// How a state was reached: from which state, by which choice.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatePath {
    from: u32,
    /// The index of the choice among the choices of that state.
    choice: u16,
}

/// Explores a scenario within a bound.
#[must_use]
pub fn explore(scenario: &Scenario, bound: Bound) -> Explored {
    let (world, first) = Federation::new(*scenario);
    let mut search = Search {
        world,
        bound,
        judge: Judge::default(),
        seen: VisitedStates::default(),
        ways: Vec::new(),
        depths: Vec::new(),
        explored: Explored { whole: true, ..Explored::default() },
        first: first.clone(),
    };
    search.run(first);
    let (cores, steps) = search.world.sizes();
    Explored { cores, steps, ..search.explored }
}

struct Search {
    world: Federation,
    bound: Bound,
    judge: Judge,
    seen: VisitedStates,
    ways: Vec<StatePath>,
    depths: Vec<u16>,
    explored: Explored,
    first: State,
}

/// A state whose choices have not been taken yet, and its number.
type Open = (State, u32);

impl Search {
    fn run(&mut self, first: State) {
        let mut open = Vec::new();
        self.meet(first, StatePath { from: 0, choice: 0 }, 0, &mut open);
        for faults in 0..=self.bound.faults {
            // First follow all choices that add no fault, so that every state is met with the fewest faults.
            let mut level = Vec::new();
            let is_last = faults == self.bound.faults;
            while !open.is_empty() {
                let mut next = Vec::new();
                for (state, number) in open {
                    self.expand(&state, number, faults, false, &mut next);
                    if !is_last {
                        level.push((state, number));
                    }
                }
                open = next;
            }
            for (state, number) in level {
                self.expand(&state, number, faults, true, &mut open);
            }
            if !self.explored.whole {
                return;
            }
        }
    }

    /// Has the check failed that the search looks for?
    fn has_found(&self) -> bool {
        self.bound.until.is_some_and(|check| self.explored.found.contains_key(&check))
    }

    /// Takes every choice of a state that is a fault, or every choice that is none.
    fn expand(&mut self, state: &State, number: u32, faults: u32, fault: bool, to: &mut Vec<Open>) {
        let cost = faults + u32::from(fault);
        for (index, choice) in (0..).zip(self.world.choices(state)) {
            let happens = choice.fault.is_none_or(|kind| self.bound.kinds.contains(&kind));
            if choice.fault.is_some() != fault || !happens {
                continue;
            }
            if self.ways.len() >= self.bound.states || self.has_found() {
                self.explored.whole = false;
                return;
            }
            self.explored.choices += 1;
            let (next, _, problem) = self.world.take(state, choice);
            let way = StatePath { from: number, choice: index };
            if let Some(problem) = problem {
                self.fail(Check::Invariants, problem, way, cost);
            }
            self.meet(next, way, cost, to);
        }
    }

    /// Checks a state that was not met before, and keeps it for expansion.
    fn meet(&mut self, state: State, way: StatePath, faults: u32, to: &mut Vec<Open>) {
        if !self.seen.insert(&state) {
            return;
        }
        let depth = match self.depths.get(way.from as usize) {
            Some(before) => before.saturating_add(1),
            None => 0,
        };
        self.explored.depth = self.explored.depth.max(depth.into());
        let number = u32::try_from(self.ways.len()).unwrap_or(u32::MAX);
        self.ways.push(way);
        self.depths.push(depth);
        self.explored.states.resize(self.explored.states.len().max(faults as usize + 1), 0);
        self.explored.states[faults as usize] += 1;
        let failed = self.judge.judge(&self.world, &state);
        let ends = failed.iter().any(|(check, _)| *check == Check::Settles);
        for (check, what) in failed {
            self.fail(check, what, way, faults);
        }
        if !ends {
            to.push((state, number));
        }
    }

    fn fail(&mut self, check: Check, what: String, way: StatePath, faults: u32) {
        if let Some(found) = self.explored.found.get_mut(&check) {
            found.states += 1;
            return;
        }
        let choices = self.choices_to(way);
        let trace = trace::tell(&mut self.world, &self.first, &choices);
        let found = FailedCheck { faults, choices: choices.len(), what, trace, states: 1 };
        self.explored.found.insert(check, found);
    }

    /// The choices of a path, from the first state on.
    fn choices_to(&self, way: StatePath) -> Vec<u16> {
        let mut choices = Vec::new();
        let mut way = way;
        loop {
            choices.push(way.choice);
            if way.from == 0 {
                choices.reverse();
                return choices;
            }
            way = self.ways[way.from as usize];
        }
    }
}

/// The digests of all states that were met. The set is never iterated.
#[derive(Default)]
struct VisitedStates {
    /// Digests by their last bits; zero marks a free place.
    places: Vec<u64>,
    count: usize,
}

impl VisitedStates {
    /// Adds a state. Returns true if it was new.
    fn insert(&mut self, state: &State) -> bool {
        if (self.count + 1) * 2 > self.places.len() {
            let places = vec![0; (self.places.len() * 2).max(1 << 16)];
            let old = std::mem::replace(&mut self.places, places);
            self.count = 0;
            for digest in old.into_iter().filter(|digest| *digest != 0) {
                self.place(digest);
            }
        }
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        self.place(hasher.finish().max(1))
    }

    fn place(&mut self, digest: u64) -> bool {
        let mask = self.places.len() - 1;
        let mut at = usize::try_from(digest & 0xffff_ffff).unwrap_or(0) & mask;
        while self.places[at] != 0 {
            if self.places[at] == digest {
                return false;
            }
            at = (at + 1) & mask;
        }
        self.places[at] = digest;
        self.count += 1;
        true
    }
}
