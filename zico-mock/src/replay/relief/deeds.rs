//! What a job's host does to carry out a schedule.

use std::collections::BTreeSet;

use zico_core::{Bytes, Lifetime, Ticks};
use zico_plan::relief::{Graph, Outcome, Step as Planned, Storage};

use crate::replay::Op;
use crate::trace::{BlockId, Step};

/// What a job's host does. Storages are named by their position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::replay) enum Deed {
    /// What any job does: allocate, free, begin, end.
    Op(Op),
    /// Launches an operation.
    Run(u32),
    /// Starts a storage on its way to the host, behind what was launched before.
    Out(u32),
    /// The job's stream waits until it is there.
    Left(u32),
    /// Starts it on its way back.
    In(u32),
    /// The job's stream waits until it is there.
    Arrived(u32),
    /// Writes what the iteration finds in a storage: a batch, say.
    Fill(u32),
    /// The last version of a storage has to be on the device.
    Keep(u32),
    /// What follows is of the next iteration.
    Next,
    /// An iteration has ended and another of the same turn begins, whose launches come to so much.
    Pass(Ticks),
}

/// Deeds as they are made of steps.
pub(super) struct Made<'o> {
    graph: &'o Graph,
    blocks: &'o [BlockId],
    budget: u64,
    /// What persists is on the host between turns.
    parks: bool,
    held: u64,
    there: Vec<bool>,
    /// On their way back.
    arriving: Vec<bool>,
    /// On their way out, by when the plan has them gone.
    leaving: BTreeSet<(u64, u32)>,
    /// When that is, for each of them.
    gone_at: Vec<Option<u64>>,
    pub(super) deeds: Vec<Deed>,
}

impl<'o> Made<'o> {
    pub(super) fn new(graph: &'o Graph, blocks: &'o [BlockId], budget: u64, parks: bool) -> Self {
        let storages = graph.storages();
        let there: Vec<bool> = storages.iter().map(|storage| storage.initial).collect();
        Self {
            graph,
            blocks,
            budget,
            parks,
            held: storages.iter().filter(|one| one.initial).map(|one| one.bytes).sum(),
            arriving: vec![false; there.len()],
            gone_at: vec![None; there.len()],
            there,
            leaving: BTreeSet::new(),
            deeds: Vec::new(),
        }
    }

    /// What was there before the first iteration. What is on the host between turns goes there one
    /// by one.
    pub(super) fn setup(&self) -> Vec<Deed> {
        if self.parks {
            let once = |storage| [self.alloc_of(storage), Deed::Fill(storage), Deed::Out(storage)];
            let away = |storage| [Deed::Left(storage), self.free_of(storage)];
            let all = self.initial(true).into_iter();
            return all.flat_map(|one| once(one).into_iter().chain(away(one))).collect();
        }
        let initial = || (0_u32..).zip(self.graph.storages()).filter(|(_, one)| one.initial);
        let made = initial().map(|(storage, _)| self.alloc_of(storage));
        made.chain(initial().map(|(storage, _)| Deed::Fill(storage))).collect()
    }

    /// Storages with initial contents that persist, or those that do not.
    fn initial(&self, persist: bool) -> Vec<u32> {
        let all = (0_u32..).zip(self.graph.storages());
        let wanted = all.filter(|(_, one)| one.initial && one.kept == persist);
        wanted.map(|(storage, _)| storage).collect()
    }

    /// The begin of a turn: what persists is on its way back, and awaited where it is needed first.
    pub(super) fn begin_turn(&mut self) {
        for storage in self.initial(true) {
            let alloc = self.alloc_of(storage);
            self.arriving[storage as usize] = true;
            self.deeds.extend([alloc, Deed::In(storage)]);
        }
        for storage in self.initial(false) {
            let alloc = self.alloc_of(storage);
            self.deeds.extend([alloc, Deed::Fill(storage)]);
        }
    }

    /// The end of a turn: nothing stays.
    pub(super) fn end_turn(&self) -> Vec<Deed> {
        let (stays, goes) = (self.initial(true), self.initial(false));
        let out = stays.iter().map(|&storage| Deed::Out(storage));
        let gone = stays.iter().flat_map(|&one| [Deed::Left(one), self.free_of(one)]);
        goes.iter().map(|&storage| self.free_of(storage)).chain(out).chain(gone).collect()
    }

    /// A schedule's steps in order, and the end of its iteration. What leaves is awaited and freed
    /// where compute is as late as it is gone, or where something needs its memory.
    pub(super) fn carry_out(&mut self, steps: &[Planned], outcome: &Outcome) {
        // How far compute has come: other channels may be at something later already.
        let mut compute = 0;
        for (&step, span) in steps.iter().zip(&outcome.spans) {
            if matches!(step, Planned::Run(_) | Planned::Drop(_)) {
                compute = span.start;
            }
            while let Some(&(_, storage)) = self.leaving.first().filter(|(end, _)| *end <= compute)
            {
                self.gone(storage);
            }
            match step {
                Planned::Run(operation) => {
                    self.run(operation);
                    compute = span.end;
                }
                Planned::Drop(storage) => self.free(storage),
                Planned::Out(storage) => {
                    self.arrived(storage);
                    self.there[storage as usize] = false;
                    self.leaving.insert((span.end, storage));
                    self.gone_at[storage as usize] = Some(span.end);
                    self.deeds.push(Deed::Out(storage));
                }
                Planned::In(storage) => {
                    self.alloc(storage);
                    self.arriving[storage as usize] = true;
                    self.deeds.push(Deed::In(storage));
                }
                // What persists stays, and nothing that is recorded in a trace has an encoding: the
                // simulator refuses these.
                Planned::Hosted(_) | Planned::Encode(_) | Planned::Decode(_) => {}
            }
        }
        self.end();
    }

    /// The end of the iteration: the next one finds what this one has found.
    fn end(&mut self) {
        while let Some(&(_, storage)) = self.leaving.first() {
            self.gone(storage);
        }
        let storages = || (0_u32..).zip(self.graph.storages());
        for (storage, known) in storages() {
            self.arrived(storage);
            if known.kept {
                self.deeds.push(Deed::Keep(storage));
            }
            if !known.initial && self.there[storage as usize] {
                self.free(storage);
            }
        }
        self.deeds.push(Deed::Next);
        for (storage, _) in storages().filter(|(_, known)| known.initial && !known.kept) {
            if !self.there[storage as usize] {
                self.alloc(storage);
            }
            self.deeds.push(Deed::Fill(storage));
        }
    }

    fn run(&mut self, operation: u32) {
        let known = &self.graph.operations()[operation as usize];
        for &storage in known.reads.iter().chain(&known.writes) {
            self.arrived(storage);
        }
        for &storage in &known.writes {
            if !self.there[storage as usize] {
                self.alloc(storage);
            }
        }
        self.deeds.push(Deed::Run(operation));
    }

    fn storage(&self, storage: u32) -> &Storage {
        &self.graph.storages()[storage as usize]
    }

    fn alloc_of(&self, storage: u32) -> Deed {
        let Storage { bytes, initial, kept, .. } = *self.storage(storage);
        let persists = initial && kept && !self.parks;
        let lifetime = if persists { Lifetime::Persistent } else { Lifetime::Iteration };
        let (block, bytes) = (self.blocks[storage as usize], Bytes::new(bytes));
        Deed::Op(Op::Step(Step::Alloc { block, bytes, lifetime }))
    }

    fn free_of(&self, storage: u32) -> Deed {
        Deed::Op(Op::Step(Step::Free { block: self.blocks[storage as usize] }))
    }

    /// Allocates a storage's block. Others that are on their way out may have to be gone first.
    fn alloc(&mut self, storage: u32) {
        self.gone(storage);
        let bytes = self.storage(storage).bytes;
        while self.held.saturating_add(bytes) > self.budget {
            let Some(&(_, first)) = self.leaving.first() else { break };
            self.gone(first);
        }
        self.held = self.held.saturating_add(bytes);
        self.there[storage as usize] = true;
        let alloc = self.alloc_of(storage);
        self.deeds.push(alloc);
    }

    fn free(&mut self, storage: u32) {
        self.arrived(storage);
        self.there[storage as usize] = false;
        self.held = self.held.saturating_sub(self.storage(storage).bytes);
        let free = self.free_of(storage);
        self.deeds.push(free);
    }

    fn arrived(&mut self, storage: u32) {
        if std::mem::take(&mut self.arriving[storage as usize]) {
            self.deeds.push(Deed::Arrived(storage));
        }
    }

    /// Nothing, unless it is on its way out.
    fn gone(&mut self, storage: u32) {
        if let Some(end) = self.gone_at[storage as usize].take() {
            self.leaving.remove(&(end, storage));
            self.deeds.push(Deed::Left(storage));
            self.free(storage);
        }
    }
}
