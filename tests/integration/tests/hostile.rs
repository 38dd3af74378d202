//! A broker and clients that break the protocol, flood it, or lie. It stays up, its memory and
//! descriptors stay bounded, and others go on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recv, sendmsg, socket_with, socketpair,
};
use zico_core::broker::{Lease, Reply, Request, Told};
use zico_core::{Bytes, JobConfig, JobId, Lifetime, PoolConfig, Request as Block};
use zico_node::host::{HostConfig, HostDevice};
use zico_node::wire::{Assembler, Down, Fault, LONGEST_DOWN, Rejection, Up, VERSION, packets};
use zico_node::{Client, ConnectError, Observer, Server, ServerConfig};

const REGION: Bytes = Bytes::kib(64);

fn device() -> HostDevice {
    HostDevice::new(HostConfig::new().granularity(REGION).capacity(Bytes::mib(64))).unwrap()
}

/// A broker of 16 regions on a thread.
struct Serving {
    folder: PathBuf,
    stop: Option<OwnedFd>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Serving {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("zico-hostile-{}-{name}", std::process::id()));
        let pool = PoolConfig::new(Bytes::new(16 * REGION.value())).region_size(REGION);
        let (socket, device_name) = (folder.join("socket"), "host".to_owned());
        let config = ServerConfig { socket, pool, device: device_name, users: Vec::new() };
        let mut server = Server::bind(config, device(), Duration::ZERO).unwrap();
        let (stops, stop) = rustix::pipe::pipe().unwrap();
        let thread = std::thread::spawn(move || server.run(&stops).unwrap());
        Self { folder, stop: Some(stop), thread: Some(thread) }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn serves(&self) {
        serves(&self.socket());
    }
}

/// A correct client still gets through an iteration.
fn serves(socket: &Path) {
    let device = device();
    let pool = loop {
        match Client::connect(device.clone(), socket) {
            Ok(pool) => break pool,
            Err(
                ConnectError::HungUp { .. }
                | ConnectError::Rejected { rejection: Rejection::TooMany { .. }, .. },
            ) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    };
    let job = pool.join("correct", device.add_stream()).unwrap();
    job.begin_blocking(None, Duration::from_millis(1)).unwrap();
    let request = Block::new(Bytes::kib(200), Lifetime::Iteration);
    let block = job.alloc_blocking(request, Duration::from_millis(1)).unwrap();
    device.fill(block.address(), Bytes::kib(200), 7).unwrap();
    assert!(device.verify(block.address(), Bytes::kib(200), 7).unwrap());
    job.free(block).unwrap();
    job.end().unwrap();
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        let _ = std::fs::remove_dir_all(&self.folder);
        assert!(ended.is_ok() || std::thread::panicking(), "the broker has panicked");
    }
}

/// A connection that says what it likes.
struct Raw {
    socket: OwnedFd,
    assembler: Assembler,
    /// The far end of the socket for notices.
    _notices: Option<OwnedFd>,
}

impl Raw {
    fn new(path: &Path) -> Self {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        Self { socket, assembler: Assembler::new(LONGEST_DOWN), _notices: None }
    }

    /// One that has been let in, as soon as the broker has seen that others have gone.
    fn greeted(path: &Path) -> Self {
        loop {
            if let Some(raw) = Self::try_greet(path) {
                return raw;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn try_greet(path: &Path) -> Option<Self> {
        let mut raw = Self::new(path);
        let (near, far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        raw.send(&hello(), &[page(4096, ALL).as_fd(), far.as_fd()]);
        match raw.receive() {
            Some(Down::Welcome(_)) => {}
            // It may have been refused before it has greeted.
            None | Some(Down::Refused(Rejection::TooMany { .. })) => return None,
            other => panic!("{other:?}"),
        }
        raw._notices = Some(near);
        Some(raw)
    }

    /// One that has a job.
    fn joined(path: &Path) -> (Self, JobId) {
        let mut raw = Self::greeted(path);
        raw.send(&Up::Request(None, Request::Join(JobConfig::new("hostile"))), &[]);
        match raw.receive() {
            Some(Down::Reply(Reply::Joined(job))) => (raw, job),
            other => panic!("{other:?}"),
        }
    }

    fn send(&self, up: &Up, descriptors: &[BorrowedFd<'_>]) {
        for packet in packets(up) {
            let _ = self.send_bytes(&packet, descriptors);
        }
    }

    fn send_bytes(&self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        let bytes = [std::io::IoSlice::new(packet)];
        sendmsg(&self.socket, &bytes, &mut control, SendFlags::NOSIGNAL).map(drop)
    }

    /// The next message; none if the broker has hung up.
    fn receive(&mut self) -> Option<Down> {
        let mut bytes = vec![0; 64 << 10];
        loop {
            match recv(&self.socket, &mut bytes[..], RecvFlags::empty()) {
                Ok((_, 0)) | Err(_) => return None,
                Ok((_, len)) => {
                    if let Some(down) = self.assembler.push(&bytes[..len]).unwrap() {
                        return Some(down);
                    }
                }
            }
        }
    }

    /// Whether the broker hangs up after this.
    fn cut_off_after(mut self, job: JobId, request: Request) -> bool {
        self.send(&Up::Request(Some(job), request), &[]);
        while let Some(down) = self.receive() {
            assert!(!matches!(down, Down::Reply(Reply::Granted(_))), "granted: {down:?}");
        }
        true
    }
}

const ALL: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

fn hello() -> Up {
    Up::Hello { version: VERSION, only_looks: false, resumes: false }
}

fn page(len: u64, seals: SealFlags) -> OwnedFd {
    let file = memfd_create("page", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, len).unwrap();
    fcntl_add_seals(&file, seals).unwrap();
    file
}

fn lease(pages: Vec<u64>) -> Request {
    let (asked, told) = (Bytes::kib(64), Told::ByTheJob);
    let lifetime = Lifetime::Iteration;
    Request::Lease(Lease { lifetime, pages, planned: false, asked, told, last: true })
}

#[test]
fn who_does_not_greet_as_a_client_does_is_told_why_and_cut_off() {
    let serving = Serving::new("greets");
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let (pipe, _other) = rustix::pipe::pipe().unwrap();
    let old = Up::Hello { version: 0, only_looks: false, resumes: false };
    let bad_page = Fault::Page { len: 4096 };
    let good = page(4096, ALL);
    let (short, open) = (page(100, ALL), page(4096, SealFlags::SHRINK));
    let cases: [(&Up, Vec<BorrowedFd<'_>>, Rejection); 7] = [
        (&old, vec![], Rejection::Version { client: 0, broker: VERSION }),
        (&hello(), vec![], Rejection::Hello(Fault::Descriptors { found: 0, expected: 2 })),
        (&hello(), vec![pipe.as_fd(), far.as_fd()], Rejection::Hello(bad_page)),
        (&hello(), vec![short.as_fd(), far.as_fd()], Rejection::Hello(bad_page)),
        (&hello(), vec![open.as_fd(), far.as_fd()], Rejection::Hello(bad_page)),
        (&hello(), vec![good.as_fd(), pipe.as_fd()], Rejection::Hello(Fault::Socket)),
        (
            &hello(),
            vec![good.as_fd(), far.as_fd(), near.as_fd()],
            Rejection::Hello(Fault::Descriptors { found: 3, expected: 2 }),
        ),
    ];
    for (up, descriptors, rejection) in cases {
        let mut raw = Raw::new(&serving.socket());
        raw.send(up, &descriptors);
        assert_eq!(raw.receive(), Some(Down::Refused(rejection)));
        assert_eq!(raw.receive(), None);
    }
    serving.serves();
}

#[test]
fn bytes_that_are_no_message_end_the_connection() {
    let serving = Serving::new("bytes");
    let mut rng = fastrand::Rng::with_seed(1);
    for greeted in [false, true] {
        for _ in 0..200 {
            let mut raw = match greeted {
                true => Raw::greeted(&serving.socket()),
                false => Raw::new(&serving.socket()),
            };
            let mut bytes: Vec<u8> = (0..rng.usize(1..200)).map(|_| rng.u8(..)).collect();
            bytes[0] = 0;
            if raw.send_bytes(&bytes, &[]).is_ok() && postcard_is_up(&bytes[1..]) {
                continue;
            }
            while raw.receive().is_some() {}
        }
    }
    let raw = Raw::greeted(&serving.socket());
    // A message without an end.
    let mut endless = vec![0; 30_000];
    endless[0] = 1;
    while raw.send_bytes(&endless, &[]).is_ok() {}
    serving.serves();
}

/// By chance it may be one.
fn postcard_is_up(bytes: &[u8]) -> bool {
    let mut packet = vec![0];
    packet.extend_from_slice(bytes);
    Assembler::new(1 << 20).push::<Up>(&packet).is_ok()
}

#[test]
fn requests_that_no_correct_client_makes_end_the_connection() {
    let serving = Serving::new("requests");
    let cases = [
        Request::Fence(u64::MAX),
        Request::Recognise { power: 32, hash: 0 },
        Request::Departed,
        Request::Pool,
        Request::Released(3),
        lease(vec![]),
        lease(vec![u64::MAX]),
        lease(vec![1 << 40]),
        lease(vec![3, 3]),
    ];
    for request in cases {
        let (raw, job) = Raw::joined(&serving.socket());
        assert!(raw.cut_off_after(job, request.clone()), "{request:?}");
    }
    let (raw, job) = Raw::joined(&serving.socket());
    let (other, others) = Raw::joined(&serving.socket());
    assert!(raw.cut_off_after(others, Request::Begin(None)), "another client's job");
    assert!(
        other.cut_off_after(
            job,
            Request::End { seen: zico_core::broker::Seen::default(), is_followed: false }
        ),
        "a gone one"
    );
    // A place of the page that there is not, or that is taken.
    for (first, second) in [(None, 64), (Some(0), 0)] {
        let (mut raw, job) = Raw::joined(&serving.socket());
        if let Some(first) = first {
            raw.send(&Up::Slot(job, first), &[]);
            raw.send(&Up::Request(None, Request::Join(JobConfig::new("second"))), &[]);
            let Some(Down::Reply(Reply::Joined(other))) = raw.receive() else { panic!() };
            raw.send(&Up::Slot(other, second), &[]);
        } else {
            raw.send(&Up::Slot(job, second), &[]);
        }
        assert_eq!(raw.receive(), None);
    }
    serving.serves();
}

#[test]
fn what_a_client_has_not_leased_it_cannot_fetch() {
    let serving = Serving::new("fetches");
    let (mut raw, job) = Raw::joined(&serving.socket());
    for region in [0, 15, u32::MAX] {
        raw.send(&Up::Fetch(region), &[]);
        assert_eq!(raw.receive(), Some(Down::Memory(false)), "{region}");
    }
    raw.send(&Up::Request(Some(job), lease(vec![0, 1])), &[]);
    let Some(Down::Reply(Reply::Granted(order))) = raw.receive() else { panic!() };
    let regions: Vec<u32> = order.map.iter().map(|&(_, region)| region).collect();
    raw.send(&Up::Fetch(regions[0]), &[]);
    assert_eq!(raw.receive(), Some(Down::Memory(true)));
    let other = (0..16).find(|region| !regions.contains(region)).unwrap();
    raw.send(&Up::Fetch(other), &[]);
    assert_eq!(raw.receive(), Some(Down::Memory(false)));
    // A second lease before the first is settled.
    raw.send(&Up::Request(Some(job), lease(vec![2])), &[]);
    assert_eq!(raw.receive(), None);
}

#[test]
fn a_client_that_hangs_up_and_lives_on_keeps_its_memory_charged() {
    let serving = Serving::new("lives-on");
    let (mut raw, job) = Raw::joined(&serving.socket());
    raw.send(&Up::Request(Some(job), lease((0..10).collect())), &[]);
    assert!(matches!(raw.receive(), Some(Down::Reply(Reply::Granted(_)))));
    raw.send(&Up::Request(Some(job), Request::Settle { unmapped: 0, mapped: 10 }), &[]);
    // It says that all of it is over, of what it has never given back.
    raw.send(&Up::Request(Some(job), Request::Completed(u64::MAX)), &[]);
    drop(raw);
    let observer = Observer::connect(&serving.socket()).unwrap();
    // Its process lives, this one: it may still write there.
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(10));
        let books = observer.snapshot().unwrap();
        let held: Vec<u64> = books.jobs.iter().map(|job| job.held.total().value()).collect();
        assert!(held.is_empty() || held == [10 * REGION.value()], "{books}");
    }
    assert_eq!(observer.snapshot().unwrap().jobs.len(), 1);
    serving.serves();
}

#[test]
fn a_client_that_floods_or_does_not_listen_is_cut_off_and_others_go_on() {
    let serving = Serving::new("floods");
    let path = serving.socket();
    let flood = std::thread::spawn(move || {
        let (raw, job) = Raw::joined(&path);
        // Asks, and reads no answer, until it is cut off.
        let ask = packets(&Up::Request(Some(job), Request::Job));
        let mut sent = 0;
        while raw.send_bytes(&ask[0], &[]).is_ok() {
            sent += 1;
        }
        sent
    });
    for _ in 0..20 {
        serving.serves();
    }
    let sent = flood.join().unwrap();
    assert!(sent > 1000, "cut off after {sent} messages");
    serving.serves();
}

#[test]
fn ten_thousand_connections_leave_nothing_behind() {
    let folder = std::env::temp_dir().join(format!("zico-connects-{}", std::process::id()));
    let socket = folder.join("socket");
    let mut broker = std::process::Command::new(env!("CARGO_BIN_EXE_node"))
        .args(["serve", socket.to_str().unwrap(), "16"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 7];
    std::io::Read::read_exact(broker.stdout.as_mut().unwrap(), &mut line).unwrap();
    let process = broker.id();
    let descriptors = || std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    let memory = || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    serves(&socket);
    let (before, at_first) = (descriptors(), memory());
    for turn in 0..10_000 {
        let mut raw = Raw::new(&socket);
        match turn % 4 {
            0 => {}
            1 => raw.send(&Up::Hello { version: VERSION, only_looks: true, resumes: false }, &[]),
            2 => drop(Raw::joined(&socket)),
            _ => {
                raw.send(&Up::Fetch(1), &[]);
                let down = raw.receive();
                assert!(matches!(down, None | Some(Down::Refused(_))), "{down:?}");
            }
        }
    }
    // As many as there may be of one process, and one more.
    let all: Vec<Raw> = (0..20).map(|_| Raw::new(&socket)).collect();
    let mut last = Raw::new(&socket);
    assert!(matches!(last.receive(), Some(Down::Refused(Rejection::TooMany { .. }))));
    drop((all, last));
    let mut after = descriptors();
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(10));
        after = descriptors();
        if after <= before + 2 {
            break;
        }
    }
    assert!(after <= before + 2, "{before} descriptors, then {after}");
    serves(&socket);
    assert!(memory() < at_first + 4096, "{at_first} KiB, then {}", memory());
    let books = Observer::connect(&socket).unwrap().snapshot().unwrap();
    assert_eq!(books.jobs, [], "{books}");
    // Its standard input ends, and so does it.
    drop(broker.stdin.take());
    assert!(broker.wait().unwrap().success());
    let _ = std::fs::remove_dir_all(folder);
}
