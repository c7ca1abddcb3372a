//! DAX 2 and 3 of Pegasus: jobs with the files that they use, then children with their parents.
//!
//! Source: the schemas `dax-2.1.xsd` and `dax-3.6.xsd`. Files with a document type are refused, so no entity is
//! ever expanded. Left out: jobs that are workflows (`dax`, `dag`), and what the attribute `jobCount` says, which is
//! wrong in many files.

use std::collections::BTreeMap;

use coalloc_common::InvalidField;
use roxmltree::{Document, Node, ParsingOptions};

use super::{ImportedFile, ImportedTask, ImportedWorkflow};

/// Most elements, attributes and texts: sixteen for each dependency of the largest workflow.
const NODES_MAX: u32 = 1 << 19;

/// Reads a workflow.
///
/// # Errors
/// A sentence that says what is wrong, with line and column where the text is.
pub(super) fn read(content: &str) -> Result<ImportedWorkflow, String> {
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(content, options);
    let document = document.map_err(|error| error.to_string())?;
    let root = document.root_element();
    if root.tag_name().name() != "adag" {
        let name = InvalidField::quoted(root.tag_name().name());
        return Err(format!("the element {name} is not allowed; allowed: \"adag\""));
    }
    let version = root.attribute("version").unwrap_or_default();
    if !(version.starts_with("2.") || version.starts_with("3.")) {
        let version = InvalidField::quoted(version);
        return Err(format!("version: {version} is not allowed; allowed: 2 and 3"));
    }
    let mut imported = ImportedWorkflow::default();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for job in children(root, "job") {
        let id = attribute(job, "id")?;
        if numbers.insert(id, imported.tasks.len()).is_some() {
            return Err(wrong(job, &format!("id {} is there twice", InvalidField::quoted(id))));
        }
        imported.add(job, id)?;
    }
    if children(root, "dax").chain(children(root, "dag")).next().is_some() {
        return Err("jobs that are workflows themselves are not allowed".to_owned());
    }
    for child in children(root, "child") {
        let find = |node: Node<'_, '_>| {
            let name = attribute(node, "ref")?;
            let known = numbers.get(name).copied();
            known.ok_or_else(|| wrong(node, &format!("{} is no job", InvalidField::quoted(name))))
        };
        let after = find(child)?;
        for parent in children(child, "parent") {
            imported.orders.insert((find(parent)?, after));
        }
    }
    if let Some(count) = root.attribute("jobCount")
        && count.parse() != Ok(imported.tasks.len())
    {
        let jobs = imported.tasks.len();
        let count = InvalidField::quoted(count);
        imported.notes.push(format!("jobCount is {count}, but there are {jobs} jobs"));
    }
    Ok(imported)
}

impl ImportedWorkflow {
    fn add(&mut self, job: Node<'_, '_>, id: &str) -> Result<(), String> {
        let name = match job.attribute("name") {
            Some(name) => format!("{name}_{id}"),
            None => id.to_owned(),
        };
        let text = attribute(job, "runtime")?;
        let seconds = text.parse::<f64>().ok().filter(|time| *time >= 0.0 && time.is_finite());
        let seconds = seconds.ok_or_else(|| {
            let text = InvalidField::quoted(text);
            wrong(job, &format!("runtime {text} is not allowed; allowed: 0 or more seconds"))
        })?;
        let task = self.tasks.len();
        for uses in children(job, "uses") {
            let file = match uses.attribute("file") {
                Some(file) => file,
                None => attribute(uses, "name")?,
            };
            let bytes = match uses.attribute("size") {
                None => 0,
                Some(size) => size.parse::<u64>().map_err(|_| {
                    let size = InvalidField::quoted(size);
                    wrong(uses, &format!("size {size} is not allowed; allowed: whole bytes"))
                })?,
            };
            let of: &mut ImportedFile = self.files.entry(file.to_owned()).or_default();
            of.bytes = of.bytes.max(bytes);
            let link = attribute(uses, "link")?;
            for (list, words) in
                [(&mut of.readers, ["input", "inout"]), (&mut of.writers, ["output", "inout"])]
            {
                if words.contains(&link) && !list.contains(&task) {
                    list.push(task);
                }
            }
        }
        self.tasks.push(ImportedTask { name, seconds, cpus: None });
        Ok(())
    }
}

fn children<'a, 'i>(of: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    of.children().filter(move |child| child.is_element() && child.tag_name().name() == name)
}

fn attribute<'a>(of: Node<'a, '_>, name: &str) -> Result<&'a str, String> {
    of.attribute(name).ok_or_else(|| wrong(of, &format!("the attribute {name:?} is missing")))
}

/// A problem with an element, and its line.
fn wrong(of: Node<'_, '_>, problem: &str) -> String {
    let line = of.document().text_pos_at(of.range().start).row;
    format!("line {line}, {}: {problem}", of.tag_name().name())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"<?xml version="1.0"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" jobCount="7">
  <job id="ID1" name="a" runtime="1.5">
    <uses file="in" link="input" size="5"/>
    <uses file="mid" link="output" size="6"/>
  </job>
  <job id="ID2" name="b" runtime="2"><uses file="mid" link="input" size="6"/></job>
  <child ref="ID2"><parent ref="ID1"/></child>
</adag>"#;

    #[test]
    fn jobs_files_and_parents_are_read() {
        let imported = read(TWO).expect("a workflow");
        let task =
            |name: &str, seconds| ImportedTask { name: name.to_owned(), seconds, cpus: None };
        assert_eq!(imported.tasks, [task("a_ID1", 1.5), task("b_ID2", 2.0)]);
        assert_eq!(imported.orders, [(0, 1)].into());
        let mid = ImportedFile { bytes: 6, writers: vec![0], readers: vec![1] };
        assert_eq!(imported.files["mid"], mid);
        assert_eq!(imported.notes, ["jobCount is \"7\", but there are 2 jobs"]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let cases = [
            ("version=\"2.1\"", "version=\"4.0\"", "allowed: 2 and 3"),
            ("<adag", "<graph", "expected"),
            ("runtime=\"2\"", "runtime=\"NaN\"", "line 7, job: runtime \"NaN\""),
            ("runtime=\"2\"", "", "the attribute \"runtime\" is missing"),
            ("size=\"5\"", "size=\"-5\"", "line 4, uses: size \"-5\""),
            ("ref=\"ID1\"", "ref=\"ID9\"", "\"ID9\" is no job"),
            ("id=\"ID2\"", "id=\"ID1\"", "is there twice"),
            ("<?xml version=\"1.0\"?>", "<!DOCTYPE a [<!ENTITY b \"bomb\">]>", "DTD"),
        ];
        for (from, to, problem) in cases {
            let error = read(&TWO.replace(from, to)).expect_err(problem);
            assert!(error.contains(problem), "{problem}: {error}");
        }
        for cut in (0..TWO.len()).filter(|at| TWO.is_char_boundary(*at)) {
            assert!(read(&TWO[..cut]).is_err());
        }
        let deep = format!("<adag version=\"2.1\">{}", "<a>".repeat(200_000));
        assert!(read(&deep).is_err());
    }
}
