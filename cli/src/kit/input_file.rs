//! The files that users write: read by name or from standard input. Of a file of another kind, or of none, it is said what to
//! do with it.
//!
//! Left out: what is wrong within a file, which [`coalloc_proto::file`] says.

use std::io::ErrorKind;
use std::path::Path;

use coalloc_proto::file::{Document, FileError, read, read_from};
use coalloc_proto::v1;
use serde::de::DeserializeOwned;

use crate::kit::exit::Failure;
use crate::kit::text::shell_word;

/// What a file is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A CoAllocationRequest.
    Request,
    /// A TaskRequest.
    Task,
    /// A Workflow.
    Workflow,
    /// A FederationFile.
    Federation,
    /// A GrcFile, NrmFile or CrmFile.
    Daemon,
}

impl FileKind {
    const ALL: [Self; 5] =
        [Self::Request, Self::Task, Self::Workflow, Self::Federation, Self::Daemon];

    const fn name(self) -> &'static str {
        match self {
            Self::Request => "a request of sites and links",
            Self::Task => "a task",
            Self::Workflow => "a workflow",
            Self::Federation => "a federation",
            Self::Daemon => "the configuration of a daemon",
        }
    }

    /// What to type for a file of this kind.
    const fn commands(self) -> &'static str {
        match self {
            Self::Request => "coalloc plan --request FILE, coalloc reserve --request FILE",
            Self::Task => {
                "coalloc plan --request FILE --planner mc-t, coalloc task submit --request FILE"
            }
            Self::Workflow => "coalloc workflow plan FILE, coalloc workflow submit FILE",
            Self::Federation => {
                "coalloc topology --federation FILE, coalloc plan --federation FILE"
            }
            Self::Daemon => "coalloc serve nrm|crm|grc --config FILE",
        }
    }

    fn is_of(self, path: &Path) -> bool {
        fn is<T: DeserializeOwned>(path: &Path) -> bool {
            read::<T>(path).is_ok()
        }
        match self {
            Self::Request => is::<v1::CoAllocationRequest>(path),
            Self::Task => is::<v1::TaskRequest>(path),
            Self::Workflow => is::<v1::Workflow>(path),
            Self::Federation => is::<v1::FederationFile>(path),
            Self::Daemon => {
                is::<v1::GrcFile>(path) || is::<v1::NrmFile>(path) || is::<v1::CrmFile>(path)
            }
        }
    }
}

/// Reads a file of a kind; `-` is standard input.
///
/// # Errors
/// What is wrong with the file, or that it is of another kind.
pub fn read_input<T: DeserializeOwned>(
    path: &Path,
    wanted: FileKind,
) -> Result<Document<T>, Failure> {
    if path == Path::new("-") {
        return Ok(read_from(Path::new("standard input"), std::io::stdin())?);
    }
    read(path).map_err(|error| explained(path, wanted, error))
}

fn explained(path: &Path, wanted: FileKind, error: FileError) -> Failure {
    let shown = path.display();
    match &error {
        FileError::Unreadable { source, .. } if source.kind() == ErrorKind::NotFound => {
            let hint = match wanted {
                FileKind::Request => "; write one with `coalloc request new`",
                _ => "",
            };
            Failure::bad_input(format!(
                "{shown}: there is no such file; needed: {}{hint}",
                wanted.name()
            ))
        }
        // A pipe cannot be read again.
        FileError::Mistake { .. } if std::fs::metadata(path).is_ok_and(|file| file.is_file()) => {
            if wanted == FileKind::Workflow && is_recorded_workflow(path) {
                return Failure::bad_input(format!(
                    "{shown}: it is a recorded workflow; needed: a workflow\n\
                     make one of it: coalloc workflow import {}",
                    shell_word(&shown.to_string())
                ));
            }
            let found = FileKind::ALL.into_iter().find(|kind| *kind != wanted && kind.is_of(path));
            found.map_or_else(
                || error.into(),
                |found| {
                    let (wanted, found, commands) = (wanted.name(), found.name(), found.commands());
                    Failure::bad_input(format!(
                        "{shown}: it is {found}; needed: {wanted}\nwhat it is for: {commands}"
                    ))
                },
            )
        }
        _ => error.into(),
    }
}

/// Is it a workflow that a workflow system has recorded: DAX, which is XML, or WfFormat?
fn is_recorded_workflow(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let text = text.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']);
    text.starts_with('<') || (text.starts_with('{') && text.contains("\"schemaVersion\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_workflow_is_told_with_the_command_that_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["<?xml version=\"1.0\"?>\n<adag/>\n", "{\"schemaVersion\": \"1.5\"}\n"] {
            let path = folder.path().join("montage.dax");
            std::fs::write(&path, text).unwrap();
            let read = read_input::<v1::Workflow>(&path, FileKind::Workflow);
            let said = read.unwrap_err().message;
            assert!(said.contains("coalloc workflow import "), "{text}: {said}");
        }
    }

    #[test]
    fn a_file_of_another_kind_is_told_with_what_it_is_for() {
        let folder = tempfile::tempdir().unwrap();
        let said = |text: &str| {
            let path = folder.path().join("file.yaml");
            std::fs::write(&path, text).unwrap();
            let read = read_input::<v1::CoAllocationRequest>(&path, FileKind::Request);
            read.unwrap_err().message
        };
        for (text, expected) in [
            (
                "source: tokyo\ndata_bytes: 5\n",
                "it is a task; needed: a request of sites and links\n",
            ),
            ("activities: [{name: a}]\n", "it is a workflow; needed"),
            ("name: fed\nexchange_points: [X]\n", "it is a federation; needed"),
            ("daemon: {listen: \"127.0.0.1:1\"}\n", "it is the configuration of a daemon; needed"),
            ("nonsense: 1\n", ":1: nonsense: there is no such field here"),
        ] {
            assert!(said(text).contains(expected), "{text}: {}", said(text));
        }
        let none = read_input::<v1::Workflow>(&folder.path().join("none"), FileKind::Workflow);
        let none = none.unwrap_err().message;
        assert!(none.ends_with("none: there is no such file; needed: a workflow"), "{none}");
    }
}
