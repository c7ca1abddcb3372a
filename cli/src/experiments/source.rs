//! The source of an experiment: a file, or one that comes with the program; and the files that it includes.
//!
//! In its settings, or in what a value of an axis sets, `{file: path}` is replaced by the content of that
//! file, relative to the experiment's file. Every mistake is reported with file, line and field.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use coalloc_common::{InvalidField, suggest};
use coalloc_net::convert::file_topology;
use coalloc_proto::file::{Document, FileError, parse, text_of};
use coalloc_proto::v1;
use coalloc_sim::experiment::Experiment;
use coalloc_sim::experiment::file::{Point, SettingFault};
use coalloc_sim::experiment::shipped::{self, FILES, SHIPPED};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::clock::is_timed;
use super::included::{self, Content, IncludedFile};
use super::metrics::check_names;
use super::models::{PreparedModel, prepare};
use super::programs::{check_can_start, custom_place, custom_programs};
use super::swf::TraceFolders;
use crate::kit::exit::{Exit, Failure};

/// An experiment that was read and checked.
#[derive(Debug)]
pub struct Source {
    /// The experiment, with the content of the included files.
    pub experiment: Experiment,
    /// The text of the experiment file.
    pub text: String,
    /// The texts of the files that it includes, by the paths that it names.
    included: BTreeMap<String, String>,
    /// The folder of the experiment file, if it is on disk.
    pub folder: Option<PathBuf>,
    /// How a command names the experiment: by its file, without the folder, or by its name in the program.
    pub named: String,
    document: Document<Experiment>,
}

/// The points of an experiment, each with a model that is ready to run.
#[derive(Debug, Default)]
pub struct PreparedPoints {
    /// The points whose trace, if they have one, is there.
    pub points: Vec<(Point, PreparedModel)>,
    /// What is missing, in words, each with the number of points that cannot run without it.
    pub missing: BTreeMap<String, usize>,
}

/// Reads an experiment by the path of its file, or by the name of one that comes with the program.
///
/// # Errors
/// The first mistake, with its line; [`Exit::NotFound`] when there is no such experiment.
pub fn load(name: &str) -> Result<Source, Failure> {
    let path = Path::new(name);
    if path.is_dir() {
        let problem = "is a folder; expected an experiment file, or a name of `coalloc sim list`";
        let meant = included::experiment_in(path);
        let meant = meant.map(|file| format!("; did you mean {}?", file.display()));
        let meant = meant.unwrap_or_default();
        return Err(Failure::bad_input(format!("{name}: {problem}{meant}")));
    }
    if path.exists() {
        return of(path, text_of(path)?, true);
    }
    let Some(shipped) = shipped::named(name) else { return Err(unknown(name)) };
    of(&PathBuf::from(format!("{name}.yaml")), shipped.text.to_owned(), false)
}

fn unknown(name: &str) -> Failure {
    let known: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
    let meant = suggest::did_you_mean(name, known.iter().copied());
    Failure::new(
        Exit::NotFound,
        format!(
            "{name}: there is no such file, and no experiment of that name comes with the program{meant}\n\
             those that do: coalloc sim list"
        ),
    )
}

/// Parses an experiment that was read from `path`; `on_disk` says whether the files that it includes are on
/// disk, too.
///
/// # Errors
/// The first mistake, with its line.
pub fn of(path: &Path, text: String, on_disk: bool) -> Result<Source, Failure> {
    let document: Document<Experiment> = parse(path, text.clone()).map_err(in_plain_words)?;
    let mut experiment = document.message.clone();
    let folder = on_disk.then(|| document.folder().to_owned());
    let mut files = IncludedTexts { folder: folder.as_deref(), texts: BTreeMap::new() };
    for (key, value) in &mut experiment.settings {
        files
            .include(key, value)
            .map_err(|problem| at(&document, &format!("settings.{key}"), &problem))?;
    }
    for (axis_at, axis) in experiment.sweep.iter_mut().enumerate() {
        let path = axis.path.as_deref().unwrap_or_default();
        for (value_at, value) in axis.values.iter_mut().enumerate() {
            let field = format!("sweep[{axis_at}].values[{value_at}]");
            files.include(path, value).map_err(|problem| at(&document, &field, &problem))?;
        }
    }
    let named = if on_disk { path.file_name() } else { path.file_stem() };
    let named = named.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let included = files.texts;
    let source = Source { experiment, text, included, folder, named, document };
    source.check()?;
    Ok(source)
}

/// Parses the text of an experiment that is somewhere else: `{file: path}` stays as it is.
///
/// # Errors
/// The first mistake, with its line.
pub fn without_files(path: &Path, text: String) -> Result<Experiment, Failure> {
    let document: Document<Experiment> = parse(path, text)?;
    let experiment = document.message.clone();
    experiment.check().map_err(|error| at(&document, &error.field, &error.problem()))?;
    Ok(experiment)
}

/// The files that an experiment includes, as they are read.
struct IncludedTexts<'a> {
    /// The folder of the experiment; `None` if it comes with the program, and its files with it.
    folder: Option<&'a Path>,
    texts: BTreeMap<String, String>,
}

impl IncludedTexts<'_> {
    /// Replaces `{file: path}` by the content of that file; `name` is the field in which it stands.
    ///
    /// A federation is read as the daemons read it, so that a mistake in it is reported with its own line.
    fn include(&mut self, name: &str, value: &mut Value) -> Result<(), String> {
        let Value::Object(fields) = value else { return Ok(()) };
        let named = fields.get("file").and_then(Value::as_str).filter(|_| fields.len() == 1);
        let Some(file) = named.map(str::to_owned) else {
            return fields.iter_mut().try_for_each(|(name, value)| self.include(name, value));
        };
        if name.rsplit('.').next() == Some("federation") {
            let federation = self.read::<v1::FederationFile>(&file)?;
            file_topology(&federation.message).map_err(|error| {
                let problem = error.problem();
                federation.mistake(&error.field, &problem).to_string()
            })?;
        }
        *value = self.read::<Value>(&file)?.message;
        Ok(())
    }

    fn read<T: DeserializeOwned>(&mut self, name: &str) -> Result<Document<T>, String> {
        let told = |error: FileError| error.to_string();
        let (path, text) = match self.folder {
            Some(folder) => {
                let path = included::place(folder, name);
                let text = text_of(&path).map_err(told)?;
                (path, text)
            }
            None => {
                let text = FILES.iter().find(|(path, _)| *path == name).map(|(_, text)| *text);
                let text = text.ok_or_else(|| format!("{name} does not come with the program"))?;
                (PathBuf::from(name), text.to_owned())
            }
        };
        self.texts.insert(name.to_owned(), text.clone());
        parse(&path, text).map_err(told)
    }
}

/// A mistake without the words of the library that reads YAML. Of a field that is missing at the top, no line is to blame more
/// than the first one.
fn in_plain_words(error: FileError) -> FileError {
    let FileError::Mistake { path, line, field, problem } = error else { return error };
    let is_missing = field.is_empty() && problem.contains("is missing; expected");
    let line = if is_missing { 1 } else { line };
    let problem = match problem.split('`').nth(1) {
        Some(value) if problem.starts_with("non-finite float") => {
            format!("{value} is not allowed; allowed: a number")
        }
        _ if problem.starts_with("invalid floating point") => {
            "what is written there is not allowed; allowed: a number, such as 0.5".to_owned()
        }
        _ => problem,
    };
    FileError::Mistake { path, line, field, problem }
}

fn at(document: &Document<Experiment>, field: &str, problem: &str) -> Failure {
    document.mistake(field, problem).into()
}

impl Source {
    /// A mistake in a field of the experiment.
    #[must_use]
    pub fn mistake(&self, field: &str, value: &str, allowed: &str) -> Failure {
        self.invalid(&InvalidField::new(field, InvalidField::quoted(value), allowed))
    }

    fn invalid(&self, error: &InvalidField) -> Failure {
        let problem = error.problem();
        at(&self.document, &error.field, &problem)
    }

    /// Checks that the experiment makes sense.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn check(&self) -> Result<(), Failure> {
        // A misspelled metric is told where it is declared, not where a plot names it.
        check_names(self)?;
        self.experiment.check().map_err(|error| self.invalid(&error))
    }

    /// Every point of the sweep, each with a prepared model. Traces of jobs are looked for in the folder of
    /// the experiment and in `traces`.
    ///
    /// # Errors
    /// The first setting that its model does not accept, with the line of the setting. A trace that is missing
    /// is none: its points are counted.
    pub fn prepare(&self, small: bool, traces: Option<&Path>) -> Result<PreparedPoints, Failure> {
        let traces = TraceFolders::new(self.folder.as_deref(), traces);
        if small {
            // What is wrong at points that are not run now would be found only by the whole run.
            self.prepare_all(false, &traces)?;
        }
        self.prepare_all(small, &traces)
    }

    fn prepare_all(&self, small: bool, traces: &TraceFolders) -> Result<PreparedPoints, Failure> {
        let mut all = PreparedPoints::default();
        for point in self.experiment.points(small) {
            let prepared = prepare(self.experiment.model, &point.settings, traces);
            let prepared = prepared.map_err(|mistake| {
                let field = &mistake.field;
                let field = self.experiment.field_of_setting(&point, field, mistake.fault);
                // A value of an axis may set more than one field, so the field is named.
                let which = match field.starts_with("sweep") {
                    true => format!("{}: ", mistake.field),
                    false => String::new(),
                };
                let failure = at(&self.document, &field, &format!("{which}{}", mistake.problem));
                Failure { exit: mistake.exit, ..failure }
            });
            match prepared {
                Ok(prepared) => all.points.push((point, prepared)),
                Err(failure) if failure.exit == Exit::NotFound => {
                    *all.missing.entry(failure.to_string()).or_default() += 1;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(all)
    }

    /// The programs of the user that plan in the experiment, each with the content of its file.
    ///
    /// # Errors
    /// The first setting that names a program that is not there, or that cannot be started.
    pub fn custom_programs(
        &self,
        points: &[(Point, PreparedModel)],
    ) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
        let mut programs = BTreeMap::new();
        for (point, prepared) in points {
            for (path, setting) in custom_programs(prepared) {
                if programs.contains_key(&path) {
                    continue;
                }
                let place = custom_place(self.folder.as_deref(), &path);
                let bytes = place.and_then(|place| {
                    let read = std::fs::read(&place);
                    let bytes = read.map_err(|error| format!("{}: {error}", place.display()))?;
                    check_can_start(&bytes).map(|()| bytes)
                });
                let bytes = bytes.map_err(|problem| {
                    let field =
                        self.experiment.field_of_setting(point, setting, SettingFault::Value);
                    let problem = format!("program:{path}: {problem}");
                    at(&self.document, &field, &problem)
                })?;
                programs.insert(path, bytes);
            }
        }
        Ok(programs)
    }

    /// Every file that the experiment names, for a folder of results; traces are looked for as by [`Source::prepare`].
    #[must_use]
    pub fn included(
        &self,
        points: &[(Point, PreparedModel)],
        programs: BTreeMap<String, Vec<u8>>,
        traces: Option<&Path>,
    ) -> Vec<IncludedFile> {
        let folders = TraceFolders::new(self.folder.as_deref(), traces);
        let texts = self.included.iter();
        let texts = texts.map(|(name, text)| (name.clone(), Content::Text(text.clone())));
        let names: BTreeSet<&str> =
            points.iter().filter_map(|(_, prepared)| Some(prepared.trace()?.0)).collect();
        let found =
            names.into_iter().filter_map(|name| Some((name.to_owned(), folders.content(name)?)));
        let programs = programs.into_iter().map(|(name, bytes)| (name, Content::Program(bytes)));
        let all = texts.chain(found).chain(programs);
        all.map(|(name, content)| IncludedFile { name, content }).collect()
    }

    /// Everything that determines the experiment's runs, and nothing else: a label or a plot does not, the
    /// content of a trace or of one of the user's `programs` does.
    #[must_use]
    pub fn essence(
        &self,
        small: bool,
        points: &[(Point, PreparedModel)],
        programs: &BTreeMap<String, String>,
    ) -> Value {
        let axes: Vec<Value> = (self.experiment.sweep.iter())
            .map(|axis| serde_json::json!({"name": axis.name, "path": axis.path, "values": axis.values}))
            .collect();
        let small = small.then(|| Value::Object(self.experiment.small.clone()));
        let mut essence = serde_json::json!({
            "model": self.experiment.model,
            "settings": Value::Object(self.experiment.settings.clone()),
            "small": small,
            "sweep": axes,
        });
        // If no times are measured, the runs contain none.
        if is_timed(&self.experiment) {
            essence["timed"] = true.into();
        }
        let traces: BTreeMap<&str, &str> =
            points.iter().filter_map(|(_, prepared)| prepared.trace()).collect();
        if !traces.is_empty() {
            essence["traces"] = serde_json::json!(traces);
        }
        if !programs.is_empty() {
            essence["programs"] = serde_json::json!(programs);
        }
        essence
    }
}
