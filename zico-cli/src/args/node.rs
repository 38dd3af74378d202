//! The commands around one budget for several processes.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use zico_core::{Bytes, Ticks};

use super::PolicyName;
use crate::size;

/// One budget for several processes.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Keep one memory budget for the jobs of several processes
    ///
    /// The broker has the books and the memory; it makes no context on the device and maps nothing.
    /// Jobs connect to its socket: `zico run` starts them so that they find it. It serves until it
    /// is interrupted (SIGINT or SIGTERM); jobs then go on with what they hold.
    ///
    /// What a job's process held when it ended or was killed is nobody's until it is certain that
    /// nothing of it runs any more: the process has to be gone, and on a GPU --grace has to be over
    /// as well.
    Serve(Serve),
    /// Show what a broker's jobs hold, and who waits for whom
    Status(Status),
    /// Change the budget of a broker while its jobs run, or show it
    Budget(BudgetArgs),
    /// Have a job go to the host and stay there, until `zico resume`
    ///
    /// For jobs that take turns (zico run --time-slice). It goes when its iteration has ended, and
    /// others have its room. It can come back for certain: where it could not, it does not go.
    Suspend(HoldArgs),
    /// Let a job that was suspended come back, as soon as there is room
    Resume(HoldArgs),
    /// Watch a broker's jobs: what they hold, their waves over the last minute, who waits
    ///
    /// q quits. Where the output is no terminal one picture is printed, as with --once.
    Top(Top),
    /// Run a command as a job under a broker's budget
    ///
    /// The command gets what a job needs to find the broker: ZICO_SOCKET, ZICO_JOB_NAME,
    /// ZICO_PRIORITY, ZICO_TIME_SLICE and ZICO_INTERRUPTIBLE in its environment, and ZICO_RUN, by
    /// which Python starts the package `zico` where that is installed. Its exit code is the exit
    /// code; 2 if it cannot be started or there is no broker. With --budget one is started if none
    /// serves, and ends with the last job.
    Run(RunJob),
}

const PLACES: &str = "\
The socket, without --socket:
  $ZICO_SOCKET, else DEVICE.sock in $XDG_RUNTIME_DIR/zico, else in /tmp/zico-UID. DEVICE is \"host\", or
  the UUID of the GPU. The folder has to be this user's, and nobody else may write to it.";

/// Where a broker listens.
#[derive(Clone, Debug, Args)]
#[command(after_help = PLACES)]
pub struct Place {
    /// The broker's socket [default: $ZICO_SOCKET, else the one broker of this user]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `zico serve`
#[derive(Debug, Parser)]
#[command(after_help = PLACES)]
pub struct Serve {
    /// Whose memory it is: the machine's own, or that of a CUDA device (`zico devices` lists them)
    #[arg(long, value_parser = device, value_name = "host|cuda:N")]
    pub device: ServedDevice,

    /// The memory that all jobs of all processes together may hold
    #[arg(short, long, value_parser = size::size, value_name = "SIZE", allow_hyphen_values = true)]
    pub budget: Bytes,

    /// The unit in which memory is handed over: a power of two [default: 2MiB, less for small
    /// budgets on the host, 4MiB for a budget from 64GiB on]
    #[arg(long, value_parser = size::size, value_name = "SIZE")]
    pub region: Option<Bytes>,

    /// Where it listens [default: see below]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Who decides when an iteration starts
    #[arg(short, long, default_value = "zico")]
    pub policy: PolicyName,

    /// Users, by number, who may have jobs beside the one who starts this. They can change the
    /// budget as well. Needs a --socket in a folder that they can enter
    #[arg(long, value_name = "UID", value_delimiter = ',', num_args = 1..)]
    pub allow_user: Vec<u32>,

    /// How long after a process has ended its work on the device is taken to be over; only then
    /// others get what it held. A driver takes a moment to tear down what a killed process had
    /// [default: 2s on a GPU, nothing on the host]
    #[arg(long, value_parser = size::duration, value_name = "DURATION")]
    pub grace: Option<Ticks>,

    /// The memory that the host may give at most, if not all that the machine has
    #[arg(long, value_parser = size::size, value_name = "SIZE")]
    pub capacity: Option<Bytes>,

    /// Serve metrics in Prometheus' text format at http://ADDR/metrics: an address and a port, or a
    /// port of this machine alone. 127.0.0.1:9742 if there is no ADDR. Whoever can connect can read
    /// them
    #[arg(
        long, value_parser = address, value_name = "ADDR", num_args = 0..=1,
        default_missing_value = "9742"
    )]
    pub metrics: Option<SocketAddr>,

    /// Serve in the background: return when it listens
    #[arg(long)]
    pub background: bool,

    /// End with the last job: when no `zico run --budget` and no job is left
    #[arg(long)]
    pub while_used: bool,
}

/// Whose memory a broker gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedDevice {
    /// The machine's own.
    Host,
    /// A CUDA device's, by its number.
    Cuda(u32),
}

impl std::fmt::Display for ServedDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Cuda(number) => write!(f, "cuda:{number}"),
        }
    }
}

/// `zico status`
#[derive(Debug, Parser)]
pub struct Status {
    /// Which broker.
    #[command(flatten)]
    pub place: Place,

    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `zico budget`
#[derive(Debug, Parser)]
pub struct BudgetArgs {
    /// What it is to be. A lower one comes into force as jobs give memory back, and what is still
    /// to come is shown as pending. Without it the budget is only shown
    #[arg(value_parser = size::size, value_name = "SIZE")]
    pub budget: Option<Bytes>,

    /// Which broker.
    #[command(flatten)]
    pub place: Place,

    /// Print one JSON object and nothing else
    #[arg(long)]
    pub json: bool,
}

/// `zico suspend` and `zico resume`
#[derive(Debug, Parser)]
pub struct HoldArgs {
    /// The job's name, as zico status has it
    #[arg(value_name = "JOB")]
    pub job: String,

    /// Which broker.
    #[command(flatten)]
    pub place: Place,
}

/// `zico top`
#[derive(Debug, Parser)]
pub struct Top {
    /// Which broker.
    #[command(flatten)]
    pub place: Place,

    /// How often it looks
    #[arg(long, default_value = "250ms", value_parser = interval, value_name = "DURATION")]
    pub interval: Ticks,

    /// Look for a second, print one picture of 80 columns as text, and end
    #[arg(long)]
    pub once: bool,
}

/// `zico run`
#[derive(Debug, Parser)]
pub struct RunJob {
    /// Which broker.
    #[command(flatten)]
    pub place: Place,

    /// What the job is called [default: the command, and its first argument]
    #[arg(long, value_parser = name, value_name = "NAME")]
    pub name: Option<String>,

    /// Of jobs that wait those with a higher one start first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub priority: Option<i32>,

    /// The job takes turns with others that do not fit beside it: what it keeps goes to memory of the
    /// host while they have theirs. A turn lasts for an iteration and so long at least: some ten
    /// times of what the copies take
    #[arg(long, value_parser = size::duration, value_name = "TIME")]
    pub time_slice: Option<Ticks>,

    /// The job makes way in the middle of an iteration where that waits for memory and nothing else
    /// can go on: what it has goes to memory of the host, and another job goes on. Without that one
    /// of two jobs that have come to need more is told that there is no memory
    #[arg(long)]
    pub interruptible: bool,

    /// Start a broker with this budget if none serves there. It ends with the last job. One that
    /// serves keeps its own budget, and this says so if that is another
    #[arg(short, long, value_parser = size::size, value_name = "SIZE", requires = "device")]
    pub budget: Option<Bytes>,

    /// Whose memory that broker gives out
    #[arg(long, value_parser = device, value_name = "host|cuda:N", requires = "budget")]
    pub device: Option<ServedDevice>,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// The longest name that a broker takes, in bytes.
pub(crate) const LONGEST_NAME: usize = 128;

fn device(text: &str) -> Result<ServedDevice, String> {
    match text.strip_prefix("cuda:").map(str::parse) {
        Some(Ok(number)) => Ok(ServedDevice::Cuda(number)),
        None if text == "host" => Ok(ServedDevice::Host),
        _ => Err("a device is host or cuda:N, N counted from 0".to_owned()),
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let loopback = text.parse().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
    loopback.or_else(|_| text.parse()).map_err(|_| {
        format!("{text:?} is neither a port nor an address and a port, such as 0.0.0.0:9742")
    })
}

fn interval(text: &str) -> Result<Ticks, String> {
    match size::duration(text)? {
        shorter if shorter < Ticks::millis(10) => Err("it cannot look so often".to_owned()),
        longer if longer > Ticks::millis(60_000) => Err("a minute at most".to_owned()),
        interval => Ok(interval),
    }
}

fn name(text: &str) -> Result<String, String> {
    match text.len() {
        0 => Err("a name cannot be empty".to_owned()),
        len if len > LONGEST_NAME => Err(format!("{len} bytes are more than {LONGEST_NAME}")),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_addresses_and_names() {
        assert_eq!(device("host"), Ok(ServedDevice::Host));
        assert_eq!(device("cuda:3"), Ok(ServedDevice::Cuda(3)));
        for text in ["mock", "cuda", "cuda:", "cuda:x", "cuda:-1", "host:0"] {
            assert!(device(text).is_err(), "{text}");
        }
        assert_eq!(address("80").unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(address("0.0.0.0:80").unwrap().to_string(), "0.0.0.0:80");
        assert_eq!(address("[::1]:80").unwrap().to_string(), "[::1]:80");
        for text in ["", "70000", "localhost", "1.2.3.4", ":80"] {
            assert!(address(text).is_err(), "{text}");
        }
        assert!(name(&"x".repeat(128)).is_ok() && name(&"x".repeat(129)).is_err());
        assert!(name("").is_err());
        assert!(interval("5ms").is_err() && interval("61s").is_err() && interval("1s").is_ok());
    }
}
