//! Files that exist completely or not at all: written to a temporary file next to their place, then moved
//! there atomically.

use std::fs::Permissions;
use std::io::{Error, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Beginning and end of the names of files that are being written. The part between them is unique.
const BEGINNING: &str = ".coalloc-";
const UNFINISHED: &str = ".part";

/// Creates a file for writing, in the folder of this path. The file is removed when the value is dropped.
///
/// # Errors
/// When the file cannot be created.
pub fn beside(path: &Path) -> Result<NamedTempFile, Error> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(BEGINNING).suffix(UNFINISHED);
    // The user's mask is applied to this, as for any file.
    let file = builder.permissions(Permissions::from_mode(0o666)).tempfile_in(folder_of(path));
    // The library's error names the temporary file, which nobody has asked for.
    file.map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let problem = format!("there is no folder {}", folder_of(path).display());
            Error::new(ErrorKind::NotFound, problem)
        }
        kind => kind.into(),
    })
}

/// Removes what killed programs have left in a folder, to which nobody else may write.
pub fn clear(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(BEGINNING) && name.ends_with(UNFINISHED) {
            // If it cannot be removed, it does no harm.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The folder that contains a file.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The absolute path at which a file of this name is or would be, with links resolved.
#[must_use]
pub fn place(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        let folder = folder_of(path);
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        folder.join(path.file_name().unwrap_or_default())
    })
}

/// Replaces a file, or leaves it as it was.
///
/// A path that is not a regular file (`/dev/stdout`, a pipe) is written into.
///
/// # Errors
/// When it cannot be written; nothing of it is left behind then.
pub fn write(path: &Path, content: &[u8]) -> Result<(), Error> {
    let there = std::fs::metadata(path).ok();
    match &there {
        Some(there) if there.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Some(there) if !there.is_file() => return std::fs::write(path, content),
        _ => {}
    }
    let place = place(path);
    let mut part = beside(&place)?;
    part.write_all(content)?;
    if let Some(there) = there {
        part.as_file().set_permissions(there.permissions())?;
    }
    // After a power cut, the name must not belong to a file that has no content yet.
    part.as_file().sync_all()?;
    part.persist(&place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.md");
        let letters = folder.path().join("report.md.part");
        std::fs::write(&letters, "letters").unwrap();
        write(&path, b"one").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read(&letters).unwrap(), b"letters");
        assert!(write(folder.path(), b"three").is_err(), "a folder is no file");
        assert!(write(&folder.path().join("nowhere/report.md"), b"three").is_err());
        assert_eq!(names(folder.path()), ["report.md", "report.md.part"]);
    }

    #[test]
    fn a_link_goes_on_to_lead_to_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("day.svg"), folder.path().join("link.svg"));
        std::fs::write(&path, "one").unwrap();
        std::os::unix::fs::symlink("day.svg", &link).unwrap();
        write(&link, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert!(link.is_symlink());
        assert_eq!(place(&link), place(&path));
    }

    #[test]
    fn what_a_kill_leaves_is_cleared_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let left = beside(&folder.path().join("report.md")).unwrap();
        left.keep().unwrap();
        std::fs::write(folder.path().join("day.svg.part"), "letters").unwrap();
        assert_eq!(names(folder.path()).len(), 2);
        clear(folder.path());
        assert_eq!(names(folder.path()), ["day.svg.part"]);
    }
}
