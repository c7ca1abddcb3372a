//! Files that are there whole or not at all: written beside their place, then put there at once.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Error, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// Behind the name of a file that is being written.
pub const UNFINISHED: &str = ".part";

/// Where a file is written before it is put in its place.
#[must_use]
pub fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().map_or_else(OsString::new, OsString::from);
    name.push(UNFINISHED);
    path.with_file_name(name)
}

/// Writes a file, or leaves what stands there. What is no file (`/dev/stdout`, a pipe) is written into.
///
/// # Errors
/// When it cannot be written; nothing of it is left behind then.
pub fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    match std::fs::metadata(path) {
        Ok(there) if there.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(there) if !there.is_file() => return std::fs::write(path, content),
        _ => {}
    }
    let part = beside(path);
    let written = File::create(&part).and_then(|mut file| {
        file.write_all(content)?;
        // A power cut must not leave the name of a file that has no content yet.
        file.sync_all()?;
        std::fs::rename(&part, path)
    });
    if written.is_err() {
        // What is left of it is of no use to anybody; that it cannot be removed, either, changes nothing.
        let _ = std::fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.md");
        write(&path, b"one").unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        // The place beside it is taken by a folder, so writing fails before anything is in place.
        std::fs::create_dir(beside(&path)).unwrap();
        assert!(write(&path, b"three").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert!(write(folder.path(), b"four").is_err(), "a folder is no file");
    }
}
