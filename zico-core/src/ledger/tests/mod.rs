//! The books alone, without a device: what is granted, what drains, who starts, who is refused.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::account::Account;
use super::lease::{Denied, Done, WorkOrder};
use super::{Ledger, Place, Rules};
use crate::learn::signature::Signature;
use crate::policy::{Policy, TimeShift, Verdict, View};
use crate::types::JobKey;
use crate::types::config::{HandOver, JobConfig, Terms};
use crate::types::error::BeginError;
use crate::types::pulse::Pulse;
use crate::types::report::Begin;
use crate::types::sync::Arc;
use crate::types::units::{Bytes, Ticks};
use crate::types::want::{Told, Want};
use crate::types::zone::Zone;

mod admission;
mod adopt;
mod ahead;
mod budget;
mod coming_back;
mod fences;
mod going_on;
mod in_all;
mod interrupt;
mod iterations;
mod lagging;
mod learned;
mod leases;
mod moving;
mod pace;
mod quota;
mod refusals;
mod reports;
mod retiring;
mod tickets;
mod turns;
mod users;
mod varying;

/// A page.
const PAGE: Bytes = Bytes::mib(1);

/// Every iteration starts when it likes.
struct Always;

impl Policy for Always {
    fn name(&self) -> &'static str {
        "always"
    }

    fn decide(&mut self, _: &View<'_>) -> Verdict {
        Verdict::Start
    }
}

/// One iteration at a time.
struct Alone;

impl Policy for Alone {
    fn name(&self) -> &'static str {
        "alone"
    }

    fn decide(&mut self, _: &View<'_>) -> Verdict {
        Verdict::AfterAnEnd
    }
}

/// The books of a small pool, with pages of a mebibyte, and a clock.
struct Books {
    ledger: Ledger,
    pulses: Vec<(JobKey, Arc<Pulse>)>,
    now: Ticks,
}

impl Books {
    fn new(regions: u32) -> Self {
        Self::under(regions, Always, HandOver::Fenced)
    }

    fn shifting(regions: u32) -> Self {
        Self::under(regions, TimeShift::default(), HandOver::Fenced)
    }

    fn under(regions: u32, policy: impl Policy + 'static, hand_over: HandOver) -> Self {
        let patience = Ticks::new(1000);
        let rules = Rules { page_bytes: PAGE.value(), hand_over, fewest_calls: false, patience };
        let ledger = Ledger::new(regions, Box::new(policy), &rules);
        Self { ledger, pulses: Vec::new(), now: Ticks::ZERO }
    }

    /// A job joins, if it is let in.
    fn try_join(&mut self, config: JobConfig) -> Option<JobKey> {
        let key = self.ledger.new_key();
        let pulse = Arc::new(Pulse::new());
        let terms = Terms::new::<()>(&config, PAGE).unwrap();
        let account = Account::new(config.name.into(), pulse.clone(), terms);
        self.pulses.push((key, pulse));
        self.ledger.join(key, account).then_some(key)
    }

    fn join(&mut self, name: &str) -> JobKey {
        self.try_join(JobConfig::new(name)).unwrap()
    }

    /// The job makes an allocation or a free.
    fn tick(&mut self, job: JobKey) {
        self.now = self.now.saturating_add(Ticks::new(1));
        let (_, pulse) = self.pulses.iter().find(|(key, _)| *key == job).unwrap();
        pulse.tick();
    }

    /// Asks for pages, the job's word being that they live so long.
    fn ask(&mut self, job: JobKey, zone: Zone, pages: &[u64]) -> Result<WorkOrder, Denied> {
        self.ask_told(job, zone, pages, Told::ByTheJob, false)
    }

    fn ask_told(
        &mut self,
        job: JobKey,
        zone: Zone,
        pages: &[u64],
        told: Told,
        last: bool,
    ) -> Result<WorkOrder, Denied> {
        let asked = Bytes::new(pages.len() as u64 * PAGE.value());
        let want = Want { zone, pages: pages.to_vec(), planned: false, asked, told };
        self.ledger.lease(job, &want, last, self.now)
    }

    /// The device carries out all of an order.
    fn settle(&mut self, job: JobKey, zone: Zone, order: &WorkOrder) {
        let (unmapped, created) = (order.unmap.len(), order.create.len());
        let done = Done { unmapped, created, mapped: order.map.len() };
        self.ledger.settle(job, zone, order, &done, self.now);
    }

    /// Leases pages, and says what the device had to do: how often it unmapped, created, mapped.
    fn lease(&mut self, job: JobKey, zone: Zone, pages: &[u64]) -> (usize, usize, usize) {
        let order = self.ask(job, zone, pages).ok().unwrap();
        self.settle(job, zone, &order);
        self.tick(job);
        (order.unmap.len(), order.create.len(), order.map.len())
    }

    /// Whether pages could be had now. They are not taken.
    fn is_denied(&mut self, job: JobKey, zone: Zone, pages: &[u64]) -> bool {
        matches!(self.ask(job, zone, pages), Err(Denied::Busy(_)))
    }

    /// Gives pages back.
    fn give(&mut self, job: JobKey, zone: Zone, pages: &[u64]) -> bool {
        self.ledger.give_back(job, zone, pages.iter().copied());
        self.tick(job);
        self.ledger.note_given(job, zone, self.now)
    }

    /// Fences what a job has given back. The number of the batch.
    fn fence(&mut self, job: JobKey) -> Option<u64> {
        let batch = self.ledger.close_batch(job)?;
        let number = batch.number;
        self.ledger.fenced(job, batch);
        Some(number)
    }

    /// Gives pages back, and the device is done with them.
    fn give_for_good(&mut self, job: JobKey, zone: Zone, pages: &[u64]) {
        self.give(job, zone, pages);
        let batch = self.fence(job).unwrap();
        assert_eq!(self.ledger.completed(job, batch, self.now), Some(true));
    }

    fn begin(&mut self, job: JobKey) -> Result<Begin, BeginError> {
        let begun = self.ledger.begin(job, None, self.now);
        if begun == Ok(Begin::Started) {
            // The heap starts its count anew in the ledger's stead.
            self.tick(job);
        }
        begun
    }

    fn start(&mut self, job: JobKey) {
        assert_eq!(self.begin(job), Ok(Begin::Started));
    }

    fn end(&mut self, job: JobKey) {
        self.end_with(job, false);
    }

    fn end_with(&mut self, job: JobKey, is_followed: bool) {
        self.end_as(job, Signature::default(), is_followed);
    }

    /// The same of an iteration that has made these allocations.
    fn end_as(&mut self, job: JobKey, signature: Signature, is_followed: bool) {
        self.tick(job);
        self.ledger.end(job, self.now, signature, is_followed).unwrap();
    }

    /// A job runs an iteration that takes so many pages at its peak.
    fn iterate(&mut self, job: JobKey, pages: u64) {
        let pages: Vec<u64> = (0..pages).collect();
        self.start(job);
        self.lease(job, Zone::Iteration, &pages[..1]);
        self.lease(job, Zone::Iteration, &pages[1..]);
        self.give_for_good(job, Zone::Iteration, &pages);
        self.end(job);
    }

    /// Free regions, leased ones and draining ones, which come to the limit where nothing is
    /// closed.
    fn state(&self) -> (usize, u32, u32) {
        let accounts = || self.ledger.accounts.values();
        let leased = accounts().map(Account::leased_total).sum();
        let draining = accounts().map(|account| account.draining).sum();
        (self.ledger.regions.free_count(), leased, draining)
    }

    fn woken(&mut self) -> bool {
        self.ledger.take_wake()
    }
}
