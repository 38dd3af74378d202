//! The oracle: who may touch each physical byte, in device order.
//!
//! A claim begins when the stream on which it was enqueued reaches its first mark and ends when a
//! stream reaches its second. In between its bytes, translated to physical ones, belong to its
//! owner alone; so two addresses of one piece of memory are seen as what they are. The oracle knows
//! nothing of allocators, fences or jobs: it sees only what the device would.
//!
//! Its state is one ordered map of owned, disjoint pieces of physical memory. The pieces of a claim
//! are chained through that map, so a claim costs no allocation of its own.

mod contents;
mod versions;

use std::collections::BTreeMap;

use zico_core::{Addr, Bytes, Ticks};

use super::memory::{Piece, Space};
use super::timeline::Way;
use super::violation::{Owner, Violation, ViolationKind};
use contents::Contents;

/// The number of violations that are kept; further ones are only counted.
const KEPT: usize = 1_000;

/// In whose name copies touch memory: no job's.
pub(crate) const LINK: Owner = Owner::MAX;

/// Bytes that a launch touches, and in whose name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Who must own them.
    pub owner: Owner,
    /// Where they begin.
    pub addr: Addr,
    /// How many they are.
    pub len: Bytes,
}

impl Access {
    fn meets(&self, place: Piece) -> bool {
        let start = self.addr.value();
        let end = start.saturating_add(self.len.value());
        start.max(place.start) < end.min(place.end)
    }
}

/// A marker in a stream, which the oracle sees when the stream reaches it. Claims are named by
/// their slot.
#[derive(Debug)]
pub(crate) enum Mark {
    Own(usize),
    Disown(usize),
    Touch(Box<[Access]>),
    /// Bytes are written, or expected to be those of an earlier write.
    Write(Access, u64),
    Expect(Access, u64),
    /// What is in bytes is nothing that may be read.
    Undefine(Access),
    /// A copy between addresses and a piece of the host's memory ends.
    Copied(Way, Piece, u64),
}

impl Mark {
    /// What the launch behind the mark touches.
    fn accesses(&self) -> &[Access] {
        match self {
            Self::Touch(accesses) => accesses,
            Self::Write(access, _) | Self::Expect(access, _) | Self::Undefine(access) => {
                std::slice::from_ref(access)
            }
            Self::Own(_) | Self::Disown(_) | Self::Copied(..) => &[],
        }
    }
}

/// The owners of physical memory.
#[derive(Debug)]
pub(crate) struct Oracle {
    budget: Option<Bytes>,
    claims: Vec<Claim>,
    /// Slots of `claims` in [`Phase::Free`].
    free: Vec<usize>,
    /// Owned pieces by their first physical byte, disjoint.
    owned: BTreeMap<u64, Held>,
    kept: Vec<Violation>,
    count: u64,
    /// Touching launches that no stream has reached yet.
    touches: u64,
    /// Empty between calls, kept for its storage.
    pieces: Vec<Piece>,
    /// What is in the device's memory, by its physical bytes.
    contents: Contents,
    /// What is in the host's memory, by its number; and how many copies of each are enqueued.
    host: BTreeMap<u64, (u64, Contents)>,
}

#[derive(Debug)]
struct Claim {
    bytes: Access,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The slot is no claim's.
    Free,
    /// The first mark has not been reached.
    Queued,
    /// As `Queued`, and a violation of it has been reported: it will own nothing.
    Spoilt,
    /// The second mark was reached before the first: nothing is left to do at the first.
    Over,
    /// Between its marks, owning the chain of pieces that starts here.
    Owned { first: Option<u64> },
    /// Between its marks, owning nothing since that would have been a violation.
    Refused,
}

/// An owned piece: the value to the key of its first byte.
#[derive(Debug)]
struct Held {
    end: u64,
    claim: usize,
    /// The next piece of the same claim.
    next: Option<u64>,
}

impl Oracle {
    pub(crate) fn new(budget: Option<Bytes>) -> Self {
        Self {
            budget,
            claims: Vec::new(),
            free: Vec::new(),
            owned: BTreeMap::new(),
            kept: Vec::new(),
            count: 0,
            touches: 0,
            pieces: Vec::new(),
            contents: Contents::default(),
            host: BTreeMap::new(),
        }
    }

    pub(crate) fn violations(&self) -> &[Violation] {
        &self.kept
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn set_budget(&mut self, budget: Option<Bytes>) {
        self.budget = budget;
    }

    /// Opens a claim whose marks are about to be enqueued.
    pub(crate) fn open(&mut self, bytes: Access) -> usize {
        let claim = Claim { bytes, phase: Phase::Queued };
        if let Some(slot) = self.free.pop() {
            self.claims[slot] = claim;
            return slot;
        }
        self.claims.push(claim);
        self.claims.len() - 1
    }

    /// A launch that touches memory is about to be enqueued.
    pub(crate) fn expect_touch(&mut self) {
        self.touches += 1;
    }

    /// A stream has reached a mark.
    pub(crate) fn reach(&mut self, now: Ticks, mark: Mark, space: &Space) {
        match mark {
            Mark::Own(slot) => self.begin(now, slot, space),
            Mark::Disown(slot) => self.end(now, slot),
            Mark::Touch(accesses) => {
                self.touches -= 1;
                for access in accesses {
                    self.touch(now, access, space);
                }
            }
            Mark::Write(access, value) => {
                self.touches -= 1;
                self.write(now, access, value, space);
            }
            Mark::Expect(access, value) => {
                self.touches -= 1;
                self.expect(now, access, value, space);
            }
            Mark::Undefine(access) => {
                self.touches -= 1;
                self.undefine(now, access, space);
            }
            Mark::Copied(way, place, host) => {
                self.host.entry(host).and_modify(|(uses, _)| *uses -= 1);
                self.copied(way, place, host, space);
            }
        }
    }

    /// Physical memory was created.
    pub(crate) fn created(&mut self, now: Ticks, physical: Bytes) {
        if let Some(budget) = self.budget.filter(|budget| physical > *budget) {
            self.report(now, ViolationKind::OverBudget { physical, budget });
        }
    }

    /// Addresses were unmapped, while `queued` are the marks that streams have not reached.
    ///
    /// Looks at every claim and, while launches that touch memory are queued, at every mark:
    /// unmapping is rare and nothing else has to pay for it.
    pub(crate) fn unmapped<'a>(
        &mut self,
        now: Ticks,
        place: Piece,
        queued: impl Iterator<Item = &'a Mark>,
    ) {
        let mut hit = Vec::new();
        for claim in self.claims.iter_mut().filter(|claim| claim.bytes.meets(place)) {
            match claim.phase {
                Phase::Queued => claim.phase = Phase::Spoilt,
                Phase::Owned { .. } => {}
                Phase::Free | Phase::Spoilt | Phase::Over | Phase::Refused => continue,
            }
            hit.push(claim.bytes);
        }
        if self.touches > 0 {
            for mark in queued {
                hit.extend(mark.accesses().iter().filter(|access| access.meets(place)));
            }
        }
        for Access { owner, addr, len } in hit {
            let unmapped = Addr::new(place.start);
            let unmapped_len = Bytes::new(place.end - place.start);
            let kind = ViolationKind::UnmapInUse { owner, addr, len, unmapped, unmapped_len };
            self.report(now, kind);
        }
    }

    fn begin(&mut self, now: Ticks, slot: usize, space: &Space) {
        match self.claims[slot].phase {
            Phase::Queued => {}
            Phase::Over => return self.close(slot),
            _ => return self.claims[slot].phase = Phase::Refused,
        }
        let Access { owner, addr, len } = self.claims[slot].bytes;
        let mut pieces = std::mem::take(&mut self.pieces);
        self.claims[slot].phase = match space.translate(addr, len, &mut pieces) {
            Ok(()) => self.grant(now, slot, &pieces),
            Err(hole) => {
                self.report(now, ViolationKind::ClaimUnmapped { owner, addr, len, hole });
                Phase::Refused
            }
        };
        pieces.clear();
        self.pieces = pieces;
    }

    /// Adds a claim's pieces to the map, all of them or none.
    fn grant(&mut self, now: Ticks, slot: usize, pieces: &[Piece]) -> Phase {
        let mut first = None;
        for piece in pieces {
            // Pieces are disjoint, so only the last that begins before the end can overlap.
            if let Some((_, held)) = self.owned.range(..piece.end).next_back()
                && held.end > piece.start
            {
                let other = self.claims[held.claim].bytes;
                let Access { owner, addr, len } = self.claims[slot].bytes;
                let (holder, held, held_len) = (other.owner, other.addr, other.len);
                self.report(
                    now,
                    ViolationKind::Overlap { owner, addr, len, holder, held, held_len },
                );
                self.give_up(first);
                return Phase::Refused;
            }
            let held = Held { end: piece.end, claim: slot, next: first };
            self.owned.insert(piece.start, held);
            first = Some(piece.start);
        }
        Phase::Owned { first }
    }

    fn end(&mut self, now: Ticks, slot: usize) {
        match self.claims[slot].phase {
            Phase::Queued => {
                let Access { owner, addr, len } = self.claims[slot].bytes;
                self.report(now, ViolationKind::DisownedTooSoon { owner, addr, len });
                self.claims[slot].phase = Phase::Over;
            }
            Phase::Spoilt => self.claims[slot].phase = Phase::Over,
            Phase::Owned { first } => {
                self.give_up(first);
                self.close(slot);
            }
            Phase::Free | Phase::Over | Phase::Refused => self.close(slot),
        }
    }

    fn give_up(&mut self, mut next: Option<u64>) {
        while let Some(held) = next.and_then(|start| self.owned.remove(&start)) {
            next = held.next;
        }
    }

    fn close(&mut self, slot: usize) {
        self.claims[slot].phase = Phase::Free;
        self.free.push(slot);
    }

    fn touch(&mut self, now: Ticks, access: Access, space: &Space) {
        let Access { owner, addr, len } = access;
        let mut pieces = std::mem::take(&mut self.pieces);
        match space.translate(addr, len, &mut pieces) {
            Ok(()) => {
                if let Some(holder) = pieces.iter().find_map(|piece| self.stranger(*piece, owner)) {
                    self.report(now, ViolationKind::AccessNotOwned { owner, addr, len, holder });
                }
            }
            Err(hole) => {
                self.report(now, ViolationKind::AccessUnmapped { owner, addr, len, hole });
            }
        }
        pieces.clear();
        self.pieces = pieces;
    }

    /// The owner of the first byte of `piece` that is not `owner`'s, if there is one.
    fn stranger(&self, piece: Piece, owner: Owner) -> Option<Option<Owner>> {
        let mut at = piece.start;
        while at < piece.end {
            let before = self.owned.range(..=at).next_back();
            let Some((_, held)) = before.filter(|(_, held)| held.end > at) else {
                return Some(None);
            };
            let holder = self.claims[held.claim].bytes.owner;
            if holder != owner {
                return Some(Some(holder));
            }
            at = held.end;
        }
        None
    }

    pub(crate) fn report(&mut self, at: Ticks, kind: ViolationKind) {
        self.count += 1;
        if self.kept.len() < KEPT {
            self.kept.push(Violation { at, kind });
        }
    }
}
