//! The generator: an endless stream of random workflows and their arrivals.
//!
//! Source: Decker 2007, section V-A, "a simple synthetic workflow generation model" with uniformly distributed
//! numbers of activities, dependencies, synchronous activities and channels, and a uniformly distributed
//! shape factor; how these become a graph is not printed. Here:
//!
//! 1. The synchronous activities are divided into sets. All sets and all single activities, in random order,
//!    fill one level after the other. A level has at least as many activities as its drawn width (mean: shape
//!    factor times the square root of the number of activities); a set is always within one level.
//! 2. Each activity beyond the first level depends on a random one of the level before. Further dependencies
//!    join random activities of different levels. A dependency has a data item of its own.
//! 3. Channels join random members of one set.
//!
//! Dependencies only lead to later levels and sets are within levels, so no contraction makes a cycle.
//!
//! Arrivals, book-ahead times and graphs have random streams of their own. Under another load, the same
//! workflows arrive sooner or later; under another planner, everything is the same.
//!
//! Left out: data that lie somewhere from the beginning, and activities that must run at one site. Copies of a
//! recorded workflow are drawn by `recorded`.

use std::collections::BTreeSet;

use coalloc_common::id::DataName;
use coalloc_common::workflow::{Activity, Channel, DataItem, DataSource, Work, Workflow};
use coalloc_common::{ActivityName, BitsPerSecond, Cpus, Span, Time, limits};
use std::collections::BTreeMap;

use super::recorded::RecordedWorkflow;
use super::settings::{UniformRange, WorkloadSettings};
use crate::chance::RandomStream;

/// The length of a slot.
pub const SLOT: Span = Span::from_secs(1);

/// How often a random pair is drawn for each one that is wanted. Pairs that exist already are drawn again; where nearly
/// all exist, fewer are made than wanted.
const DRAWS_PER_PAIR: u64 = 16;

/// A number out of a range.
pub(super) fn draw(random: &mut RandomStream, range: UniformRange) -> u64 {
    range.least + random.below(range.most - range.least + 1)
}

/// A number out of a range that is in percent of `of`.
pub(super) fn draw_percent(random: &mut RandomStream, range: UniformRange, of: usize) -> usize {
    let of = of as u64;
    let (least, most) = (range.least * of / 100, range.most * of / 100);
    // At most the numbers of dependencies and channels, which are limited.
    draw(random, UniformRange { least, most }) as usize
}

/// One workflow and when it arrives. Its deadline is not yet set: it is the earliest possible one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrivingWorkflow {
    /// When it arrives and is planned.
    pub at: Time,
    /// The workflow.
    pub workflow: Workflow,
}

/// The endless stream of workflows.
#[derive(Debug)]
pub struct Generator<'a> {
    settings: &'a WorkloadSettings,
    /// What the workflows are copies of, if they are not random.
    recorded: Option<RecordedWorkflow<'a>>,
    intervals: RandomStream,
    book_ahead: RandomStream,
    graphs: RandomStream,
    now: Time,
}

impl<'a> Generator<'a> {
    /// The stream of a seed; the settings are checked. `recorded` is the workflow that they name.
    #[must_use]
    pub fn new(settings: &'a WorkloadSettings, recorded: Option<&'a Workflow>, seed: u64) -> Self {
        let recorded = settings.recorded.as_ref().zip(recorded);
        Self {
            settings,
            recorded: recorded.map(|(of, workflow)| RecordedWorkflow::new(workflow, of)),
            intervals: RandomStream::new(seed, "workflow-intervals"),
            book_ahead: RandomStream::new(seed, "workflow-book-ahead"),
            graphs: RandomStream::new(seed, "workflow-graphs"),
            now: Time::from_us(0),
        }
    }

    /// The next workflow.
    pub fn draw_next(&mut self) -> ArrivingWorkflow {
        let slot_us = SLOT.as_us() as f64;
        let after = self.intervals.exponential_span(self.settings.interarrival_slots * slot_us);
        self.now = self.now.saturating_add(after);
        let ahead = self.book_ahead.exponential_span(self.settings.book_ahead_slots * slot_us);
        let ready = self.now.saturating_add(ahead);
        ArrivingWorkflow { at: self.now, workflow: self.draw_workflow(ready) }
    }

    fn draw_workflow(&mut self, ready: Time) -> Workflow {
        let settings = self.settings;
        let random = &mut self.graphs;
        if let Some(recorded) = &self.recorded {
            return recorded.draw(random, settings, ready);
        }
        // At most WORKFLOW_ACTIVITIES_MAX.
        let count = draw(random, settings.activities) as usize;
        let levels = Levels::draw(random, settings, count);
        let activities = (0..count)
            .map(|index| Activity {
                name: ActivityName::composed(format!("a{index}")),
                work: Work::Load { mi: draw(random, settings.load_mi) },
                cpus: Cpus(draw(random, settings.cpus)),
                others: BTreeMap::new(),
                sites: BTreeSet::new(),
                excluded: BTreeSet::new(),
            })
            .collect();
        let wanted = draw_percent(random, settings.dependencies_percent, count);
        let edges = levels.draw_dependencies(random, wanted);
        let data = edges.into_iter().map(|(from, to)| DataItem {
            name: DataName::composed(format!("d{from}-{to}")),
            bytes: draw(random, settings.data_bytes),
            source: DataSource::Activity(from),
            consumers: vec![to],
            rate: None,
        });
        let data = data.collect();
        let members = levels.sets.iter().map(Vec::len).sum();
        let wanted = draw_percent(random, settings.channels_percent, members);
        let channels = channels(random, &levels.sets, wanted, |random| {
            BitsPerSecond(draw(random, settings.channel_bps))
        });
        Workflow {
            activities,
            data,
            channels,
            sync_sets: levels.sets,
            same_site: Vec::new(),
            ready,
            deadline: ready.saturating_add(limits::DURATION_MIN),
        }
    }
}

/// The activities of a workflow by level, and the synchronous sets within the levels.
#[derive(Debug)]
struct Levels {
    /// The level of each activity; it never falls.
    level_of: Vec<usize>,
    /// The first activity of each level, and the number of activities at the end.
    begins: Vec<usize>,
    sets: Vec<Vec<usize>>,
}

impl Levels {
    fn draw(random: &mut RandomStream, settings: &WorkloadSettings, count: usize) -> Self {
        let synchronous = draw_percent(random, settings.synchronous_percent, count);
        let mut groups = draw_sets(random, settings.members, synchronous);
        let in_sets: usize = groups.iter().sum();
        groups.extend(std::iter::repeat_n(1, count - in_sets));
        for at in (1..groups.len()).rev() {
            // A number up to `at`.
            groups.swap(at, random.below(at as u64 + 1) as usize);
        }
        let shape = draw(random, settings.shape_percent);
        // The mean width is shape / 100 * sqrt(count); widths are from 1 to twice the mean less 1. The root is
        // that of 10,000 times the count, hence in hundredths.
        let twice = 2 * shape * (10_000 * count as u64).isqrt() / 10_000;
        let widths = UniformRange { least: 1, most: twice.saturating_sub(1).max(1) };
        let (mut level_of, mut begins, mut sets) = (Vec::new(), Vec::new(), Vec::new());
        let mut groups = groups.into_iter().peekable();
        while groups.peek().is_some() {
            let begin = level_of.len();
            let end = begin + draw(random, widths) as usize;
            while level_of.len() < end
                && let Some(size) = groups.next()
            {
                let first = level_of.len();
                if size > 1 {
                    sets.push((first..first + size).collect());
                }
                level_of.extend(std::iter::repeat_n(begins.len(), size));
            }
            begins.push(begin);
        }
        begins.push(level_of.len());
        Self { level_of, begins, sets }
    }

    /// Pairs of an activity and one of a later level, in increasing order.
    fn draw_dependencies(
        &self,
        random: &mut RandomStream,
        wanted: usize,
    ) -> BTreeSet<(usize, usize)> {
        let mut pairs = BTreeSet::new();
        let second = self.begins.get(1).copied().unwrap_or_default();
        for to in (second..self.level_of.len()).take(wanted) {
            let level = self.level_of[to];
            let (begin, end) = (self.begins[level - 1], self.begins[level]);
            pairs.insert((begin + random.below((end - begin) as u64) as usize, to));
        }
        let later = (self.level_of.len() - second) as u64;
        let mut draws = DRAWS_PER_PAIR * wanted as u64;
        while later > 0 && pairs.len() < wanted && draws > 0 {
            draws -= 1;
            let to = second + random.below(later) as usize;
            let before = self.begins[self.level_of[to]] as u64;
            pairs.insert((random.below(before) as usize, to));
        }
        pairs
    }
}

/// Channels between different members of one set, in increasing order of their ends, each with a rate.
pub(super) fn channels(
    random: &mut RandomStream,
    sets: &[Vec<usize>],
    wanted: usize,
    rate: impl Fn(&mut RandomStream) -> BitsPerSecond,
) -> Vec<Channel> {
    let mut pairs = BTreeSet::new();
    let mut of_set = vec![0; sets.len()];
    let mut draws = DRAWS_PER_PAIR * wanted as u64;
    while !sets.is_empty() && pairs.len() < wanted && draws > 0 {
        draws -= 1;
        let number = random.below(sets.len() as u64) as usize;
        let set = &sets[number];
        let members = random.choose(2, set.len());
        if of_set[number] < limits::SYNC_CHANNELS_MAX
            && pairs.insert((set[members[0]], set[members[1]]))
        {
            of_set[number] += 1;
        }
    }
    let of = |(from, to)| Channel { from, to, bandwidth: rate(random), latency_max: None };
    pairs.into_iter().map(of).collect()
}

/// The sizes of sets that have this many members together. Activities that are too few for a set are left over.
pub(super) fn draw_sets(
    random: &mut RandomStream,
    members: UniformRange,
    synchronous: usize,
) -> Vec<usize> {
    let mut sets = Vec::new();
    let mut left = synchronous as u64;
    while left >= members.least {
        let most = members.most.min(left);
        let mut size = draw(random, UniformRange { most, ..members });
        if left - size < members.least && left <= members.most {
            size = left;
        }
        sets.push(size as usize);
        left -= size;
    }
    sets
}
