//! Every state of one core that a search has met, by number, and what each input made of it.
//!
//! The states of a federation are far more than the states of its nodes: a step of a core is made once for each
//! pair of a state and an input, and remembered. Two states are the same when their fingerprints are: a
//! digest of all that can be seen of them again, with what their logs have told.
//!
//! Left out: what an input means and where effects go, which [`super::federation`] has.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;

use coalloc_common::{BootTime, Now, Span};
use coalloc_ledger::step_all;
use coalloc_protocol::{Core, Log, sync};

use crate::world::node::WALL_START;

/// A core that can be told from another one by what it would do.
pub(super) trait Explored: Core<Record: Clone> + Clone {
    /// What its log has told so far, beyond what the core shows.
    type LogFacts: Clone + Default + fmt::Debug;

    /// Writes all that decides what it does next.
    fn show(&self, to: &mut impl Write) -> fmt::Result;

    /// What one more record tells.
    fn learn(facts: &mut Self::LogFacts, record: &Self::Record);
}

/// The number of a state of one core.
pub(super) type Number = u32;

/// A state.
pub(super) struct NodeState<C: Explored> {
    pub(super) core: C,
    pub(super) facts: C::LogFacts,
    log: Chain<C::Record>,
}

/// A log that shares its beginning with others.
type Chain<R> = Option<Rc<Link<R>>>;

struct Link<R> {
    before: Chain<R>,
    record: R,
}

/// What a batch of inputs led to.
pub(super) struct BatchOutcome<E> {
    pub(super) to: Number,
    pub(super) effects: Vec<E>,
    /// What must never be: an invariant, a panic, a log that does not fit.
    pub(super) problem: Option<String>,
}

/// All states of one core.
pub(super) struct Cores<C: Explored> {
    /// Before its first start.
    fresh: C,
    start: fn() -> C::Input,
    known: Vec<NodeState<C>>,
    numbers: BTreeMap<u64, Number>,
}

/// Keeps what it is given: it is durable at once.
struct Durable<R>(Vec<R>);

impl<R: Clone> Log for Durable<R> {
    type Record = R;
    type Error = Infallible;

    fn append(&mut self, records: &[&R]) -> Result<(), Infallible> {
        self.0.extend(records.iter().map(|record| (*record).clone()));
        Ok(())
    }
}

/// The digest of a text that is never kept.
struct Digest(DefaultHasher);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// What all clocks show, so long after the beginning.
pub(super) fn clocks(us: i64) -> Now {
    Now { wall: WALL_START.saturating_add(Span::from_us(us)), boot: BootTime::from_us(us) }
}

impl<C: Explored> Cores<C> {
    pub(super) fn new(fresh: C, start: fn() -> C::Input) -> Self {
        Self { fresh, start, known: Vec::new(), numbers: BTreeMap::new() }
    }

    pub(super) fn get(&self, number: Number) -> &NodeState<C> {
        &self.known[number as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// When it wants a tick.
    pub(super) fn wake(&self, number: Number) -> Option<i64> {
        self.get(number).core.next_wake().map(BootTime::as_us)
    }

    /// Its first life.
    pub(super) fn begin(&mut self) -> BatchOutcome<C::Effect> {
        let (core, input) = (self.fresh.clone(), (self.start)());
        self.batch((core, C::LogFacts::default(), None), vec![input], 0)
    }

    /// A tick if it is due, then these inputs, as the owner of a ledger does it.
    pub(super) fn step(
        &mut self,
        from: Number,
        inputs: Vec<C::Input>,
        us: i64,
    ) -> BatchOutcome<C::Effect> {
        let NodeState { core, facts, log } = self.get(from);
        let life = (core.clone(), facts.clone(), log.clone());
        self.batch(life, inputs, us)
    }

    /// The process dies, and another one replays its log.
    pub(super) fn restart(&mut self, from: Number, us: i64) -> BatchOutcome<C::Effect> {
        let NodeState { facts, log, .. } = self.get(from);
        let (facts, log) = (facts.clone(), log.clone());
        let mut records = Vec::new();
        let mut link = &log;
        while let Some(next) = link {
            records.push(&next.record);
            link = &next.before;
        }
        let mut core = self.fresh.clone();
        let replayed = records.into_iter().rev().try_for_each(|record| core.apply(record));
        let mut stepped = self.batch((core, facts, log.clone()), vec![(self.start)()], us);
        if let Err(error) = replayed {
            stepped.problem.get_or_insert(format!("I14: it does not start again: {error}"));
        }
        stepped
    }

    fn batch(
        &mut self,
        (mut core, mut facts, mut log): (C, C::LogFacts, Chain<C::Record>),
        inputs: Vec<C::Input>,
        us: i64,
    ) -> BatchOutcome<C::Effect> {
        let mut durable = Durable(Vec::new());
        // A core that panics ends its process: that is something to report, with the way there.
        let step = AssertUnwindSafe(|| step_all(&mut core, None, inputs, clocks(us)));
        let (effects, panicked) = match panic::catch_unwind(step) {
            Ok(batch) => match sync(batch, &mut durable) {
                Ok(synced) => (synced.into_effects(), None),
                Err(never) => match never {},
            },
            Err(_) => (Vec::new(), Some("it panics".to_owned())),
        };
        for record in durable.0 {
            C::learn(&mut facts, &record);
            log = Some(Rc::new(Link { before: log, record }));
        }
        let problem = panicked.or_else(|| core.check_invariants().err());
        BatchOutcome { to: self.number(NodeState { core, facts, log }), effects, problem }
    }

    fn number(&mut self, known: NodeState<C>) -> Number {
        let mut digest = Digest(DefaultHasher::new());
        // A digest takes every text.
        let _ = known.core.show(&mut digest);
        let _ = write!(digest, "{:?}", known.facts);
        let next = Number::try_from(self.known.len()).unwrap_or(Number::MAX);
        let number = *self.numbers.entry(digest.0.finish()).or_insert(next);
        if number == next {
            self.known.push(known);
        }
        number
    }
}
