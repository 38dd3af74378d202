//! What several running iterations take together from now on.

use alloc::vec::Vec;

use crate::policy::{Tenant, View};
use crate::types::units::{Regions, Ticks};

/// A step function of time, measured from now: the demands of running iterations added up, as far
/// as anybody has asked.
#[derive(Clone, Debug, Default)]
pub(super) struct Sum {
    cursors: Vec<Cursor>,
    /// Of each of them, how far it has come.
    ends: Vec<Ticks>,
    pieces: Vec<Piece>,
    /// What they take from the end of the last piece on.
    demand: Regions,
    /// The most that they could come to take from there on, if all were to peak at once.
    ahead: Regions,
    /// The most that they take until then.
    highest: Regions,
    /// A piece of no more than this counts as nothing.
    low: Regions,
}

/// How far the adding has come in one iteration.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    job: usize,
    /// The step to go on to; its end, if there is none.
    next: usize,
    from: Ticks,
    demand: Regions,
    /// The most that it takes from here on.
    ahead: Regions,
}

/// From the end of the piece before until `end` they take `demand`.
#[derive(Clone, Copy, Debug)]
struct Piece {
    end: Ticks,
    demand: Regions,
}

impl Sum {
    /// Begins with these iterations, each at its position. What they take conflicts with nothing as
    /// long as it is no more than `low`.
    pub(super) fn begin<'a>(
        &mut self,
        iterations: impl Iterator<Item = (usize, &'a Tenant)>,
        low: Regions,
    ) {
        self.pieces.clear();
        self.cursors.clear();
        self.ends.clear();
        for (job, tenant) in iterations {
            let Some(profile) = &tenant.profile else { continue };
            let from = tenant.position();
            if from >= profile.length() {
                continue;
            }
            let next = profile.steps().partition_point(|step| step.at <= from).saturating_sub(1);
            let (demand, ahead) = (Regions::ZERO, Regions::ZERO);
            let mut cursor = Cursor { job, next, from, demand, ahead };
            if let Some(end) = cursor.advance(tenant) {
                self.cursors.push(cursor);
                self.ends.push(end);
            }
        }
        let add = |sum: Regions, of: Regions| sum.saturating_add(of);
        self.demand = self.cursors.iter().map(|cursor| cursor.demand).fold(Regions::ZERO, add);
        self.ahead = self.cursors.iter().map(|cursor| cursor.ahead).fold(Regions::ZERO, add);
        (self.highest, self.low) = (self.demand, low);
    }

    /// Adds up until this moment. O(pieces x iterations).
    pub(super) fn extend_to(&mut self, view: &View<'_>, until: Ticks) {
        while self.pieces.last().is_none_or(|last| last.end < until) && !self.is_low() {
            let Some((at, end)) = self.soonest() else { break };
            let counts = if self.demand > self.low { self.demand } else { Regions::ZERO };
            match self.pieces.last_mut() {
                Some(last) if last.end == end => {}
                Some(last) if last.demand == counts => last.end = end,
                _ => self.pieces.push(Piece { end, demand: counts }),
            }
            let cursor = &mut self.cursors[at];
            let rest = self.demand.saturating_sub(cursor.demand);
            self.ahead = self.ahead.saturating_sub(cursor.ahead);
            if let Some(end) = cursor.advance(&view.jobs[cursor.job]) {
                self.ends[at] = end;
                self.demand = rest.saturating_add(cursor.demand);
                self.ahead = self.ahead.saturating_add(cursor.ahead);
                self.highest = self.highest.at_least(self.demand);
            } else {
                self.demand = rest;
                self.cursors.swap_remove(at);
                self.ends.swap_remove(at);
            }
        }
    }

    /// The cursor that changes next, and when.
    fn soonest(&self) -> Option<(usize, Ticks)> {
        let (&first, rest) = self.ends.split_first()?;
        let sooner = |best: (usize, Ticks), (at, &end): (usize, &Ticks)| {
            if end < best.1 { (at, end) } else { best }
        };
        Some((1..).zip(rest).fold((0, first), sooner))
    }

    /// Whether what is still to be added up counts as nothing.
    pub(super) fn is_low(&self) -> bool {
        self.ahead <= self.low
    }

    /// Whether they take more than `left` at any time up to which they have been added up.
    pub(super) fn exceeds(&self, left: Regions) -> bool {
        self.highest > left
    }

    /// The first piece, from `first` on, that ends after `from`. O(pieces between).
    pub(super) fn piece_after(&self, from: Ticks, first: usize) -> usize {
        let before = self.pieces[first..].iter().take_while(|piece| piece.end <= from);
        first + before.count()
    }

    /// The end of the last of the pieces from `first` on that takes more than `left` and begins
    /// before `to`. The first one ends after the window begins.
    pub(super) fn last_conflict(&self, first: usize, to: Ticks, left: Regions) -> Option<Ticks> {
        let mut last = None;
        for piece in &self.pieces[first..] {
            if piece.demand > left {
                last = Some(piece.end);
            }
            if piece.end >= to {
                break;
            }
        }
        last
    }
}

impl Cursor {
    /// Goes on to the next step, if there is one. When that ends.
    fn advance(&mut self, tenant: &Tenant) -> Option<Ticks> {
        let profile = tenant.profile.as_deref()?;
        let steps = profile.steps();
        self.demand = steps.get(self.next)?.expected();
        self.ahead = profile.expected_ahead(self.next);
        self.next += 1;
        let end = steps.get(self.next).map_or(profile.length(), |next| next.at);
        Some(end.saturating_sub(self.from))
    }
}
