//! What clients may send a broker, and what has to hold of it whatever they send.
//!
//! No request makes it panic. What it has created is never more than its budget. A region that one
//! job has leased no other gets while that one's client has not given it back and is not gone, and
//! another user's never gets its memory. And when all clients are gone, everything is nobody's.

use std::collections::BTreeMap;
use std::sync::Arc;

use zico_core::broker::{Broker, Client, Reply, Request, Store};
use zico_core::{Bytes, Caps, JobId, PoolConfig, Ticks};
use zico_node::wire::{Assembler, Down, Up};

const REGION: Bytes = Bytes::mib(2);
const REGIONS: u32 = 12;

/// Memory that is counted and nothing else. A create fails now and then.
#[derive(Default)]
struct Counted {
    created: u32,
    /// The user whose jobs have had a region's memory.
    users: BTreeMap<u32, u32>,
    calls: u32,
}

impl Store for Counted {
    fn create(&mut self, _: u32) -> Result<(), Arc<str>> {
        self.calls += 1;
        if self.calls.is_multiple_of(17) {
            return Err("no memory".into());
        }
        self.created += 1;
        assert!(self.created <= REGIONS, "more memory than the budget");
        Ok(())
    }

    fn destroy(&mut self, region: u32) -> Result<(), Arc<str>> {
        self.users.remove(&region);
        self.created -= 1;
        Ok(())
    }
}

/// A broker and its clients, to which anything may be sent.
pub struct Sent {
    broker: Broker<Counted>,
    clients: Vec<Client>,
    users: BTreeMap<Client, u32>,
    jobs: Vec<JobId>,
    /// Who has been granted which region last, and has not been cut off.
    leased: BTreeMap<u32, (JobId, Client)>,
    now: u64,
}

impl Default for Sent {
    fn default() -> Self {
        Self::new()
    }
}

impl Sent {
    /// A broker with no client.
    ///
    /// # Panics
    /// Never: the budget can be.
    #[must_use]
    pub fn new() -> Self {
        let caps = Caps::new(REGION, Bytes::gib(1));
        let budget = Bytes::new(REGION.value() * u64::from(REGIONS));
        let config = PoolConfig::new(budget).region_size(REGION);
        let broker = config.broker::<_, ()>(caps, Counted::default());
        let Ok(broker) = broker else { unreachable!("the budget can be") };
        Self {
            broker,
            clients: Vec::new(),
            users: BTreeMap::new(),
            jobs: Vec::new(),
            leased: BTreeMap::new(),
            now: 0,
        }
    }

    /// One step: a client comes, goes, or sends a request about one of the jobs there are.
    ///
    /// # Panics
    /// If something does not hold.
    pub fn step(&mut self, who: u8, job: u8, request: Option<Request>) {
        self.now += 1000;
        let now = Ticks::new(self.now);
        if self.clients.len() < 3 {
            let user = u32::from(who % 2);
            let client = self.broker.connect(user);
            self.users.insert(client, user);
            self.clients.push(client);
        }
        let at = usize::from(who) % self.clients.len();
        let client = self.clients[at];
        // The budget is the broker's owner's to change.
        let request = request.filter(|request| !matches!(request, Request::SetBudget(_)));
        let Some(request) = request else {
            if job.is_multiple_of(2) {
                self.broker.cut_off(client, now);
            } else {
                self.gone(at, now);
            }
            return;
        };
        let job = match job {
            0..64 => None,
            _ if self.jobs.is_empty() => Some(JobId::from_number(u64::from(job))),
            _ => Some(self.jobs[usize::from(job) % self.jobs.len()]),
        };
        let given_back = matches!(
            request,
            Request::GiveBack(..)
                | Request::Leave
                | Request::Settle { .. }
                | Request::Offer(_)
                | Request::Suspend
                | Request::Send(..)
        );
        match self.broker.handle(client, job, request, now) {
            Ok(Some(Reply::Joined(job))) => self.jobs.push(job),
            Ok(Some(Reply::Granted(order))) => {
                for (_, region) in order.map {
                    let user = self.users[&client];
                    let before = self.broker.store_mut().users.insert(region, user);
                    assert!(
                        before.is_none_or(|before| before == user),
                        "region {region} of another user"
                    );
                    let owner = job.map(|job| (job, client));
                    let other = owner.and_then(|owner| self.leased.insert(region, owner));
                    let is_anothers = other.is_some_and(|(other, _)| Some(other) != job);
                    assert!(!is_anothers, "region {region} of {other:?} granted to {job:?}");
                }
            }
            // What exactly comes back is the books' own business, and may be had by others from
            // then on.
            Ok(_) if given_back => self.leased.retain(|_, (other, _)| Some(*other) != job),
            Ok(_) => {}
            Err(_) => self.broker.cut_off(client, now),
        }
        self.broker.look(now);
        let books = self.broker.snapshot();
        assert!(
            books.held <= books.budget.at_least(Bytes::new(REGION.value() * u64::from(REGIONS)))
        );
    }

    fn gone(&mut self, at: usize, now: Ticks) {
        let client = self.clients.swap_remove(at);
        self.broker.gone(client, now);
        self.leased.retain(|_, (_, owner)| *owner != client);
    }

    /// All clients go.
    ///
    /// # Panics
    /// If something is somebody's then.
    pub fn finish(mut self) {
        let now = Ticks::new(self.now + 1);
        while !self.clients.is_empty() {
            self.gone(0, now);
        }
        let books = self.broker.snapshot();
        assert!(books.jobs.is_empty() && books.free == books.held, "{books}");
        self.broker.trim(Bytes::ZERO);
        assert_eq!(self.broker.store().created, 0, "all of it is given back");
    }
}

/// Messages of any bytes are messages or faults, in both directions; and what is a request the
/// broker survives.
///
/// # Panics
/// If something does not hold.
pub fn bytes(bytes: &[u8]) {
    let (mut up, mut down) = (Assembler::new(1 << 16), Assembler::new(1 << 16));
    let mut sent = Sent::new();
    // Each packet: who sends it, about which job, its length, its bytes.
    let mut rest = bytes;
    while let [who, job, len, after @ ..] = rest {
        let (packet, next) = after.split_at(usize::from(*len).min(after.len()));
        rest = next;
        // What the broker says is read by clients.
        let _ = down.push::<Down>(packet);
        match up.push::<Up>(packet) {
            Ok(Some(Up::Request(_, request))) => sent.step(*who, *job, Some(request)),
            Ok(_) => {}
            Err(_) => {
                sent.step(*who, *job, None);
                up = Assembler::new(1 << 16);
            }
        }
    }
    sent.finish();
}
