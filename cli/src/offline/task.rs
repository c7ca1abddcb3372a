//! Tasks without any daemon: the picture of a federation file, and plans on it.

use std::sync::atomic::AtomicBool;

use coalloc_common::timetable::Timetable;
use coalloc_common::topology::Direction;
use coalloc_common::{
    Amount, AvailabilityVector, Cpus, InvalidField, ResourceId, RmName, Slot, SlotGrid, Span, Time,
    VertexIndex, limits,
};
use coalloc_net::convert::{
    AskedTask, AskedTaskOptions, delivery_to_wire, effort_to_wire, refusal_to_wire, task_from_wire,
    task_options, task_plan_to_wire,
};
use coalloc_plan::Budget;
use coalloc_plan::multicost::{
    ClusterState, Picture, PictureSize, Scratch, Task, TaskInstance, TaskOutcome, TaskPlan,
    TaskRefusal, deliver,
};
use coalloc_proto::v1;

use super::Federation;

/// A task, and the picture that it is planned on.
#[derive(Debug)]
pub struct TaskOnPaper {
    /// As it was asked for.
    pub asked: AskedTask,
    /// How it is planned.
    pub options: AskedTaskOptions,
    /// What planners are told.
    pub task: Task,
    /// What is free of the task's amounts.
    pub picture: Picture,
}

impl Federation {
    /// The task of these messages, and what the file has free of its amounts.
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
        let picture = self.picture(&asked.task, options)?;
        let cluster = asked.cluster.map(|at| site_of(&picture, at)).transpose()?;
        let task = Task { cluster, plans: options.plans, ..asked.task };
        Ok(TaskOnPaper { asked, options, task, picture })
    }

    /// The vectors of every path and site from when the task is ready on.
    fn picture(&self, task: &Task, options: AskedTaskOptions) -> Result<Picture, InvalidField> {
        let AskedTaskOptions { link_grid, cluster_grid, horizon, .. } = options;
        let (links, clusters) =
            (slots(link_grid, task.ready, horizon), slots(cluster_grid, task.ready, horizon));
        let size = PictureSize {
            links: 2 * self.topology.edges().len(),
            wavelengths: 1,
            link_slots: links.1,
            clusters: self.topology.sites().count(),
            cluster_slots: clusters.1,
        };
        size.check()?;
        let vector = |rm: &RmName, resource: &ResourceId, amount, grid, (first, slots)| {
            let timetable = self.timetables.get(&(rm.clone(), resource.clone()));
            let free = |table: &Timetable| {
                AvailabilityVector::of_timetable(table, amount, grid, first, slots)
            };
            // Every resource of the topology has a timetable; of another nothing is free.
            timetable.map_or_else(|| AvailabilityVector::nothing(grid, first, slots), free)
        };
        let (rate, cpus) = (Amount::from(task.rate), Amount::from(task.cpus));
        // The first vector that cannot be made says why none can.
        let mut wrong = None;
        let mut keep = |made: Result<AvailabilityVector, InvalidField>, grid| match made {
            Ok(vector) => Some(vector),
            Err(error) => {
                wrong.get_or_insert(error);
                AvailabilityVector::nothing(grid, Slot(0), 1).ok()
            }
        };
        let mut of_links = Vec::with_capacity(2 * self.topology.edges().len());
        for edge in self.topology.edges() {
            for direction in [Direction::AToB, Direction::BToA] {
                let made = vector(&edge.rm, edge.resource(direction), rate, link_grid, links);
                of_links.extend(keep(made, link_grid));
            }
        }
        let mut of_sites: Vec<(VertexIndex, ClusterState)> = Vec::new();
        for (index, _, compute) in self.topology.sites() {
            let made = vector(&compute.rm, &compute.resource, cpus, cluster_grid, clusters);
            let Some(free) = keep(made, cluster_grid) else { continue };
            let timetable = self.timetables.get(&(compute.rm.clone(), compute.resource.clone()));
            let busy = timetable.map_or(Cpus(0), |table| busy_at(table, task.ready));
            of_sites.push((index, ClusterState { mips: compute.mips, busy, tasks: 0, free }));
        }
        if let Some(error) = wrong {
            return Err(InvalidField { field: "options.horizon".to_owned(), ..error });
        }
        let picture = Picture::of_topology(
            &self.topology,
            (link_grid, task.rate),
            (cluster_grid, task.cpus),
            |edge, direction| of_links[2 * edge.at() + direction.at()].clone(),
            |vertex| of_sites.iter().find(|(at, _)| *at == vertex).map(|(_, state)| state.clone()),
        )?;
        Ok(picture.with_guard(options.guard_slots))
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
        let mut scratch = Scratch::default();
        let instance = TaskInstance::new(task, picture)?;
        let wire = |plan: &TaskPlan| task_plan_to_wire(&self.topology, picture, task, plan);
        let refused = |refused: &TaskRefusal| v1::TaskPlanResponse {
            refusal: Some(refusal_to_wire(&refused.refusal)),
            nearest: refused.nearest.as_ref().map(wire),
            ..v1::TaskPlanResponse::default()
        };
        let planned = |plans| v1::TaskPlanResponse { plans, ..v1::TaskPlanResponse::default() };
        let (response, effort) = match asked.output {
            None => {
                let answer = planner.plan(&instance, &budget, &mut scratch);
                let response = match &answer.outcome {
                    TaskOutcome::Planned(plans) => planned(plans.iter().map(wire).collect()),
                    TaskOutcome::Refused(refusal) => refused(refusal),
                };
                (response, answer.effort)
            }
            Some(output) => {
                let answer = deliver(planner.as_ref(), &instance, output, &budget, &mut scratch)?;
                let response = match &answer.0 {
                    Ok(found) => {
                        planned(vec![delivery_to_wire(&self.topology, picture, task, found)])
                    }
                    Err(refusal) => refused(refusal),
                };
                (response, answer.1)
            }
        };
        Ok(v1::TaskPlanResponse { effort: Some(effort_to_wire(effort)), ..response })
    }
}

/// The first slot of a vector that begins with an instant, and how many reach over the horizon. The slot in
/// which the instant lies is the first, so that vectors of both grids begin alike.
fn slots(grid: SlotGrid, ready: Time, horizon: Span) -> (Slot, usize) {
    let slots = grid.slots_for(horizon).saturating_add(1);
    (grid.containing(ready), usize::try_from(slots).unwrap_or(usize::MAX))
}

/// CPUs that are taken at an instant.
fn busy_at(timetable: &Timetable, at: Time) -> Cpus {
    let moment = coalloc_common::Window::starting(at, Span::from_us(1));
    let free = moment.map_or(Amount(0), |moment| timetable.free_min(moment));
    Cpus(timetable.capacity().saturating_sub(free).0)
}

/// The picture's index of a site.
fn site_of(picture: &Picture, vertex: VertexIndex) -> Result<usize, InvalidField> {
    let found = picture.clusters().iter().position(|cluster| cluster.vertex == vertex);
    found.ok_or_else(|| InvalidField::new("cluster", vertex.0, "a site of the federation"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offline::take;
    use coalloc_net::convert::segments_from_wire;
    use coalloc_plan::multicost::TaskPlannerName;
    use coalloc_proto::file::read_from;
    use rand::RngExt as _;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng as _;

    const READY_S: i64 = 1_800_000_000;

    /// Four sites in a ring with a chord; the directions of the chord are separate.
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
            // What does not fit is not taken.
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
