//! `mc-t` and `awmc-t`: path, cluster and both start times are chosen together.

use coalloc_common::{Reason, VertexIndex};

use super::choice::{self, Choice, Key, LAST, PathCandidate};
use super::frame::{Entries, Frame, Hop, Tables};
use super::search::{
    Arena, DelayOrderedSearch, Dominance, End, Guide, Label, Search, usual_entries,
};
use super::{Effort, Scratch, TaskAnswer, TaskInstance, TaskOutcome, TaskPlanner, refuse};
use crate::Budget;

/// `mc-t` and its variants: the three phases with any dominance, and optionally a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McT {
    /// The name of the planner. A variant with other fields needs another name.
    pub name: &'static str,
    /// Decides which paths phase 1 keeps.
    pub dominance: Dominance,
    /// The meaning of the bits in their vectors.
    pub entries: Entries,
    /// Whether a search over all paths that could lead to a better plan then proves the best plan
    /// of phase 3, or finds a better one. Without it, no plan is marked as proven.
    pub prove: bool,
    /// Whether `mc-t` is asked, within the same budget, when this planner finds nothing. A planner
    /// that compares paths only roughly may find nothing where there is a plan.
    pub falls_back: bool,
}

impl McT {
    /// `mc-t`: no plan on the picture is better, whatever its simple path, cluster and starts. When
    /// the budget ends before that is proven, the plan is not marked as proven.
    #[must_use]
    pub const fn optimal() -> Self {
        Self {
            name: "mc-t",
            dominance: Dominance::Arrival,
            entries: Entries::Starts,
            prove: true,
            falls_back: false,
        }
    }

    /// `mc-t-phases`: the three phases of `mc-t` without its proof.
    #[must_use]
    pub const fn phases() -> Self {
        Self { name: "mc-t-phases", prove: false, ..Self::optimal() }
    }

    /// `mc-t-printed`: Eqs. (1) to (5) as printed, for experiments that count what the papers
    /// counted.
    #[must_use]
    pub const fn printed() -> Self {
        let dominance = Dominance::Printed;
        let (name, entries) = ("mc-t-printed", usual_entries(dominance));
        Self { name, dominance, entries, prove: false, falls_back: false }
    }

    /// `awmc-t`: compares paths by delay and by the number of free slots (Eq. 6). Polynomial: each
    /// vertex has at most as many paths as a vector has slots. When it finds nothing, it asks `mc-t`,
    /// so its refusals are as true as those of `mc-t`.
    #[must_use]
    pub const fn available_weight() -> Self {
        Self { falls_back: true, ..Self::available_weight_alone() }
    }

    /// `awmc-t` as the paper has it, for experiments that count what the papers counted: it asks
    /// nobody.
    #[must_use]
    pub const fn available_weight_alone() -> Self {
        let dominance = Dominance::Weight;
        let (name, entries) = ("awmc-t", usual_entries(dominance));
        Self { name, dominance, entries, prove: false, falls_back: false }
    }

    /// The answer of `mc-t` when this planner has found nothing, with the work of both.
    fn fall_back(
        self,
        instance: &TaskInstance<'_>,
        budget: &Budget<'_>,
        scratch: &mut Scratch,
        spent: Effort,
    ) -> TaskAnswer {
        let mut answer = Self::optimal().plan(instance, budget, scratch);
        answer.effort.operations += spent.operations;
        answer.effort.paths += spent.paths;
        answer.effort.tried += spent.tried;
        if let TaskOutcome::Refused(refused) = &mut answer.outcome
            && refused.refusal.reason == Reason::BudgetExhausted
        {
            refused.refusal.detail =
                format!("{} found no plan, and {}", self.name, refused.refusal.detail);
        }
        answer
    }
}

impl TaskPlanner for McT {
    fn name(&self) -> &'static str {
        self.name
    }

    fn plan(
        &self,
        instance: &TaskInstance<'_>,
        budget: &Budget<'_>,
        scratch: &mut Scratch,
    ) -> TaskAnswer {
        let frame = Frame::new(*instance, self.entries);
        let Scratch { tables, arena } = scratch;
        frame.begin(tables);
        let mut effort = Effort::default();
        let mut choice = Choice::new(&frame, instance.task.objective);
        let mut end = End::Complete;
        for wavelength in 0..instance.picture.wavelengths() {
            frame.begin_wavelength(tables);
            let mut search = Search {
                frame: &frame,
                tables,
                arena,
                effort: &mut effort,
                dominance: self.dominance,
                wavelength,
                guide: DelayOrderedSearch,
            };
            end = end.and(search.run(budget));
            choice::offer_all(&mut choice, &frame, tables, arena, wavelength, &mut effort);
        }
        if self.prove && end == End::Complete {
            end = prove(&frame, tables, arena, &mut choice, &mut effort, budget);
        }
        let proven = self.prove && end == End::Complete;
        if choice.offers.is_empty() {
            if self.falls_back && end == End::Complete {
                return self.fall_back(instance, budget, scratch, effort);
            }
            let cut = (end == End::Cut).then_some(budget);
            let mut answer = refuse::answer(&frame, tables, &choice, cut, self.name, effort);
            if !self.prove
                && end == End::Complete
                && let TaskOutcome::Refused(refused) = &mut answer.outcome
            {
                refuse::admit_unproven(&mut refused.refusal, self.name);
            }
            return answer;
        }
        let best = choice.best();
        let plans = choice.offers.iter().map(|offer| {
            choice::plan(&frame, tables, offer, proven && offer.key == best, self.name)
        });
        TaskAnswer { outcome: TaskOutcome::Planned(plans.collect()), effort }
    }
}

/// Searches every path that could lead to a better plan than the best one so far. Among them are
/// paths that phase 1 dropped because another path dominated them: the other path cannot continue
/// through a vertex that it has passed already, but the dropped path may be able to.
fn prove(
    frame: &Frame<'_>,
    tables: &mut Tables,
    arena: &mut Arena,
    choice: &mut Choice,
    effort: &mut Effort,
    budget: &Budget<'_>,
) -> End {
    let picture = frame.instance.picture;
    let towards = tables.towards_clusters(picture);
    let mut end = End::Complete;
    let mut looked = Effort::default();
    for wavelength in 0..picture.wavelengths() {
        if picture.wavelengths() > 1 {
            frame.begin_wavelength(tables);
        }
        let guide = Prover { choice, towards: &towards, wavelength, effort: Effort::default() };
        let mut search = Search {
            frame,
            tables,
            arena,
            effort: &mut looked,
            dominance: Dominance::Whole,
            wavelength,
            guide,
        };
        end = end.and(search.run(budget));
        effort.operations += search.guide.effort.operations;
    }
    effort.operations += looked.operations;
    effort.tried += looked.tried;
    end
}

/// Orders paths by the best plan that they could still lead to, and drops those that cannot lead to
/// a better plan than the best one.
struct Prover<'c> {
    choice: &'c mut Choice,
    /// The shortest delays to each vertex that has a cluster.
    towards: &'c [(u32, Vec<Hop>)],
    wavelength: usize,
    effort: Effort,
}

impl Prover<'_> {
    /// The best key that a path could have at one cluster: over the shortest continuation, with
    /// every further link free.
    fn bound_at(
        &self,
        frame: &Frame<'_>,
        tables: &Tables,
        label: &Label,
        cluster: &super::frame::Cluster,
        onwards: u32,
    ) -> Key {
        let (arrival, delay) = frame.soonest(label, cluster.vertex, onwards);
        let run = frame.run_start(tables, cluster, arrival).and_then(|at| frame.run(at, cluster));
        match run {
            Some(run) if run.end() <= self.choice.deadline() => {
                self.choice.key(frame, cluster, arrival, run.end(), delay)
            }
            _ => LAST,
        }
    }
}

impl Guide for Prover<'_> {
    fn bound(&mut self, frame: &Frame<'_>, tables: &Tables, label: &Label) -> Option<u64> {
        let mut best = LAST;
        for cluster in &tables.clusters {
            let at = VertexIndex(label.vertex).at();
            let towards = self.towards.iter().find(|(vertex, _)| *vertex == cluster.vertex);
            let Some(hop) = towards.map(|(_, all)| all[at]).filter(|hop| hop.delay != u32::MAX)
            else {
                continue;
            };
            self.effort.operations += 3;
            best = best.min(self.bound_at(frame, tables, label, cluster, hop.delay));
        }
        (best < self.choice.best()).then_some(best[0])
    }

    fn still(&self, bound: u64) -> bool {
        bound <= self.choice.best()[0]
    }

    fn kept(&mut self, frame: &Frame<'_>, tables: &Tables, arena: &Arena, index: u32) {
        let label = &arena.labels[index as usize];
        let way = PathCandidate { label, wavelength: self.wavelength, vouched: None };
        self.choice.offer(frame, tables, &way, || arena.links(index), &mut self.effort);
    }
}
