//! What has to be in memory: the version of each storage that each operation read when it was
//! recorded, counted from the recorded reads and writes alone.

use zico_plan::relief::Graph;

/// A storage and a version of it.
pub(super) type Version = (u32, u32);

/// The versions of an iteration that is played again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    /// What each operation reads or changes in place.
    pub(super) reads: Vec<Vec<Version>>,
    /// What each makes.
    pub(super) makes: Vec<Vec<Version>>,
    /// The last version of each storage.
    last: Vec<u32>,
    /// It stays from one iteration to the next.
    stays: Vec<bool>,
    /// How many versions the storages before have: the first number of each.
    first: Vec<u64>,
    count: u64,
}

impl Versions {
    pub(super) fn new(graph: &Graph) -> Self {
        let storages = graph.storages();
        let mut now: Vec<Option<u32>> =
            storages.iter().map(|storage| storage.initial.then_some(0)).collect();
        let (mut reads, mut makes) = (Vec::new(), Vec::new());
        for operation in graph.operations() {
            let changed = operation.writes.iter().filter(|one| !operation.reads.contains(one));
            let found = operation.reads.iter().chain(changed);
            reads.push(found.filter_map(|&one| Some((one, now[one as usize]?))).collect());
            let made = operation.writes.iter().map(|&one| {
                let version = &mut now[one as usize];
                (one, *version.insert(version.map_or(0, |old| old.saturating_add(1))))
            });
            makes.push(made.collect());
        }
        let last: Vec<u32> = now.into_iter().map(Option::unwrap_or_default).collect();
        let mut count = 0;
        let first = last.iter().map(|&last| {
            let before = count;
            count += u64::from(last) + 1;
            before
        });
        let first = first.collect();
        let stays = storages.iter().map(|storage| storage.initial && storage.kept).collect();
        Self { reads, makes, last, stays, first, count }
    }

    /// The last version of a storage in an iteration.
    pub(super) fn last(&self, storage: u32) -> Version {
        (storage, self.last[storage as usize])
    }

    /// The number of a version in an iteration: no two that differ have the same one. What an
    /// iteration finds in a storage that stays is what the one before has left there.
    pub(super) fn number(&self, iteration: u64, (storage, version): Version) -> u64 {
        let at = storage as usize;
        let (iteration, version) = match (version, self.last[at]) {
            (0, 0) if self.stays[at] => (0, 0),
            (0, last) if self.stays[at] && iteration > 0 => (iteration - 1, last),
            _ => (iteration, version),
        };
        let before = iteration.saturating_mul(self.count);
        before.saturating_add(self.first[at]).saturating_add(version.into())
    }
}
