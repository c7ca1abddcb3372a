//! `ect` and `ect-first-link`: the cluster that completes first, each over its shortest path.

use coalloc_common::vector::kernel;

use super::choice::{self, Choice, PathCandidate};
use super::frame::{Entries, Frame, Tables};
use super::search::Label;
use super::{
    Effort, Scratch, TaskAnswer, TaskInstance, TaskObjective, TaskOutcome, TaskPlanner, refuse,
};
use crate::Budget;

/// Earliest completion time. For each cluster only the path of least delay is examined, and the
/// task goes to the cluster where it completes first. The task's objective is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ect {
    /// Whether only the first link of the path is checked (`ect-first-link`; Christodoulopoulos
    /// 2008, section 7). Then a plan vouches for that link alone, whatever the other links have
    /// free. Otherwise the whole path is checked (`ect`; Stevens 2009, section 5.1).
    pub first_link_only: bool,
}

impl TaskPlanner for Ect {
    fn name(&self) -> &'static str {
        if self.first_link_only { "ect-first-link" } else { "ect" }
    }

    fn plan(
        &self,
        instance: &TaskInstance<'_>,
        _: &Budget<'_>,
        scratch: &mut Scratch,
    ) -> TaskAnswer {
        let frame = Frame::new(*instance, Entries::Slots);
        let tables = &mut scratch.tables;
        frame.begin(tables);
        let mut effort = Effort::default();
        let mut choice = Choice::new(&frame, TaskObjective::Completion);
        let mut paths = shortest(&frame, tables);
        for wavelength in 0..instance.picture.wavelengths() {
            frame.begin_wavelength(tables);
            for (vertex, links) in &mut paths {
                let looked = if self.first_link_only { links.len().min(1) } else { links.len() };
                let label = walk(&frame, tables, *vertex, links, looked, wavelength, &mut effort);
                let Some(label) = label else { continue };
                effort.paths += 1;
                let way = PathCandidate { label: &label, wavelength, vouched: Some(looked) };
                choice.offer(&frame, tables, &way, || links.clone(), &mut effort);
            }
        }
        if choice.offers.is_empty() {
            return refuse::answer(&frame, tables, &choice, None, self.name(), effort);
        }
        let plan = |offer| choice::plan(&frame, tables, offer, false, self.name());
        let plans = choice.offers.iter().map(plan).collect();
        TaskAnswer { outcome: TaskOutcome::Planned(plans), effort }
    }
}

/// The path of least delay from the source to each reachable vertex that has a cluster.
pub(super) fn shortest(frame: &Frame<'_>, tables: &Tables) -> Vec<(u32, Vec<u32>)> {
    let picture = frame.instance.picture;
    let source = frame.instance.task.source.0;
    let all = tables.shortest(picture, source, true);
    let mut vertices: Vec<u32> = tables.clusters.iter().map(|cluster| cluster.vertex).collect();
    vertices.sort_unstable();
    vertices.dedup();
    vertices.retain(|vertex| all[*vertex as usize].delay != u32::MAX);
    let path = |vertex: u32| {
        let (mut links, mut at) = (Vec::new(), vertex);
        while at != source {
            let link = all[at as usize].link;
            links.push(link);
            at = picture.links()[link as usize].from.0;
        }
        links.reverse();
        (vertex, links)
    };
    vertices.into_iter().map(path).collect()
}

/// A path's delay and earliest departure, checking its first `looked` links; `None` when data
/// cannot leave.
pub(super) fn walk(
    frame: &Frame<'_>,
    tables: &mut Tables,
    vertex: u32,
    links: &[u32],
    looked: usize,
    wavelength: usize,
    effort: &mut Effort,
) -> Option<Label> {
    if links.is_empty() {
        return Some(Label::of_path(vertex, 0, 0, frame.lead));
    }
    effort.tried += 1;
    let mut vector = vec![0; frame.words];
    kernel::set(&mut vector, frame.lead, frame.last_entry(0));
    let (mut delay, mut next) = (0_u32, vector.clone());
    for (index, link) in links.iter().enumerate() {
        if index < looked {
            frame.make(tables, *link, wavelength);
            let words = tables.link(*link, frame.words);
            kernel::and_shifted(&mut next, &vector, words, i64::from(delay));
            std::mem::swap(&mut vector, &mut next);
            effort.operations += frame.slots as u64;
        }
        delay = delay.saturating_add(tables.delay(*link));
        effort.operations += 1;
    }
    kernel::clear_from(&mut vector, frame.last_entry(delay));
    let departure = frame.departure(&vector, delay);
    effort.operations += departure.map_or(frame.slots, |at| at + frame.data) as u64;
    Some(Label::of_path(vertex, delay, links.len() as u32, departure?))
}
