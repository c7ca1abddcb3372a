//! Planners that are separate programs: solvers that this machine has, and programs of the user. This module finds and
//! runs them.
//!
//! A program of the user runs in the folder of its experiment, and gets a frame on its standard input. A solver gets a new
//! folder with the model in it, and no standard input. Each has its own process group, so that
//! everything it starts ends with it. When its time is over, the program is asked to end and to report the
//! best result it has (MiniSat+ does so). A program that does not react is killed; when the run is stopped,
//! it is killed at once. The size of its output is bounded. When this process itself is killed, a program
//! continues until its own time limit; MiniSat+ has none.
//!
//! The content of the model and the meaning of an answer are not here; `coalloc_plan::ip::outside` knows them.

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use coalloc_common::{Span, limits};
use coalloc_plan::Named as _;
use coalloc_plan::ip::Program;
use coalloc_plan::ip::outside::{PlannerJob, ProgramEnd, ProgramRun, Programs, SolverJob};
use coalloc_sim::experiment::file::Point;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::included;
use super::models::PreparedModel;
use crate::kit::text;

/// How often a waiting run checks whether it was stopped.
const LOOK: Duration = Duration::from_millis(20);
/// Pause while waiting for a program to end after its streams have ended, which takes microseconds.
const CLOSING: Duration = Duration::from_micros(200);
/// How many such pauses pass before we assume that the program continues without its streams.
const CLOSINGS_MAX: u32 = 50;

/// The solvers that are installed on this machine.
#[derive(Debug, Clone)]
pub struct InstalledSolvers {
    places: BTreeMap<Program, PathBuf>,
    /// The folder of programs of the user; the current one if `None`.
    folder: Option<PathBuf>,
    stop: Arc<AtomicBool>,
    /// Was it told that a program takes long?
    is_slow_told: Arc<AtomicBool>,
}

impl InstalledSolvers {
    /// Looks for the solvers in the folders of `PATH`; `stop` ends those that run.
    #[must_use]
    pub fn find(stop: Arc<AtomicBool>) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let place = |program: Program| {
            let mut folders = std::env::split_paths(&path);
            let found = folders.find_map(|folder| {
                // The path must be absolute, because the program is started in another folder.
                let place = std::path::absolute(folder.join(program.executable())).ok()?;
                is_executable(&place).then_some(place)
            });
            Some((program, found?))
        };
        let places = Program::ALL.iter().copied().filter_map(place).collect();
        Self { places, folder: None, stop, is_slow_told: Arc::default() }
    }

    /// Says once what the runs wait for.
    fn tell_slow(&self, name: &str, time: Span) {
        if !self.is_slow_told.swap(true, Ordering::Relaxed) {
            let after = slow_after(time.to_std()).as_secs_f64();
            text::note(&format!(
                "waiting for {name}, which has been planning one frame for {after} s; the setting solver_s gives it {time} \
                 for each frame"
            ));
        }
    }

    /// The solvers, and the programs that an experiment in this folder names.
    #[must_use]
    pub fn with_folder(&self, folder: Option<&Path>) -> Arc<dyn Programs> {
        Arc::new(Self { folder: folder.map(folder_of_experiment), ..self.clone() })
    }

    /// Leaves out the points whose program is not installed, except for points that are done already.
    ///
    /// Returns one line for each missing program.
    pub fn leave_out(
        &self,
        ready: &mut Vec<(Point, PreparedModel)>,
        is_done: impl Fn(usize) -> bool,
    ) -> Vec<String> {
        let mut lost: BTreeMap<Program, Vec<String>> = BTreeMap::new();
        let mut places = 0..;
        ready.retain(|(point, prepared)| {
            let programs = prepared.programs();
            let is_done = places.next().is_some_and(&is_done);
            let missing = programs.iter().find(|program| !self.places.contains_key(program));
            let missing = missing.filter(|_| !is_done);
            if let Some(program) = missing {
                let labels = point.labels.iter().map(|(axis, label)| format!("{axis} {label}"));
                let labels = labels.collect::<Vec<_>>().join(", ");
                lost.entry(*program).or_default().push(labels);
            }
            missing.is_none()
        });
        let line = |(program, points): (Program, Vec<String>)| {
            format!(
                "{} is not on this machine, left out: {}",
                program.executable(),
                points.join("; ")
            )
        };
        lost.into_iter().map(line).collect()
    }
}

/// Does a run start programs, whose results are not valid when they are stopped?
#[must_use]
pub fn starts_programs(prepared: &PreparedModel) -> bool {
    !prepared.programs().is_empty() || !custom_programs(prepared).is_empty()
}

/// The programs of the user that a run starts, by their paths, each with the setting that names it.
#[must_use]
pub fn custom_programs(prepared: &PreparedModel) -> BTreeMap<String, &'static str> {
    match prepared {
        PreparedModel::Coallocations(settings, _) => settings.custom_programs(),
        PreparedModel::Tasks(..) | PreparedModel::Jobs(..) | PreparedModel::Workflows(..) => {
            BTreeMap::new()
        }
    }
}

/// The folder of an experiment's file, which is empty if the command named the file alone.
fn folder_of_experiment(folder: &Path) -> PathBuf {
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() }
}

/// The place of a program that an experiment in this folder names.
///
/// # Errors
/// Where it was looked for, when there is no program.
pub fn custom_place(folder: Option<&Path>, path: &str) -> Result<PathBuf, String> {
    let folder = folder_of_experiment(folder.unwrap_or(Path::new("")));
    let place = std::path::absolute(included::place(&folder, path));
    let place = place.map_err(|error| error.to_string())?;
    match is_executable(&place) {
        true => Ok(place),
        false if place.is_file() => Err(format!("it may not be run: chmod +x {}", place.display())),
        false => Err(format!("there is no such program; looked for a file at {}", place.display())),
    }
}

/// Checks that the system can know what runs a program of the user.
///
/// # Errors
/// What is wrong with the first line of a script.
pub fn check_can_start(bytes: &[u8]) -> Result<(), String> {
    // What is no text is compiled, and only the system knows for which machine.
    let Ok(script) = std::str::from_utf8(bytes) else { return Ok(()) };
    let first = script.lines().next().unwrap_or_default();
    let Some(named) = first.strip_prefix("#!") else {
        return Err(format!(
            "its first line does not say what runs it; begin the file with a line such as {SHEBANG}"
        ));
    };
    let interpreter = named.split([' ', '\t']).find(|word| !word.is_empty()).unwrap_or_default();
    match is_executable(Path::new(interpreter)) {
        true => Ok(()),
        false => Err(format!(
            "its first line says that {interpreter:?} runs it, which is no program of this machine; expected a line such \
             as {SHEBANG}"
        )),
    }
}

/// The first line of a script in Python.
const SHEBANG: &str = "`#!/usr/bin/env python3`";

/// Why a program of the user was not started.
fn not_started(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::NOEXEC.raw_os_error() => {
            format!(
                "it is not a program of this machine; expected a compiled one, or a script with a first line such as {SHEBANG}"
            )
        }
        _ => format!("it cannot be started: {error}"),
    }
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

impl Programs for InstalledSolvers {
    fn run(&self, errand: &SolverJob) -> Result<ProgramRun, String> {
        let name = errand.program.executable();
        let place = self.places.get(&errand.program);
        let place = place.ok_or_else(|| format!("{name} is not on this machine"))?;
        let told = |error: std::io::Error| error.to_string();
        let folder = tempfile::Builder::new().prefix("coalloc-solver-").tempdir().map_err(told)?;
        let model = format!("model.{}", errand.program.format().ending());
        std::fs::write(folder.path().join(&model), &errand.model).map_err(told)?;
        let mut command = Command::new(place);
        command.args(errand.arguments(&model, ANSWER)).current_dir(folder.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(&mut command).map_err(told)?;
        let own = Duration::from_secs(errand.seconds().unsigned_abs()) + GRACE;
        let most = if errand.program.keeps_time() { own } else { errand.time.to_std() };
        let ended = running.wait(most, &self.stop, &|| self.tell_slow(name, errand.time))?;
        let (output, errors) = (heard(&running.output)?, heard(&running.errors)?);
        let answer = match std::fs::File::open(folder.path().join(ANSWER)) {
            Ok(file) => Some(bounded(file)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(told(error)),
        };
        Ok(ProgramRun { ended, output, errors, answer })
    }

    fn plan(&self, job: &PlannerJob) -> Result<ProgramRun, String> {
        let place = custom_place(self.folder.as_deref(), &job.path)?;
        let mut command = Command::new(&place);
        let folder = self.folder.as_deref().unwrap_or(Path::new("."));
        command.current_dir(folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(&mut command).map_err(|error| not_started(&error))?;
        running.feed(job.frame.clone());
        let ended =
            running.wait(job.time.to_std(), &self.stop, &|| self.tell_slow(&job.path, job.time))?;
        let (output, errors) = (heard(&running.output)?, heard(&running.errors)?);
        Ok(ProgramRun { ended, output, errors, answer: None })
    }
}

/// The file into which a program writes its answer.
const ANSWER: &str = "answer";

/// Reads everything as text, or returns an error if it is too much.
fn bounded(from: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    let most = limits::OUTSIDE_OUTPUT_MAX;
    let read = from.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    match bytes.len() as u64 > most {
        true => Err(format!("it wrote more than {most} bytes")),
        false => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// The content of a stream. A stream that a process outside the group holds open is given up.
fn heard(stream: &Receiver<Result<String, String>>) -> Result<String, String> {
    stream.recv_timeout(GRACE).unwrap_or_else(|_| Ok(String::new()))
}

/// Time between asking a program to end and killing it.
const GRACE: Duration = limits::OUTSIDE_GRACE.to_std();

/// How long a program may take before its user hears of it: a person who sees nothing for so long asks why.
const SLOW: Duration = Duration::from_secs(10);

/// When a program that has this time is slow.
fn slow_after(most: Duration) -> Duration {
    SLOW.min(most / 2)
}

/// A program that was started. Dropping this value kills it.
struct Running {
    child: Child,
    group: Pid,
    output: Receiver<Result<String, String>>,
    errors: Receiver<Result<String, String>>,
    /// Disconnected when both streams have ended.
    quiet: Receiver<()>,
    has_ended: bool,
}

impl Running {
    fn start(command: &mut Command) -> std::io::Result<Self> {
        let mut child = command.spawn()?;
        let (alive, quiet) = channel::<()>();
        let output = follow(child.stdout.take(), alive.clone());
        let errors = follow(child.stderr.take(), alive);
        let group = Pid::from_child(&child);
        Ok(Self { child, group, output, errors, quiet, has_ended: false })
    }

    /// Writes a text to the program's standard input, in a separate thread: the program may answer before it has read
    /// everything, or read nothing.
    fn feed(&mut self, text: String) {
        let Some(mut stream) = self.child.stdin.take() else { return };
        std::thread::spawn(move || {
            // A program that does not read all of it has known enough. The stream is closed at the end.
            let _ = stream.write_all(text.as_bytes());
        });
    }

    /// Waits until the program ends or is made to end; after `most` it is asked to. Before that, `tell_slow` is called if
    /// it takes long.
    ///
    /// Everything it has started then ends with it, and so do its streams.
    fn wait(
        &mut self,
        most: Duration,
        stop: &AtomicBool,
        tell_slow: &dyn Fn(),
    ) -> Result<ProgramEnd, String> {
        let begun = Instant::now();
        let (mut asked, mut is_slow, mut closings) = (false, false, 0);
        loop {
            if self.is_over()? {
                let status = self.kill().map_err(|error| error.to_string())?;
                return Ok(if asked { ProgramEnd::OutOfTime } else { ended(status) });
            }
            if stop.load(Ordering::Relaxed) {
                return Err("the run was stopped".to_owned());
            }
            let passed = begun.elapsed();
            if !is_slow && passed >= slow_after(most) {
                is_slow = true;
                tell_slow();
            }
            if passed >= most + GRACE {
                self.kill().map_err(|error| error.to_string())?;
                return Ok(ProgramEnd::OutOfTime);
            }
            if passed >= most && !asked {
                // The program may have ended just now.
                let _ = kill_process_group(self.group, Signal::TERM);
                asked = true;
            }
            // Returns when both streams have ended, which normally is when the program ends.
            if self.quiet.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
                std::thread::sleep(if closings < CLOSINGS_MAX { CLOSING } else { LOOK });
                closings += 1;
            }
        }
    }

    /// Has the program ended? It is not reaped here, so its process id and that of its group stay valid.
    fn is_over(&self) -> Result<bool, String> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.group), how);
        status.map(|status| status.is_some()).map_err(|error| error.to_string())
    }

    /// Kills what is left of the program and all that it started, then reaps it.
    ///
    /// After that, the group's id may belong to another group.
    fn kill(&mut self) -> std::io::Result<ExitStatus> {
        if !self.has_ended {
            // There may be no process left to kill.
            let _ = kill_process_group(self.group, Signal::KILL);
        }
        let status = self.child.wait()?;
        self.has_ended = true;
        Ok(status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A failure cannot be reported to anybody here.
        let _ = self.kill();
    }
}

fn ended(status: ExitStatus) -> ProgramEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProgramEnd::Exited(code),
        (None, signal) => ProgramEnd::Killed(signal.unwrap_or(0)),
    }
}

/// Reads a stream to its end in a separate thread; `alive` is dropped at the end.
fn follow(
    stream: Option<impl Read + Send + 'static>,
    alive: Sender<()>,
) -> Receiver<Result<String, String>> {
    let (sender, receiver) = channel();
    if let Some(stream) = stream {
        std::thread::spawn(move || {
            // The receiver may be gone.
            let _ = sender.send(bounded(stream));
            drop(alive);
        });
    }
    receiver
}
