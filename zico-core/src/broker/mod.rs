//! The pool's books for jobs of several processes, as a state machine: requests of clients in,
//! replies and notices out.
//!
//! A [`Broker`] owns the ledger and the physical memory, and maps none of it. Each client is a
//! process that has a device of its own; what its jobs ask for it sends as [`Request`]s, and what
//! the ledger answers comes back as [`Reply`]s. The client's device does the mapping. The broker
//! has no socket, no clock and no thread; whoever has them calls it.
//!
//! What a client says of its own jobs is checked for what the books need: a request that no correct
//! client makes is a [`Violation`], after which the client is to be cut off. A client that has been
//! cut off, or has died, keeps what it held charged until it is [proven gone](Broker::gone).

mod away;
mod clients;
mod leases;
mod link;
pub(crate) mod message;
mod recovery;
mod requests;
mod revoke;
mod violation;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::ledger::{Departed, Ledger, Retired, WorkOrder};
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::error::BudgetError;
use crate::types::pace::Pace;
use crate::types::report::{BudgetStatus, Snapshot};
use crate::types::sync::Arc;
use crate::types::units::{Bytes, Progress, Ticks};
use crate::types::waits::Waiting;
use crate::types::zone::Zone;

pub use crate::types::error::NotSuspended;
pub use crate::types::pulse::{Pulse, Reading};
pub use crate::types::want::Told;
pub use clients::Client;
pub use link::{Fetch, Link, Offers};
pub use message::{Lease, Notice, Offered, Order, Outline, Refusal, Reply, Request, Seen, Usage};
pub use violation::Violation;

/// The physical memory of regions, by number: what the broker holds of the device.
pub trait Store {
    /// Allocates the memory of a region that has none.
    ///
    /// # Errors
    /// If the device has none or refuses, and why. Nothing has changed then.
    fn create(&mut self, region: u32) -> Result<(), Arc<str>>;

    /// Gives the memory of a region back.
    ///
    /// # Errors
    /// If the device refuses, and why. The memory is still there then, and this is called again
    /// later.
    fn destroy(&mut self, region: u32) -> Result<(), Arc<str>>;
}

/// What the broker knows of one job beside the books.
struct Seat {
    client: Client,
    /// The work order of its last lease, until that is settled.
    order: Option<(Zone, WorkOrder)>,
    /// Its fences that have not completed, the oldest first: the client's number, the ledger's.
    fences: VecDeque<(u64, u64)>,
    /// The highest number of a fence so far.
    last: u64,
    /// It comes from a broker before this one, and has yet to tell all that it has.
    is_offering: bool,
    /// Its client has told that it is mapped nowhere, or is gone.
    is_unmapped: bool,
    /// Since when it is to give way, as its client has been told.
    called: Option<Ticks>,
}

/// A region whose memory is to go as soon as no client has it mapped.
struct Revocation {
    retired: Retired,
    /// Who has yet to release it.
    by: BTreeSet<Client>,
}

/// The books of one pool for jobs of several processes. See the [module](self).
pub struct Broker<S> {
    ledger: Ledger,
    store: S,
    region: Bytes,
    capacity: Bytes,
    /// The pages of a zone.
    pages: u64,
    seats: BTreeMap<JobKey, Seat>,
    clients: BTreeMap<Client, clients::State>,
    next: Client,
    /// Who has a handle of a region's memory.
    imports: BTreeMap<u32, BTreeSet<Client>>,
    revocations: Vec<Revocation>,
    /// Addresses of jobs that have left, which are to be cleared up when their client has done so.
    departed: Vec<Departed>,
    pressure: bool,
    /// The user of the last client that has come, and whether all have been of one: else some
    /// memory may be another one's.
    user: Option<u32>,
    has_users: bool,
    /// Clients of the broker before this one have yet to say what they have: nobody gets anything.
    is_recovering: bool,
    /// Jobs of theirs that were to go to the host and stay there.
    held_before: BTreeSet<JobKey>,
}

impl<S: Store> Broker<S> {
    pub(crate) fn new(ledger: Ledger, capacity: Bytes, pages: u64, store: S) -> Self {
        Self {
            region: ledger.region(),
            ledger,
            store,
            capacity,
            pages,
            seats: BTreeMap::new(),
            clients: BTreeMap::new(),
            next: Client::FIRST,
            imports: BTreeMap::new(),
            revocations: Vec::new(),
            departed: Vec::new(),
            pressure: false,
            user: None,
            has_users: false,
            is_recovering: false,
            held_before: BTreeSet::new(),
        }
    }

    /// The size of a region.
    #[must_use]
    pub fn region_size(&self) -> Bytes {
        self.region
    }

    /// The memory of the device.
    #[must_use]
    pub fn capacity(&self) -> Bytes {
        self.capacity
    }

    /// The budget: whole regions.
    #[must_use]
    pub fn budget(&self) -> Bytes {
        self.ledger.budget()
    }

    /// The physical memory.
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The same, to change it.
    #[must_use]
    pub const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// The books as they stand. O(jobs).
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.ledger.snapshot()
    }

    /// The jobs that wait, and for whom. O(jobs^2 log jobs).
    #[must_use]
    pub fn waits(&self) -> Vec<Waiting> {
        self.ledger.waits()
    }

    /// How far the budget is from what it is to be.
    #[must_use]
    pub fn budget_status(&self) -> BudgetStatus {
        self.ledger.budget_status()
    }

    /// Changes the budget, as [`Pool::set_budget`](crate::Pool::set_budget). Memory goes back as
    /// clients release it.
    ///
    /// # Errors
    /// If the budget cannot be, or is to be lower while clients of the broker before this one have
    /// yet to tell what they have; nothing has changed then.
    pub fn set_budget(&mut self, budget: Bytes) -> Result<BudgetStatus, BudgetError> {
        if self.is_recovering && budget < self.budget() {
            return Err(BudgetError::Recovering);
        }
        self.ledger.set_target(budget, self.capacity)?;
        while self.ledger.open_up() {}
        self.pump();
        Ok(self.budget_status())
    }

    /// Holds a job's progress to a rate, as [`Pool::set_pace`](crate::Pool::set_pace). Whether the
    /// job is there. A client that leases ahead of its wave asks less often, and so is further off.
    pub fn set_pace(&mut self, job: JobId, pace: Option<Pace>, now: Ticks) -> bool {
        let is_there = self.ledger.set_pace(job.0, pace, now);
        self.pump();
        is_there
    }

    /// Has a job that takes turns go to the host as soon as it runs no iteration, and stay there until
    /// it is said otherwise. A broker that comes after this one has to be [told](Self::await_held).
    ///
    /// # Errors
    /// If there is no such job, it takes no turns, or could not be sure to come back.
    pub fn hold(&mut self, job: JobId, held: bool) -> Result<(), NotSuspended> {
        if self.is_recovering {
            return Err(NotSuspended::Recovering);
        }
        let done = self.ledger.hold(job.0, held);
        self.pump();
        done
    }

    /// Takes over what a job's pulse says. To be called for all jobs before a request is handled:
    /// policies see each job at its own progress.
    pub fn observe(&mut self, job: JobId, read: Reading) {
        if let Some(pulse) = self.ledger.pulse(job.0) {
            pulse.take(read);
        }
    }

    /// The progress from which on a job's client is to [tell](Request::Reached) that it has come so
    /// far: to be put into the job's pulse after a request has been handled.
    #[must_use]
    pub fn watched(&self, job: JobId) -> Progress {
        self.ledger.pulse(job.0).map_or(Progress::MAX, Pulse::watched)
    }

    /// Looks at the jobs that others wait for. To be called now and then while somebody waits: that
    /// others lose patience with a job that does nothing is seen here only, and that one which
    /// its pace has held up may go on.
    pub fn look(&mut self, now: Ticks) {
        self.spare_overdue(now);
        self.ledger.look(now);
        self.pump();
    }

    /// When to [look](Self::look) next if nothing else happens: a turn is over for which somebody
    /// waits, a pace lets its job go on, or a job that should have given way is waited for no
    /// longer.
    #[must_use]
    pub fn look_at(&self) -> Option<Ticks> {
        let of_ledger = [self.ledger.rests_until(), self.ledger.turns_at()];
        of_ledger.into_iter().chain([self.next_overdue()]).flatten().min()
    }

    /// Whether some job waits, to start or for memory.
    #[must_use]
    pub const fn has_waiting(&self) -> bool {
        self.pressure
    }

    /// Does what has become possible, and notes for the clients what they are to be told.
    fn pump(&mut self) {
        self.clear_departed();
        self.shrink();
        self.call_upon();
        if self.ledger.take_wake() {
            self.clients.values_mut().for_each(clients::State::note_change);
        }
        let pressure = self.ledger.has_waiting();
        if core::mem::replace(&mut self.pressure, pressure) != pressure {
            self.clients.values_mut().for_each(|client| client.note_pressure(pressure));
        }
    }

    /// Clears up the addresses of jobs that have left, where their client has no mapping any more.
    fn clear_departed(&mut self) {
        self.departed.extend(self.ledger.take_departed());
        let seats = &self.seats;
        let is_done = |arena: &Departed| {
            arena.is_empty() || seats.get(&arena.job).is_none_or(|seat| seat.is_unmapped)
        };
        let (done, left): (Vec<_>, Vec<_>) = self.departed.drain(..).partition(is_done);
        self.departed = left;
        let count = done.len();
        for mut arena in done {
            let pages = arena.mapped();
            self.ledger.clear(&mut arena, &pages);
        }
        self.ledger.cleared(count, Vec::new());
        let (ledger, departed, clients) = (&self.ledger, &self.departed, &self.clients);
        self.seats.retain(|&job, seat| {
            let is_heard = clients.get(&seat.client).is_some_and(clients::State::is_heard);
            // One that is heard has yet to tell that the job has departed.
            (is_heard && !seat.is_unmapped)
                || ledger.knows(job)
                || departed.iter().any(|arena| arena.job == job)
        });
    }
}
