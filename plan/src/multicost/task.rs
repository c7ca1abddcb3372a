//! What is asked: one task, whose data travel to a cluster and are then computed on.

use coalloc_common::invalid::check_range;
use coalloc_common::vector::kernel;
use coalloc_common::{BitsPerSecond, Cpus, InvalidField, Span, Time, VertexIndex, limits};

use super::frame::slots_from;
use super::picture::BelievedNetwork;

/// Before data may be sent, the nodes of the path are told of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signalling {
    /// Tell-and-go, one-way: data follow `lead` behind the message that announces them (the offset
    /// of just-enough-time reservation), whatever it meets on its way.
    TellAndGo {
        /// Not negative; usually what the nodes take to read the message.
        lead: Span,
    },
    /// Tell-and-wait, two-way: data are sent when the answer is back, a round trip over the path and
    /// `lead` later.
    TellAndWait {
        /// Not negative; what the nodes take beside the round trip.
        lead: Span,
    },
}

impl Signalling {
    /// One-way, without an offset: the papers' setting.
    pub const ONE_WAY: Self = Self::TellAndGo { lead: Span::ZERO };

    pub(super) const fn lead(self) -> Span {
        match self {
            Self::TellAndGo { lead } | Self::TellAndWait { lead } => lead,
        }
    }

    /// How often the path is travelled before data may leave.
    pub(super) const fn travels(self) -> usize {
        match self {
            Self::TellAndGo { .. } => 0,
            Self::TellAndWait { .. } => 2,
        }
    }
}

/// What a plan is best by. Every one grows with each of the costs it looks at, so that a plan of a path
/// and cluster that are worse in everything is never the better one (Stevens 2009, section 4.4, phase
/// 3). Where two are equal, the earlier completion and then the smaller delay decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskObjective {
    /// When the run ends: the papers' choice.
    Completion,
    /// When the last data are at the cluster.
    Arrival,
    /// The cluster with the fewest tasks scheduled.
    FewestTasks,
    /// A weighted sum, in microseconds: `completion` times the completion and `arrival` times the
    /// arrival, both from the task's `ready` on, and `per_task` for each task scheduled at the
    /// cluster.
    Weighted {
        /// Weight of the completion, any.
        completion: u32,
        /// Weight of the arrival, any.
        arrival: u32,
        /// Microseconds that one scheduled task counts as.
        per_task: u32,
    },
}

/// One task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Where the data are.
    pub source: VertexIndex,
    /// The data, in bytes: 1 to [`limits::TASK_BYTES_MAX`].
    pub data_bytes: u64,
    /// What each of its CPUs has to do, in million instructions: 1 to [`limits::TASK_WORK_MAX_MI`].
    pub work_mi: u64,
    /// CPUs it runs on (`r`), all of them in one cluster: 1 to [`limits::CPUS_MAX`].
    pub cpus: Cpus,
    /// The rate it sends at, on every link: 1 to [`limits::BANDWIDTH_MAX_BPS`].
    pub rate: BitsPerSecond,
    /// Nothing happens before this instant: "now" for an immediate task.
    pub ready: Time,
    /// The run ends at the latest then, if that is asked (`ready + D` of the papers).
    pub deadline: Option<Time>,
    /// What is best.
    pub objective: TaskObjective,
    /// What comes before data are sent.
    pub signalling: Signalling,
    /// The only cluster it may run in, by index in [`BelievedNetwork::clusters`]; none: any.
    pub cluster: Option<usize>,
    /// How many plans are wanted at most: 1 to [`limits::TASK_PLANS_MAX`].
    pub plans: usize,
}

/// A task and the picture it is planned on, checked against one another: all that a planner is told.
#[derive(Debug, Clone, Copy)]
pub struct TaskInstance<'a> {
    pub(super) task: &'a Task,
    pub(super) picture: &'a BelievedNetwork,
}

impl<'a> TaskInstance<'a> {
    /// A task to be planned on a picture.
    ///
    /// # Errors
    /// [`InvalidField`] when a number is out of its range, the source is no vertex of the picture, or
    /// the picture was cut at less than the task's rate or CPUs and cannot tell.
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
        // A search keeps the vector of each link, all of them equally long.
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

    /// How many cluster slots the run takes on CPUs of so many MIPS (`w = W / C_m`, rounded up).
    #[must_use]
    pub fn run_slots(&self, mips: u64) -> u64 {
        self.picture.cluster_grid().slots_for(time_for(u128::from(self.task.work_mi), mips))
    }
}

/// How long an amount takes at so much a second, rounded up to a microsecond.
fn time_for(amount: u128, per_second: u64) -> Span {
    let us = (amount * 1_000_000).div_ceil(u128::from(per_second.max(1)));
    Span::from_us(i64::try_from(us).unwrap_or(i64::MAX))
}
