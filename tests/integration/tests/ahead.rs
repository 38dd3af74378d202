//! What is leased before it is asked for, and what is told later than it could be, while the
//! process hears that others wait.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::sync::atomic::{AtomicU64, Ordering};

use zico_core::{AllocError, Begin, Block, Bytes, Job, JobConfig, Lifetime, PoolConfig, Request};
use zico_mock::policy::AlwaysStart;
use zico_mock::{Claim, MockBroker, MockClient, MockConfig, MockDevice, MockStream};

const REGION: Bytes = Bytes::mib(2);
const REGIONS: u64 = 48;

struct Tenant {
    device: MockDevice,
    client: MockClient,
    job: Job<MockDevice>,
    stream: MockStream,
    owner: u32,
    held: Vec<(Block, Claim)>,
}

impl Tenant {
    fn new(device: &MockDevice, broker: &MockBroker, name: &str) -> Self {
        let (client, stream) = (broker.connect().unwrap(), device.add_stream());
        let job = client.pool().join(JobConfig::new(name).without_plans(), stream).unwrap();
        let owner = u32::from(name == "b");
        Self { device: device.clone(), client, job, stream, owner, held: Vec::new() }
    }

    /// Whether a block of so many regions can be had now.
    fn alloc(&mut self, regions: u64) -> bool {
        let request = Request::new(Bytes::new(regions * REGION.value()), Lifetime::Iteration);
        let block = match self.job.alloc(request) {
            Ok(block) => block,
            Err(AllocError::Busy(_)) => return false,
            Err(error) => panic!("{error}"),
        };
        let (at, len) = (block.address(), block.bytes());
        let claim = self.device.own(self.stream, self.owner, at, len).unwrap();
        self.held.push((block, claim));
        true
    }

    fn free_all(&mut self) {
        while self.free_last() {}
    }

    /// Whether there was a block.
    fn free_last(&mut self) -> bool {
        let Some((block, claim)) = self.held.pop() else { return false };
        self.device.disown(self.stream, claim).unwrap();
        self.job.free(block).unwrap();
        true
    }

    /// Frees the last blocks. How many messages the broker has got meanwhile.
    fn free_and_count(&mut self, blocks: usize, broker: &MockBroker) -> u64 {
        let before = broker.messages();
        assert!((0..blocks).all(|_| self.free_last()));
        broker.messages() - before
    }

    fn begin(&self) {
        assert_eq!(self.job.begin(None), Ok(Begin::Started));
    }

    fn end(&mut self) {
        self.free_all();
        self.job.end().unwrap();
        self.device.run_until_idle();
        self.client.serve();
        self.client.pool().poll().unwrap();
    }
}

/// A broker of so many regions that lets everybody start.
fn under(regions: u64) -> (MockDevice, MockBroker) {
    let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let budget = Bytes::new(regions * REGION.value());
    let pool = PoolConfig::new(budget).region_size(REGION).policy(Box::new(AlwaysStart));
    let broker = MockBroker::new(device.clone(), pool).unwrap();
    (device, broker)
}

/// A block needs pages of which some have been leased ahead. While the broker is asked for the
/// others, the process hears that somebody waits, and gives back what it has been leased ahead: not
/// what it asks with.
#[test]
fn what_is_asked_for_is_not_given_back_meanwhile() {
    let (device, broker) = under(REGIONS);
    let mut one = Tenant::new(&device, &broker, "a");
    let mut two = Tenant::new(&device, &broker, "b");
    let mut fewest = u64::MAX;
    for rise in 2..24 {
        // A wave that rises by a region at a time, and so is known.
        for _ in 0..4 {
            one.begin();
            let before = broker.messages();
            (0..32).for_each(|_| assert!(one.alloc(1)));
            fewest = fewest.min(broker.messages() - before);
            one.end();
        }
        one.begin();
        (0..rise).for_each(|_| assert!(one.alloc(1)));
        // The other one asks for more than there is, and waits. The first one has yet to hear of
        // it.
        two.begin();
        assert!(!two.alloc(REGIONS - 1));
        one.client.hear_while_asking(|| true);
        let has_six = one.alloc(6);
        one.client.hear_while_asking(|| false);
        one.client.serve();
        // The broker's books have all that is in use, once the device has passed what is not.
        device.run_until_idle();
        one.client.pool().poll().unwrap();
        let used = REGION.value() * (rise + if has_six { 6 } else { 0 });
        assert!(one.job.held().iteration.value() >= used, "at a rise of {rise}");
        one.end();
        // It is content with less, and nobody waits any more.
        assert!(two.alloc(1));
        two.end();
        assert_eq!(device.violations(), [], "at a rise of {rise}");
        assert_eq!(broker.violations(), [], "at a rise of {rise}");
    }
    // Six of them tell of marks.
    assert!(fewest < 6 + 20, "32 leases with {fewest} messages");
}

/// A job has been leased some ahead, and asks elsewhere for more than there is beside that:
/// it is not out of memory, but gives the former back.
#[test]
fn what_has_been_leased_ahead_gives_way_to_what_is_asked_for() {
    let (device, broker) = under(16);
    let mut one = Tenant::new(&device, &broker, "a");
    one.begin();
    (0..7).for_each(|_| assert!(one.alloc(1)));
    // The last one stays where it is: before it there is no place for a large block.
    let kept = one.held.pop().unwrap();
    one.end();
    for _ in 0..4 {
        one.begin();
        (0..5).for_each(|_| assert!(one.alloc(1)));
        // A long iteration, of which these five are the beginning.
        (0..150).for_each(|_| assert!(one.alloc(1) && one.free_last()));
        one.end();
    }
    one.begin();
    assert!(one.alloc(1));
    let leased = one.job.held().iteration.value() / REGION.value();
    assert!(leased > 3, "{leased} regions: nothing is leased ahead");
    assert!(one.alloc(13));
    one.held.push(kept);
    one.end();
    assert_eq!((device.violations(), broker.violations()), (vec![], vec![]));
}

/// What a running job gives back while nobody waits is told with its next question, or when there
/// is much of it; who comes to wait has it as soon as the process hears of that, and from then on
/// at once.
#[test]
fn what_nobody_waits_for_is_told_together() {
    let (device, broker) = under(REGIONS);
    let mut one = Tenant::new(&device, &broker, "a");
    let mut two = Tenant::new(&device, &broker, "b");
    for (tenant, regions) in [(&mut one, 30), (&mut two, 20)] {
        for _ in 0..4 {
            tenant.begin();
            (0..regions).for_each(|_| assert!(tenant.alloc(1)));
            tenant.end();
        }
    }
    one.begin();
    (0..30).for_each(|_| assert!(one.alloc(1)));
    // A fence for each 8 MiB, of which the broker hears nothing yet.
    assert_eq!(one.free_and_count(15, &broker), 0);
    device.run_until_idle();
    two.begin();
    let granted = (0..20).take_while(|_| two.alloc(1)).count();
    assert!(granted < 20, "the broker has heard of what was given back");
    one.client.serve();
    one.client.pool().poll().unwrap();
    (granted..20).for_each(|_| assert!(two.alloc(1)));
    // Somebody waits: each is told as it is given back, and what it is fenced by.
    assert!(!two.alloc(14));
    one.client.serve();
    assert_eq!(one.free_and_count(4, &broker), 5);
    device.run_until_idle();
    one.client.pool().poll().unwrap();
    assert!(two.alloc(14));
    two.end();
    one.end();
    assert_eq!((device.violations(), broker.violations()), (Vec::new(), Vec::new()));
}

/// A job that frees for long and asks nothing: the broker is not left behind by more than some
/// messages.
#[test]
fn much_that_nobody_waits_for_is_told_all_the_same() {
    let (device, broker) = under(400);
    let mut one = Tenant::new(&device, &broker, "a");
    one.begin();
    (0..300).for_each(|_| assert!(one.alloc(1)));
    // 75 fences, and what each of them is of: 32 of both at a time.
    let told = one.free_and_count(300, &broker);
    assert!((100..150).contains(&told), "{told}");
    one.end();
    assert_eq!((device.violations(), broker.violations()), (Vec::new(), Vec::new()));
}

/// The thread that hears the broker needs the locks of jobs: no call holds one while it asks.
#[test]
fn no_call_asks_with_a_lock_that_the_hearing_thread_needs() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
        let budget = Bytes::new(REGIONS * REGION.value());
        let broker =
            MockBroker::new(device.clone(), PoolConfig::new(budget).region_size(REGION)).unwrap();
        let mut tenant = Tenant::new(&device, &broker, "a");
        let side = device.add_stream();
        let (heard, count) = (std::sync::Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
        let hears = heard.clone();
        tenant.client.hear_while_asking(move || {
            hears.fetch_add(1, Ordering::Relaxed);
            true
        });
        // Each of these asks, so that there is a moment to hear in.
        let asks = |what: &str| {
            let now = heard.load(Ordering::Relaxed);
            assert!(now > count.swap(now, Ordering::Relaxed), "{what} asks nothing");
        };
        for turn in 1..4 {
            tenant.begin();
            asks("begin");
            assert!(tenant.alloc(3));
            asks("alloc");
            tenant.job.record_use(tenant.held[0].0, side).unwrap();
            assert_eq!(tenant.job.snapshot().name.as_ref(), "a");
            asks("snapshot");
            assert_eq!(tenant.job.live_blocks().blocks.len(), 1);
            asks("live_blocks");
            assert!(!tenant.job.held().total().is_zero());
            asks("held");
            let _ = tenant.job.profile();
            asks("profile");
            assert_eq!(tenant.client.pool().snapshot().jobs.len(), 1);
            asks("the pool's snapshot");
            assert_eq!(tenant.client.pool().waits().len(), 0);
            asks("waits");
            tenant.client.pool().trim(Bytes::ZERO).unwrap();
            tenant.end();
            asks("end");
            // Blocks of a job at rest are looked at by whoever polls.
            assert_eq!(tenant.job.snapshot().iterations, turn);
            asks("snapshot at rest");
            assert_eq!(tenant.job.live_blocks().blocks.len(), 0);
            asks("live_blocks at rest");
        }
        tenant.client.pool().set_budget(budget).unwrap();
        asks("set_budget");
        tenant.job.leave();
        asks("leave");
        done.send(()).unwrap();
    });
    let minute = std::time::Duration::from_secs(60);
    assert!(is_done.recv_timeout(minute).is_ok(), "a call waits for its own lock, or failed");
}
