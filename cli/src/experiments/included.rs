//! The files that an experiment names (what it includes, traces, programs that plan), kept with its results, so that the
//! `experiment.yaml` of a folder of results runs again, anywhere.
//!
//! The copies are in a folder beside `experiment.yaml`, by the paths that the experiment names: what is above the folder of
//! the experiment is in `up`, and an absolute path is in `root`. An experiment with such a folder beside it reads its files
//! there first, because the originals may have changed since.
//!
//! Left out: what a program that plans reads by itself, which nobody knows.

use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use super::store::EXPERIMENT;
use crate::kit::exit::Failure;
use crate::kit::whole;

/// The folder of the copies.
pub const INCLUDED: &str = "experiment-files";

/// A file that an experiment names.
#[derive(Debug)]
pub struct IncludedFile {
    /// The path, as the experiment names it.
    pub name: String,
    /// What is in it.
    pub content: Content,
}

/// What is in a file that an experiment names.
#[derive(Debug)]
pub enum Content {
    /// The text of a file that was read whole.
    Text(String),
    /// A program that plans.
    Program(Vec<u8>),
    /// A trace, which may be large.
    At(PathBuf),
}

/// The place of a file that an experiment in this folder names: the copy beside the experiment, if there is one.
#[must_use]
pub fn place(folder: &Path, name: &str) -> PathBuf {
    let copy = folder.join(INCLUDED).join(copy_of(name));
    if copy.is_file() { copy } else { folder.join(name) }
}

/// The path of a copy in its folder, which it never leaves.
fn copy_of(name: &str) -> PathBuf {
    let step = |step| match step {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some("up".as_ref()),
        Component::RootDir => Some("root".as_ref()),
        Component::CurDir | Component::Prefix(_) => None,
    };
    Path::new(name).components().filter_map(step).collect()
}

/// Copies files into a folder of results.
///
/// # Errors
/// When a file cannot be read or written.
pub fn keep(folder: &Path, files: &[IncludedFile]) -> Result<(), Failure> {
    for file in files {
        let path = folder.join(INCLUDED).join(copy_of(&file.name));
        put(&path, &file.content).map_err(|error| {
            Failure::internal(format!("{}: copy of {}: {error}", path.display(), file.name))
        })?;
    }
    Ok(())
}

fn put(path: &Path, content: &Content) -> io::Result<()> {
    std::fs::create_dir_all(whole::folder_of(path))?;
    // Only one process at a time writes to a folder of results.
    whole::clear(whole::folder_of(path));
    let is_there = |bytes: &[u8]| std::fs::read(path).is_ok_and(|there| there == bytes);
    match content {
        Content::Text(text) if is_there(text.as_bytes()) => Ok(()),
        Content::Text(text) => whole::write(path, text.as_bytes()),
        // The experiment is that of this folder, and its program may be running.
        Content::Program(bytes) if is_there(bytes) => Ok(()),
        Content::Program(bytes) => {
            let mut part = whole::beside(path)?;
            part.write_all(bytes)?;
            part.as_file().set_permissions(Permissions::from_mode(0o755))?;
            part.persist(path)?;
            Ok(())
        }
        Content::At(from) if whole::place(from) == whole::place(path) => Ok(()),
        Content::At(from) => {
            let mut part = whole::beside(path)?;
            io::copy(&mut std::fs::File::open(from)?, &mut part)?;
            part.persist(path)?;
            Ok(())
        }
    }
}

/// Copies what one folder of results keeps into another one.
///
/// # Errors
/// When a file cannot be read or written.
pub fn copy_all(from: &Path, to: &Path) -> Result<(), Failure> {
    copy_folder(&from.join(INCLUDED), &to.join(INCLUDED)).map_err(|error| {
        let (from, to) = (from.join(INCLUDED), to.join(INCLUDED));
        Failure::internal(format!("{}: copy to {}: {error}", from.display(), to.display()))
    })
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(from) {
        Ok(entries) => entries,
        // An experiment may name no files.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    std::fs::create_dir_all(to)?;
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()? {
            kind if kind.is_dir() => copy_folder(&entry.path(), &target)?,
            kind if kind.is_file() => std::fs::copy(entry.path(), target).map(|_| ())?,
            _ => {}
        }
    }
    Ok(())
}

/// The experiment of a folder of results, for those who name the folder.
#[must_use]
pub fn experiment_in(folder: &Path) -> Option<PathBuf> {
    Some(folder.join(EXPERIMENT)).filter(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_never_leaves_its_folder() {
        for (name, copy) in [
            ("federation.yaml", "federation.yaml"),
            ("./mine", "mine"),
            ("../../deploy/elgl.yaml", "up/up/deploy/elgl.yaml"),
            ("/var/logs/a.swf", "root/var/logs/a.swf"),
            ("a/../b", "a/up/b"),
        ] {
            assert_eq!(copy_of(name), Path::new(copy), "{name}");
        }
    }

    #[test]
    fn a_copy_comes_first_and_goes_on_to_the_next_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        std::fs::create_dir_all(&one).unwrap();
        std::fs::write(one.join("log.swf"), "changed").unwrap();
        assert_eq!(place(&one, "log.swf"), one.join("log.swf"));
        let log = folder.path().join("log.swf");
        std::fs::write(&log, "log").unwrap();
        let file = |name: &str, content| IncludedFile { name: name.to_owned(), content };
        let files = [
            file("log.swf", Content::At(log)),
            file("../plan", Content::Program(b"#!/bin/sh\n".to_vec())),
        ];
        keep(&one, &files).unwrap();
        let copy = place(&one, "log.swf");
        assert_eq!(std::fs::read(&copy).unwrap(), b"log");
        // A run of the copy into its own folder leaves the copy as it is.
        keep(&one, &[file("log.swf", Content::At(copy))]).unwrap();
        copy_all(&one, &other).unwrap();
        assert_eq!(std::fs::read(place(&other, "log.swf")).unwrap(), b"log");
        let mode = std::fs::metadata(place(&other, "../plan")).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111);
        copy_all(folder.path(), &other).unwrap();
    }
}
