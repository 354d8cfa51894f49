//! Files that commands write: complete or not at all, and only where a file was meant.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, BufWriter, ErrorKind, Seek as _, Write},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use seckill_model::text;
use tempfile::{Builder, tempfile_in};

use crate::{CliError, Result};

/// Links that are followed from a path, as in Linux.
const MAX_LINKS: usize = 40;

/// What an existing file means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// It is replaced, and keeps its permissions unless the file is [private](OutputFile::private).
    Replace,
    /// It is an error.
    Keep,
    /// It is an error, because `--yes` was not passed.
    KeepWithoutYes,
}

/// A file that is being written. Until [`OutputFile::finish`], what was at its path stays as it was.
#[derive(Debug)]
pub(super) struct OutputFile {
    /// As the user named it.
    path: PathBuf,
    existing: Existing,
    out: Out,
}

#[derive(Debug)]
enum Out {
    /// Written to a file without a name, which leaves nothing when the process is killed; copied at the end.
    Aside { text: BufWriter<File>, target: PathBuf, permissions: Permissions },
    /// A terminal, a pipe or another character device, which takes what is written as it comes.
    Stream(File),
}

impl OutputFile {
    /// Begins to write the file, of which nothing is changed yet. Only its owner may read a new one.
    ///
    /// # Errors
    ///
    /// Fails if the file exists and is to be kept, if the path is a directory, a socket or a block device, or if its
    /// directory takes no new file.
    pub(super) fn create(path: PathBuf, existing: Existing) -> Result<Self> {
        match open(&path, existing) {
            Ok(Some(out)) => Ok(Self { path, existing, out }),
            Ok(None) => Err(CliError::usage(text!("cli-file-no-file", path = path.display()))),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(not_written(&path, existing, &error))
            }
            Err(error) => Err(CliError::not_created(&path, &error)),
        }
    }

    /// Makes the file readable by its owner only, even if it replaces one with other permissions: it holds secrets.
    pub(super) fn private(mut self) -> Self {
        if let Out::Aside { permissions, .. } = &mut self.out {
            *permissions = Permissions::from_mode(0o600);
        }
        self
    }

    /// The path as the user named it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The error of a write to this file.
    pub(super) fn failed(&self, error: &io::Error) -> CliError {
        CliError::not_written(&self.path, error)
    }

    /// Puts the complete file at its path.
    pub(super) fn finish(self) -> Result<()> {
        let finished = match self.out {
            Out::Stream(mut file) => file.flush(),
            Out::Aside { text, target, permissions } => {
                put(text, &target, permissions, self.existing)
            }
        };
        finished.map_err(|error| not_written(&self.path, self.existing, &error))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Aside { text, .. } => text.write(bytes),
            Out::Stream(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Aside { text, .. } => text.flush(),
            Out::Stream(file) => file.flush(),
        }
    }
}

fn not_written(path: &Path, existing: Existing, error: &io::Error) -> CliError {
    if error.kind() != ErrorKind::AlreadyExists {
        return CliError::not_written(path, error);
    }
    let path = path.display();
    CliError::usage(match existing {
        Existing::KeepWithoutYes => text!("cli-file-exists-without-yes", path),
        Existing::Keep | Existing::Replace => text!("cli-file-exists", path),
    })
}

/// `None` if nothing can be written there by its kind.
fn open(path: &Path, existing: Existing) -> io::Result<Option<Out>> {
    let takes_a_stream = |kind: fs::FileType| kind.is_char_device() || kind.is_fifo();
    // What is open already may have no path behind its links: `/dev/stdout`, `/dev/fd/63`.
    if fs::metadata(path).is_ok_and(|found| takes_a_stream(found.file_type())) {
        return OpenOptions::new().write(true).open(path).map(Out::Stream).map(Some);
    }
    let target = behind_links(path)?;
    let found = match fs::metadata(&target) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mode = match &found {
        Some(found) if found.is_file() => {
            if existing != Existing::Replace {
                return Err(ErrorKind::AlreadyExists.into());
            }
            // A file that could not be written to is not replaced either.
            OpenOptions::new().write(true).open(&target)?;
            found.mode() & 0o777
        }
        Some(_) => return Ok(None),
        None => 0o600,
    };
    let text = BufWriter::new(tempfile_in(dir_of(&target))?);
    Ok(Some(Out::Aside { text, target, permissions: Permissions::from_mode(mode) }))
}

/// Puts the text at the path in one step.
fn put(
    text: BufWriter<File>,
    target: &Path,
    permissions: Permissions,
    existing: Existing,
) -> io::Result<()> {
    let mut new = Builder::new().prefix(".seckill-").tempfile_in(dir_of(target))?;
    new.as_file().set_permissions(permissions)?;
    let mut text = text.into_inner()?;
    text.rewind()?;
    io::copy(&mut text, &mut new)?;
    new.as_file().sync_all()?;
    let kept = match existing {
        Existing::Replace => new.persist(target),
        Existing::Keep | Existing::KeepWithoutYes => new.persist_noclobber(target),
    };
    kept.map(drop).map_err(io::Error::from)
}

fn dir_of(file: &Path) -> &Path {
    file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path that links lead to, which need not exist: replacing a link would not write to its target.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&target) {
            Ok(next) => target = target.parent().unwrap_or(Path::new("")).join(next),
            // EINVAL: no link.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return Ok(target);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()))
}
