//! A broker that has come in the place of another one: it is told of all jobs.

use alloc::vec::Vec;

use super::Remote;
use super::seat::Seat;
use crate::broker::{Offers, Reply, Request};
use crate::ledger::AT_A_TIME;
use crate::types::JobId;
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::error::BrokerError;
use crate::types::sync::Ordering;

impl<D: Device> Remote<D> {
    /// What the broker before has granted and has not heard of, and what it has asked for, is void.
    pub(in crate::executor) fn forget_former(&self) {
        self.connection.fetch_add(1, Ordering::AcqRel);
        self.release.lock().clear();
        self.called.lock().clear();
    }

    /// Tells a new broker of all jobs, whose memory has been handed in. From here on it is this one
    /// that grants.
    pub(in crate::executor) fn offer_jobs(
        &self,
        offers: &mut dyn Offers<D>,
    ) -> Result<(), BrokerError> {
        let jobs = {
            let mut seats = self.jobs.lock();
            let offer = |(&job, seat): (&JobKey, &mut Seat)| {
                (
                    job,
                    seat.config.clone(),
                    seat.offer(),
                    (seat.away_of(), seat.goes_to_host),
                    (seat.is_running, seat.claim, seat.pace),
                    seat.has_left,
                )
            };
            seats.iter_mut().map(offer).collect::<Vec<_>>()
        };
        for (job, config, offered, (regions, goes), (runs, claim, pace), has_left) in jobs {
            let id = JobId(job);
            // What is reserved for it was so before: the new broker has room for it, or not even
            // that.
            match offers.ask(None, Request::Rejoin(id, config))? {
                Reply::Joined(_) => {}
                _ => return Err(BrokerError::Confused),
            }
            for some in offered.chunks(AT_A_TIME) {
                match offers.ask(Some(id), Request::Offer(some.to_vec()))? {
                    Reply::Whether(true) => {}
                    _ => return Err(BrokerError::Confused),
                }
            }
            if (goes || !regions.is_empty()) && !has_left {
                offers.tell(Some(id), Request::Away { regions, goes });
            }
            offers.tell(Some(id), Request::Resume { runs, claim });
            if pace.is_some() {
                offers.ask(Some(id), Request::SetPace(pace))?;
            }
            if has_left {
                offers.tell(Some(id), Request::Leave);
            }
        }
        Ok(())
    }
}
