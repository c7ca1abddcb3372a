//! The task planners, by the names that users choose them by. Only this module knows which planners
//! there are.
//!
//! A new planner needs a variant here, a line in each `match`, and its name in the comment of
//! `TaskOptions.planner` in the schema.

use super::{Ect, McB, McT, Samcra, TaskPlanner};

/// A task planner that users can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TaskPlannerName {
    /// Chooses path, cluster and both starts together, and proves the optimum.
    #[default]
    McT,
    /// The same, by the weights of paths.
    AwmcT,
    /// Chooses the cluster at which data arrive first.
    McB,
    /// Chooses the cluster that completes first over its shortest path.
    Ect,
    /// The same, looking only at the first link of the path.
    EctFirstLink,
    /// Chooses by the delay and load of this moment.
    Samcra,
    /// The same, decided again at every vertex.
    SamcraHbh,
    /// `mc-t` with the relation as the papers print it.
    McTPrinted,
}

impl TaskPlannerName {
    /// All planners, in the order in which they are listed to users.
    pub const ALL: [Self; 8] = [
        Self::McT,
        Self::AwmcT,
        Self::McB,
        Self::Ect,
        Self::EctFirstLink,
        Self::Samcra,
        Self::SamcraHbh,
        Self::McTPrinted,
    ];

    /// The name by which users choose it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::McT => "mc-t",
            Self::AwmcT => "awmc-t",
            Self::McB => "mc-b",
            Self::Ect => "ect",
            Self::EctFirstLink => "ect-first-link",
            Self::Samcra => "samcra",
            Self::SamcraHbh => "samcra-hbh",
            Self::McTPrinted => "mc-t-printed",
        }
    }

    /// What the planner is, as one line of a help text.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::McT => "Path, cluster and both starts together, proven best",
            Self::AwmcT => {
                "The same, judging paths by how much is free: polynomial, not proven best"
            }
            Self::McB => "The cluster at which data arrive first",
            Self::Ect => "The cluster that completes first over its shortest path",
            Self::EctFirstLink => "The same, looking only at the first path of the route",
            Self::Samcra => "Least delay and load at this moment together, to begin at once",
            Self::SamcraHbh => "The same, decided again at every point of the route",
            Self::McTPrinted => {
                "mc-t by the papers' relation as it is printed, which can miss the best"
            }
        }
    }

    /// The planner of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|planner| planner.name() == name)
    }

    /// All names, as a text for people: `"mc-t", "awmc-t" or "ect"`.
    #[must_use]
    pub fn names() -> String {
        let quoted = Self::ALL.map(|planner| format!("{:?}", planner.name()));
        let [first @ .., last] = &quoted;
        format!("{} or {last}", first.join(", "))
    }

    /// The planner.
    #[must_use]
    pub fn planner(self) -> Box<dyn TaskPlanner> {
        match self {
            Self::McT => Box::new(McT::optimal()),
            Self::AwmcT => Box::new(McT::available_weight()),
            Self::McB => Box::new(McB::default()),
            Self::Ect => Box::new(Ect { first_link_only: false }),
            Self::EctFirstLink => Box::new(Ect { first_link_only: true }),
            Self::Samcra => Box::new(Samcra::new(false)),
            Self::SamcraHbh => Box::new(Samcra::new(true)),
            Self::McTPrinted => Box::new(McT::printed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_planner_is_found_by_its_name_and_bears_it() {
        for name in TaskPlannerName::ALL {
            assert_eq!(TaskPlannerName::named(name.name()), Some(name));
            assert_eq!(name.planner().name(), name.name());
        }
        assert_eq!(TaskPlannerName::named("MC-T"), None);
        let all = TaskPlannerName::names();
        assert!(all.starts_with("\"mc-t\", \"awmc-t\"") && all.ends_with("or \"mc-t-printed\""));
    }
}
