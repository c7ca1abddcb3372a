//! A second opinion on booked workflows, from first principles: what the workflow asks for, what was reported, and
//! what the RMs have booked. It shares no code with the planners, with the reader of reports, or with what computes
//! segments.
//!
//! Each version is checked when it is booked everywhere, and again at rest:
//!
//! * the members of a synchronous set have one window, and their channels lead from site to site;
//! * no activity begins before its data can be there: the producer has ended by what was reported, or else by its
//!   window, and the data have travelled as long as their rate takes;
//! * every activity runs long enough, unless it was reported to end sooner, and all end by the deadline;
//! * in place of an older version: what has begun stays where it is; a set is freed early only when every member has
//!   ended by what was reported; what has failed runs again, later; what was taken until then stays taken;
//! * each RM has booked exactly what all this takes, at every instant.
//!
//! Left out: whether a better version exists; capacities, which [`model`](super::model) adds up; reservations that
//! were lost with a disk (F11), and what an RM has that lies (F7). When the coordinator's clock was set (F5), it may
//! place something before a report that has arrived; then the rules about the present are left out.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::topology::Direction;
use coalloc_common::workflow::{ActivityEvent, ActivityReport, DataSource};
use coalloc_common::{ActivityName, ResourceId, RmName, Segment, Time, VertexIndex, Window};
use coalloc_plan::Route;
use coalloc_plan::workflow::PlacedActivity;
use coalloc_protocol::coordinator::Reservation;

use super::World;
use super::workflows::{WorkflowVersion, activity_reports};

/// What reports say of one placement of an activity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) begun: bool,
    pub(super) failed: bool,
    pub(super) finished: bool,
    /// When it has ended or will end.
    pub(super) end: Option<Time>,
}

impl Said {
    /// What these reports say of an activity since it was to begin. What happened later replaces what happened before,
    /// in whichever order it was reported.
    pub(super) fn of(reports: &[ActivityReport], activity: &ActivityName, start: Time) -> Self {
        let mut said = Self::default();
        let is_of = |report: &&ActivityReport| report.activity == *activity && report.at >= start;
        let mut reports: Vec<_> = reports.iter().filter(is_of).collect();
        reports.sort_by_key(|report| report.at);
        for report in reports {
            match report.event {
                ActivityEvent::Started => (said.begun, said.failed) = (true, false),
                ActivityEvent::Finished => {
                    let end = Some(report.at);
                    said = Self { begun: true, failed: false, finished: true, end };
                }
                ActivityEvent::NeedsUntil(end) => {
                    said = Self { begun: true, end: Some(end), ..Self::default() };
                }
                ActivityEvent::Failed => said = Self { failed: true, ..Self::default() },
            }
        }
        said
    }
}

/// Changes of an amount at instants; two lists of changes are equal when the amounts always are.
type Changes = BTreeMap<(RmName, ResourceId), BTreeMap<Time, i128>>;

fn take(all: &mut Changes, rm: &RmName, resource: &ResourceId, amount: u64, window: Window) {
    let of = all.entry((rm.clone(), resource.clone())).or_default();
    *of.entry(window.start()).or_default() += i128::from(amount);
    *of.entry(window.end()).or_default() -= i128::from(amount);
}

fn take_segments(all: &mut Changes, rm: &RmName, segments: &[Segment]) {
    for segment in segments {
        take(all, rm, &segment.resource, segment.amount.0, segment.window);
    }
}

/// The same changes without those that cancel out. Amounts after `until` count as none.
fn tidy(mut all: Changes, until: Time) -> Changes {
    for of in all.values_mut() {
        let sum: i128 = of.range(..until).map(|(_, change)| change).sum();
        let _ = of.split_off(&until);
        of.insert(until, -sum);
        of.retain(|_, change| *change != 0);
    }
    all.retain(|_, of| !of.is_empty());
    all
}

/// The first instant before `until` at which less of something is taken than was taken before.
fn given_back(before: &Changes, after: &Changes, until: Time) -> Option<Time> {
    let none = BTreeMap::new();
    let of = |(key, was): (&(RmName, ResourceId), &BTreeMap<Time, i128>)| {
        let is = after.get(key).unwrap_or(&none);
        let sum = |of: &BTreeMap<Time, i128>, at: Time| -> i128 {
            of.range(..=at).map(|(_, change)| change).sum()
        };
        let mut instants = was.keys().chain(is.keys()).filter(|at| **at < until);
        instants.find(|at| sum(is, **at) < sum(was, **at)).copied()
    };
    before.iter().find_map(of)
}

impl World {
    /// Checks the booked version of a reservation, if it is a workflow.
    pub(super) fn check_workflow(&self, grc: usize, known: &Reservation) -> Result<(), String> {
        let id = &known.id;
        let candidate =
            known.candidate.as_ref().filter(|_| !self.workflows.topology.vertices().is_empty());
        let Some(index) = candidate.and_then(|booked| self.workflows.version_of(booked)) else {
            return Ok(());
        };
        if self.watch.exempt.is_lost(id.as_str()) {
            return Ok(());
        }
        let version = &self.workflows.versions[index];
        let node = &self.grcs[grc];
        let reports = activity_reports(node.shadow.reports(id));
        let Some(said) = reports.get(..version.reports) else {
            return Err(format!("{id} was revised after reports that {} does not know", node.name));
        };
        let clock = !node.clock.was_set;
        let base = version.base.map(|base| &self.workflows.versions[base]);
        let wrong = |what: String| format!("workflow {id}, version {}: {what}", known.version);
        self.check_rules(version, said, clock).map_err(wrong)?;
        if let Some(base) = base {
            self.check_revised(base, version, said, clock).map_err(wrong)?;
        }
        self.check_booked(known, version).map_err(wrong)
    }

    /// The rules of the workflow, whatever was booked before.
    fn check_rules(
        &self,
        version: &WorkflowVersion,
        said: &[ActivityReport],
        clock: bool,
    ) -> Result<(), String> {
        let WorkflowVersion { workflow, schedule, .. } = version;
        let topology = &self.workflows.topology;
        let said_of = |index: usize| {
            let start = schedule.activities[index].window.start();
            Said::of(said, &workflow.activities[index].name, start)
        };
        for (index, activity) in workflow.activities.iter().enumerate() {
            let PlacedActivity { site, window } = schedule.activities[index];
            let vertex = topology.vertex(site);
            let Some(compute) = &vertex.compute else {
                return Err(format!("{} runs where no CPUs are", activity.name));
            };
            let needs = activity.work.duration_at(&vertex.name, compute.mips);
            let said = said_of(index);
            if said.end.is_none() && needs.is_none_or(|needs| window.length() < needs) {
                return Err(format!("{} needs {needs:?}, but has {window}", activity.name));
            }
            if said.failed && clock {
                return Err(format!("{} has failed at {window} and stays there", activity.name));
            }
            if window.end() > workflow.deadline {
                return Err(format!("{} ends after the deadline, in {window}", activity.name));
            }
        }
        for set in &workflow.sync_sets {
            let of = |index: &usize| schedule.activities[*index].window;
            let windows: BTreeSet<Window> = set.iter().map(of).collect();
            if windows.len() > 1 {
                return Err(format!("a synchronous set runs at different times: {windows:?}"));
            }
        }
        for set in &workflow.same_site {
            let of = |index: &usize| schedule.activities[*index].site;
            let sites: BTreeSet<VertexIndex> = set.iter().map(of).collect();
            if sites.len() > 1 {
                return Err(format!("activities of one site run at {sites:?}"));
            }
        }
        for (channel, route) in workflow.channels.iter().zip(&schedule.channels) {
            let site = |index: usize| schedule.activities[index].site;
            self.check_route(route, site(channel.from), site(channel.to))?;
        }
        for (number, item) in workflow.data.iter().enumerate() {
            let (from, made, source) = match &item.source {
                DataSource::Site(name) => {
                    let site = topology.find_vertex(name).ok_or("data lie nowhere")?;
                    (site, Time::MIN, "a site".to_owned())
                }
                DataSource::Activity(producer) => {
                    let placed = schedule.activities[*producer];
                    let end = said_of(*producer).end.unwrap_or(placed.window.end());
                    // A clock that is behind has not seen an end that comes after the window.
                    let end = if clock { end } else { end.min(placed.window.end()) };
                    (placed.site, end, workflow.activities[*producer].name.to_string())
                }
            };
            for consumer in &item.consumers {
                let PlacedActivity { site, window } = schedule.activities[*consumer];
                let mut there = made;
                if site != from && item.bytes > 0 {
                    let mut all = schedule.transfers.iter();
                    let travels = all.find(|one| one.item == number && one.to == site);
                    let travels =
                        travels.ok_or_else(|| format!("{} does not travel", item.name))?;
                    self.check_route(&travels.route, travels.from, site)?;
                    if travels.from != from {
                        return Err(format!("{} travels from where it is not", item.name));
                    }
                    if travels.window.start() < made {
                        let start = travels.window.start();
                        return Err(format!(
                            "{} travels from {start} on, but {source} ends at {made}",
                            item.name
                        ));
                    }
                    let us = u128::from(travels.window.length().as_us().unsigned_abs());
                    if us * u128::from(travels.rate.0) < u128::from(item.bytes) * 8_000_000 {
                        return Err(format!("{} has too little time to travel", item.name));
                    }
                    there = travels.window.end();
                }
                if window.start() < there {
                    let name = &workflow.activities[*consumer].name;
                    let begins = window.start();
                    return Err(format!(
                        "{name} begins at {begins}, but {} of {source} is there at {there}",
                        item.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// A route leads from one site to another without a gap.
    fn check_route(&self, route: &Route, from: VertexIndex, to: VertexIndex) -> Result<(), String> {
        let mut at = from;
        for (edge, direction) in route {
            let edge = self.workflows.topology.edge(*edge);
            let (tail, head) = match direction {
                Direction::AToB => (edge.a, edge.b),
                Direction::BToA => (edge.b, edge.a),
            };
            if tail != at {
                return Err(format!("a route has a gap before {}", edge.name));
            }
            at = head;
        }
        if at == to { Ok(()) } else { Err(format!("a route ends at {at:?} instead of {to:?}")) }
    }

    /// What a version must leave as it was in the version that it replaces.
    fn check_revised(
        &self,
        base: &WorkflowVersion,
        version: &WorkflowVersion,
        said: &[ActivityReport],
        clock: bool,
    ) -> Result<(), String> {
        let activities = &base.workflow.activities;
        let (old, new) = (&base.schedule.activities, &version.schedule.activities);
        let said: Vec<Said> = activities
            .iter()
            .zip(old)
            .map(|(activity, was)| Said::of(said, &activity.name, was.window.start()))
            .collect();
        for (index, (was, is)) in old.iter().zip(new).enumerate() {
            let name = &activities[index].name;
            let sets = base.workflow.sync_sets.iter().filter(|set| set.contains(&index));
            let set: BTreeSet<usize> = sets.flatten().copied().chain([index]).collect();
            let failed = set.iter().any(|member| said[*member].failed);
            let stays = (was.site, was.window.start()) == (is.site, is.window.start());
            if failed && clock && is.window.start() < version.cut {
                return Err(format!("{name} or its set has failed, but it does not run again"));
            }
            if said[index].begun && !failed && !stays {
                return Err(format!("{name} has begun, but moves from {was:?} to {is:?}"));
            }
            if !stays && is.window.start() < version.cut {
                return Err(format!("{name} is placed in the past, at {}", is.window));
            }
            let place = &self.workflows.topology.vertex(is.site).name;
            if !stays && !version.workflow.activities[index].may_run_at(place) {
                return Err(format!("{name} is placed at {place}, which is to be avoided"));
            }
            if stays && !failed && is.window.end() < was.window.end() {
                let end = is.window.end();
                let runs = |member: &&usize| said[**member].end.is_none_or(|said| said > end);
                if let Some(member) = set.iter().find(runs) {
                    let member = &activities[*member].name;
                    return Err(format!("{name} is freed at {end}, when {member} still runs"));
                }
            }
        }
        let (before, after) = (self.all_taken(base), self.all_taken(version));
        if tidy(before.clone(), version.now) != tidy(after.clone(), version.now) {
            return Err(format!("what was taken before {} does not stay as it was", version.now));
        }
        match given_back(&before, &after, version.cut) {
            Some(at) => Err(format!("something is given back at {at}, before {}", version.cut)),
            None => Ok(()),
        }
    }

    /// What a version takes: activities, channels for as long as their set, transfers, and what was given up.
    fn all_taken(&self, version: &WorkflowVersion) -> Changes {
        let WorkflowVersion { workflow, schedule, past, .. } = version;
        let topology = &self.workflows.topology;
        let mut all = Changes::new();
        for (activity, placed) in workflow.activities.iter().zip(&schedule.activities) {
            if let Some(compute) = &topology.vertex(placed.site).compute {
                let cpus = activity.cpus.0;
                take(&mut all, &compute.rm, &compute.resource, cpus, placed.window);
            }
        }
        let mut take_route = |route: &Route, rate: u64, window: Window| {
            for (edge, direction) in route {
                let edge = topology.edge(*edge);
                take(&mut all, &edge.rm, edge.resource(*direction), rate, window);
            }
        };
        for (channel, route) in workflow.channels.iter().zip(&schedule.channels) {
            let window = schedule.activities[channel.from].window;
            take_route(route, channel.bandwidth.0, window);
        }
        for travels in &schedule.transfers {
            take_route(&travels.route, travels.rate.0, travels.window);
        }
        for (rm, segments) in past {
            take_segments(&mut all, rm, segments);
        }
        all
    }

    /// Each RM has booked what the version takes, no more and no less.
    fn check_booked(&self, known: &Reservation, version: &WorkflowVersion) -> Result<(), String> {
        let Some(txn) = &known.transaction else { return Err("it has no transaction".to_owned()) };
        let mut wanted: BTreeMap<RmName, Changes> = BTreeMap::new();
        for (key, changes) in tidy(self.all_taken(version), Time::MAX) {
            wanted.entry(key.0.clone()).or_default().insert(key, changes);
        }
        for (index, rm) in self.rms.iter().enumerate() {
            let name = RmName::composed(&*rm.name);
            if self.watch.exempt.is_free(index, txn) || self.watch.is_over(txn, &name) {
                continue;
            }
            let order = rm.shadow.entries().get(txn).and_then(|entry| entry.order.as_ref());
            let mut has = Changes::new();
            take_segments(&mut has, &name, order.map_or(&[][..], |order| &order.segments));
            let wanted = wanted.remove(&name).unwrap_or_default();
            if tidy(has, Time::MAX) != wanted {
                return Err(format!("{name} has booked something else than the plan says"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::Span;

    use super::*;

    fn at(s: i64) -> Time {
        Time::from_us(0).saturating_add(Span::from_secs(s))
    }

    #[test]
    fn the_last_report_since_the_start_counts() {
        let report = |event, s| ActivityReport {
            activity: ActivityName::composed("a"),
            event,
            at: at(s),
            excluded: BTreeSet::new(),
        };
        let all = [
            report(ActivityEvent::NeedsUntil(at(20)), 5),
            report(ActivityEvent::Finished, 9),
            report(ActivityEvent::Failed, 12),
        ];
        let of = |count: usize, start| Said::of(&all[..count], &all[0].activity, at(start));
        assert_eq!(of(1, 5).end, Some(at(20)));
        assert_eq!(of(1, 6), Said::default());
        assert_eq!((of(2, 0).end, of(2, 0).finished), (Some(at(9)), true));
        assert_eq!(of(3, 0), Said { failed: true, ..Said::default() });
    }

    #[test]
    fn amounts_are_compared_at_every_instant() {
        let (rm, resource) = (RmName::composed("rm"), ResourceId::composed("a"));
        let of = |parts: &[(u64, i64, i64)]| {
            let mut all = Changes::new();
            for (amount, start, end) in parts {
                let window = Window::new(at(*start), at(*end)).expect("a window");
                take(&mut all, &rm, &resource, *amount, window);
            }
            all
        };
        let (whole, parts) = (of(&[(3, 0, 10)]), of(&[(1, 0, 10), (2, 0, 4), (2, 4, 10)]));
        assert_eq!(tidy(whole.clone(), Time::MAX), tidy(parts, Time::MAX));
        let longer = of(&[(3, 0, 11)]);
        assert_ne!(tidy(whole.clone(), Time::MAX), tidy(longer.clone(), Time::MAX));
        assert_eq!(tidy(whole.clone(), at(10)), tidy(longer.clone(), at(10)));
        assert_eq!(given_back(&whole, &longer, at(20)), None);
        assert_eq!(given_back(&longer, &whole, at(20)), Some(at(10)));
        assert_eq!(given_back(&longer, &whole, at(10)), None);
    }
}
