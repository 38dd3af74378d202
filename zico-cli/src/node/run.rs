//! `zico run`

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::{NodeError, background, place};
use crate::args::{LONGEST_NAME, RunJob};
use crate::exit::Exit;
use crate::failure::Failure;

/// What a job is to be called.
const JOB_NAME: &str = "ZICO_JOB_NAME";
/// Its priority; 0 where there is none.
const PRIORITY: &str = "ZICO_PRIORITY";
/// How long its turns last, in nanoseconds; it takes none where there is none.
const TIME_SLICE: &str = "ZICO_TIME_SLICE";
/// Whether its iterations may be interrupted: 1, or not there.
const INTERRUPTIBLE: &str = "ZICO_INTERRUPTIBLE";

/// If it is there the Python package `zico`, where it is installed, becomes PyTorch's allocator.
const PYTHON: &str = "ZICO_RUN";

/// Becomes the command: its process is the one that was started, so signals and the exit code are
/// its own. Returns only if it cannot.
pub(crate) fn run(args: &RunJob) -> Result<Exit, Failure> {
    let Some((program, rest)) = args.command.split_first() else { return Ok(Exit::Fine) };
    let given = args.place.socket.as_deref();
    let (socket, using) = match (args.budget, args.device) {
        (Some(budget), Some(device)) => {
            let (socket, using) = background::find_or_serve(given, device, budget)?;
            (socket, Some(using))
        }
        _ => (place::find(given)?.0, None),
    };
    let name = args.name.clone().unwrap_or_else(|| name_of(&args.command));
    let mut command = Command::new(program);
    command.args(rest).env(place::SOCKET, socket).env(JOB_NAME, name).env(PYTHON, "1");
    if let Some(priority) = args.priority {
        command.env(PRIORITY, priority.to_string());
    }
    if let Some(slice) = args.time_slice {
        command.env(TIME_SLICE, format!("{}ns", slice.value()));
    }
    if args.interruptible {
        command.env(INTERRUPTIBLE, "1");
    }
    if let Some(using) = using {
        let kept = using.pass_on();
        kept.map_err(|source| NodeError::Process { what: "the need for a broker", source })?;
    }
    let source = command.exec();
    let command = program.to_string_lossy().into_owned();
    Err(NodeError::Run { command, source }.into())
}

/// The program, and its first argument if that is no option: "python train.py".
fn name_of(command: &[impl AsRef<OsStr>]) -> String {
    let last = |word: &OsStr| {
        let name = Path::new(word).file_name().unwrap_or(word);
        name.to_string_lossy().into_owned()
    };
    let words = command.iter().map(AsRef::as_ref).take(2).enumerate();
    let words = words.filter(|(at, word)| *at == 0 || !is_option(word));
    let mut name = words.map(|(_, word)| last(word)).collect::<Vec<_>>().join(" ");
    let end = (0..=LONGEST_NAME.min(name.len())).rev().find(|&at| name.is_char_boundary(at));
    name.truncate(end.unwrap_or(0));
    name
}

fn is_option(word: &OsStr) -> bool {
    word.is_empty() || word.to_string_lossy().starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gives_a_job_its_name() {
        for (command, name) in [
            (&["python", "train.py", "--lr", "1"][..], "python train.py"),
            (&["/usr/bin/python", "jobs/resnet/train.py"], "python train.py"),
            (&["./train", "-x"], "train"),
            (&["train"], "train"),
            (&["sh", ""], "sh"),
        ] {
            assert_eq!(name_of(command), name);
        }
        let long = name_of(&["sh", &"\u{e9}".repeat(100)]);
        assert!(long.len() <= LONGEST_NAME && long.starts_with("sh \u{e9}"), "{long}");
    }
}
