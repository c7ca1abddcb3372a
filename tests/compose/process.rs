//! Child processes that end: each has a time limit, and is killed with all that it started.
//!
//! A hung engine, or a script that waits for it, then fails a test instead of keeping it for ever. Output goes to a file
//! and not through a pipe, because a grandchild that outlives its parent would keep a pipe open.
//!
//! Left out: containers, which belong to the engine and not to the process that started them.

use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How a process ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Its exit code; `None`: it was killed, by its time limit or by somebody else.
    pub(crate) code: Option<i32>,
    /// What it wrote to standard output.
    pub(crate) stdout: String,
    /// What it wrote to standard output and, behind that, to standard error.
    pub(crate) shown: String,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Outcome {
    pub(crate) fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}

/// Runs a command to its end, or until `limit` is over.
pub(crate) fn run(mut command: Command, limit: Duration) -> Outcome {
    let (mut stdout, mut stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdin(Stdio::null());
    command.stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
    // A group of its own, so that what it starts can be killed with it.
    command.process_group(0);
    let began = Instant::now();
    let mut child = command.spawn().unwrap();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if began.elapsed() > limit {
            kill_group(&mut child);
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let read = |file: &mut std::fs::File| {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (stdout, stderr) = (read(&mut stdout), read(&mut stderr));
    let mut shown = stdout.clone() + &stderr;
    if status.is_none() {
        shown += &format!("killed: it took longer than {} s\n", limit.as_secs());
    }
    Outcome { code: status.and_then(|status| status.code()), stdout, shown, took: began.elapsed() }
}

fn kill_group(child: &mut Child) {
    // The child was not awaited, so its number is still its own.
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

#[test]
fn a_command_that_hangs_is_killed_with_all_that_it_started() {
    let mut command = Command::new("bash");
    // The grandchild holds standard output open.
    command.args(["-c", "echo begun; sleep 600 & sleep 600"]);
    let outcome = run(command, Duration::from_millis(300));
    assert_eq!((outcome.code, outcome.stdout.as_str()), (None, "begun\n"));
    assert!(outcome.shown.contains("killed: it took longer than"), "{}", outcome.shown);
    assert!(outcome.took < Duration::from_secs(60), "{:?}", outcome.took);
}
