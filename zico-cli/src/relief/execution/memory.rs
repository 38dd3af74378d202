//! Storages behind addresses that are used again.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use zico_plan::relief::Storage;

use super::calls::{Call, Calls, Tensor};

/// What an operation reads and writes, by the numbers of storages.
#[derive(Debug, Default)]
pub(super) struct Access {
    pub(super) reads: Vec<u32>,
    pub(super) writes: Vec<u32>,
}

impl Access {
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.reads.iter().chain(&self.writes).copied()
    }
}

/// Since when a storage has contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// Nothing has written it yet.
    Never,
    /// Before the file begins.
    Before,
    /// Since the operation of this number.
    Operation(usize),
}

/// Who has each address now.
#[derive(Debug)]
pub(super) struct Memory {
    /// Of each storage: its bytes, as far as its tensors reach, and its contents.
    all: Vec<(u64, Since)>,
    now: HashMap<u64, u32>,
    /// Calls that allocate, of which the first ones have been looked at.
    allocations: Vec<usize>,
    next: usize,
    /// Those of them that were within an operation.
    done: HashSet<usize>,
    /// How many operations there were.
    operations: usize,
}

impl Memory {
    pub(super) fn new(calls: &Calls) -> Self {
        let allocates = |&at: &usize| calls.all[at].allocates();
        Self {
            all: Vec::new(),
            now: HashMap::new(),
            allocations: (0..calls.all.len()).filter(allocates).collect(),
            next: 0,
            done: HashSet::new(),
            operations: 0,
        }
    }

    fn make(&mut self, tensor: Tensor, since: Since) -> u32 {
        let name = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push((tensor.end, since));
        self.now.insert(tensor.address, name);
        name
    }

    /// The storage of a tensor, which was there before if nothing has made it.
    fn of(&mut self, tensor: Tensor) -> u32 {
        let Some(&name) = self.now.get(&tensor.address) else {
            return self.make(tensor, Since::Before);
        };
        let bytes = &mut self.all[name as usize].0;
        *bytes = tensor.end.max(*bytes);
        name
    }

    /// What an operation reads and writes. Operations come in their order.
    pub(super) fn access(&mut self, calls: &Calls, at: usize) -> Access {
        while let Some(&earlier) = self.allocations.get(self.next).filter(|&&other| other < at) {
            self.allocate(&calls.all[earlier], earlier);
            self.next += 1;
        }
        let call = &calls.all[at];
        let mut access = Access::default();
        for &(tensor, argument) in &call.given {
            let name = self.of(tensor);
            // What has only been allocated gets its contents here.
            let changes = argument.changed || self.all[name as usize].1 == Since::Never;
            if changes { &mut access.writes } else { &mut access.reads }.push(name);
        }
        let before = self.all.len();
        for inner in calls.within(at) {
            if calls.all[inner].allocates() {
                self.allocate(&calls.all[inner], inner);
                self.done.insert(inner);
            }
        }
        for &tensor in call.gives.iter().filter(|tensor| !is_given(call, tensor)) {
            if self.now.get(&tensor.address).is_none_or(|&name| (name as usize) < before) {
                self.make(tensor, Since::Never);
            }
            self.of(tensor);
        }
        // Its outputs, and what it has used for itself.
        access.writes.extend((before..self.all.len()).filter_map(|name| u32::try_from(name).ok()));
        for &name in &access.writes {
            let since = &mut self.all[name as usize].1;
            if *since == Since::Never {
                *since = Since::Operation(self.operations);
            }
        }
        self.operations += 1;
        access
    }

    fn allocate(&mut self, call: &Call, at: usize) {
        if self.done.contains(&at) {
            return;
        }
        for &tensor in call.gives.iter().filter(|tensor| !is_given(call, tensor)) {
            // A call around an allocation gives what that has made.
            let now = self.now.get(&tensor.address).map(|&name| self.all[name as usize].1);
            if now != Some(Since::Never) {
                self.make(tensor, Since::Never);
            }
        }
    }

    /// The storages that the operations of a window use, and their positions by number. What was
    /// there before it stays, and what is used after it.
    pub(super) fn storages(
        &self,
        accesses: &[Access],
        window: Range<usize>,
    ) -> (Vec<Storage>, HashMap<u32, u32>) {
        let mut storages = Vec::new();
        let mut names = HashMap::new();
        for name in accesses[window.clone()].iter().flat_map(Access::all) {
            names.entry(name).or_insert_with(|| {
                let (bytes, since) = self.all[name as usize];
                let own = matches!(since, Since::Operation(first) if first >= window.start);
                storages.push(if own { Storage::new(bytes) } else { Storage::persistent(bytes) });
                u32::try_from(storages.len() - 1).unwrap_or(u32::MAX)
            });
        }
        for name in accesses[window.end..].iter().flat_map(Access::all) {
            if let Some(&name) = names.get(&name) {
                storages[name as usize].kept = true;
            }
        }
        (storages, names)
    }
}

fn is_given(call: &Call, tensor: &Tensor) -> bool {
    call.given.iter().any(|(one, _)| one.address == tensor.address)
}
