//! Files that are replaced whole: a reader sees the old content or the new one, also after a crash.
//!
//! A new file belongs to the owner of the one that it replaces. Otherwise root could renew the certificate of a daemon,
//! and the daemon could not read its key any more.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use coalloc_common::limits;
use tempfile::NamedTempFile;

use super::error::AuthorityError;

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    /// Everybody, as far as the umask lets them.
    All,
    /// The owner alone; and the group, if it could read the file that is replaced, and others could not.
    Owner,
}

/// A file that is complete and durable, but not yet in its place.
#[derive(Debug)]
pub(super) struct Draft {
    file: NamedTempFile,
    path: PathBuf,
}

impl Draft {
    /// Writes what shall become the file `path`. Until then it lies in `beside`, a folder of the same file system.
    pub(super) fn write(
        beside: &Path,
        path: PathBuf,
        text: &str,
        readers: Readers,
    ) -> Result<Self, AuthorityError> {
        let old = fs::metadata(&path).ok();
        let mode = match (readers, &old) {
            (Readers::All, _) => 0o644,
            (Readers::Owner, Some(old)) if old.mode() & 0o007 == 0 => 0o600 | old.mode() & 0o040,
            (Readers::Owner, _) => 0o600,
        };
        let new = tempfile::Builder::new()
            .prefix(".")
            .suffix(".new")
            .permissions(Permissions::from_mode(mode))
            .tempfile_in(beside);
        let mut file = new.map_err(AuthorityError::io(&path, "writing"))?;
        let mut fill = || -> std::io::Result<()> {
            if let Some(old) = &old {
                let new = file.as_file().metadata()?;
                if (old.uid(), old.gid()) != (new.uid(), new.gid()) {
                    fchown(file.as_file(), Some(old.uid()), Some(old.gid()))?;
                }
            }
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()
        };
        fill().map_err(AuthorityError::io(&path, "writing"))?;
        Ok(Self { file, path })
    }

    /// Puts the file into its place.
    pub(super) fn place(self) -> Result<(), AuthorityError> {
        let Self { file, path } = self;
        file.persist(&path)
            .map_err(|error| AuthorityError::io(&path, "writing")(error.error))
            .map(drop)
    }
}

/// Replaces a file in a folder, durably.
pub(super) fn replace(
    folder: &Path,
    name: &str,
    text: &str,
    readers: Readers,
) -> Result<(), AuthorityError> {
    Draft::write(folder, folder.join(name), text, readers)?.place()?;
    sync(folder)
}

/// Makes the names in a folder durable.
pub(super) fn sync(folder: &Path) -> Result<(), AuthorityError> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(AuthorityError::io(folder, "syncing"))
}

/// Makes a folder and those above it, if they are missing.
pub(super) fn make_folder(folder: &Path) -> Result<(), AuthorityError> {
    fs::create_dir_all(folder).map_err(AuthorityError::io(folder, "creating the folder"))
}

/// Reads a file, unless it is larger than any that is of use here.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, AuthorityError> {
    let bytes = fs::metadata(path).map_err(AuthorityError::io(path, "reading"))?.len();
    let most = limits::CERTIFICATE_FILE_BYTES_MAX;
    if bytes > most {
        let problem = format!("size: {bytes} bytes is not allowed; allowed: up to {most} bytes");
        return Err(AuthorityError::content(path, problem));
    }
    fs::read(path).map_err(AuthorityError::io(path, "reading"))
}

/// Reads a file of text.
pub(super) fn read_text(path: &Path) -> Result<String, AuthorityError> {
    String::from_utf8(read(path)?)
        .map_err(|_| AuthorityError::content(path, "it is not a file of text"))
}
