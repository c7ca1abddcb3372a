//! What is requested: one task, whose input data travel to a cluster, where it then runs.

use coalloc_common::invalid::check_range;
use coalloc_common::vector::kernel;
use coalloc_common::{BitsPerSecond, Cpus, InvalidField, Span, Time, VertexIndex, limits};

use super::frame::slots_from;
use super::picture::BelievedNetwork;

/// How the nodes of the path learn of the data before these are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signalling {
    /// Tell-and-go, one-way: data follow `lead` after the message that announces them (the offset
    /// of just-enough-time reservation), whether or not the nodes on the path accept it.
    TellAndGo {
        /// Not negative; usually the time that the nodes need to process the message.
        lead: Span,
    },
    /// Tell-and-wait, two-way: data are sent when the answer has come back, which takes a round
    /// trip over the path and `lead`.
    TellAndWait {
        /// Not negative; the time that the nodes need in addition to the round trip.
        lead: Span,
    },
}

impl Signalling {
    /// One-way without an offset, as in the papers.
    pub const ONE_WAY: Self = Self::TellAndGo { lead: Span::ZERO };

    pub(super) const fn lead(self) -> Span {
        match self {
            Self::TellAndGo { lead } | Self::TellAndWait { lead } => lead,
        }
    }

    /// How often a message crosses the path before data may leave.
    pub(super) const fn travels(self) -> usize {
        match self {
            Self::TellAndGo { .. } => 0,
            Self::TellAndWait { .. } => 2,
        }
    }
}

/// What makes one plan better than another. Every objective grows with each of the costs that it
/// uses, so a plan whose path and cluster are worse in everything is never better (Stevens 2009,
/// section 4.4, phase 3). Ties go to the earlier completion and then to the smaller delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskObjective {
    /// The end of the run: the choice of the papers.
    Completion,
    /// The time at which the last data are at the cluster.
    Arrival,
    /// The number of tasks scheduled at the cluster.
    FewestTasks,
    /// A weighted sum, in microseconds: `completion` times the completion, plus `arrival` times the
    /// arrival, both counted from the task's `ready`, plus `per_task` for each task scheduled at
    /// the cluster.
    Weighted {
        /// Weight of the completion; any number.
        completion: u32,
        /// Weight of the arrival; any number.
        arrival: u32,
        /// How many microseconds one scheduled task counts as.
        per_task: u32,
    },
}

/// One task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The vertex where the data are.
    pub source: VertexIndex,
    /// Size of the data in bytes: 1 to [`limits::TASK_BYTES_MAX`].
    pub data_bytes: u64,
    /// The work of each of its CPUs, in million instructions: 1 to [`limits::TASK_WORK_MAX_MI`].
    pub work_mi: u64,
    /// How many CPUs it runs on (`r`), all in one cluster: 1 to [`limits::CPUS_MAX`].
    pub cpus: Cpus,
    /// The rate at which data are sent, on every link: 1 to [`limits::BANDWIDTH_MAX_BPS`] bit/s.
    pub rate: BitsPerSecond,
    /// Nothing happens before this instant. For an immediate task it is "now".
    pub ready: Time,
    /// When the run has to have ended, if there is a deadline (`ready + D` of the papers).
    pub deadline: Option<Time>,
    /// What makes a plan the best.
    pub objective: TaskObjective,
    /// What has to happen before data are sent.
    pub signalling: Signalling,
    /// The only cluster in which the task may run, by index in [`BelievedNetwork::clusters`];
    /// `None` when any will do.
    pub cluster: Option<usize>,
    /// The most plans that are wanted: 1 to [`limits::TASK_PLANS_MAX`].
    pub plans: usize,
}

/// A task and the picture it is planned on, checked against each other: everything that a planner
/// gets to know.
#[derive(Debug, Clone, Copy)]
pub struct TaskInstance<'a> {
    pub(super) task: &'a Task,
    pub(super) picture: &'a BelievedNetwork,
}

impl<'a> TaskInstance<'a> {
    /// A task to be planned on a picture.
    ///
    /// # Errors
    /// [`InvalidField`] when a number is out of its range, the source is no vertex of the picture,
    /// or the picture's vectors are for less than the task's rate or CPUs and so cannot answer for
    /// it.
    pub fn new(task: &'a Task, picture: &'a BelievedNetwork) -> Result<Self, InvalidField> {
        let last = u32::try_from(picture.vertices()).unwrap_or(u32::MAX).saturating_sub(1);
        check_range("source", task.source.0, 0..=last, "(a vertex of the picture)")?;
        check_range("data_bytes", task.data_bytes, 1..=limits::TASK_BYTES_MAX, "bytes")?;
        check_range("work_mi", task.work_mi, 1..=limits::TASK_WORK_MAX_MI, "MI")?;
        check_range("cpus", task.cpus.0, 1..=picture.cpus().0, "CPUs (what the picture is of)")?;
        check_range("rate", task.rate.0, 1..=picture.rate().0, "bit/s (what the picture is of)")?;
        if let Some(cluster) = task.cluster {
            let known = picture.clusters().len();
            if cluster >= known {
                let allowed = format!("a cluster of the picture, which has {known}");
                return Err(InvalidField::new("cluster", cluster, allowed));
            }
        }
        check_range("plans", task.plans, 1..=limits::TASK_PLANS_MAX, "plans")?;
        let times = [("ready", Some(task.ready)), ("deadline", task.deadline)];
        for (field, time) in times.into_iter().filter_map(|(f, time)| Some((f, time?))) {
            if !(0..=limits::TIME_MAX_US).contains(&time.as_us()) {
                return Err(InvalidField::new(field, time, "1970-01-01 to 2255-06-05"));
            }
        }
        let lead = task.signalling.lead();
        if !(Span::ZERO..=limits::LATENCY_MAX).contains(&lead) {
            let allowed = format!("0 to {}", limits::LATENCY_MAX);
            return Err(InvalidField::new("signalling.lead", lead, allowed));
        }
        // A search keeps the vector of each link, and all of them have the same length.
        let base = picture.link_grid().first_from(task.ready);
        let slots = kernel::words_for(slots_from(picture, base)) * kernel::WORD;
        let all = (slots as u64).saturating_mul(picture.links().len() as u64);
        let text = "slots of all links from `ready` on";
        check_range("picture", all, 0..=limits::PICTURE_SLOTS_MAX, text)?;
        Ok(Self { task, picture })
    }

    /// The task.
    #[must_use]
    pub const fn task(&self) -> &'a Task {
        self.task
    }
    /// The picture.
    #[must_use]
    pub const fn picture(&self) -> &'a BelievedNetwork {
        self.picture
    }

    /// How many link slots the data take (`b = I / C`, rounded up).
    #[must_use]
    pub fn data_slots(&self) -> u64 {
        let time = time_for(u128::from(self.task.data_bytes) * 8, self.task.rate.0);
        self.picture.link_grid().slots_for(time)
    }

    /// How many cluster slots the run takes on CPUs of this many MIPS (`w = W / C_m`, rounded up).
    #[must_use]
    pub fn run_slots(&self, mips: u64) -> u64 {
        self.picture.cluster_grid().slots_for(time_for(u128::from(self.task.work_mi), mips))
    }
}

/// How long an amount takes at a rate per second, rounded up to a microsecond.
fn time_for(amount: u128, per_second: u64) -> Span {
    let us = (amount * 1_000_000).div_ceil(u128::from(per_second.max(1)));
    Span::from_us(i64::try_from(us).unwrap_or(i64::MAX))
}
