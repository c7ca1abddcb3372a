//! A folder of programs that stand before those of the equipment, and stop where a daemon is to be killed.
//!
//! A daemon that is killed does not take along the programs that it has started. So there are several ways in which its last
//! command may end: it was not carried out, it was, or it is carried out much later, when the next daemon has been at work for
//! a while. Each is a [`Mode`].

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

/// The programs of both kinds of equipment.
const PROGRAMS: [&str; 7] = ["scontrol", "sinfo", "squeue", "scancel", "ip", "tc", "nft"];

/// Where the programs stop, and what becomes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Before each different change, which is never made.
    Before,
    /// The same, and before each look, too.
    BeforeLooks,
    /// After each different change.
    After,
    /// After the first half of the lines that a program was given.
    Half,
    /// Before each different change, which is made when the next daemon has done its work.
    Late,
}

impl Mode {
    const fn word(self) -> &'static str {
        match self {
            Self::Before | Self::Late => "before",
            Self::BeforeLooks => "before-looks",
            Self::After => "after",
            Self::Half => "half",
        }
    }
}

/// A program that has stopped.
#[derive(Debug)]
pub(crate) struct Stopped {
    id: i32,
    /// Its name, its arguments and what it reads.
    pub(crate) words: String,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Gate {
    folder: PathBuf,
    /// Those of which somebody was told, and that have not ended.
    told: BTreeSet<i32>,
}

impl Gate {
    /// Writes the programs to a new folder.
    pub(crate) fn new(folder: &Path) -> Self {
        fs::create_dir(folder).unwrap();
        let path = std::env::var("PATH").unwrap();
        let script = include_str!("gate.sh")
            .replace("{here}", &folder.display().to_string())
            .replace("{path}", &format!("{path}:/usr/sbin:/sbin"));
        for program in PROGRAMS {
            let file = folder.join(program);
            fs::write(&file, &script).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { folder: folder.to_owned(), told: BTreeSet::new() }
    }

    /// The folder with the programs.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where programs stop from now on; `None`: nowhere.
    pub(crate) fn set(&self, mode: Option<Mode>) {
        let new = self.folder.join("new-mode");
        fs::write(&new, mode.map_or("", Mode::word)).unwrap();
        fs::rename(new, self.folder.join("mode")).unwrap();
    }

    /// The programs that have stopped since the last call.
    pub(crate) fn stopped(&mut self) -> Vec<Stopped> {
        let mut stopped = Vec::new();
        for file in fs::read_dir(&self.folder).unwrap().flatten() {
            let name = file.file_name().into_string().unwrap();
            let Some(id) = name.strip_prefix("stopped-").and_then(|id| id.parse().ok()) else {
                continue;
            };
            let words = fs::read_to_string(file.path()).unwrap().trim_end().to_owned();
            fs::remove_file(file.path()).unwrap();
            self.told.insert(id);
            stopped.push(Stopped { id, words });
        }
        stopped
    }

    /// Is a program about to stop, or has one stopped of which nobody was told?
    pub(crate) fn is_busy(&self) -> bool {
        fs::read_dir(&self.folder).unwrap().flatten().any(|file| {
            let name = file.file_name().into_string().unwrap();
            name.starts_with("busy-") || name.starts_with("stopped-")
        })
    }

    /// Kills a program that has stopped.
    pub(crate) fn kill(&mut self, program: &Stopped) {
        self.told.remove(&program.id);
        // Its daemon may have killed it, because it took too long.
        let _ = kill_process(Pid::from_raw(program.id).unwrap(), Signal::KILL);
    }

    /// Lets a program go on that has stopped.
    pub(crate) fn let_go(&self, program: &Stopped) {
        // Without waiting for a reader: if there is none, its daemon has killed it.
        let mut options = fs::File::options();
        let fifo = self.folder.join(format!("fifo-{}", program.id));
        let _ = std::os::unix::fs::OpenOptionsExt::custom_flags(
            options.write(true),
            rustix::fs::OFlags::NONBLOCK.bits().cast_signed(),
        )
        .open(fifo);
    }

    /// Has a program ended that was let go?
    pub(crate) fn is_done(&mut self, program: &Stopped) -> bool {
        let is = self.folder.join(format!("done-{}", program.id)).exists();
        if is {
            self.told.remove(&program.id);
        }
        is
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.set(None);
        for program in self.stopped() {
            self.kill(&program);
        }
        for id in std::mem::take(&mut self.told) {
            self.kill(&Stopped { id, words: String::new() });
        }
    }
}
