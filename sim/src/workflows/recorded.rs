//! Workflows of a run that are copies of one recorded workflow, with synchronous sets of ours.
//!
//! Records of workflows know no synchronous activities. A share of each level is made synchronous: level by
//! level (an activity is on the level after the last one of those that it waits for), random activities form sets
//! of the sizes that [`super::settings::WorkloadSettings::members`] allows. Channels join random members of
//! one set, as in the [generator](super::generator). Dependencies lead to later levels only, so no
//! contraction makes a cycle. All else is as recorded: work, CPUs, data.
//!
//! Left out: reading files, which the command line does.

use coalloc_common::workflow::{DataSource, Workflow};
use coalloc_common::{BitsPerSecond, Time, limits};

use super::generator::{channels, draw, draw_percent, draw_sets};
use super::settings::{RecordedSettings, WorkloadSettings};
use crate::chance::RandomStream;

/// A recorded workflow, ready to be copied.
#[derive(Debug)]
pub(super) struct RecordedWorkflow<'a> {
    workflow: &'a Workflow,
    synchronous_level_percent: usize,
    levels: Vec<Vec<usize>>,
}

impl<'a> RecordedWorkflow<'a> {
    pub(super) fn new(workflow: &'a Workflow, settings: &RecordedSettings) -> Self {
        // At most 100.
        let synchronous_level_percent = settings.synchronous_level_percent as usize;
        Self { workflow, synchronous_level_percent, levels: levels(workflow) }
    }

    /// A copy that is ready at an instant, with random sets and channels.
    pub(super) fn draw(
        &self,
        random: &mut RandomStream,
        settings: &WorkloadSettings,
        ready: Time,
    ) -> Workflow {
        let mut copy = self.workflow.clone();
        // The earliest possible one; the world sets it by the critical path.
        copy.deadline = ready.saturating_add(limits::DURATION_MIN);
        copy.ready = ready;
        copy.sync_sets = Vec::new();
        for level in &self.levels {
            let wanted = level.len() * self.synchronous_level_percent / 100;
            let mut chosen = random.choose(wanted, level.len()).into_iter().map(|at| level[at]);
            for size in draw_sets(random, settings.members, wanted) {
                let mut set: Vec<usize> = chosen.by_ref().take(size).collect();
                set.sort_unstable();
                copy.sync_sets.push(set);
            }
        }
        let members = copy.sync_sets.iter().map(Vec::len).sum();
        let wanted = draw_percent(random, settings.channels_percent, members);
        copy.channels = channels(random, &copy.sync_sets, wanted, |random| {
            BitsPerSecond(draw(random, settings.channel_bps))
        });
        copy
    }
}

/// The activities by level.
fn levels(workflow: &Workflow) -> Vec<Vec<usize>> {
    let mut level = vec![0; workflow.activities.len()];
    // As many rounds as the longest chain has activities; a workflow has no cycle.
    for _ in 0..level.len() {
        let mut changed = false;
        for item in &workflow.data {
            let DataSource::Activity(from) = &item.source else { continue };
            for to in &item.consumers {
                if level[*to] <= level[*from] {
                    level[*to] = level[*from] + 1;
                    changed = true;
                }
            }
        }
        if !changed {
            break;
        }
    }
    let mut levels = vec![Vec::new(); level.iter().max().map_or(0, |last| last + 1)];
    for (activity, level) in level.into_iter().enumerate() {
        levels[level].push(activity);
    }
    levels
}

#[cfg(test)]
mod tests {
    use coalloc_common::workflow::WorkflowGraph;

    use super::super::generator::Generator;
    use super::*;

    #[test]
    fn a_share_of_each_level_is_synchronous_and_the_rest_is_as_recorded() {
        let settings = WorkloadSettings::default();
        let mut template = Generator::new(&settings, None, 3).draw_next().workflow;
        template.deadline = Time::from_us(7 * 86_400_000_000);
        let levels = levels(&template);
        for item in &template.data {
            let DataSource::Activity(from) = item.source else { unreachable!("all are made") };
            let level = |of| levels.iter().position(|level| level.contains(of));
            assert!(level(&from) < level(&item.consumers[0]));
        }
        for percent in [0, 50, 100] {
            let file = String::new();
            let recorded = RecordedSettings { file, synchronous_level_percent: percent };
            let recorded = RecordedWorkflow::new(&template, &recorded);
            let mut random = RandomStream::new(5, "test");
            let copy = recorded.draw(&mut random, &settings, Time::from_us(7_000_000));
            assert!(WorkflowGraph::new(&copy).is_ok());
            assert_eq!(copy.ready, Time::from_us(7_000_000));
            // A recorded file has a deadline of days, which must not replace that of the settings.
            assert_eq!(copy.deadline.since(copy.ready), limits::DURATION_MIN);
            assert_eq!((&copy.activities, &copy.data), (&template.activities, &template.data));
            let in_sets: usize = copy.sync_sets.iter().map(Vec::len).sum();
            // A rest of one member makes no set.
            let wanted = |level: &Vec<usize>| match level.len() * percent as usize / 100 {
                1 => 0,
                more => more,
            };
            assert_eq!(in_sets, levels.iter().map(wanted).sum::<usize>(), "{percent} %");
            for set in &copy.sync_sets {
                assert!(levels.iter().any(|level| set.iter().all(|one| level.contains(one))));
            }
        }
    }
}
