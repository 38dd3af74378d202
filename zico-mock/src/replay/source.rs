//! What a job of a replay does.

use std::sync::Arc;

use super::program::Program;
use super::relief::{Carrier, Deed, Relieved};
use crate::trace::Trace;
use crate::{MockDevice, MockStream};

/// What a job does: what was recorded, or what a plan of relief makes of that.
pub(super) enum Source<'t> {
    Recorded(Program<'t>),
    Relieved(Box<Carrier>),
}

impl<'t> Source<'t> {
    /// That of a job with this stream, which owns memory as `tag`.
    pub(super) fn new(
        trace: &'t Trace,
        plan: Option<Arc<Relieved>>,
        device: &MockDevice,
        stream: MockStream,
        tag: u32,
    ) -> Self {
        match plan {
            Some(plan) => Self::Relieved(Box::new(Carrier::new(plan, device, stream, tag))),
            None => Self::Recorded(Program::new(trace)),
        }
    }

    pub(super) fn next(&mut self) -> Deed {
        match self {
            Self::Recorded(program) => Deed::Op(program.next()),
            Self::Relieved(carrier) => carrier.next(),
        }
    }

    /// What carries its plan out, if it has one.
    pub(super) fn carrier(&mut self) -> Option<&mut Carrier> {
        match self {
            Self::Recorded(_) => None,
            Self::Relieved(carrier) => Some(carrier),
        }
    }
}
