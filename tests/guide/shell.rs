//! Pages whose commands a shell runs, as a reader types them: the blocks of the language `sh`.
//!
//! Only the ports differ: other tests of this machine may have those of the page.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::page::{self, PageCommand};

/// How many ports a federation of a page has at most.
pub(crate) const PORTS: u16 = 8;
/// The coordinator's port where `coalloc init` is not told another one.
const FIRST_PORT: u16 = 7_000;

/// A port of which the next ones are free, too.
pub(crate) fn free_ports(count: u16, after: u16) -> u16 {
    let are_free = |base: &u16| {
        let bound = (*base..base + count).map(|port| TcpListener::bind(("127.0.0.1", port)));
        bound.collect::<Result<Vec<_>, _>>().is_ok()
    };
    let first = after + (std::process::id() % 400) as u16 * count;
    (first..first + 3_000).step_by(count.into()).find(are_free).expect("free ports")
}

/// The program stops the daemons of this folder at the end, also of a test that fails.
pub(crate) struct Detached<'a>(pub(crate) &'a Path);

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        if let Ok(pids) = std::fs::read_to_string(self.0.join("pids")) {
            let mut kill = Command::new("kill");
            let _ = kill.args(pids.split_whitespace()).stderr(Stdio::null()).status();
        }
    }
}

/// A page, where it is run, and what is replaced in its commands.
pub(crate) struct ShellPage<'a> {
    pub(crate) page: PathBuf,
    pub(crate) folder: &'a Path,
    pub(crate) replaced: Vec<(String, String)>,
}

impl<'a> ShellPage<'a> {
    /// A page of the guide that is run in this folder.
    pub(crate) fn new(name: &str, folder: &'a Path) -> Self {
        let page = crate::root().join("docs/guide").join(name);
        Self { page, folder, replaced: Vec::new() }
    }

    /// Gives a federation of the page, whose first port is this one, other ports.
    pub(crate) fn with_ports(mut self, first: u16, free: u16) -> Self {
        let pairs = (0..PORTS).map(|at| ((first + at).to_string(), (free + at).to_string()));
        self.replaced.extend(pairs);
        self
    }

    pub(crate) fn with_replaced(mut self, text: &str, by: &str) -> Self {
        self.replaced.push((text.to_owned(), by.to_owned()));
        self
    }

    pub(crate) fn commands(&self) -> Vec<PageCommand> {
        page::commands(&self.page, "sh")
    }

    /// The commands as a script that stops at the first one with another exit code than the page says.
    fn script(&self) -> String {
        let mut script =
            String::from("code() { [ $? -eq $1 ] || { echo \"$2: not $1\"; exit 99; }; }\n");
        for PageCommand { line, command, exit } in self.commands() {
            let mut command = command;
            if command.starts_with("coalloc init") && !command.contains("--port-base") {
                command += &format!(" --port-base {FIRST_PORT}");
            }
            for (text, by) in &self.replaced {
                command = command.replace(text, by);
            }
            let quoted = line.replace('\'', "'\\''");
            script += &format!("{command}\ncode {exit} '$ {quoted}'\n");
        }
        script
    }

    /// Runs all commands, each of which has to end as the page says, and returns what they print.
    pub(crate) fn run(&self) -> String {
        let program = Path::new(env!("CARGO_BIN_EXE_coalloc"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", program.parent().unwrap().display());
        // Detached daemons keep no pipe of this test open: their output goes into their logs.
        let output = Command::new("sh")
            .args(["-c", &self.script()])
            .current_dir(self.folder)
            .env("PATH", path)
            .env_remove("COALLOC_GRC")
            .env_remove("COALLOC_IDENTITY")
            .output()
            .unwrap();
        let shown = crate::shown(&output);
        assert_eq!(output.status.code(), Some(0), "{}\n{shown}", self.page.display());
        shown
    }
}
