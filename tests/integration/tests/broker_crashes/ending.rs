//! How it ends: all that live go on, come back and leave.

use zico_core::{AllocError, Begin, BeginError, Bytes, Device, Lifetime, Request, Ticks};

use super::{Process, World, free};

impl World {
    /// Nobody dies any more: each that is there gets through an iteration.
    pub(crate) fn everyone_can_go_on(&mut self) {
        let World { device, processes, broker, .. } = self;
        for job in broker.snapshot().jobs {
            let _ = broker.hold(job.id, false);
        }
        for process in processes.iter_mut() {
            for tenant in &mut process.tenants {
                while !tenant.blocks.is_empty() {
                    free(device, tenant, 0);
                }
                if std::mem::take(&mut tenant.running) {
                    tenant.job.end().unwrap();
                }
                // It asks anew when it is its turn below.
                tenant.job.withdraw();
            }
        }
        self.everyone_comes_back();
        let World { device, broker, processes, .. } = self;
        for at in 0..processes.len() {
            for which in 0..processes[at].tenants.len() {
                let mut left = 1000;
                let mut goes_on = |processes: &[Process]| {
                    left -= 1;
                    assert!(left > 0, "waits for ever: {}", broker.snapshot());
                    device.run_until_idle();
                    // Turns come to an end, and so does patience with those that ask no more.
                    device.advance_to(device.now().saturating_add(Ticks::millis(100)));
                    processes.iter().for_each(|process| {
                        process.client.serve();
                        process.client.pool().poll().unwrap();
                    });
                    broker.look();
                };
                // What is known not to fit beside what the others keep is told so: that is no wait.
                let begun = loop {
                    match processes[at].tenants[which].job.begin(None) {
                        Ok(Begin::Wait(_)) => goes_on(processes),
                        Ok(Begin::Started) => break true,
                        Err(BeginError::NeverFits { .. }) => break false,
                        Err(error) => panic!("{error}"),
                    }
                };
                if !begun {
                    continue;
                }
                let request = Request::new(Bytes::mib(4), Lifetime::Iteration);
                loop {
                    match processes[at].tenants[which].job.alloc(request) {
                        Ok(block) => break processes[at].tenants[which].job.free(block).unwrap(),
                        Err(AllocError::Busy(_)) => goes_on(processes),
                        Err(AllocError::OutOfMemory(_)) => break,
                        Err(error) => panic!("{error}"),
                    }
                }
                processes[at].tenants[which].job.end().unwrap();
            }
        }
    }

    /// Who is on the host can come back, in whatever order.
    fn everyone_comes_back(&mut self) {
        let mut left = 1000;
        loop {
            let World { device, broker, processes, owners, .. } = self;
            let tenants = processes.iter_mut().flat_map(|process| &mut process.tenants);
            let away = tenants.filter(|tenant| tenant.is_away);
            let waits = away.map(|tenant| !tenant.resume(device, owners));
            if !waits.fold(false, |any, waits| any | waits) {
                return;
            }
            left -= 1;
            assert!(left > 0, "waits for ever to come back: {}", broker.snapshot());
            device.run_until_idle();
            for process in processes {
                process.client.serve();
                process.client.pool().poll().unwrap();
            }
            broker.look();
        }
    }

    /// All leave, and everything is back.
    pub(crate) fn all_comes_back(mut self) {
        for process in &mut self.processes {
            process.tenants.clear();
        }
        self.device.run_until_idle();
        for process in &self.processes {
            process.client.serve();
            process.client.pool().poll().unwrap();
        }
        let snapshot = self.broker.snapshot();
        assert_eq!(snapshot.jobs, [], "{snapshot}");
        assert_eq!(snapshot.free, snapshot.held);
        self.broker.trim(Bytes::ZERO);
        self.processes.iter().for_each(|process| process.client.serve());
        assert_eq!(self.broker.snapshot().held, Bytes::ZERO, "all have released it");
        let usage = self.device.usage();
        assert_eq!((usage.physical, usage.mappings, usage.ranges), (Bytes::ZERO, 0, 0));
    }
}
