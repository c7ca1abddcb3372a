//! The task planners by the names that users choose them by: the one place that knows which there are. A
//! new one is a variant here, a line in each `match`, and its name in the comment of
//! `TaskOptions.planner` in the schema.

use super::{Ect, McB, McT, Samcra, TaskPlanner};

/// A task planner that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TaskPlannerName {
    /// Path, cluster and both starts together, proven.
    #[default]
    McT,
    /// The same by paths' weights.
    AwmcT,
    /// The cluster at which data arrive first.
    McB,
    /// The cluster that completes first over its shortest path.
    Ect,
    /// The same, by the first link alone.
    EctFirstLink,
    /// Delay and load of this moment.
    Samcra,
    /// The same, again at every vertex.
    SamcraHbh,
    /// `mc-t` by the relation as the papers print it.
    McTPrinted,
}

impl TaskPlannerName {
    /// All of them, in the order in which they are listed to users.
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

    /// The name users give.
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

    /// What it is, in a line of a help text.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::McT => "Path, cluster and both starts together, proven best",
            Self::AwmcT => "The same by how much is free on paths: polynomial, not proven",
            Self::McB => "The cluster at which data arrive first",
            Self::Ect => "The cluster that completes first over its shortest path",
            Self::EctFirstLink => "The same, looking at the first path of the way only",
            Self::Samcra => "Delay and load of this moment together, to begin at once",
            Self::SamcraHbh => "The same, decided again at every point of the way",
            Self::McTPrinted => {
                "mc-t by the papers' relation as it is printed, which can miss the best"
            }
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|planner| planner.name() == name)
    }

    /// All names as a person reads them: `"mc-t", "awmc-t" or "ect"`.
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
