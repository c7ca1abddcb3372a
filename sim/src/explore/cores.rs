//! Every state of one core that a search has met, by number, and the steps between them.
//!
//! A federation has far more states than its nodes have. So each step of a core is made only once for a state
//! and an input, and [`super::federation`] remembers its result. Two states of a core are the same if their
//! fingerprints are equal: a digest of everything that can be observed of them later, together with the facts
//! from their logs.
//!
//! Left out: what an input means and where effects go, which [`super::federation`] decides.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hasher};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;

use coalloc_common::{BootTime, Now, Span};
use coalloc_ledger::step_all;
use coalloc_protocol::{Causer, Core, Log, sync};

use crate::world::node::WALL_START;

/// A core whose states can be distinguished by what they would do next.
pub(super) trait Explored: Core<Record: Clone> + Clone {
    /// Facts from the core's log that the core's own state does not show.
    type LogFacts: Clone + Default + fmt::Debug;

    /// Writes everything that determines what the core does next.
    fn show(&self, to: &mut impl Write) -> fmt::Result;

    /// Adds the facts of one more record.
    fn learn(facts: &mut Self::LogFacts, record: &Self::Record);
}

/// The number of a state of one core.
pub(super) type Number = u32;

/// A state of one core, with its log and the facts from that log.
pub(super) struct NodeState<C: Explored> {
    pub(super) core: C,
    pub(super) facts: C::LogFacts,
    log: Chain<C::Record>,
}

/// A log that shares its beginning with other logs.
type Chain<R> = Option<Rc<Link<R>>>;

struct Link<R> {
    before: Chain<R>,
    record: R,
}

/// The result of a batch of inputs.
pub(super) struct BatchOutcome<E> {
    pub(super) to: Number,
    pub(super) effects: Vec<E>,
    /// A failure that must never occur: a broken invariant, a panic, a log that does not replay.
    pub(super) problem: Option<String>,
}

/// All known states of one core.
pub(super) struct Cores<C: Explored> {
    /// The core before its first start.
    fresh: C,
    start: fn() -> C::Input,
    known: Vec<NodeState<C>>,
    numbers: BTreeMap<u64, Number>,
}

/// A log that only collects records: each record is durable at once.
struct Durable<R>(Vec<R>);

impl<R: Clone> Log for Durable<R> {
    type Record = R;
    type Error = Infallible;

    fn append_caused(
        &mut self,
        records: &[coalloc_protocol::CausedRecord<'_, R>],
    ) -> Result<(), Infallible> {
        self.0.extend(records.iter().map(|caused| caused.record.clone()));
        Ok(())
    }
}

/// The digest of a text that is never stored.
struct Digest(DefaultHasher);

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// What all clocks show, so many microseconds after the beginning.
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

    /// When the core in this state wants a tick, in microseconds of its boot clock.
    pub(super) fn wake(&self, number: Number) -> Option<i64> {
        self.get(number).core.next_wake().map(BootTime::as_us)
    }

    /// The start of the first process.
    pub(super) fn begin(&mut self) -> BatchOutcome<C::Effect> {
        let (core, input) = (self.fresh.clone(), (self.start)());
        self.batch(core, C::LogFacts::default(), None, vec![input], 0)
    }

    /// A tick if one is due, then these inputs, in the order in which the owner of a ledger steps them.
    pub(super) fn step(
        &mut self,
        from: Number,
        inputs: Vec<C::Input>,
        us: i64,
    ) -> BatchOutcome<C::Effect> {
        let NodeState { core, facts, log } = self.get(from);
        let (core, facts, log) = (core.clone(), facts.clone(), log.clone());
        self.batch(core, facts, log, inputs, us)
    }

    /// The process dies, and a new one replays its log.
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
        let mut stepped = self.batch(core, facts, log.clone(), vec![(self.start)()], us);
        if let Err(error) = replayed {
            stepped.problem.get_or_insert(format!("I14: it does not start again: {error}"));
        }
        stepped
    }

    fn batch(
        &mut self,
        mut core: C,
        mut facts: C::LogFacts,
        mut log: Chain<C::Record>,
        inputs: Vec<C::Input>,
        us: i64,
    ) -> BatchOutcome<C::Effect> {
        let mut durable = Durable(Vec::new());
        let inputs = inputs.into_iter().map(|input| (input, Causer::Itself));
        // A panic of a core would end its process. It is reported, with the path that led to it.
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
        // Writing to a digest never fails.
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
