//! What a connection says, and what it is answered.

use std::os::fd::OwnedFd;

use zico_core::BudgetError;
use zico_core::broker::{NotSuspended, Reply, Request};
use zico_cuda::Physical;

use super::Server;
use super::session::{End, Role, Session, Works};
use crate::wire::{Down, Fault, Rejection, Up, VERSION, Welcome};

impl<D: Physical> Server<D> {
    pub(super) fn handle(
        &mut self,
        key: u64,
        up: Up,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), End> {
        let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
        if let (Role::New, &Up::Hello { version, only_looks, resumes }) = (&session.role, &up) {
            let greeted = self.greet(key, version, only_looks, descriptors);
            if let (true, Some(session)) = (greeted.is_ok(), self.sessions.get(&key))
                && session.works().is_some()
            {
                self.note_connection(key, session.peer.pid, resumes);
            }
            return greeted.or_else(|rejection| self.reject(key, rejection));
        }
        if let (Role::Works(works), &Up::HandIn(region)) = (&session.role, &up) {
            let client = works.client;
            return self.take_in(key, client, region, &descriptors);
        }
        if !descriptors.is_empty() {
            let found = descriptors.len();
            return Err(End::Fault(Fault::Descriptors { found, expected: 0 }));
        }
        match (&mut session.role, up) {
            (Role::Looks | Role::Works(_), Up::Request(None, Request::SetBudget(_)))
                if !session.peer.may_govern() =>
            {
                let reply = Reply::NoBudget(BudgetError::NotTheOwner);
                session.answer(&Down::Reply(reply), None)
            }
            (Role::Looks | Role::Works(_), Up::Request(None, Request::Hold { .. }))
                if !session.peer.may_govern() =>
            {
                let reply = Reply::Suspended(Err(NotSuspended::NotTheOwner));
                session.answer(&Down::Reply(reply), None)
            }
            (Role::Looks, Up::Request(None, request)) => self.look(key, &request),
            (Role::Works(works), Up::Slot(job, slot)) => {
                let jobs = self.broker.jobs(works.client);
                works.seat(job, slot, &jobs).map_err(End::Fault)
            }
            (Role::Works(_), Up::Recovered(connections)) => {
                session.has_told = true;
                let pid = session.peer.pid;
                self.has_told(pid, connections);
                Ok(())
            }
            (Role::Works(works), Up::Fetch(region)) => {
                let may = self.broker.may_fetch(works.client, region);
                let descriptor = if may { self.broker.store().export(region) } else { None };
                session.answer(&Down::Memory(descriptor.is_some()), descriptor)
            }
            (Role::Works(works), Up::Request(job, request)) => {
                let (client, now) = (works.client, self.now());
                self.observe();
                let reply = self.broker.handle(client, job, request, now);
                self.watch();
                let reply = reply.map_err(End::Violation)?;
                let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
                reply.map_or(Ok(()), |reply| session.answer(&Down::Reply(reply), None))
            }
            _ => Err(End::Fault(Fault::Order)),
        }
    }

    /// Lets a client in, if it is one.
    fn greet(
        &mut self,
        key: u64,
        version: u32,
        only_looks: bool,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(), Rejection> {
        let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
        if version != VERSION {
            return Err(Rejection::Version { client: version, broker: VERSION });
        }
        let (found, expected) = (descriptors.len(), if only_looks { 0 } else { 2 });
        if found != expected {
            return Err(Rejection::Hello(Fault::Descriptors { found, expected }));
        }
        let mut descriptors = descriptors.into_iter();
        session.role = match (descriptors.next(), descriptors.next()) {
            (Some(page), Some(notices)) => {
                let client = self.broker.connect(session.peer.user);
                match Works::new(client, &page, notices) {
                    Ok(works) => Role::Works(works),
                    Err(fault) => {
                        let now = self.now();
                        self.broker.gone(client, now);
                        return Err(Rejection::Hello(fault));
                    }
                }
            }
            _ => Role::Looks,
        };
        let welcome = Down::Welcome(Welcome {
            region: self.broker.region_size(),
            capacity: self.broker.capacity(),
            device: self.device.clone(),
            awaits: self.awaited.iter().map(|awaited| awaited.pid).collect(),
        });
        // One that has gone by now is found out at its next turn.
        let _ = session.answer(&welcome, None);
        Ok(())
    }

    fn reject(&mut self, key: u64, rejection: Rejection) -> Result<(), End> {
        if let Some(session) = self.sessions.get_mut(&key) {
            let _ = session.answer(&Down::Refused(rejection), None);
        }
        Err(End::HungUp)
    }

    /// What somebody asks who has no jobs.
    fn look(&mut self, key: u64, request: &Request) -> Result<(), End> {
        let reply = match request {
            Request::Pool => Reply::Pool(self.broker.snapshot()),
            Request::Waits => Reply::Waits(self.broker.waits()),
            Request::Budget => Reply::Budget(self.broker.budget_status()),
            &Request::SetBudget(budget) => match self.broker.set_budget(budget) {
                Ok(status) => Reply::Budget(status),
                Err(error) => Reply::NoBudget(error),
            },
            &Request::Hold { job, held } => Reply::Suspended(self.broker.hold(job, held)),
            _ => return Err(End::Fault(Fault::Order)),
        };
        let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
        session.answer(&Down::Reply(reply), None)
    }

    /// Takes over how far all jobs have come.
    fn observe(&mut self) {
        let works = self.sessions.values().filter_map(Session::works);
        for (job, pulse) in works.flat_map(Works::pulses) {
            self.broker.observe(job, pulse.read());
        }
    }

    /// Writes down how far each may come before it is to tell.
    fn watch(&self) {
        let works = self.sessions.values().filter_map(Session::works);
        for (job, pulse) in works.flat_map(Works::pulses) {
            pulse.watch(self.broker.watched(job));
        }
    }
}
