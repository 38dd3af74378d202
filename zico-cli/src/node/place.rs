//! Where brokers listen, and how the one that is meant is found.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use zico_node::Observer;

use super::NodeError;

/// In which the socket of the broker is told to jobs, and to these commands.
pub(super) const SOCKET: &str = "ZICO_SOCKET";
/// How the sockets of brokers end.
const ENDING: &str = "sock";

/// Where the broker of a device is to listen. The usual folder is made if need be.
pub(super) fn to_serve(
    given: Option<&Path>,
    device: &str,
    others: bool,
) -> Result<PathBuf, NodeError> {
    if let Some(path) = named(given)? {
        return Ok(path);
    }
    if others {
        return Err(NodeError::NobodyCanEnter);
    }
    let folder = folder();
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            return Err(NodeError::NoFolder { folder, source });
        }
        _ => check(&folder)?,
    }
    Ok(folder.join(format!("{device}.{ENDING}")))
}

/// The broker that is meant, and where it listens.
pub(super) fn find(given: Option<&Path>) -> Result<(PathBuf, Observer), NodeError> {
    if let Some(path) = named(given)? {
        let observer = Observer::connect(&path)?;
        return Ok((path, observer));
    }
    let folder = folder();
    let sockets = match check(&folder) {
        Ok(()) => sockets(&folder)?,
        Err(NodeError::NoFolder { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    choose(folder, sockets)
}

/// The only one that serves. What a broker has left over that was killed is none.
fn choose(folder: PathBuf, sockets: Vec<PathBuf>) -> Result<(PathBuf, Observer), NodeError> {
    let (mut serving, mut first_error) = (Vec::new(), None);
    for socket in sockets {
        match Observer::connect(&socket) {
            Ok(observer) => serving.push((socket, observer)),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    let several = serving.len() > 1;
    let names = serving.iter().map(|(socket, _)| socket.display().to_string());
    let names = names.collect::<Vec<_>>().join(", ");
    match (serving.pop(), first_error) {
        (Some(_), _) if several => Err(NodeError::Several(names)),
        (Some(only), _) => Ok(only),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(NodeError::NoBroker { folder }),
    }
}

/// The socket that has been told, if one has.
fn named(given: Option<&Path>) -> Result<Option<PathBuf>, NodeError> {
    let told = env::var_os(SOCKET).filter(|path| !path.is_empty()).map(PathBuf::from);
    let Some(path) = given.map(Path::to_owned).or(told) else { return Ok(None) };
    // A job may change its folder.
    let absolute = std::path::absolute(&path);
    absolute.map(Some).map_err(|source| NodeError::NoFolder { folder: path, source })
}

/// The folder of this user's brokers.
fn folder() -> PathBuf {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    match runtime.filter(|folder| folder.is_absolute() && folder.is_dir()) {
        Some(folder) => folder.join("zico"),
        None => PathBuf::from(format!("/tmp/zico-{}", user())),
    }
}

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Refuses a folder in which somebody else could listen.
fn check(folder: &Path) -> Result<(), NodeError> {
    let found = fs::symlink_metadata(folder)
        .map_err(|source| NodeError::NoFolder { folder: folder.to_owned(), source })?;
    let why = if !found.is_dir() {
        "is no folder"
    } else if found.uid() != user() {
        "belongs to another user"
    } else if found.mode() & 0o022 != 0 {
        "can be written to by other users"
    } else {
        return Ok(());
    };
    Err(NodeError::Folder { folder: folder.to_owned(), why })
}

fn sockets(folder: &Path) -> Result<Vec<PathBuf>, NodeError> {
    let failed = |source| NodeError::NoFolder { folder: folder.to_owned(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|ending| ending == ENDING) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_in_which_others_could_listen_is_refused() {
        let base = env::temp_dir().join(format!("zico-place-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let own = base.join("own");
        fs::DirBuilder::new().mode(0o700).create(&own).unwrap();
        assert!(check(&own).is_ok());
        let why = |folder: &Path| check(folder).unwrap_err().to_string();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o770)).unwrap();
        assert!(why(&own).contains("written to by other users"));
        fs::set_permissions(&own, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(check(&own).is_ok());
        symlink(&own, base.join("link")).unwrap();
        assert!(why(&base.join("link")).contains("is no folder"));
        fs::write(base.join("file"), "").unwrap();
        assert!(why(&base.join("file")).contains("is no folder"));
        assert!(matches!(check(&base.join("none")), Err(NodeError::NoFolder { .. })));
        if user() == 0 {
            std::os::unix::fs::chown(&own, Some(12_345), None).unwrap();
            assert!(why(&own).contains("belongs to another user"));
        }
        fs::remove_dir_all(&base).unwrap();
    }
}
