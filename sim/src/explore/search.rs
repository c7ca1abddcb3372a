//! The search: all states with no fault, then with one, and so on.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::checks::{Check, Judge};
use super::federation::{Fault, Federation, State};
use super::scenarios::Scenario;
use super::trace;

/// How far to go.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// So many faults at most, all kinds together.
    pub faults: u32,
    /// Kinds of faults that happen at all.
    pub kinds: &'static [Fault],
    /// So many states at most; a search that meets more is not exhaustive, and says so.
    pub states: usize,
    /// The search ends when this check has failed, and says nothing of what else there is. What is wrong may have
    /// no end: a coordinator that sends for ever has ever more states.
    pub until: Option<Check>,
}

impl Bound {
    /// Every kind of fault.
    pub const KINDS: &'static [Fault] =
        &[Fault::Loss, Fault::Double, Fault::Stranger, Fault::Death, Fault::Late, Fault::Haste];

    /// So many faults of all kinds.
    #[must_use]
    pub const fn faults(faults: u32) -> Self {
        Self { faults, kinds: Self::KINDS, states: 100_000_000, until: None }
    }
}

/// A check that failed.
#[derive(Debug, Clone)]
pub struct FailedCheck {
    /// With so many faults,
    pub faults: u32,
    /// after so many choices,
    pub choices: usize,
    /// because of this.
    pub what: String,
    /// The way there, line by line.
    pub trace: Vec<String>,
    /// In so many states.
    pub states: u64,
}

/// What a search has seen.
#[derive(Debug, Clone, Default)]
pub struct Explored {
    /// States, by the number of faults that it takes to get there.
    pub states: Vec<usize>,
    /// Choices that were taken.
    pub choices: u64,
    /// States of single cores.
    pub cores: usize,
    /// Steps of cores that were made.
    pub steps: usize,
    /// The longest way to a state, in choices.
    pub depth: u32,
    /// Nothing was left out within the bound.
    pub whole: bool,
    /// The shortest way to a failure of each check.
    pub found: BTreeMap<Check, FailedCheck>,
}

impl Explored {
    /// All states.
    #[must_use]
    pub fn all(&self) -> usize {
        self.states.iter().sum()
    }
}

/// How a state was reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct StatePath {
    from: u32,
    /// Which of the choices there.
    choice: u16,
}

/// Explores a scenario.
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

/// A state to go on from, and its number.
type Open = (State, u32);

impl Search {
    fn run(&mut self, first: State) {
        let mut open = Vec::new();
        self.meet(first, StatePath { from: 0, choice: 0 }, 0, &mut open);
        for faults in 0..=self.bound.faults {
            // First all that takes no further fault: whatever could be had with fewer is met with fewer.
            let mut level = Vec::new();
            let is_last = faults == self.bound.faults;
            while !open.is_empty() {
                let mut next = Vec::new();
                for (state, number) in open {
                    self.expand((&state, number), faults, false, &mut next);
                    if !is_last {
                        level.push((state, number));
                    }
                }
                open = next;
            }
            for (state, number) in level {
                self.expand((&state, number), faults, true, &mut open);
            }
            if !self.explored.whole {
                return;
            }
        }
    }

    /// Has failed what was looked for?
    fn has_found(&self) -> bool {
        self.bound.until.is_some_and(|check| self.explored.found.contains_key(&check))
    }

    /// Takes every choice that is a fault, or every one that is none.
    fn expand(
        &mut self,
        (state, number): (&State, u32),
        faults: u32,
        fault: bool,
        to: &mut Vec<Open>,
    ) {
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

    /// A state that was not met before is judged, and kept to go on from.
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

    /// The choices, from the first state on.
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

/// The digests of all states that were met. Never iterated.
#[derive(Default)]
struct VisitedStates {
    /// By their last bits; zero is a place that is free.
    places: Vec<u64>,
    count: usize,
}

impl VisitedStates {
    /// Was it new?
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
