//! The experiments that come with the program, and the files that they name.

/// An experiment that comes with the program.
#[derive(Debug, Clone, Copy)]
pub struct ShippedExperiment {
    /// The name of the experiment: its file's name without `.yaml`.
    pub name: &'static str,
    /// The text of the experiment's file.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(ShippedExperiment {
            name: $name,
            text: include_str!(concat!("../../experiments/", $name, ".yaml")),
        }),*]
    };
}

/// All shipped experiments, by paper.
pub const SHIPPED: &[ShippedExperiment] = shipped![
    "takefusa-fig7",
    "takefusa-readings",
    "takefusa-fig8",
    "takefusa-table2",
    "coalloc-planners",
    "coalloc-competing",
    "coalloc-levels",
    "christodoulopoulos-2008",
    "christodoulopoulos-2008-short",
    "stevens-2009-both",
    "stevens-2009-cpu",
    "stevens-2009-data",
    "updates",
    "castillo-2009-waits",
    "castillo-2009-advance",
    "castillo-2009-operations",
    "castillo-2009-readings",
    "decker-2007-load",
    "decker-2007-size",
    "decker-2007-deadlines",
    "decker-2007-network",
    "decker-2007-beyond",
    "decker-2007-recorded",
];

/// One small experiment for each model, to begin an own one with; each by the model's word in files.
pub const BLANKS: &[ShippedExperiment] = &[
    ShippedExperiment {
        name: "coallocations",
        text: include_str!("../../experiments/blank/coallocations.yaml"),
    },
    ShippedExperiment { name: "tasks", text: include_str!("../../experiments/blank/tasks.yaml") },
    ShippedExperiment { name: "jobs", text: include_str!("../../experiments/blank/jobs.yaml") },
    ShippedExperiment {
        name: "workflows",
        text: include_str!("../../experiments/blank/workflows.yaml"),
    },
];

/// The files that `{file: ..}`, `trace` or `recorded` names in shipped experiments, each by its path as written there, with
/// its text. Of traces and recorded workflows it is only our own; the others are the user's.
pub const FILES: &[(&str, &str)] = &[
    ("../../deploy/federations/elgl.yaml", include_str!("../../../deploy/federations/elgl.yaml")),
    ("topologies/abilene.yaml", include_str!("../../experiments/topologies/abilene.yaml")),
    ("topologies/geant.yaml", include_str!("../../experiments/topologies/geant.yaml")),
    ("blank/federation.yaml", include_str!("../../experiments/blank/federation.yaml")),
    ("tiny.swf", include_str!("../../../docs/examples/jobs/tiny.swf")),
    ("tiny.dax", include_str!("../../../docs/examples/workflows/tiny.dax")),
    (
        "topologies/phosphorus9-substitute.yaml",
        include_str!("../../experiments/topologies/phosphorus9-substitute.yaml"),
    ),
];

/// The shipped experiment of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static ShippedExperiment> {
    SHIPPED.iter().find(|shipped| shipped.name == name)
}
