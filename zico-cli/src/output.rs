//! Files that a command writes.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::failure::Failure;

/// A file to be written, checked before any work is done: nothing is overwritten by mistake.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    path: &'a Path,
    force: bool,
}

impl<'a> Output<'a> {
    /// Checks the path and writes nothing. An existing file is refused unless `force` is set; an
    /// input of the same command always.
    pub(crate) fn new(
        path: &'a Path,
        force: bool,
        inputs: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Result<Self, Failure> {
        if inputs.into_iter().any(|input| is_same(input.as_ref(), path)) {
            return Err(Failure::OverInput(path.to_owned()));
        }
        if path.exists() && !force {
            return Err(Failure::Exists(path.to_owned()));
        }
        Ok(Self { path, force })
    }

    /// The same for an optional output.
    pub(crate) fn of(
        path: Option<&'a Path>,
        force: bool,
        inputs: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Result<Option<Self>, Failure> {
        path.map(|path| Self::new(path, force, inputs)).transpose()
    }

    /// Writes it. Without `force`, a file that was created since is not overwritten.
    pub(crate) fn write(&self, content: &str) -> Result<(), Failure> {
        let Self { path, force } = *self;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).create_new(!force);
        let written = options.open(path).and_then(|mut file| file.write_all(content.as_bytes()));
        written.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Failure::Exists(path.to_owned()),
            _ => Failure::Write { path: path.to_owned(), source },
        })
    }
}

/// Whether two paths are of one file that is there.
fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(a), Ok(b)) => a == b || is_linked(&a, &b),
        _ => false,
    }
}

/// Whether they are two names of one file.
#[cfg(unix)]
fn is_linked(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let file = |path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    file(one).is_some() && file(one) == file(other)
}

/// Whether they are two names of one file, which cannot be determined here.
#[cfg(not(unix))]
fn is_linked(_: &Path, _: &Path) -> bool {
    false
}
