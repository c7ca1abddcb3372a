//! WfFormat 1.5 of WfCommons: tasks and files in `workflow.specification`, run times in `workflow.execution`.
//!
//! Source: the schema `wfcommons-schema.json`, version 1.5. Left out: earlier versions, which are laid out
//! otherwise and are refused.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ImportedFile, ImportedTask, ImportedWorkflow};

/// The version that is read.
const VERSION: &str = "1.5";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    schema_version: Option<String>,
}

#[derive(Deserialize)]
struct Document {
    workflow: Recorded,
}

#[derive(Deserialize)]
struct Recorded {
    specification: Specification,
    execution: Option<Execution>,
}

#[derive(Deserialize)]
struct Specification {
    tasks: Vec<Task>,
    #[serde(default)]
    files: Vec<SizedFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task {
    id: String,
    #[serde(default)]
    parents: Vec<String>,
    #[serde(default)]
    children: Vec<String>,
    #[serde(default)]
    input_files: Vec<String>,
    #[serde(default)]
    output_files: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SizedFile {
    id: String,
    size_in_bytes: u64,
}

#[derive(Deserialize)]
struct Execution {
    tasks: Vec<Execute>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Execute {
    id: String,
    runtime_in_seconds: f64,
    core_count: Option<f64>,
}

/// Reads a workflow.
///
/// # Errors
/// A sentence that says what is wrong, with line and column where the text is.
pub(super) fn read(content: &str) -> Result<ImportedWorkflow, String> {
    let version: Version = serde_json::from_str(content).map_err(|error| error.to_string())?;
    match version.schema_version.as_deref() {
        Some(VERSION) => {}
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            return Err(format!("schemaVersion: {other:?} is not allowed; allowed: {VERSION:?}"));
        }
        None => return Err(format!("schemaVersion: is missing; allowed: {VERSION:?}")),
    }
    let document: Document = serde_json::from_str(content).map_err(|error| error.to_string())?;
    let Recorded { specification, execution } = document.workflow;
    let mut executed: BTreeMap<String, Execute> = BTreeMap::new();
    for one in execution.into_iter().flat_map(|execution| execution.tasks) {
        executed.insert(one.id.clone(), one);
    }
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut imported = ImportedWorkflow::default();
    for (index, task) in specification.tasks.iter().enumerate() {
        let id = shown(&task.id);
        if numbers.insert(&task.id, index).is_some() {
            return Err(format!("workflow.specification.tasks[{index}].id: {id} is there twice"));
        }
        let Some(run) = executed.get(&task.id) else {
            return Err(format!("workflow.execution.tasks: nothing about the task {id}"));
        };
        if !(run.runtime_in_seconds >= 0.0 && run.runtime_in_seconds.is_finite()) {
            let seconds = run.runtime_in_seconds;
            return Err(format!(
                "runtimeInSeconds of {id}: {seconds} is not allowed; allowed: 0 or more"
            ));
        }
        // A float becomes the nearest integer in range; 0 is no statement.
        let cpus = run.core_count.map(|count| count.ceil() as u64).filter(|count| *count > 0);
        let (name, seconds) = (task.id.clone(), run.runtime_in_seconds);
        imported.tasks.push(ImportedTask { name, seconds, cpus });
    }
    for (index, task) in specification.tasks.iter().enumerate() {
        let find = |name: &String| {
            let known = numbers.get(name.as_str()).copied();
            known.ok_or_else(|| {
                format!("the task {} knows {}, which is no task", shown(&task.id), shown(name))
            })
        };
        for parent in &task.parents {
            imported.orders.insert((find(parent)?, index));
        }
        for child in &task.children {
            imported.orders.insert((index, find(child)?));
        }
    }
    for file in specification.files {
        let of = ImportedFile { bytes: file.size_in_bytes, ..ImportedFile::default() };
        imported.files.insert(file.id, of);
    }
    let mut unsized_files = 0;
    for (index, task) in specification.tasks.into_iter().enumerate() {
        let all = task.input_files.into_iter().map(|file| (file, false));
        for (file, writes) in all.chain(task.output_files.into_iter().map(|file| (file, true))) {
            let of = imported.files.entry(file).or_insert_with(|| {
                unsized_files += 1;
                ImportedFile::default()
            });
            let list = if writes { &mut of.writers } else { &mut of.readers };
            if !list.contains(&index) {
                list.push(index);
            }
        }
    }
    if unsized_files > 0 {
        imported.notes.push(format!("{unsized_files} files without a size: 0 bytes each"));
    }
    Ok(imported)
}

/// A name of the file, cut to a readable length.
fn shown(name: &str) -> String {
    coalloc_common::InvalidField::quoted(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"{"name": "two", "schemaVersion": "1.5", "workflow": {
      "specification": {
        "tasks": [
          {"name": "a", "id": "a1", "children": ["b1"], "parents": [], "inputFiles": ["in"], "outputFiles": ["mid"]},
          {"name": "b", "id": "b1", "children": [], "parents": ["a1"], "inputFiles": ["mid"], "outputFiles": []}],
        "files": [{"id": "in", "sizeInBytes": 5}, {"id": "mid", "sizeInBytes": 6}]},
      "execution": {"makespanInSeconds": 3, "tasks": [
        {"id": "a1", "runtimeInSeconds": 1.5, "coreCount": 2}, {"id": "b1", "runtimeInSeconds": 0}]}}}"#;

    #[test]
    fn tasks_files_and_orders_are_read() {
        let imported = read(TWO).expect("a workflow");
        let task =
            |name: &str, seconds, cpus| ImportedTask { name: name.to_owned(), seconds, cpus };
        assert_eq!(imported.tasks, [task("a1", 1.5, Some(2)), task("b1", 0.0, None)]);
        assert_eq!(imported.orders, [(0, 1)].into());
        let mid = ImportedFile { bytes: 6, writers: vec![0], readers: vec![1] };
        assert_eq!(imported.files["mid"], mid);
        assert_eq!(imported.files["in"].readers, [0]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let cases = [
            ("\"1.5\"", "\"1.4\"", "\"1.4\" is not allowed; allowed: \"1.5\""),
            ("\"schemaVersion\": \"1.5\",", "", "schemaVersion: is missing"),
            (
                "\"id\": \"b1\", \"children\"",
                "\"id\": \"a1\", \"children\"",
                "\"a1\" is there twice",
            ),
            ("\"parents\": [\"a1\"]", "\"parents\": [\"zz\"]", "\"zz\", which is no task"),
            ("\"runtimeInSeconds\": 1.5", "\"runtimeInSeconds\": -1", "0 or more"),
            ("\"runtimeInSeconds\": 1.5", "\"runtimeInSeconds\": NaN", "line 8"),
            ("\"sizeInBytes\": 5", "\"sizeInBytes\": -5", "line 6"),
            (
                "{\"id\": \"b1\", \"runtimeInSeconds\": 0}",
                "{\"id\": \"c\", \"runtimeInSeconds\": 0}",
                "nothing about the task \"b1\"",
            ),
        ];
        for (from, to, problem) in cases {
            let error = read(&TWO.replace(from, to)).expect_err(problem);
            assert!(error.contains(problem), "{problem}: {error}");
        }
        for cut in (0..TWO.len()).filter(|at| TWO.is_char_boundary(*at)) {
            assert!(read(&TWO[..cut]).is_err());
        }
    }
}
