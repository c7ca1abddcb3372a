//! `coalloc sim list`, `show` and `new`: lists the experiments that come with the program, shows one,
//! creates a new one.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use coalloc_sim::experiment::file::{self, Model, text_of};
use coalloc_sim::experiment::judge::number;
use coalloc_sim::experiment::settings::words;
use coalloc_sim::experiment::shipped::{BLANKS, FILES, SHIPPED, named};

use super::clock::TIMES;
use super::models::metrics;
use super::source::load;
use crate::kit::exit::{Answer, Failure};
use crate::kit::text;

/// The experiments that come with the program
#[derive(Debug, Clone, Args)]
pub struct ListArgs {}

/// Lists the experiments.
///
/// # Errors
/// When an experiment makes no sense; a test makes sure that this does not happen.
pub fn list(_: &ListArgs) -> Result<Answer, Failure> {
    let mut table = text::table(&["NAME", "OF", "RUNS", "TITLE"]);
    text::align_right(&mut table, &[2]);
    for shipped in SHIPPED {
        let experiment = load(shipped.name)?.experiment;
        let source = experiment.source.as_ref();
        let of = source.map(|source| format!("{}, {}", source.paper, source.figure));
        let runs = experiment.points(false).len() as u64 * experiment.seeds.count;
        let cells = [
            shipped.name.to_owned(),
            of.unwrap_or_else(|| "ours".to_owned()),
            runs.to_string(),
            experiment.title.clone(),
        ];
        table.add_row(cells);
    }
    Ok(Answer::done(text::finish_in_lines(table)))
}

/// What an experiment varies, measures and compares
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// An experiment file, or the name of one that comes with the program
    #[arg(value_name = "FILE")]
    file: String,
    /// Print the file itself
    #[arg(long)]
    yaml: bool,
    /// A folder with traces of jobs, after the folder of the experiment [default: $COALLOC_TRACES]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
}

/// Shows one experiment.
///
/// # Errors
/// The first mistake in the experiment.
pub fn show(args: &ShowArgs) -> Result<Answer, Failure> {
    let source = load(&args.file)?;
    if args.yaml {
        return Ok(Answer::done(source.text));
    }
    super::metrics::check_curves(&source)?;
    // This checks the settings. An experiment can be shown without its traces.
    let missing = source.prepare(false, args.traces.as_deref())?.missing;
    let experiment = &source.experiment;
    let points = experiment.points(false).len() as u64;
    let mut out = format!("{}: {}\n", experiment.name, experiment.title);
    if let Some(own) = &experiment.source {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "of {}, {}", own.paper, own.figure);
    }
    let (seeds, small) = (experiment.seeds, experiment.points(true).len());
    let few = experiment.seeds(true).count();
    let _ = writeln!(
        out,
        "{points} points x {} seeds = {} runs; with --small {small} x {few}\n\nVaries",
        seeds.count,
        points * seeds.count
    );
    for axis in &experiment.sweep {
        let labels = axis.labels(false);
        let path = axis.path.as_deref().unwrap_or("several settings");
        let _ = writeln!(out, "  {:<14} {}  ({path})", axis.name, labels.join(", "));
    }
    out += "\nMeasures\n";
    for metric in &experiment.metrics {
        let unit = metric.unit.as_ref().map(|unit| format!(" [{unit}]")).unwrap_or_default();
        let _ = writeln!(out, "  {:<22} {}{unit}", metric.name, metric.label);
    }
    if !experiment.paper.numbers.is_empty() {
        out += "\nThe paper's numbers\n";
    }
    for printed in &experiment.paper.numbers {
        let at: Vec<String> =
            (printed.at.iter()).map(|(axis, value)| format!("{axis} {}", text_of(value))).collect();
        let (value, metric) = (number(printed.value), &printed.metric);
        let _ = writeln!(out, "  {value:>8}  {metric}  {}  ({})", at.join(", "), printed.place);
    }
    if !experiment.paper.shapes.is_empty() {
        out += "\nWhat the paper says about its curves\n";
    }
    for shape in &experiment.paper.shapes {
        let _ = writeln!(out, "  {} ({})", shape.says, shape.place);
    }
    out += "\nWhat its model can also measure\n";
    let listed = |name: &str| experiment.metrics.iter().any(|metric| metric.name == name);
    let others = metrics(experiment.model).iter().chain(TIMES).filter(|(name, _)| !listed(name));
    for (name, about) in others {
        let _ = writeln!(out, "  {name:<22} {about}");
    }
    if !missing.is_empty() {
        out += "\nIt cannot run yet\n";
    }
    for problem in missing.keys() {
        let _ = writeln!(out, "  {problem}");
    }
    Ok(Answer::done(out))
}

/// Create your own experiment: write a file to change
#[derive(Debug, Clone, Args)]
pub struct NewArgs {
    /// The file to write; its name without .yaml becomes the name of the experiment
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The experiment of the program to begin with
    #[arg(long, value_name = "NAME", default_value = "takefusa-fig7")]
    from: String,
    /// Begin with a small file for this model instead, with a comment at each line to change
    #[arg(long, value_name = "MODEL", conflicts_with = "from", value_parser = PossibleValuesParser::new(words::<Model>()))]
    blank: Option<String>,
}

impl NewArgs {
    /// The name and the text to begin with.
    fn beginning(&self) -> Result<(&'static str, &'static str), Failure> {
        if let Some(model) = &self.blank {
            let blank = BLANKS.iter().find(|blank| blank.name == model.as_str());
            let missing = || Failure::internal(format!("--blank {model}: there is no such file"));
            return Ok(("blank", blank.ok_or_else(missing)?.text));
        }
        if let Some(shipped) = named(&self.from) {
            return Ok((shipped.name, shipped.text));
        }
        Err(match load(&self.from) {
            Err(unknown) => unknown,
            Ok(_) => Failure::bad_input(format!(
                "--from {}: is a file; copy it instead, or give a name that `coalloc sim list` \
                 shows",
                self.from
            )),
        })
    }
}

/// Writes the experiment file, and next to it the files that it includes.
///
/// # Errors
/// When the file exists already, or cannot be written.
pub fn new(args: &NewArgs) -> Result<Answer, Failure> {
    let (own_name, text) = args.beginning()?;
    let name = args.file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    file::name("name of the experiment", name)
        .map_err(|error| Failure::bad_input(format!("{}: {error}", args.file.display())))?;
    let mut content = text.replacen(&format!("name: {own_name}"), &format!("name: {name}"), 1);
    let mut written = vec![args.file.clone()];
    let mut beside = Vec::new();
    for (path, text) in FILES.iter().filter(|(path, _)| text.contains(path)) {
        let own = path.rsplit('/').next().unwrap_or(path);
        content = content.replace(path, own);
        beside.push((args.file.with_file_name(own), *text));
    }
    // A file beside it may be there already, from another experiment, but it has to be the same.
    let differs = |(path, text): &&(PathBuf, &str)| {
        std::fs::read_to_string(path).is_ok_and(|there| there != *text)
    };
    if let Some((path, _)) = beside.iter().find(differs) {
        return Err(Failure::bad_input(format!(
            "{}: this file is there already and differs from that of {own_name}; nothing was written; give FILE in another folder",
            path.display()
        )));
    }
    put_new(&args.file, &content)?;
    for (path, text) in beside {
        if !path.exists() {
            put_new(&path, text)?;
            written.push(path);
        }
    }
    let written: Vec<String> = written.iter().map(|path| path.display().to_string()).collect();
    let file = args.file.display();
    Ok(Answer::done(format!(
        "wrote {}\nnow: coalloc sim show {file}\n     coalloc sim run {file} --small --out {name}\n",
        written.join(", ")
    )))
}

fn put_new(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let failed = |error: std::io::Error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AlreadyExists => "; nothing was overwritten",
            _ => "",
        };
        Failure::bad_input(format!("{}: {error}{hint}", path.display()))
    };
    let mut file = std::fs::File::create_new(path).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}
