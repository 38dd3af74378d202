//! What one iteration does: operations, and the storages that they read and write.

use alloc::vec::Vec;

use crate::relief::{GraphError, Kind};

/// Bytes on the device, which operations read and write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Storage {
    /// Its bytes.
    pub bytes: u64,
    /// Another name for the bytes of that storage, as of a view: an alias has no bytes of its own,
    /// and what else is said here of it does not count.
    pub alias: Option<u32>,
    /// It has its contents before the first operation, as parameters and inputs have.
    pub initial: bool,
    /// Its last contents are needed on the device after the last operation.
    pub kept: bool,
    /// The operation after which the recorded program let go of it. Without one, that is the last
    /// that uses it. A plan may let go earlier, where nothing reads it any more.
    pub released: Option<u32>,
    /// How it can be held in fewer bytes, if it can.
    pub encoding: Option<Encoding>,
}

impl Storage {
    /// A storage of so many bytes that an operation is to write.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// One that is there before the first operation and after the last.
    #[must_use]
    pub fn persistent(bytes: u64) -> Self {
        Self { bytes, initial: true, kept: true, ..Self::default() }
    }

    /// Whether it is there before the first operation and after the last, as parameters and the
    /// optimizer's state are: what is not in use of it may be on the host, also between iterations.
    #[must_use]
    pub const fn persists(&self) -> bool {
        self.initial && self.kept && self.alias.is_none()
    }

    /// Another name for the bytes of a storage.
    #[must_use]
    pub fn alias(of: u32) -> Self {
        Self { alias: Some(of), ..Self::default() }
    }
}

/// A second form of a storage that takes fewer bytes, from which operations cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// The bytes of that form.
    pub bytes: u64,
    /// Nanoseconds of compute to make it.
    pub encode: u64,
    /// Nanoseconds of compute to make the storage of it again.
    pub decode: u64,
    /// The contents are not exactly the same afterwards.
    pub lossy: bool,
}

/// One operation of the iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// The storages that it reads.
    pub reads: Vec<u32>,
    /// The storages that it writes. The first one to write a storage without initial contents makes
    /// it; any other changes it in place.
    pub writes: Vec<u32>,
    /// How long it takes, in nanoseconds.
    pub nanos: u64,
    /// It gives the same result each time: no random numbers, no communication, no effect
    /// elsewhere.
    pub repeatable: bool,
}

/// The most storages, and the most operations.
const MOST: usize = 1 << 31;

/// One iteration: operations in the order in which they were recorded.
///
/// Each write gives a storage a new **version**. The initial contents are version 0, or else what
/// the first write makes; each write in place makes the next. What an operation read when it was
/// recorded is a version, and a schedule has to give it that one.
#[derive(Clone, Debug)]
pub struct Graph {
    pub(in crate::relief) storages: Vec<Storage>,
    pub(in crate::relief) operations: Vec<Operation>,
    /// The versions of what each operation reads: in the order of its reads, and then of what it
    /// changes in place.
    pub(in crate::relief) needs: Vec<Vec<(u32, u32)>>,
    /// The versions that each makes, in the order of its writes.
    pub(in crate::relief) makes: Vec<Vec<(u32, u32)>>,
    /// The operations that write each storage.
    pub(in crate::relief) writers: Vec<Vec<u32>>,
    /// The last operation that uses each storage.
    pub(in crate::relief) last: Vec<Option<u32>>,
    /// The first operation of the backward pass, where somebody said so.
    backward: Option<u32>,
    /// What each operation is; empty where nobody said so.
    kinds: Vec<Kind>,
    /// What persists stays on the device.
    pub(in crate::relief) resident: bool,
}

impl Graph {
    /// A graph of these. Names are resolved, and what an operation names twice counts once.
    /// O(sizes).
    ///
    /// # Errors
    /// An operation names a storage that there is not, or reads one that has no contents yet; an
    /// alias of an alias or of nothing; all storages together, or all times, come to more than 63
    /// bits.
    pub fn new(storages: Vec<Storage>, operations: Vec<Operation>) -> Result<Self, GraphError> {
        if storages.len() > MOST || operations.len() > MOST {
            return Err(GraphError::TooMany);
        }
        limit(&storages, &operations)?;
        for (at, storage) in storages.iter().enumerate() {
            let of = storage.alias.map(|of| storages.get(of as usize));
            if of.is_some_and(|of| of.is_none_or(|of| of.alias.is_some())) {
                return Err(GraphError::Alias { storage: at });
            }
        }
        let empty = Vec::with_capacity(operations.len());
        let mut graph = Self {
            writers: alloc::vec![Vec::new(); storages.len()],
            last: alloc::vec![None; storages.len()],
            needs: empty.clone(),
            makes: empty,
            storages,
            operations: Vec::new(),
            backward: None,
            kinds: Vec::new(),
            resident: false,
        };
        for (at, operation) in operations.into_iter().enumerate() {
            graph.push(at, operation)?;
        }
        Ok(graph)
    }

    fn push(&mut self, at: usize, mut operation: Operation) -> Result<(), GraphError> {
        operation.reads = self.resolved(at, &operation.reads)?;
        operation.writes = self.resolved(at, &operation.writes)?;
        let version = |graph: &Self, storage: u32| {
            let writes = graph.writers[storage as usize].len();
            let first = usize::from(!graph.storages[storage as usize].initial);
            u32::try_from(writes).ok()?.checked_sub(u32::try_from(first).ok()?)
        };
        let mut needs = Vec::with_capacity(operation.reads.len());
        for &storage in &operation.reads {
            let found = version(self, storage);
            let version =
                found.ok_or(GraphError::NoContents { operation: at, storage: storage as usize })?;
            needs.push((storage, version));
        }
        let mut makes = Vec::with_capacity(operation.writes.len());
        let index = u32::try_from(at).unwrap_or(u32::MAX);
        for &storage in &operation.writes {
            let old = version(self, storage);
            makes.push((storage, old.map_or(0, |old| old.saturating_add(1))));
            if let Some(old) = old.filter(|_| !operation.reads.contains(&storage)) {
                needs.push((storage, old));
            }
            self.writers[storage as usize].push(index);
        }
        for &storage in operation.reads.iter().chain(&operation.writes) {
            self.last[storage as usize] = Some(index);
        }
        self.needs.push(needs);
        self.makes.push(makes);
        self.operations.push(operation);
        Ok(())
    }

    /// The storages behind names, each once, in order.
    fn resolved(&self, operation: usize, names: &[u32]) -> Result<Vec<u32>, GraphError> {
        let resolve = |&name: &u32| {
            let storage = self.storages.get(name as usize);
            let storage =
                storage.ok_or(GraphError::NoStorage { operation, storage: name as usize })?;
            Ok(storage.alias.unwrap_or(name))
        };
        let mut all = names.iter().map(resolve).collect::<Result<Vec<u32>, GraphError>>()?;
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// The same graph, where the backward pass begins with this operation.
    #[must_use]
    pub const fn with_backward(mut self, first: u32) -> Self {
        self.backward = Some(first);
        self
    }

    /// The same graph, where what is there before the first operation stays on the device until its
    /// last use: our planners do not move it. Others never do.
    #[must_use]
    pub const fn with_resident_state(mut self) -> Self {
        self.resident = true;
        self
    }

    /// The same graph with the kind of each operation. Those that have none are
    /// [`Kind::Other`].
    #[must_use]
    pub fn with_kinds(mut self, mut kinds: Vec<Kind>) -> Self {
        kinds.resize(self.operations.len(), Kind::Other);
        self.kinds = kinds;
        self
    }

    /// Whether some storage can be encoded with a loss.
    #[must_use]
    pub fn has_lossy_encodings(&self) -> bool {
        let mut encodings = self.storages.iter().filter_map(|storage| storage.encoding);
        encodings.any(|encoding| encoding.lossy)
    }

    /// The same graph, where each storage can be held encoded as it says here; `None` and what is
    /// missing leave a storage without a second form. What comes to more than 62 bits with all else
    /// is left out.
    #[must_use]
    pub fn with_encodings(mut self, encodings: Vec<Option<Encoding>>) -> Self {
        let mut all: u64 = self.storages.iter().map(|storage| storage.bytes).sum();
        let encodings = encodings.into_iter().chain(core::iter::repeat(None));
        for (storage, encoding) in self.storages.iter_mut().zip(encodings) {
            storage.encoding = encoding.filter(|encoding| {
                let sum = all.saturating_add(encoding.bytes);
                let nanos = encoding.encode.max(encoding.decode);
                let fits = sum < 1 << 62 && nanos < 1 << 32;
                all = if fits { sum } else { all };
                fits
            });
        }
        self
    }

    /// The first operation of the backward pass: as it was said, or else the one at which most
    /// bytes are in use, as the last activation is made there.
    #[must_use]
    pub fn backward(&self) -> u32 {
        let count = u32::try_from(self.operations.len()).unwrap_or(u32::MAX);
        if let Some(first) = self.backward {
            return first.min(count);
        }
        let live = self.live();
        let most = (0_u32..).zip(&live).max_by_key(|&(at, &live)| (live, core::cmp::Reverse(at)));
        most.map_or(0, |(at, _)| at)
    }

    /// What an operation is, as far as somebody said so.
    #[must_use]
    pub fn kind(&self, operation: u32) -> Option<Kind> {
        self.kinds.get(operation as usize).copied()
    }

    /// The storages, aliases among them.
    #[must_use]
    pub fn storages(&self) -> &[Storage] {
        &self.storages
    }

    /// The operations, with names resolved.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// How long they take one after the other, in nanoseconds.
    #[must_use]
    pub fn nanos(&self) -> u64 {
        self.operations.iter().map(|operation| operation.nanos).sum()
    }

    /// The bytes in use during each operation as the program was recorded: what it has made and not
    /// yet released, and what was there before. O(sizes).
    #[must_use]
    pub fn recorded(&self) -> Vec<u64> {
        let until = |at: usize| self.storages[at].released.max(self.last[at]);
        self.profile(until)
    }

    /// The same if each storage were let go of after its last use.
    #[must_use]
    pub fn live(&self) -> Vec<u64> {
        self.profile(|at| self.last[at])
    }

    fn profile(&self, until: impl Fn(usize) -> Option<u32>) -> Vec<u64> {
        let count = self.operations.len();
        let mut change = alloc::vec![0_i64; count + 1];
        for (at, storage) in self.storages.iter().enumerate() {
            let bytes = i64::try_from(storage.bytes).unwrap_or(i64::MAX);
            let from = match self.writers[at].first() {
                _ if storage.alias.is_some() => continue,
                _ if storage.initial => 0,
                Some(&writer) => writer as usize,
                None => continue,
            };
            change[from.min(count)] += bytes;
            // Of what is there before and never used: the program may hold it for what is not
            // recorded.
            let end = until(at).map_or(count, |last| last as usize + 1).min(count);
            if !storage.kept {
                change[end.max(from.min(count))] -= bytes;
            }
        }
        let mut now = 0_i64;
        let sum = |change: i64| {
            now += change;
            u64::try_from(now).unwrap_or(0)
        };
        change.into_iter().take(count).map(sum).collect()
    }

    /// The most bytes in use at once as the program was recorded.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.recorded().into_iter().max().unwrap_or(0)
    }

    /// No schedule fits in less: the storages of the operation that has the most, and what has to
    /// [stay](Self::with_resident_state).
    #[must_use]
    pub fn working_set(&self) -> u64 {
        self.least(|storage| self.resident && storage.persists())
    }

    /// No schedule in which all that [persists](Storage::persists) stays on the device fits in
    /// less: that, and the other storages of the operation that has the most.
    #[must_use]
    pub fn resident_set(&self) -> u64 {
        self.least(Storage::persists)
    }

    fn least(&self, always: impl Fn(&Storage) -> bool) -> u64 {
        let fixed: u64 = self.storages.iter().filter(|s| always(s)).map(|s| s.bytes).sum();
        let of = |operation: &Operation| {
            let mut all = operation.reads.clone();
            all.extend(&operation.writes);
            all.sort_unstable();
            all.dedup();
            let own = all.iter().map(|&s| &self.storages[s as usize]).filter(|s| !always(s));
            own.map(|s| s.bytes).sum::<u64>()
        };
        fixed + self.operations.iter().map(of).max().unwrap_or(0)
    }
}

/// Whether all sums fit.
fn limit(storages: &[Storage], operations: &[Operation]) -> Result<(), GraphError> {
    let most = (1_u64 << 62) - 1;
    let add = |sum: u64, more: u64| sum.checked_add(more).filter(|&sum| sum <= most);
    let bytes = storages.iter().try_fold(0, |sum, storage| {
        let encoded = storage.encoding.map_or(0, |encoding| encoding.bytes);
        add(add(sum, storage.bytes)?, encoded)
    });
    bytes.ok_or(GraphError::TooLarge)?;
    let nanos = operations.iter().try_fold(0, |sum, operation| add(sum, operation.nanos));
    nanos.map(|_| ()).ok_or(GraphError::TooLarge)
}
