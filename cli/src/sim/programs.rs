//! Solvers that are programs of their own: which of them this machine has, and starting one.
//!
//! A program gets a folder of its own with the model in it, no standard input, and a process group, so that
//! what it starts ends with it. When its time is over it is asked to end and tells what it has (MiniSat+
//! does); one that does not hear is killed, and one is killed at once when the run is stopped. What it may write is bounded. When
//! this process itself is killed, a program goes on until its own time limit, which MiniSat+ has not.
//!
//! Left out: what is written and what an answer means, which `coalloc_plan::ip::outside` knows.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use coalloc_common::limits;
use coalloc_plan::ip::Program;
use coalloc_plan::ip::outside::{Ended, Errand, Programs, Said};
use coalloc_sim::experiment::file::Point;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::models::Prepared;

/// How often a running program is looked at for a stop.
const LOOK: Duration = Duration::from_millis(20);
/// Between the end of a program's streams and its own: microseconds.
const CLOSING: Duration = Duration::from_micros(200);
/// How often that is waited for before it is clear that the program goes on without its streams.
const CLOSINGS_MAX: u32 = 50;

/// The programs of this machine.
#[derive(Debug, Clone)]
pub struct Here {
    places: BTreeMap<Program, PathBuf>,
    stop: Arc<AtomicBool>,
}

impl Here {
    /// Looks for them on the path; `stop` ends those that run.
    #[must_use]
    pub fn find(stop: Arc<AtomicBool>) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let place = |program: Program| {
            let mut folders = std::env::split_paths(&path);
            let found = folders.find_map(|folder| {
                // It is started in another folder than ours.
                let place = std::path::absolute(folder.join(program.executable())).ok()?;
                is_executable(&place).then_some(place)
            });
            Some((program, found?))
        };
        Self { places: Program::ALL.into_iter().filter_map(place).collect(), stop }
    }

    /// Leaves out the points whose program is not here, those aside that are done and need none; a line for each
    /// such program.
    pub fn leave_out(
        &self,
        ready: &mut Vec<(Point, Prepared)>,
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

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

impl Programs for Here {
    fn run(&self, errand: &Errand) -> Result<Said, String> {
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
        let ended = running.wait(errand, &self.stop)?;
        let (output, errors) = (heard(&running.output)?, heard(&running.errors)?);
        let answer = match std::fs::File::open(folder.path().join(ANSWER)) {
            Ok(file) => Some(bounded(file)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(told(error)),
        };
        Ok(Said { ended, output, errors, answer })
    }
}

/// The file that a program answers in.
const ANSWER: &str = "answer";

/// All of it as text, or that it is too much.
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

/// What a stream came to. A stream that somebody outside the group holds open is given up.
fn heard(stream: &Receiver<Result<String, String>>) -> Result<String, String> {
    stream.recv_timeout(GRACE).unwrap_or_else(|_| Ok(String::new()))
}

/// From being asked to end to being killed.
const GRACE: Duration = limits::OUTSIDE_GRACE.to_std();

/// A program that was started. Dropped, it is killed.
struct Running {
    child: Child,
    group: Pid,
    output: Receiver<Result<String, String>>,
    errors: Receiver<Result<String, String>>,
    /// Falls silent when both streams have ended.
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

    /// Until it ends or is made to. What it has started then ends with it, so that its streams do.
    fn wait(&mut self, errand: &Errand, stop: &AtomicBool) -> Result<Ended, String> {
        let begun = Instant::now();
        let own = Duration::from_secs(errand.seconds().unsigned_abs()) + GRACE;
        let most = if errand.program.keeps_time() { own } else { errand.time.to_std() };
        let (mut asked, mut closings) = (false, 0);
        loop {
            if self.is_over()? {
                let status = self.kill().map_err(|error| error.to_string())?;
                return Ok(if asked { Ended::OutOfTime } else { ended(status) });
            }
            if stop.load(Ordering::Relaxed) {
                return Err("the run was stopped".to_owned());
            }
            let passed = begun.elapsed();
            if passed >= most + GRACE {
                self.kill().map_err(|error| error.to_string())?;
                return Ok(Ended::OutOfTime);
            }
            if passed >= most && !asked {
                // It may have ended this instant.
                let _ = kill_process_group(self.group, Signal::TERM);
                asked = true;
            }
            // Comes back when both streams have ended, which is when the program does.
            if self.quiet.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
                std::thread::sleep(if closings < CLOSINGS_MAX { CLOSING } else { LOOK });
                closings += 1;
            }
        }
    }

    /// Has it ended? Its number stays its own until it is reaped, and so does that of its group.
    fn is_over(&self) -> Result<bool, String> {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.group), how);
        status.map(|status| status.is_some()).map_err(|error| error.to_string())
    }

    /// Kills what is left of it and all that it started, then reaps it: behind that, the group's number may be
    /// another's.
    fn kill(&mut self) -> std::io::Result<ExitStatus> {
        if !self.has_ended {
            // There may be nobody left.
            let _ = kill_process_group(self.group, Signal::KILL);
        }
        let status = self.child.wait()?;
        self.has_ended = true;
        Ok(status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.kill();
    }
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exited(code),
        (None, signal) => Ended::Killed(signal.unwrap_or(0)),
    }
}

/// Reads a stream to its end on a thread of its own; `alive` is dropped with it.
fn follow(
    stream: Option<impl Read + Send + 'static>,
    alive: Sender<()>,
) -> Receiver<Result<String, String>> {
    let (sender, receiver) = channel();
    if let Some(stream) = stream {
        std::thread::spawn(move || {
            // Nobody may be waiting any more.
            let _ = sender.send(bounded(stream));
            drop(alive);
        });
    }
    receiver
}
