//! Whether an answer of the pool is allowed, and reports of failed runs.

use super::bound::cost;
use super::run::{Actor, Run, State};
use super::script::{Marks, Op};
use super::{Failure, Kind};
use crate::waves::REGION;

impl Run<'_> {
    /// Whether what a job asks for, and all that it has, is no more than is reserved for it. Where
    /// its iterations are detected it may have to wait for one to begin.
    pub(super) fn is_within_floor(&self, who: usize, op: Option<Op>) -> bool {
        let script = &self.setup.scripts[who];
        let Actor { job, mute, slots, given, .. } = &self.actors[who];
        match (op, job) {
            (Some(Op::Alloc(_, bytes, _)), Some(job)) if script.floor > 0 => {
                let mut held = job.held().total().value() / REGION.value();
                if held == 0 {
                    // What it has is on the host, where its iteration was interrupted.
                    held = slots.iter().flatten().chain(given).map(|live| live.cost).sum();
                }
                let detects = script.marks == Marks::Detected;
                held + cost(bytes) <= script.floor && !detects && mute.is_none()
            }
            _ => false,
        }
    }

    /// Whether the device has nothing left to do for what has been given up: neither regions nor
    /// the mappings of pages that others have since.
    pub(super) fn nothing_drains(&self) -> bool {
        self.device.idle()
            && self.pool.snapshot().jobs.iter().all(|job| job.held.draining.is_zero())
    }

    /// Whether its iteration takes more than any before while another one runs: each holds what the
    /// other needs, and the pool could not know.
    pub(super) fn is_excused(&self, who: usize, op: Option<Op>) -> bool {
        let detects = |who: usize| self.setup.scripts[who].marks == Marks::Detected;
        let others = (0..self.actors.len()).filter(|&other| other != who);
        let alone = !others.into_iter().any(|other| {
            let actor = &self.actors[other];
            actor.inside || detects(other) && actor.job.is_some()
        });
        if alone {
            return false;
        }
        // Where jobs take turns, two that run have no room for what both keep, as they do elsewhere:
        // if their iterations vary, either may be told.
        if self.setup.scripts.iter().any(|script| script.slice.is_some()) {
            return true;
        }
        let actor = &self.actors[who];
        let asked = match op {
            Some(Op::Alloc(_, bytes, _)) => cost(bytes),
            _ => 0,
        };
        // A region more is foreseen.
        detects(who) || actor.inside && actor.iterations > 0 && actor.now + asked > actor.shown + 1
    }

    pub(super) fn hang(&self) -> Failure {
        let holds = |actor: &Actor| {
            actor.state != State::Goes
                && actor.job.as_ref().is_some_and(|job| {
                    let held = job.held();
                    held.total() > held.persistent
                })
        };
        let idle = self.actors.iter().any(holds) && !self.setup.enough;
        self.failure(
            if idle { Kind::HangOnIdle } else { Kind::Hang },
            "all wait, and nothing will ever happen".to_owned(),
        )
    }

    pub(super) fn failure(&self, kind: Kind, text: String) -> Failure {
        let mut text = text;
        for (who, actor) in self.actors.iter().enumerate() {
            let op = self.setup.scripts[who].ops.get(actor.at).copied();
            let (state, at, inside) = (actor.state, Self::name(op), actor.inside);
            let why = actor.waits.as_ref().map_or("", |(_, why)| why);
            let place = if inside { "in its iteration" } else { "outside iterations" };
            let number = actor.iterations + 1;
            let line = format!("\njob {who} ({state:?}, {place} {number}) at {at}: {why}");
            text.push_str(&line);
        }
        text.push_str(&format!("\n{}", self.pool.snapshot()));
        Failure { kind, text }
    }
}
