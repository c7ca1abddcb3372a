//! Reading a message from a file of canonical proto3 JSON, or YAML of the same shape. Rates and lengths of time may
//! be written as people write them ([`crate::notation`]).
//!
//! There are two kinds of mistakes, which are reported in the same form: `file:line: field: what is wrong`. A
//! mistake in the syntax or shape of the file (an unknown field, text where a number belongs) is found here.
//! A mistake in a value (a reversed window) is found later, by the code that checks values; that code calls
//! [`Document::mistake`] to add the line.
//!
//! Left out: checks of values. Source: the JSON mapping of proto3.

mod words;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode, MarkedYaml, YamlData};
use serde::de::DeserializeOwned;

use self::words::Mistake;
pub use self::words::{is_unknown_field, problem_of_value};

/// Largest file that is read; a federation of a hundred thousand paths is smaller than this.
const FILE_MAX_BYTES: u64 = 64 << 20;

/// Why a file could not be read as a message, with the place of the mistake.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is larger than 64 MiB, the most that is read.
    #[error("{}: has more than {FILE_MAX_BYTES} bytes, the most that is read", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The text has a mistake in some line.
    #[error("{}:{line}: {field}{problem}", path.display())]
    Mistake {
        /// The file.
        path: PathBuf,
        /// The line of the mistake, from 1.
        line: u64,
        /// The field as `field: `, or empty when no field is to blame.
        field: String,
        /// What is wrong and what is allowed.
        problem: String,
    },
}

/// A message and the text it was read from.
#[derive(Debug, Clone)]
pub struct Document<T> {
    /// The message.
    pub message: T,
    /// The file that it was read from.
    pub path: PathBuf,
    text: String,
}

/// Reads a message from a JSON or YAML file. The content decides which of the two it is, not the file's name.
///
/// # Errors
/// [`FileError`] that names file, line and field.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Document<T>, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    read_from(path, File::open(path).map_err(unreadable)?)
}

/// Reads a message from an open file or a pipe; error messages call it `path`.
///
/// # Errors
/// [`FileError`] that names file, line and field.
pub fn read_from<T: DeserializeOwned>(
    path: &Path,
    source: impl std::io::Read,
) -> Result<Document<T>, FileError> {
    parse(path, text_from(path, source)?)
}

/// The text of a file.
///
/// # Errors
/// [`FileError`] that names the file, and the line of the first byte that is not UTF-8.
pub fn text_of(path: &Path) -> Result<String, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    text_from(path, File::open(path).map_err(unreadable)?)
}

fn text_from(path: &Path, source: impl std::io::Read) -> Result<String, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    // A device or a pipe has no size to ask for, so what is read is limited.
    let mut bytes = Vec::new();
    source.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(FileError::TooLarge { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| not_utf8(path, &error))
}

fn not_utf8(path: &Path, error: &std::string::FromUtf8Error) -> FileError {
    let at = error.utf8_error().valid_up_to();
    let (before, rest) = error.as_bytes().split_at(at);
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count() as u64;
    let byte = rest.first().copied().unwrap_or_default();
    let problem = format!("the byte 0x{byte:02x} is not UTF-8; allowed: text in UTF-8");
    FileError::Mistake { path: path.to_owned(), line, field: String::new(), problem }
}

/// Reads a message from text that was read from `path`.
///
/// # Errors
/// [`FileError::Mistake`] that names line and field.
pub fn parse<T: DeserializeOwned>(path: &Path, text: String) -> Result<Document<T>, FileError> {
    if words::is_empty(&text) {
        let problem = "the file has no content; expected `field: value` lines".to_owned();
        return Err(FileError::Mistake {
            path: path.to_owned(),
            line: 1,
            field: String::new(),
            problem,
        });
    }
    let message =
        if text.trim_start().starts_with('{') { from_json(&text) } else { from_yaml(&text) };
    let message = message.map_err(|SpellingMistake { line, field, problem }| {
        FileError::Mistake { path: path.to_owned(), line, field: field_prefix(&field), problem }
    })?;
    Ok(Document { message, path: path.to_owned(), text })
}

/// A mistake in the syntax or shape of a text.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {}{problem}", field_prefix(field))]
pub struct SpellingMistake {
    /// The line of the mistake, from 1.
    pub line: u64,
    /// The field, as a path; empty when no field is to blame.
    pub field: String,
    /// What is wrong and what is allowed.
    pub problem: String,
}

/// Reads a message from a text of canonical proto3 JSON.
///
/// # Errors
/// The first mistake, with line and field.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, SpellingMistake> {
    if text.trim().is_empty() {
        let problem = "there is no content; allowed: an object, `{}` if no field is set".to_owned();
        return Err(SpellingMistake { line: 1, field: String::new(), problem });
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let message = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        let inner = error.into_inner();
        let (line, column) = (inner.line() as u64, inner.column() as u64);
        // serde_json ends its message with the place, which our message already begins with.
        let place = format!(" at line {line} column {column}");
        let problem = inner.to_string().replace(&place, "");
        mistake_of_spelling(&field, text, &problem, line, column)
    })?;
    json.end().map_err(|error| SpellingMistake {
        line: error.line() as u64,
        field: String::new(),
        problem: "something follows the end of the document".into(),
    })?;
    Ok(message)
}

fn from_yaml<T: DeserializeOwned>(text: &str) -> Result<T, SpellingMistake> {
    // A domain may be called `N` or `no`, so only `true` and `false` are truth values.
    let options = serde_saphyr::options! { with_snippet: false, strict_booleans: true };
    let mut field = String::new();
    let result = serde_saphyr::with_deserializer_from_str_with_options(text, options, |yaml| {
        serde_path_to_error::deserialize(yaml).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    let error = match result {
        Ok(message) => return Ok(message),
        Err(error) => error,
    };
    let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
    let problem = error.without_snippet().to_string();
    // The library says "line L column C: ..." at the start or the end. Our message already begins with the
    // line.
    let problem = problem.split_once(" at line ").map_or(problem.as_str(), |(said, _)| said);
    Err(mistake_of_spelling(&field, text, problem, line, column))
}

fn mistake_of_spelling(
    field: &str,
    text: &str,
    problem: &str,
    line: u64,
    column: u64,
) -> SpellingMistake {
    // serde_path_to_error writes `?` for a key that could not be read.
    let field = field.trim_end_matches('?').trim_end_matches('.');
    let (line, problem) = Mistake { problem, field, text, line, column }.in_words();
    SpellingMistake { line, field: field.to_owned(), problem }
}

fn field_prefix(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

impl<T> Document<T> {
    /// The error for a wrong value in `field` (`computes[2].sites[0].cpus`), with the line of that field.
    #[must_use]
    pub fn mistake(&self, field: &str, problem: &str) -> FileError {
        FileError::Mistake {
            path: self.path.clone(),
            line: line_of(&self.text, field),
            field: field_prefix(field),
            problem: problem.to_owned(),
        }
    }

    /// The folder that relative paths in the file start from.
    #[must_use]
    pub fn folder(&self) -> &Path {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }
}

/// The line of a field, or of the nearest enclosing field that is written down; 1 when there is none.
fn line_of(text: &str, field: &str) -> u64 {
    find(text, field).map_or(1, |found| found.line)
}

/// Where a field is written.
struct FieldPlace {
    /// The line of its name, from 1; of the nearest enclosing field, if it is not written down.
    line: u64,
    /// Its value as it is written; `None` if it is no single word, number or quoted text.
    value: Option<String>,
}

/// Where a field is written; `None` for a text that is no document.
fn find(text: &str, field: &str) -> Option<FieldPlace> {
    // This parser reads JSON as YAML, so one walk serves both.
    let documents = MarkedYaml::load_from_str(text).ok()?;
    let mut node = documents.first()?;
    let (mut line, mut is_whole) = (node.span.start.line(), true);
    for step in field.split(['.', '[']).filter(|step| !step.is_empty()) {
        let found = match (&node.data, step.strip_suffix(']')) {
            (YamlData::Sequence(items), Some(index)) => {
                let item = index.parse().ok().and_then(|index: usize| items.get(index));
                item.map(|item| (item.span.start.line(), item))
            }
            (YamlData::Mapping(entries), None) => entries
                .iter()
                .find(|(key, _)| key.data.as_str().is_some_and(|key| same_field(key, step)))
                .map(|(key, value)| (key.span.start.line(), value)),
            _ => None,
        };
        let Some((found_line, found_node)) = found else {
            is_whole = false;
            break;
        };
        (line, node) = (found_line, found_node);
    }
    let is_single = matches!(node.data, YamlData::Value(_) | YamlData::Representation(..));
    let span = node.span.start.index()..node.span.end.index();
    let value = (is_whole && is_single).then(|| text.chars().skip(span.start).take(span.len()));
    let value = value.map(|value| value.collect::<String>().trim().to_owned());
    Some(FieldPlace { line: line as u64, value: value.filter(|value| !value.is_empty()) })
}

/// Whether two names are the same field: `hold_soft` and `holdSoft` are.
fn same_field(written: &str, asked: &str) -> bool {
    let fold = |name: &str| name.replace('_', "").to_lowercase();
    fold(written) == fold(asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1;

    fn parse_request(text: &str) -> Result<Document<v1::CoAllocationRequest>, FileError> {
        parse(Path::new("request.yaml"), text.to_owned())
    }

    const YAML: &str = "\
sites:
  - name: a
    cpus: 4
  - {name: b, cpus: 8, pinned_to: N0}
links:
  - from: a
    to: b
    bandwidthBps: 1000000000
    max_latency: 0.005s
earliest_start: 2026-11-21T10:00:00Z
duration: 3600s
";

    #[test]
    fn yaml_and_json_of_one_message_are_equal() {
        let yaml = parse_request(YAML).unwrap().message;
        assert_eq!(yaml.sites[1].pinned_to.as_deref(), Some("N0"));
        assert_eq!(yaml.links[0].bandwidth_bps, 1_000_000_000);
        let text = serde_json::to_string_pretty(&yaml).unwrap();
        assert!(text.contains("\"bandwidthBps\": \"1000000000\""), "canonical: {text}");
        assert_eq!(parse_request(&text).unwrap().message, yaml);
    }

    #[test]
    fn mistakes_of_spelling_name_file_line_and_field() {
        let cases = [
            (YAML.replace("cpus: 4", "cpu: 4"), "request.yaml:3:", "cpu"),
            (YAML.replace("cpus: 4", "cpus: many"), "request.yaml:3:", "sites[0].cpus"),
            (YAML.replace("3600s", "[1]"), "request.yaml:11:", "duration"),
            ("{\n \"sites\": [\n  {\"name\": 3}\n ]\n}".to_owned(), "request.yaml:3:", "sites[0]"),
        ];
        for (text, place, field) in cases {
            let error = parse_request(&text).unwrap_err().to_string();
            assert!(error.starts_with(place) && error.contains(field), "{error}");
        }
    }

    fn said(text: &str) -> String {
        let error = parse_request(text).unwrap_err().to_string();
        error.strip_prefix("request.yaml:").unwrap().to_owned()
    }

    #[test]
    fn a_number_that_is_none_is_shown_with_what_is_allowed() {
        let allowed = "is not allowed; allowed: 1 to 10000000 CPUs";
        for number in ["-1", "1.5", "99999999999999999999999", "many", "'-1'", "true", "[4]", ""] {
            let text = YAML.replace("cpus: 4", &format!("cpus: {number}"));
            // What is no single word is shown with its line.
            let written = match number {
                "" | "[4]" => format!("cpus: {number}").trim().to_owned(),
                word => word.to_owned(),
            };
            assert_eq!(said(&text), format!("3: sites[0].cpus: `{written}` {allowed}"));
        }
        for number in ["-1", "1.5", "99999999999999999999999", "\"-1\"", "null"] {
            let text = format!("{{\"sites\":\n[{{\"cpus\": {number}}}]}}");
            assert_eq!(said(&text), format!("2: sites[0].cpus: `{number}` {allowed}"));
        }
        let grc = parse::<v1::GrcFile>(Path::new("grc"), "planning: {frames: 5000000000}".into());
        let expected = "grc:1: planning.frames: `5000000000` is not allowed; \
                        allowed: a whole number from 0 to 4294967295";
        assert_eq!(grc.unwrap_err().to_string(), expected);
    }

    #[test]
    fn rates_and_lengths_may_have_units() {
        let text = YAML.replace("1000000000", "2.5 Gbit/s").replace("3600s", "1h30");
        let text = text.replace("0.005s", "5ms");
        let request = parse_request(&text).unwrap().message;
        assert_eq!(request.links[0].bandwidth_bps, 2_500_000_000);
        assert_eq!(request.links[0].max_latency.unwrap().nanos, 5_000_000);
        assert_eq!(request.duration.unwrap().seconds, 5_400);
        let rate = |rate: &str| said(&YAML.replace("1000000000", rate));
        let start = "8: links[0].bandwidthBps: `MB` counts bytes, but rates are in bit/s";
        assert!(rate("400MB").starts_with(start), "{}", rate("400MB"));
        let start = "8: links[0].bandwidthBps: ";
        for bad in ["-1", "1.5", "fast", "[4]", "", "true"] {
            assert!(rate(bad).starts_with(start) && rate(bad).contains("10G"), "{}", rate(bad));
        }
        let length = said(&YAML.replace("3600s", "1:30"));
        assert!(length.starts_with("11: duration: `1:30` may be hours or minutes"), "{length}");
    }

    #[test]
    fn of_a_long_line_the_part_around_the_mistake_is_shown() {
        let far = "x".repeat(500);
        for quote in ["", "\""] {
            let text = format!("{{{quote}user{quote}: \"{far}\", \"sites\": [{{\"cpus\": [7]}}]}}");
            let text = if quote.is_empty() { format!("# YAML\n{text}") } else { text };
            let error = said(&text);
            let shown = error.split('`').nth(1).unwrap();
            assert!(shown.contains("\"cpus\": [7]") && shown.chars().count() <= 80, "{error}");
        }
    }

    #[test]
    fn mistakes_of_shape_are_told_in_words_with_their_line() {
        let cases = [
            (YAML.replace("cpus: 4", "cpus 4"), "3: sites[0]: `cpus 4` is not `field: value`"),
            (YAML.replace("cpus: 4", "cpus:4"), "3: sites[0]: `cpus:4` is not `field: value`"),
            (YAML.replace("duration: ", "duration "), "11: `duration 3600s` is not `field: value`"),
            (YAML.replace("    cpus: 4", "\tcpus: 4"), "3: sites[0]: is indented with a tab"),
            (YAML.replace("    cpus: 4", "   cpus: 4"), "3: sites: `cpus: 4` is indented diff"),
            (YAML.replace("    cpus: 4", "      cpus: 4"), "3: sites[0]: `cpus: 4` has a colon"),
            (YAML.replace("N0}", "N0"), "6: sites: `- from: a` is inside a `{`"),
            (YAML.replace("name: a", "name: \"a"), "3: sites[0]: `cpus: 4` is inside a quot"),
            (YAML.replace("name: a", "name: [a]"), "2: sites[0].name: `- name: [a]` appears where"),
            (YAML.replace("name: a", "name:"), "2: sites[0].name: `- name:` appears where text"),
            ("- a\n- b\n".into(), "1: `- a` appears where `field: value` is expected"),
            ("hello\n".into(), "1: `hello` appears where `field: value` is expected"),
            ("sites:\n  name: a\n".into(), "2: sites: `name: a` appears where a list is expected"),
            ("sites: [a]\n".into(), "1: sites[0]: `sites: [a]` appears where `field: value`"),
            (format!("{YAML}---\n{YAML}"), "13: `sites:` begins or belongs to a second document"),
            (String::new(), "1: the file has no content"),
            ("# later\n\n".into(), "1: the file has no content"),
            ("{\"sites\": {}}".into(), "1: sites: `{\"sites\": {}}` appears where a list"),
            ("{\"sites\": [1]}".into(), "1: sites[0]: `1` appears where fields"),
            ("{\"user\": 3}".into(), "1: user: `3` appears where text is expected"),
            ("{\"user\": \"a\",\n}".into(), "2: `}` follows a comma"),
            ("{\"user\" 3}".into(), "1: expected `:` in or before `{\"user\" 3}`"),
            ("{\"sites\": [\n".into(), "2: sites: the text ends while a bracket"),
        ];
        for (text, expected) in cases {
            let said = said(&text);
            assert!(said.starts_with(expected), "said: {said}\nwant: {expected}");
        }
    }

    #[test]
    fn a_tab_in_front_is_blamed_only_where_tabs_are_a_mistake() {
        let error = said("{\n\t\"table\": 1\n}");
        assert!(error.starts_with("2: table: there is no such field"), "{error}");
    }

    #[test]
    fn a_field_that_stands_twice_is_named() {
        let cases = [
            (
                format!("{YAML}duration: 5s\n"),
                "12: the field `duration` appears twice; allowed: once",
            ),
            (
                YAML.replace("cpus: 4", "cpus: 4\n    cpus: 4"),
                "4: sites[0]: the field `cpus` appears twice; allowed: once",
            ),
            (
                "{\"duration\": \"5s\",\n\"duration\": \"6s\"}".to_owned(),
                "2: the field `duration` appears twice; allowed: once",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(said(&text), expected);
        }
    }

    #[test]
    fn relative_paths_start_from_the_folder_of_the_file() {
        for (path, folder) in [("crm.yaml", "."), ("etc/crm.yaml", "etc"), ("/crm.yaml", "/")] {
            let document = parse::<v1::CrmFile>(Path::new(path), "{}".to_owned()).unwrap();
            assert_eq!(document.folder(), Path::new(folder));
        }
    }

    #[test]
    fn endless_files_and_files_that_are_no_text_are_refused_by_name() {
        let endless = read::<v1::CrmFile>(Path::new("/dev/zero")).unwrap_err();
        assert!(matches!(endless, FileError::TooLarge { .. }), "{endless}");
        let path = std::env::temp_dir().join(format!("coalloc-latin1-{}", std::process::id()));
        std::fs::write(&path, b"sites:\n  - name: \xe9\n").unwrap();
        let error = read::<v1::CrmFile>(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        let expected = format!("{}:2: the byte 0xe9 is not UTF-8", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }

    #[test]
    fn mistakes_of_sense_find_their_line_in_yaml_and_json() {
        let document = parse_request(YAML).unwrap();
        let lines = [("sites[1].cpus", 4), ("links[0].bandwidth_bps", 8), ("latest_start", 1)];
        for (field, line) in lines {
            let error = document.mistake(field, "is wrong").to_string();
            assert_eq!(error, format!("request.yaml:{line}: {field}: is wrong"));
        }
        let json = parse_request("{\"sites\":\n[{\"name\": \"a\"},\n{\"name\": \"b\"}]}").unwrap();
        let error = json.mistake("sites[1].cpus", "is zero").to_string();
        assert!(error.starts_with("request.yaml:3:"), "{error}");
    }
}
