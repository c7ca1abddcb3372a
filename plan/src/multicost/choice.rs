//! Phases 2 and 3: pairs of a path and a cluster, and the best of them.
//!
//! Phase 2 of the papers drops pairs that another pair dominates (Eq. 5), and phase 3 evaluates the
//! remaining pairs. To evaluate a pair means to find one start in the cluster's vector, and
//! comparing two pairs would need two vectors. So every pair is evaluated here. The best pair is
//! the same.

use coalloc_common::{Slot, Span, Time, Window};

use super::answer::{Leg, TaskPlan};
use super::frame::{Cluster, Frame, Tables};
use super::search::{Arena, Label};
use super::{Effort, TaskObjective};

/// The value of a pair; lower is better. The entries are the objective's value, the completion in
/// microseconds from `ready` on, and the delay in slots.
pub(super) type Key = [u64; 3];

/// A key after all others.
pub(super) const LAST: Key = [u64::MAX; 3];

/// One path to one cluster, with its times.
#[derive(Debug, Clone)]
pub(super) struct PathOffer {
    pub(super) key: Key,
    links: Vec<u32>,
    wavelength: usize,
    pub(super) cluster: usize,
    delay: u32,
    departure: usize,
    arrival: usize,
    pub(super) run: Window,
    vouched: usize,
}

/// The best offers so far.
#[derive(Debug)]
pub(super) struct Choice {
    most: usize,
    objective: TaskObjective,
    deadline: Time,
    /// The best one first; of equal offers, the one found first.
    pub(super) offers: Vec<PathOffer>,
    /// The earliest completion of all offers, whatever the deadline.
    pub(super) nearest: Option<PathOffer>,
}

/// A path that is offered.
pub(super) struct PathCandidate<'a> {
    pub(super) label: &'a Label,
    pub(super) wavelength: usize,
    /// How many links, from the first on, were checked to be free; `None` means all.
    pub(super) vouched: Option<usize>,
}

impl Choice {
    pub(super) fn new(frame: &Frame<'_>, objective: TaskObjective) -> Self {
        let task = frame.instance.task;
        let deadline = task.deadline.unwrap_or(Time::MAX);
        Self { most: task.plans, objective, deadline, offers: Vec::new(), nearest: None }
    }

    /// The key of the best offer.
    pub(super) fn best(&self) -> Key {
        self.offers.first().map_or(LAST, |offer| offer.key)
    }

    pub(super) const fn deadline(&self) -> Time {
        self.deadline
    }

    /// Offers a path to every cluster at its end.
    pub(super) fn offer(
        &mut self,
        frame: &Frame<'_>,
        tables: &Tables,
        way: &PathCandidate<'_>,
        links: impl Fn() -> Vec<u32>,
        effort: &mut Effort,
    ) {
        let PathCandidate { label, wavelength, vouched } = way;
        let (departure, delay) = (label.departure as usize, label.delay);
        for cluster in tables.clusters.iter().filter(|cluster| cluster.vertex == label.vertex) {
            let arrival = frame.arrival(departure, delay, label.hops);
            // EST is one addition, MUV clears the entries before the arrival, and then the start is
            // searched.
            let from = frame.cluster_slot(arrival);
            let Some(start) = frame.run_start(tables, cluster, arrival) else {
                effort.operations += 1 + cluster.len() as u64;
                continue;
            };
            let looked = u64::try_from(start.0 - from.0).unwrap_or(0).saturating_add(cluster.run);
            effort.operations += 2 + cluster.before(from) as u64 + looked;
            let Some(run) = frame.run(start, cluster) else { continue };
            let key = self.key(frame, cluster, arrival, run.end(), delay);
            let late = run.end() > self.deadline;
            let sooner = |than: &PathOffer| (key[1], key[2]) < (than.key[1], than.key[2]);
            let nearest = self.nearest.as_ref().is_none_or(sooner);
            let place = self.offers.partition_point(|offer| offer.key <= key);
            if (late || place >= self.most) && !nearest {
                continue;
            }
            let links = links();
            let vouched = vouched.unwrap_or(links.len()).min(links.len());
            let (wavelength, cluster) = (*wavelength, cluster.index);
            let offer = PathOffer {
                key,
                links,
                wavelength,
                cluster,
                delay,
                departure,
                arrival,
                run,
                vouched,
            };
            if nearest {
                self.nearest = Some(offer.clone());
            }
            if !late && place < self.most && !self.knows(&offer) {
                self.offers.insert(place, offer);
                self.offers.truncate(self.most);
            }
        }
    }

    /// Whether this offer is there already. A proof finds the same paths again.
    fn knows(&self, new: &PathOffer) -> bool {
        let same = |old: &PathOffer| {
            (old.cluster, old.wavelength, &old.links) == (new.cluster, new.wavelength, &new.links)
        };
        self.offers.iter().any(same)
    }

    /// The key of a pair.
    pub(super) fn key(
        &self,
        frame: &Frame<'_>,
        cluster: &Cluster,
        arrival: usize,
        completion: Time,
        delay: u32,
    ) -> Key {
        let since =
            |time: Time| time.since(frame.instance.task.ready).as_us().max(0).unsigned_abs();
        let tasks = frame.instance.picture.clusters()[cluster.index].tasks;
        let (arrival, completion) = (since(frame.time(arrival)), since(completion));
        let value = match self.objective {
            TaskObjective::Completion => completion,
            TaskObjective::Arrival => arrival,
            TaskObjective::FewestTasks => tasks,
            TaskObjective::Weighted { completion: c, arrival: a, per_task } => [
                completion.saturating_mul(u64::from(c)),
                arrival.saturating_mul(u64::from(a)),
                tasks.saturating_mul(u64::from(per_task)),
            ]
            .into_iter()
            .fold(0, u64::saturating_add),
        };
        [value, completion, u64::from(delay)]
    }
}

/// Offers every path of a search.
pub(super) fn offer_all(
    choice: &mut Choice,
    frame: &Frame<'_>,
    tables: &Tables,
    arena: &Arena,
    wavelength: usize,
    effort: &mut Effort,
) {
    for (index, label) in arena.alive() {
        effort.paths += 1;
        let way = PathCandidate { label, wavelength, vouched: None };
        choice.offer(frame, tables, &way, || arena.links(index), effort);
    }
}

/// Turns an offer into a plan.
pub(super) fn plan(
    frame: &Frame<'_>,
    tables: &Tables,
    offer: &PathOffer,
    proven: bool,
    planner: &'static str,
) -> TaskPlan {
    let legs = legs(frame, tables, &offer.links, offer.departure);
    TaskPlan {
        legs,
        wavelength: offer.wavelength,
        cluster: offer.cluster,
        run: offer.run,
        departure: frame.time(offer.departure),
        arrival: frame.time(offer.arrival),
        delay: frame.instance.picture.link_grid().length_of(u64::from(offer.delay)),
        vouched: offer.vouched,
        proven,
        planner,
    }
}

/// The links of a path, with the times at which data that leave at a position are on them.
pub(super) fn legs(
    frame: &Frame<'_>,
    tables: &Tables,
    links: &[u32],
    departure: usize,
) -> Vec<Leg> {
    let guard = frame.instance.picture.guard() as usize;
    let mut at = departure;
    let mut legs = Vec::with_capacity(links.len());
    for link in links {
        let (from, to) = (frame.time(at.saturating_sub(guard)), frame.time(at + frame.data));
        // The window is never empty, because data take at least one slot.
        legs.extend(Window::new(from, to).map(|window| Leg { link: *link as usize, window }));
        at += tables.delay(*link) as usize;
    }
    legs
}

impl Frame<'_> {
    /// The beginning of a link slot.
    pub(super) fn time(&self, at: usize) -> Time {
        self.instance.picture.link_grid().start_of(self.base.plus(at as u64))
    }

    /// The window of the run, from a slot on.
    pub(super) fn run(&self, start: Slot, cluster: &Cluster) -> Option<Window> {
        let grid = self.cluster_grid();
        let length: Span = grid.length_of(cluster.run);
        Window::starting(grid.start_of(start), length)
    }
}
