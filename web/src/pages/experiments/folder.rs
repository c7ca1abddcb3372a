//! The files of experiments: each folder below one folder that holds a report.md, and the plots beside it.
//!
//! Only plain files directly in such a folder are read, and only those with the names of reports and plots. A name that leads
//! elsewhere, a link, a pipe or a device counts as nothing. What is read has a bound, and so has how much is read at a time.
//!
//! Left out: everything else in those folders.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coalloc_common::{Time, limits};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use tokio::sync::Semaphore;
use tonic::Status;

use super::report;

/// The name of a report, as `coalloc sim run` writes it.
const REPORT: &str = "report.md";

/// The folder of all experiments. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::pages) struct ExperimentFolders {
    path: Arc<Path>,
    reads: Arc<Semaphore>,
}

/// The experiments of a list.
#[derive(Debug, Default)]
pub(super) struct ExperimentList {
    /// By name.
    pub(super) all: Vec<ExperimentSummary>,
    /// Are there more than are listed?
    pub(super) is_cut: bool,
}

/// One experiment of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExperimentSummary {
    /// The name of its folder.
    pub(super) name: String,
    /// The title of its report, if it has one.
    pub(super) title: Option<String>,
    /// When the report was written.
    pub(super) written: Time,
}

/// A file that was read.
struct ReadFile {
    content: Vec<u8>,
    written: Time,
}

impl ExperimentFolders {
    pub(in crate::pages) fn new(path: PathBuf) -> Self {
        Self { path: path.into(), reads: Arc::new(Semaphore::new(limits::WEB_FILE_READS_MAX)) }
    }

    /// All experiments, within bounds.
    pub(super) async fn list(&self) -> Result<ExperimentList, Status> {
        self.read(list).await
    }

    /// The report of one experiment, and when it was written.
    pub(super) async fn report(&self, name: &str) -> Result<(String, Time), Status> {
        let name = name.to_owned();
        let read = move |path: &Path| read_file(path, &name, REPORT, limits::WEB_REPORT_MAX_BYTES);
        let file = self.read(read).await?;
        Ok((String::from_utf8_lossy(&file.content).into_owned(), file.written))
    }

    /// A plot of one experiment.
    pub(super) async fn plot(&self, name: &str, plot: &str) -> Result<Vec<u8>, Status> {
        if !is_plot(plot) {
            return Err(nothing());
        }
        let (name, plot) = (name.to_owned(), plot.to_owned());
        let read = move |path: &Path| read_file(path, &name, &plot, limits::WEB_PLOT_MAX_BYTES);
        Ok(self.read(read).await?.content)
    }

    /// Reads on a thread that may wait for a disk.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Path) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let path = Arc::clone(&self.path);
        let ended = || Status::internal("the reading of a file has ended early");
        let turn = Arc::clone(&self.reads).acquire_owned().await.map_err(|_| ended())?;
        let reading = tokio::task::spawn_blocking(move || {
            // A visitor who goes away does not end the reading, which still has its turn.
            let _turn = turn;
            read(&path)
        });
        reading.await.map_err(|_| ended())?
    }
}

/// May a file of this name be a plot?
pub(super) fn is_plot(name: &str) -> bool {
    is_plain(name) && name.ends_with(".svg")
}

/// Is this the name of something directly in a folder, and not hidden there?
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

fn nothing() -> Status {
    Status::not_found("there is no such experiment, or no such plot of it")
}

fn list(path: &Path) -> Result<ExperimentList, Status> {
    let unreadable =
        |error| Status::unavailable(format!("web_experiments cannot be read: {error}"));
    let mut entries = std::fs::read_dir(path).map_err(unreadable)?;
    let mut names = Vec::new();
    for entry in entries.by_ref().take(limits::WEB_FOLDER_ENTRIES_MAX) {
        let entry = entry.map_err(unreadable)?;
        // What is no text is no name that an address could have.
        let name = entry.file_name().into_string().ok().filter(|name| is_plain(name));
        if let Some(name) = name.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            names.push(name);
        }
    }
    let mut list = ExperimentList { all: Vec::new(), is_cut: entries.next().is_some() };
    names.sort_unstable();
    for name in names {
        let Ok(mut file) = open(path, &name, REPORT) else { continue };
        if list.all.len() == limits::WEB_EXPERIMENTS_MAX {
            list.is_cut = true;
            break;
        }
        let mut begin = Vec::new();
        // A report that cannot be read is listed by its folder, and its page says why.
        let _ = file.by_ref().take(limits::WEB_TITLE_BYTES as u64).read_to_end(&mut begin);
        let title = report::title(&String::from_utf8_lossy(&begin));
        list.all.push(ExperimentSummary { name, title, written: written(&file) });
    }
    Ok(list)
}

/// Reads a file of an experiment if it is no longer than that.
fn read_file(path: &Path, folder: &str, name: &str, most: usize) -> Result<ReadFile, Status> {
    let file = open(path, folder, name)?;
    let written = written(&file);
    let mut content = Vec::new();
    let read = file.take(most as u64 + 1).read_to_end(&mut content);
    read.map_err(|error| Status::unavailable(format!("{name} cannot be read: {error}")))?;
    if content.len() > most {
        let text = format!("{name} is too long to be shown; allowed: up to {most} bytes");
        return Err(Status::failed_precondition(text));
    }
    Ok(ReadFile { content, written })
}

/// Opens a plain file directly in a folder that is directly in `path`. The folder is opened first and the file from there, each
/// only if it is no link, so nothing in between can be exchanged for something that leads elsewhere.
fn open(path: &Path, folder: &str, name: &str) -> Result<File, Status> {
    if !is_plain(folder) || !is_plain(name) {
        return Err(nothing());
    }
    let problem = |error| match error {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG => nothing(),
        error => Status::unavailable(format!("{name} cannot be read: {error}")),
    };
    let common = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path.join(folder), common | OFlags::DIRECTORY, Mode::empty());
    // Whoever opens a pipe would wait for its other end.
    let flags = common | OFlags::NONBLOCK;
    let file = rustix::fs::openat(folder.map_err(problem)?, name, flags, Mode::empty());
    let file = File::from(file.map_err(problem)?);
    if file.metadata().is_ok_and(|about| about.is_file()) { Ok(file) } else { Err(nothing()) }
}

/// When a file was written last; the epoch if the file system does not say.
fn written(file: &File) -> Time {
    let changed = file.metadata().and_then(|about| about.modified());
    let since = changed.ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let us = since.and_then(|since| i64::try_from(since.as_micros()).ok());
    Time::from_us(us.unwrap_or(0).min(limits::TIME_MAX_US))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tonic::Code;

    use super::*;

    /// A folder with an experiment `good`, beside things that are none.
    fn prepared() -> (tempfile::TempDir, ExperimentFolders) {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("shown");
        std::fs::create_dir_all(path.join("good")).unwrap();
        std::fs::create_dir_all(path.join("empty")).unwrap();
        std::fs::create_dir_all(path.join(".hidden")).unwrap();
        std::fs::create_dir_all(above.path().join("secret")).unwrap();
        for folder in ["shown/good", "shown/.hidden", "secret"] {
            let folder = above.path().join(folder);
            std::fs::write(folder.join(REPORT), "# A <title>\n\nText.\n").unwrap();
            std::fs::write(folder.join("plot.svg"), "<svg/>").unwrap();
            std::fs::write(folder.join("runs.csv"), "a,b\n").unwrap();
        }
        std::fs::write(path.join("report.md"), "# Of no folder\n").unwrap();
        symlink(above.path().join("secret"), path.join("linked")).unwrap();
        symlink(above.path().join("secret/plot.svg"), path.join("good/linked.svg")).unwrap();
        std::fs::create_dir(path.join("good/folder.svg")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path.join("good/pipe.svg"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        let folders = ExperimentFolders::new(path);
        (above, folders)
    }

    #[tokio::test]
    async fn what_holds_a_report_is_listed_with_its_title() {
        let (_above, folders) = prepared();
        let list = folders.list().await.unwrap();
        let listed: Vec<_> =
            list.all.iter().map(|one| (&*one.name, one.title.as_deref())).collect();
        assert_eq!(listed, [("good", Some("A <title>"))]);
        assert!(!list.is_cut && list.all[0].written > Time::from_us(0));
        let (text, written) = folders.report("good").await.unwrap();
        assert_eq!((&*text, written), ("# A <title>\n\nText.\n", list.all[0].written));
        assert_eq!(folders.plot("good", "plot.svg").await.unwrap(), b"<svg/>");
    }

    #[tokio::test]
    async fn only_plain_files_directly_in_a_folder_are_read() {
        let (above, folders) = prepared();
        let outside = above.path().join("secret").to_str().unwrap().to_owned();
        for name in
            ["", ".", "..", ".hidden", "../secret", "linked", "empty", "no", &outside, "a\0b"]
        {
            let refused = folders.report(name).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound, "{name:?}: {refused}");
            assert_eq!(folders.plot(name, "plot.svg").await.unwrap_err().code(), Code::NotFound);
        }
        let plots = [
            "",
            "..",
            "runs.csv",
            "report.md",
            "linked.svg",
            "folder.svg",
            "pipe.svg",
            "none.svg",
            ".svg",
            "../../secret/plot.svg",
            "/etc/plot.svg",
            "..\\plot.svg",
        ];
        for plot in plots {
            let refused = folders.plot("good", plot).await.unwrap_err();
            assert_eq!(refused.code(), Code::NotFound, "{plot:?}: {refused}");
        }
        let long = "x".repeat(300) + ".svg";
        assert_eq!(folders.plot("good", &long).await.unwrap_err().code(), Code::NotFound);
    }

    #[tokio::test]
    async fn what_is_too_long_is_not_read() {
        let (above, folders) = prepared();
        let folder = above.path().join("shown/good");
        for (name, most) in
            [(REPORT, limits::WEB_REPORT_MAX_BYTES), ("plot.svg", limits::WEB_PLOT_MAX_BYTES)]
        {
            std::fs::write(folder.join(name), vec![b'x'; most]).unwrap();
            let read = async || match name {
                REPORT => folders.report("good").await.map(|(text, _)| text.len()),
                plot => folders.plot("good", plot).await.map(|content| content.len()),
            };
            assert_eq!(read().await.unwrap(), most);
            std::fs::write(folder.join(name), vec![b'x'; most + 1]).unwrap();
            let refused = read().await.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition);
            assert!(refused.message().contains(&most.to_string()), "{refused}");
        }
        // A list reads the beginning only, and says when it is not whole.
        for number in 0..=limits::WEB_EXPERIMENTS_MAX {
            let folder = above.path().join(format!("shown/n{number}"));
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join(REPORT), "").unwrap();
        }
        let list = folders.list().await.unwrap();
        assert_eq!((list.all.len(), list.is_cut), (limits::WEB_EXPERIMENTS_MAX, true));
        assert_eq!(list.all[0].title, None, "a report of one long line has no title");
    }

    #[tokio::test]
    async fn a_folder_that_is_gone_is_said() {
        let (above, folders) = prepared();
        std::fs::remove_dir_all(above.path().join("shown")).unwrap();
        let status = folders.list().await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().starts_with("web_experiments cannot be read"), "{status}");
    }
}
