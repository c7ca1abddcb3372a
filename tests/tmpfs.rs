//! A small disk that can be filled: a tmpfs, which only root can mount.
//!
//! Without root, a test that needs the disk prints a message and does nothing, unless COALLOC_TMPFS=1
//! demands that there is one (as `.ci/run` does).

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A tmpfs of a given number of MiB, unmounted when it is dropped.
pub(crate) struct Small(TempDir);

impl Small {
    pub(crate) fn mounted(mib: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={mib}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path());
        if mount.output().is_ok_and(|done| done.status.success()) {
            return Some(Self(folder));
        }
        let problem = "a tmpfs cannot be mounted here (that takes root)";
        assert!(std::env::var_os("COALLOC_TMPFS").is_none_or(|wanted| wanted != "1"), "{problem}");
        eprintln!("skipped: {problem}");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn ballast(&self) -> PathBuf {
        self.path().join("ballast")
    }

    /// Fills the disk completely.
    pub(crate) fn fill(&self) {
        let mut ballast = File::options().create(true).append(true).open(self.ballast()).unwrap();
        let mut size = 1 << 20;
        while size > 0 {
            if ballast.write_all(&vec![1; size]).is_err() {
                size /= 2;
            }
        }
    }

    /// Frees this many bytes.
    pub(crate) fn give_back(&self, bytes: u64) {
        let ballast = File::options().write(true).open(self.ballast()).unwrap();
        let size = ballast.metadata().unwrap().len();
        ballast.set_len(size - bytes).unwrap();
    }

    /// Frees everything that was filled.
    pub(crate) fn free(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
