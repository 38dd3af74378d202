//! What is asked of the books and changes nothing in them, or nothing but a job's pace.

use alloc::boxed::Box;

use super::{Refused, Remote, refused};
use crate::broker::{Refusal, Reply, Request};
use crate::learn::profile::Profile;
use crate::ledger::Denied;
use crate::types::JobKey;
use crate::types::device::Device;
use crate::types::error::{OutOfMemory, Shortage};
use crate::types::pace::Pace;
use crate::types::report::JobSnapshot;
use crate::types::units::Bytes;
use crate::types::want::Demand;

impl<D: Device> Remote<D> {
    /// Why so much can never be had. What the device has room for is asked for as it is: the
    /// refusal says the same.
    pub(in crate::executor) fn is_beyond_all(&self, job: JobKey, demand: Demand) -> Option<Denied> {
        let Demand { asked, pages: regions, .. } = demand;
        let bytes = regions.saturating_mul(self.link.region_size().value());
        if bytes <= self.capacity().value() {
            return None;
        }
        match self.ask(job, Request::Fits { asked, regions }) {
            Ok(Reply::Refused(refusal)) => match refused(refusal) {
                Refused::Denied(denied) => Some(denied),
                Refused::Left | Refused::Broker(_) => None,
            },
            _ => None,
        }
    }

    pub(in crate::executor) fn shortage(&self, job: JobKey, asked: Bytes) -> Option<Shortage> {
        match self.ask(job, Request::Shortage(asked)) {
            Ok(Reply::Short(shortage)) => Some(shortage),
            _ => None,
        }
    }

    pub(in crate::executor) fn out_of_memory(
        &self,
        job: JobKey,
        asked: Bytes,
    ) -> Option<Box<OutOfMemory>> {
        match self.ask(job, Request::OutOfMemory(asked)) {
            Ok(Reply::Refused(Refusal::Never(why))) => Some(why),
            _ => None,
        }
    }

    pub(in crate::executor) fn set_pace(&self, job: JobKey, pace: Option<Pace>) -> bool {
        let set = matches!(self.ask(job, Request::SetPace(pace)), Ok(Reply::Whether(true)));
        if set {
            // A broker that comes in the place of this one is told.
            self.change(job, |seat| seat.pace = pace);
        }
        set
    }

    pub(in crate::executor) fn may_turn(&self, job: JobKey) -> bool {
        matches!(self.ask(job, Request::MayTurn), Ok(Reply::Whether(true)))
    }

    pub(in crate::executor) fn job(&self, job: JobKey) -> Option<JobSnapshot> {
        match self.ask(job, Request::Job) {
            Ok(Reply::Job(job)) => job.map(|job| *job),
            _ => None,
        }
    }

    pub(in crate::executor) fn profile(&self, job: JobKey) -> Option<Profile> {
        match self.ask(job, Request::Profile) {
            Ok(Reply::Profile(Some(outline))) => {
                Profile::from_parts(outline.steps, outline.operations, outline.length)
            }
            _ => None,
        }
    }
}
