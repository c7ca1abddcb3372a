//! Tasks without any daemon: the picture of a federation file, and plans on this picture.

use std::sync::atomic::AtomicBool;

use coalloc_common::timetable::Timetable;
use coalloc_common::{
    Amount, AvailabilityVector, InvalidField, ResourceId, RmName, Slot, SlotGrid, Span, Time,
    VertexIndex, limits,
};
use coalloc_net::convert::{
    ParsedTask, ParsedTaskOptions, task_from_wire, task_options, whole_to_wire,
};
use coalloc_plan::Budget;
use coalloc_plan::multicost::{BelievedNetwork, Knowledge, Scratch, Task, TaskInstance, whole};
use coalloc_proto::v1;

use super::Federation;

/// A task, and the picture on which it is planned.
#[derive(Debug)]
pub struct TaskOnPaper {
    /// The task as it was asked for.
    pub asked: ParsedTask,
    /// How the task is planned.
    pub options: ParsedTaskOptions,
    /// The task as planners get it.
    pub task: Task,
    /// What is free of the task's amounts.
    pub picture: BelievedNetwork,
}

impl Federation {
    /// The task of these messages, and what is free of its amounts in the file.
    ///
    /// # Errors
    /// [`InvalidField`] for the first field that is wrong.
    pub fn task(
        &self,
        request: &v1::TaskRequest,
        options: &v1::TaskOptions,
        soonest: Time,
    ) -> Result<TaskOnPaper, InvalidField> {
        let asked = task_from_wire(&self.topology, request, soonest)?;
        let options = task_options(options, &asked.task)?;
        let picture = BelievedNetwork::cut(&self.topology, &asked.task, options.cut, self)?;
        let cluster = asked.cluster.map(|at| site_of(&picture, at)).transpose()?;
        let task = Task { cluster, plans: options.plans, ..asked.task };
        Ok(TaskOnPaper { asked, options, task, picture })
    }

    /// Plans a task.
    ///
    /// # Errors
    /// [`InvalidField`] when the task does not fit its picture.
    pub fn plan_task(&self, paper: &TaskOnPaper) -> Result<v1::TaskPlanResponse, InvalidField> {
        let TaskOnPaper { asked, options, task, picture } = paper;
        let planner = options.planner.planner();
        let stop = AtomicBool::new(false);
        let nodes = limits::PLANNING_NODES_MAX;
        let budget = Budget { nodes, solver_time: Span::ZERO, stop: &stop };
        let instance = TaskInstance::new(task, picture)?;
        let output = asked.output;
        let found = whole(planner.as_ref(), &instance, output, &budget, &mut Scratch::default())?;
        Ok(whole_to_wire(&self.topology, picture, task, &found))
    }
}

impl Knowledge for Federation {
    fn vector(
        &self,
        rm: &RmName,
        resource: &ResourceId,
        amount: Amount,
        grid: SlotGrid,
        first: Slot,
        slots: usize,
    ) -> Result<AvailabilityVector, InvalidField> {
        let free =
            |table: &Timetable| AvailabilityVector::of_timetable(table, amount, grid, first, slots);
        let timetable = self.timetables.get(&(rm.clone(), resource.clone()));
        let vector =
            timetable.map_or_else(|| AvailabilityVector::nothing(grid, first, slots), free);
        vector.map_err(|error| InvalidField { field: "options.horizon".to_owned(), ..error })
    }

    fn free_at(&self, rm: &RmName, resource: &ResourceId, at: Time) -> Amount {
        let timetable = self.timetables.get(&(rm.clone(), resource.clone()));
        let moment = coalloc_common::Window::starting(at, Span::from_us(1));
        timetable.zip(moment).map_or(Amount::ZERO, |(table, moment)| table.free_min(moment))
    }
}

/// The picture's index of a site.
fn site_of(picture: &BelievedNetwork, vertex: VertexIndex) -> Result<usize, InvalidField> {
    let none = || InvalidField::new("cluster", vertex.0, "a site of the federation");
    picture.cluster_at(vertex).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::offline::take;
    use coalloc_net::convert::segments_from_wire;
    use coalloc_plan::{Named as _, TaskPlannerName};
    use coalloc_proto::file::read_from;
    use rand::RngExt as _;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng as _;

    const READY_S: i64 = 1_800_000_000;

    /// Four sites in a ring with a chord; each direction of the chord has its own capacity.
    fn ring(dice: &mut ChaCha8Rng) -> Federation {
        let mut text = String::from("name: ring\nexchange_points: [X]\ncomputes:\n");
        for name in ["A", "B", "C", "D"] {
            let mips = 1_000 * dice.random_range(1..=3);
            text += &format!(
                "  - {{name: crm-{name}, domain: d, sites: [{{name: {name}, cpus: 4, mips: {mips}}}]}}\n"
            );
        }
        text += "networks:\n  - name: nrm\n    domain: d\n    paths:\n";
        let paths = [("A", "B"), ("B", "C"), ("C", "D"), ("D", "A"), ("A", "X"), ("X", "C")];
        for (a, b) in paths {
            let (full, ms) = (a == "X" || b == "X", dice.random_range(0..900));
            text += &format!(
                "      - {{name: {a}{b}, a: {a}, b: {b}, capacity_bps: 1000, latency: 0.{ms:03}s, full_duplex: {full}}}\n"
            );
        }
        let mut federation =
            Federation::of(read_from("ring.yaml".as_ref(), text.as_bytes()).unwrap()).unwrap();
        let resources: Vec<_> = federation.timetables.keys().cloned().collect();
        for _ in 0..40 {
            let (rm, resource) = resources[dice.random_range(0..resources.len())].clone();
            let most = if rm.as_str() == "nrm" { 1_000 } else { 4 };
            let start = Time::from_us(
                (READY_S + dice.random_range(0..120)) * 1_000_000 + dice.random_range(0..999_999),
            );
            let length = Span::from_millis(dice.random_range(100..20_000));
            let window = coalloc_common::Window::starting(start, length).unwrap();
            let amount = Amount(dice.random_range(1..=most));
            // What does not fit is left out.
            let _ = take(
                &mut federation.timetables,
                rm,
                &coalloc_common::Segment { resource, amount, window },
            );
        }
        federation
    }

    #[test]
    fn whatever_is_planned_can_be_held() {
        let mut planned = 0;
        for seed in 0..60 {
            let mut dice = ChaCha8Rng::seed_from_u64(seed);
            let federation = ring(&mut dice);
            let output =
                dice.random_bool(0.3).then(|| v1::TaskOutput { to: "B".into(), bytes: 300 });
            let request = v1::TaskRequest {
                source: ["A", "X", "D"][dice.random_range(0..3)].into(),
                data_bytes: dice.random_range(1..1_500),
                work_mi: dice.random_range(1..10_000),
                cpus: Some(dice.random_range(1..=4)),
                bandwidth_bps: dice.random_range(1..=1_000),
                ready: Some(coalloc_proto::Timestamp { seconds: READY_S, nanos: 0 }),
                output,
                ..v1::TaskRequest::default()
            };
            for name in TaskPlannerName::ALL {
                let options = v1::TaskOptions {
                    planner: Some(name.name().into()),
                    plans: Some(3),
                    link_slot: Some(coalloc_proto::Duration { seconds: 0, nanos: 700_000_000 }),
                    cluster_slot: Some(coalloc_proto::Duration { seconds: 1, nanos: 0 }),
                    ..v1::TaskOptions::default()
                };
                let paper = federation.task(&request, &options, Time::from_us(0)).unwrap();
                let response = federation.plan_task(&paper).unwrap();
                assert_ne!(response.plans.is_empty(), response.refusal.is_none(), "{name:?}");
                for plan in &response.plans {
                    let looked_at = plan.legs_looked_at as usize == plan.legs.len();
                    let mut timetables = federation.timetables.clone();
                    for wire in &plan.segments {
                        let rm = RmName::composed(wire.resource_manager.as_str());
                        let all =
                            segments_from_wire("segments", std::slice::from_ref(wire)).unwrap();
                        let fits = take(&mut timetables, rm, &all[0]);
                        assert!(
                            fits.is_ok() || !looked_at,
                            "seed {seed}, {name:?}: {wire:?}: {fits:?}"
                        );
                        planned += 1;
                    }
                }
            }
        }
        assert!(planned > 500, "{planned} segments");
    }
}
