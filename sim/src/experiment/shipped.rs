//! The experiments that come with the program, and the files that they name.

/// An experiment that comes with the program.
#[derive(Debug, Clone, Copy)]
pub struct ShippedExperiment {
    /// Its name: of the file, without `.yaml`.
    pub name: &'static str,
    /// Its file.
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

/// All of them, by paper.
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
];

/// What `{file: ..}` in them stands for, by the path as it is written there.
pub const FILES: &[(&str, &str)] = &[
    ("../../deploy/federations/elgl.yaml", include_str!("../../../deploy/federations/elgl.yaml")),
    ("topologies/abilene.yaml", include_str!("../../experiments/topologies/abilene.yaml")),
    ("topologies/geant.yaml", include_str!("../../experiments/topologies/geant.yaml")),
    (
        "topologies/phosphorus9-substitute.yaml",
        include_str!("../../experiments/topologies/phosphorus9-substitute.yaml"),
    ),
];

/// The one of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static ShippedExperiment> {
    SHIPPED.iter().find(|shipped| shipped.name == name)
}
