//! A broker and its clients, over real sockets and real memory; all in one process here.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;
use zico_core::{Bytes, Lifetime, Pool, PoolConfig, Request};
use zico_node::host::{HostConfig, HostDevice};
use zico_node::{Client, ConnectError, Observer, Server, ServerConfig};

const REGION: Bytes = Bytes::kib(64);
const LOOK: Duration = Duration::from_millis(1);

fn device() -> HostDevice {
    HostDevice::new(HostConfig::new().granularity(REGION).capacity(Bytes::mib(256))).unwrap()
}

/// A broker on a thread of this process.
struct Serving {
    folder: PathBuf,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

fn config(folder: &std::path::Path, budget: Bytes) -> ServerConfig {
    ServerConfig {
        socket: folder.join("socket"),
        pool: PoolConfig::new(budget).region_size(REGION),
        device: "host".to_owned(),
        users: Vec::new(),
    }
}

impl Serving {
    fn new(name: &str, budget: Bytes) -> Self {
        let folder = std::env::temp_dir().join(format!("zico-{}-{name}", std::process::id()));
        let mut server = Server::bind(config(&folder, budget), device(), Duration::ZERO).unwrap();
        let (stops, stop) = rustix::pipe::pipe().unwrap();
        let thread = std::thread::spawn(move || server.run(&stops).unwrap());
        Self { folder, stop: Some(stop), thread: Some(thread) }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn connect(&self) -> (HostDevice, Pool<HostDevice>) {
        let device = device();
        (device.clone(), Client::connect(device, &self.socket()).unwrap())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Its end of the pipe is hung up.
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        let _ = std::fs::remove_dir_all(&self.folder);
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

#[test]
fn memory_goes_from_process_to_process_with_no_byte_of_two() {
    let serving = Serving::new("passes", Bytes::mib(2));
    let ((one, a), (other, b)) = (serving.connect(), serving.connect());
    let (a, b) = (a.join("a", one.add_stream()).unwrap(), b.join("b", other.add_stream()).unwrap());
    let persistent = a.alloc(Request::new(Bytes::kib(300), Lifetime::Persistent)).unwrap();
    one.fill(persistent.address(), Bytes::kib(300), 1).unwrap();
    for turn in 0..20 {
        for (job, device) in [(&a, &one), (&b, &other)] {
            job.begin_blocking(None, LOOK).unwrap();
            let request = Request::new(Bytes::kib(1500), Lifetime::Iteration);
            let block = job.alloc_blocking(request, LOOK).unwrap();
            device.fill(block.address(), Bytes::kib(1500), turn).unwrap();
            assert!(device.verify(block.address(), Bytes::kib(1500), turn).unwrap());
            job.free(block).unwrap();
            job.end().unwrap();
        }
    }
    assert!(one.verify(persistent.address(), Bytes::kib(300), 1).unwrap());
    let books = Observer::connect(&serving.socket()).unwrap().snapshot().unwrap();
    assert!(books.held <= Bytes::mib(2), "{books}");
    assert_eq!(books.jobs.len(), 2);
    assert!(books.jobs.iter().all(|job| job.iterations == 20), "{books}");
}

/// The budget goes down and up while jobs of two processes' pools run: memory leaves their
/// addresses by whichever thread comes first, and by one alone.
#[test]
fn jobs_go_on_while_the_budget_goes_down_and_up() {
    let serving = Serving::new("budgets", Bytes::mib(8));
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            let (device, pool) = serving.connect();
            let ended = &ended;
            scope.spawn(move || {
                let job = pool.join(name, device.add_stream()).unwrap();
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    job.begin_blocking(None, LOOK).unwrap();
                    let request = Request::new(Bytes::mib(3), Lifetime::Iteration);
                    let block = job.alloc_blocking(request, LOOK).unwrap();
                    device.fill(block.address(), Bytes::mib(3), 7).unwrap();
                    assert!(device.verify(block.address(), Bytes::mib(3), 7).unwrap());
                    job.free(block).unwrap();
                    job.end().unwrap();
                }
            });
        }
        let observer = Observer::connect(&serving.socket()).unwrap();
        for turn in 0..200 {
            let budget = Bytes::mib(if turn % 2 == 0 { 4 } else { 8 });
            observer.set_budget(budget).unwrap().unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Hangs up on so many that connect at a socket, as a broker does whose process ends.
fn hang_up(socket: &std::path::Path, connections: u32) {
    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketType, accept, bind, listen, socket as make,
    };
    let listener = make(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(socket).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    for _ in 0..connections {
        drop(accept(&listener).unwrap());
    }
}

#[test]
fn who_connects_as_a_broker_ends_finds_the_next_one() {
    let folder = std::env::temp_dir().join(format!("zico-{}-next", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("socket");
    let ends = {
        let socket = socket.clone();
        std::thread::spawn(move || hang_up(&socket, 1))
    };
    while !socket.exists() {
        std::thread::yield_now();
    }
    let connects = std::thread::spawn(move || {
        loop {
            match Client::connect(device(), &socket) {
                // It has yet to listen.
                Err(ConnectError::NoBroker { error, .. }) if error == Errno::CONNREFUSED => {}
                other => break other.map(drop),
            }
        }
    });
    ends.join().unwrap();
    let _next = Serving::new("next", Bytes::mib(2));
    connects.join().unwrap().unwrap();
}

#[test]
fn one_that_hangs_up_again_and_again_is_not_asked_for_ever() {
    let folder = std::env::temp_dir().join(format!("zico-{}-hangs-up", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("socket");
    {
        let socket = socket.clone();
        std::thread::spawn(move || hang_up(&socket, u32::MAX));
    }
    while !socket.exists() {
        std::thread::yield_now();
    }
    let refused = loop {
        match Client::connect(device(), &socket) {
            // It has yet to listen.
            Err(ConnectError::NoBroker { .. }) => std::thread::yield_now(),
            other => break other.map(drop),
        }
    };
    assert!(matches!(refused, Err(ConnectError::HungUp { .. })));
    std::fs::remove_dir_all(folder).unwrap();
}
