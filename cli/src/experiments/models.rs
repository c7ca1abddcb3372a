//! The models by their names: what each needs apart from its settings, and how it is run.

use std::collections::BTreeSet;
use std::sync::Arc;

use coalloc_common::{InvalidField, Topology};
use coalloc_net::convert::file_topology;
use coalloc_plan::ip::Program;
use coalloc_plan::ip::outside::Programs;
use coalloc_proto::file::{is_unknown_field, problem_of_value};
use coalloc_proto::v1;
use coalloc_sim::coallocations;
use coalloc_sim::experiment::file::{Model, SettingFault};
use coalloc_sim::experiment::settings::ModelSettings;
use coalloc_sim::experiment::{Measures, ModelError, Trace};
use coalloc_sim::jobs::{self, JobsSettings};
use coalloc_sim::tasks::{self, TasksSettings};
use coalloc_sim::workflows::{self, WorkflowsSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::swf::{RecordedFile, TraceFile, TraceFolders};
use crate::kit::exit::Exit;

/// A model with settings that it accepts.
#[derive(Debug)]
pub enum PreparedModel {
    /// Tasks, on the network given in their settings, or on a federation.
    Tasks(Box<TasksSettings>, Option<Box<Topology>>),
    /// Co-allocations, on a federation.
    Coallocations(Box<coallocations::Settings>, Box<Topology>),
    /// Jobs of a trace.
    Jobs(Box<JobsSettings>, Arc<TraceFile>),
    /// Random workflows, or copies of a recorded one.
    Workflows(Box<WorkflowsSettings>, Option<Arc<RecordedFile>>),
}

/// Parses the settings of one point; traces of jobs are looked for in `traces`.
///
/// # Errors
/// The first setting that the model does not accept.
pub fn prepare(
    model: Model,
    given: &Map<String, Value>,
    traces: &TraceFolders,
) -> Result<PreparedModel, Mistake> {
    match model {
        Model::Tasks => {
            let mut given = given.clone();
            let file = given.get_mut("topology").and_then(|own| own.get_mut("federation"));
            let named = file.map(|file| federation("topology.federation", file.take()));
            let topology = named.transpose()?.map(Box::new);
            let settings: TasksSettings = settings(model, &given, &[])?;
            // Any seed will do: a setting is acceptable for all seeds or for none.
            tasks::check(&settings, topology.as_deref(), 1)?;
            Ok(PreparedModel::Tasks(Box::new(settings), topology))
        }
        Model::Coallocations => {
            let mut given = given.clone();
            let field = "federation";
            let missing = || "is missing; expected `{file: federation.yaml}`".to_owned();
            let file = given.remove(field);
            let file = file.ok_or_else(|| Mistake::new(field.to_owned(), missing()))?;
            let topology = federation(field, file)?;
            let settings: coallocations::Settings = settings(model, &given, &[field])?;
            coallocations::check(&settings, &topology)?;
            Ok(PreparedModel::Coallocations(Box::new(settings), Box::new(topology)))
        }
        Model::Jobs => {
            let settings: JobsSettings = settings(model, given, &[])?;
            // Without the trace first: a mistake in the file is easier to mend than a missing trace.
            settings.check().map_err(ModelError::from)?;
            let file = traces.find(&settings.trace).map_err(|error| {
                let (exit, problem) = error.exit_and_problem();
                Mistake { exit, ..Mistake::new("trace".to_owned(), problem) }
            })?;
            jobs::check(&settings, &file.trace).map_err(ModelError::from)?;
            Ok(PreparedModel::Jobs(Box::new(settings), file))
        }
        Model::Workflows => {
            let settings: WorkflowsSettings = settings(model, given, &[])?;
            // Without the file first, as above.
            settings.check().map_err(ModelError::from)?;
            let mean_mips = settings.federation.mean_mips();
            let named = settings.workload.recorded.as_ref();
            let found = named.map(|named| traces.find_workflow(&named.file, mean_mips));
            let file = found.transpose().map_err(|error| {
                let (exit, problem) = error.exit_and_problem();
                Mistake { exit, ..Mistake::new("workload.recorded.file".to_owned(), problem) }
            })?;
            workflows::check(&settings, file.as_ref().map(|file| &file.workflow))
                .map_err(ModelError::from)?;
            Ok(PreparedModel::Workflows(Box::new(settings), file))
        }
    }
}

/// A setting that a model does not accept.
#[derive(Debug)]
pub struct Mistake {
    /// The setting, as a path below the settings.
    pub field: String,
    /// What is wrong with the setting.
    pub problem: String,
    /// Which part of the setting is to blame.
    pub fault: SettingFault,
    /// The exit code of a command that cannot go on.
    pub exit: Exit,
}

impl Mistake {
    const fn new(field: String, problem: String) -> Self {
        Self { field, problem, fault: SettingFault::Value, exit: Exit::BadInput }
    }
}

impl From<ModelError> for Mistake {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Setting(InvalidField { field, value, allowed }) => {
                Self::new(field, format!("{value} is not allowed; allowed: {allowed}"))
            }
            defect @ (ModelError::Defect(_) | ModelError::Program(_)) => {
                Self::new(String::new(), defect.to_string())
            }
        }
    }
}

/// Parses settings for a model. `others` are those that were read before.
///
/// # Errors
/// The first setting that is misspelled.
fn settings<T: DeserializeOwned>(
    model: Model,
    settings: &Map<String, Value>,
    others: &[&str],
) -> Result<T, Mistake> {
    serde_path_to_error::deserialize(Value::Object(settings.clone())).map_err(|error| {
        let field = error.path().to_string();
        let field = field.trim_end_matches(['?', '.']).to_owned();
        let problem = error.into_inner().to_string();
        let fault = match is_unknown_field(&problem) {
            true => SettingFault::Name,
            false => SettingFault::Value,
        };
        // Those that were read before stand at the top.
        let others = if field.contains('.') { &[] } else { others };
        let problem = problem_of_value(&problem, others, range_of(model, &field).as_deref());
        Mistake { fault, ..Mistake::new(field, problem) }
    })
}

/// What a setting may be; `None` for one that has fields.
fn range_of(model: Model, path: &str) -> Option<String> {
    let all = ModelSettings::of(model).described();
    let own = all.into_iter().find(|setting| setting.path == path && !setting.range.is_empty())?;
    Some(format!("{} {}", own.range, own.unit).trim_end().to_owned())
}

/// The federation that the settings name, read as the daemons read it.
fn federation(field: &str, given: Value) -> Result<Topology, Mistake> {
    let field = field.to_owned();
    let file: v1::FederationFile = serde_path_to_error::deserialize(given)
        .map_err(|error| Mistake::new(field.clone(), error.to_string()))?;
    file_topology(&file).map_err(|error| Mistake::new(field, error.to_string()))
}

impl PreparedModel {
    /// What names of metrics may name, each with the part of a metric's name that stands for it.
    #[must_use]
    pub fn named(&self) -> Vec<(&'static str, String)> {
        let Self::Coallocations(settings, topology) = self else { return Vec::new() };
        let users = settings.workload.users.iter().map(|user| ("USER", user.to_lowercase()));
        let sites = topology.sites().flat_map(|(_, site, _)| {
            let domain = site.domain.as_ref().map(|domain| ("DOMAIN", domain.to_string()));
            domain.into_iter().chain([("SITE", site.name.to_string())])
        });
        users.chain(sites).collect()
    }

    /// The programs that a run starts.
    #[must_use]
    pub fn programs(&self) -> BTreeSet<Program> {
        match self {
            Self::Tasks(..) | Self::Jobs(..) | Self::Workflows(..) => BTreeSet::new(),
            Self::Coallocations(settings, _) => settings.programs(),
        }
    }

    /// The trace or recorded workflow that a run reads: its name, and the digest of its text.
    #[must_use]
    pub fn trace(&self) -> Option<(&str, &str)> {
        match self {
            Self::Jobs(settings, file) => Some((&settings.trace, &file.digest)),
            Self::Workflows(settings, file) => {
                let named = settings.workload.recorded.as_ref().zip(file.as_ref());
                named.map(|(named, file)| (named.file.as_str(), file.digest.as_str()))
            }
            Self::Tasks(..) | Self::Coallocations(..) => None,
        }
    }

    /// The requests of a run, if the model has requests, so that times can be grouped by what was planned.
    #[must_use]
    pub fn asked(&self, seed: u64) -> Vec<RequestShape> {
        let Self::Coallocations(settings, _) = self else { return Vec::new() };
        let (workload, day) = (&settings.workload, settings.workload.day().as_us().max(1));
        let arrivals = coallocations::workload::of_a_day(workload, seed);
        let asked = |arrival: &coallocations::workload::Arrival| RequestShape {
            sites: arrival.shape(workload.type4).0,
            // Arrivals are within the day, so this is from 10 to 100.
            load: 10 * (arrival.at.as_us() * 10 / day + 1).clamp(1, 10),
        };
        arrivals.iter().map(asked).collect()
    }

    /// Runs the model; `programs` starts planners that are programs.
    ///
    /// # Errors
    /// The error of the model.
    pub fn run(
        &self,
        seed: u64,
        programs: &Arc<dyn Programs>,
        trace: &mut dyn Trace,
    ) -> Result<Measures, ModelError> {
        match self {
            Self::Tasks(settings, topology) => {
                tasks::run(settings, topology.as_deref(), seed, trace)
            }
            Self::Coallocations(settings, topology) => {
                coallocations::run_with(settings, topology, seed, Some(programs), trace)
            }
            Self::Jobs(settings, file) => jobs::run(settings, &file.trace, seed, trace),
            Self::Workflows(settings, file) => {
                let recorded = file.as_ref().map(|file| &file.workflow);
                workflows::run(settings, recorded, seed, trace)
            }
        }
    }
}

/// The part of a request that determines how long planning takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestShape {
    /// Number of sites.
    pub sites: usize,
    /// The tenth of the day in which the request arrives: 10, 20, .. 100 %.
    pub load: i64,
}

/// Every metric of a model, with its description.
#[must_use]
pub const fn metrics(model: Model) -> &'static [(&'static str, &'static str)] {
    match model {
        Model::Tasks => TASKS,
        Model::Coallocations => coallocations::METRICS,
        Model::Jobs => jobs::METRICS,
        Model::Workflows => workflows::METRICS,
    }
}

/// The metrics of a model that are curves.
pub fn curves(model: Model) -> impl Iterator<Item = &'static &'static str> {
    let all: &[&str] = match model {
        Model::Tasks => &[],
        Model::Coallocations => coallocations::CURVES,
        Model::Jobs => jobs::CURVES,
        Model::Workflows => workflows::CURVES,
    };
    all.iter()
}

/// The metrics of the model `tasks`.
const TASKS: &[(&str, &str)] = &[
    ("total_delay_s", "mean time from a task's arrival to the end of its run, s"),
    ("task_blocking", "share of tasks that were lost"),
    ("burst_blocking", "share of bursts that collided with another one"),
    ("conflict", "share of runs whose cluster was not free when it was planned to be"),
    ("scheduled_tasks", "tasks that ran"),
    ("blocked_tasks", "tasks that were lost"),
    ("as_planned", "share of tasks that ran when they were planned to"),
    ("operations", "operations per planning, mean"),
    ("paths", "paths that a planning kept, mean"),
    ("paths_tried", "paths that a planning looked at, mean"),
    ("proven", "share of plans that are proven optimal"),
    ("plans_per_task", "times that a task was planned, mean"),
    ("links_per_burst", "links on the route of a burst, mean"),
    ("link_load", "share of link time that is taken"),
    ("cpu_load", "share of CPU time that is taken"),
    ("updates_per_task", "updates for each task"),
    ("bytes_per_update", "size of an update, bytes"),
    ("update_kbit_s", "traffic of updates, kbit/s"),
    ("behind", "share of looks at a picture that found it out of date"),
    ("staleness_ms", "age of the picture that plans were made on, ms"),
    ("events", "simulated events"),
];
