//! `SwapAdvisor` (Huang, Jin and Li, ASPLOS 2020): a genetic algorithm over the order of
//! operations, with each individual's swaps planned and its time simulated.
//!
//! An individual is a key for each operation; operations run in the order of their keys as far as
//! data allow. On shortage what is used last from then on goes to the host (Belady's rule), as
//! early as it can; it comes back as early as memory allows. There the pools of size classes are in
//! the genome too; here memory is counted in bytes, so there are none.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::relief::random::Random;
use crate::relief::{Graph, Link, Step, sequence, simulate};

/// Individuals in a population.
const POPULATION: usize = 16;

/// The schedule, if one fits. It evaluates at least a population and as many individuals as there
/// is work for.
pub(in crate::relief) fn steps(
    graph: &Graph,
    link: &Link,
    budget: u64,
    work: u64,
) -> Option<Vec<Step>> {
    let order = Order::new(graph);
    let count = graph.operations().len();
    let mut random = Random::new(7);
    let evaluate = |keys: &[f64]| -> (u128, Option<Vec<Step>>) {
        let runs = order.by(keys);
        match swaps(graph, link, budget, &runs) {
            Ok(steps) => match simulate(graph, link, &steps, budget) {
                Ok(outcome) => (u128::from(outcome.nanos), Some(steps)),
                Err(_) => (u128::MAX, None),
            },
            Err(over) => (u128::from(u64::MAX) + u128::from(over), None),
        }
    };
    let recorded: Vec<f64> = (0..count).map(|at| at as f64).collect();
    let mut all: Vec<(u128, Vec<f64>)> = Vec::new();
    let mut best: (u128, Option<Vec<Step>>) = (u128::MAX, None);
    let rounds = work / (count as u64 * 256 + 1);
    let rounds = POPULATION + usize::try_from(rounds).unwrap_or(usize::MAX).min(1 << 12);
    for turn in 0..rounds {
        let keys = if turn < POPULATION {
            // The first as it was recorded, the others ever further from it.
            let spread = turn as f64 * 2.0;
            recorded.iter().map(|key| key + spread * uniform(&mut random)).collect()
        } else {
            let (one, other) = (pick(&all, &mut random), pick(&all, &mut random));
            child(&all[one].1, &all[other].1, &mut random)
        };
        let (fitness, steps) = evaluate(&keys);
        if fitness < best.0 && steps.is_some() {
            best = (fitness, steps);
        }
        all.push((fitness, keys));
        if all.len() > POPULATION {
            let worst = (0..all.len()).max_by_key(|&at| (all[at].0, at)).unwrap_or(0);
            all.swap_remove(worst);
        }
    }
    best.1
}

fn uniform(random: &mut Random) -> f64 {
    random.below(1 << 20) as f64 / f64::from(1 << 20)
}

/// The better of two by chance.
fn pick(all: &[(u128, Vec<f64>)], random: &mut Random) -> usize {
    let (one, other) = (random.below(all.len()), random.below(all.len()));
    if all[other].0 < all[one].0 { other } else { one }
}

/// One parent's keys up to a point and the other's from there, some of them moved.
fn child(one: &[f64], other: &[f64], random: &mut Random) -> Vec<f64> {
    let cut = random.below(one.len() + 1);
    let mut keys: Vec<f64> = one[..cut].iter().chain(&other[cut..]).copied().collect();
    let moved = 1 + random.below(keys.len() / 64 + 2);
    for _ in 0..moved {
        let at = random.below(keys.len());
        if let Some(key) = keys.get_mut(at) {
            *key += 64.0 * (uniform(random) - 0.5);
        }
    }
    keys
}

/// What has to run before what.
struct Order {
    after: Vec<Vec<u32>>,
    waits: Vec<u32>,
}

impl Order {
    fn new(graph: &Graph) -> Self {
        let count = graph.operations().len();
        let mut order =
            Self { after: alloc::vec![Vec::new(); count], waits: alloc::vec![0; count] };
        // Of each storage its last writer, and who has read it since.
        let mut uses: Vec<(Option<u32>, Vec<u32>)> =
            alloc::vec![(None, Vec::new()); graph.storages().len()];
        let mut once = None;
        for (at, operation) in (0_u32..).zip(graph.operations()) {
            for &storage in &operation.reads {
                let (writer, readers) = &mut uses[storage as usize];
                order.edge(*writer, at);
                readers.push(at);
            }
            for &storage in &operation.writes {
                let (writer, readers) = &mut uses[storage as usize];
                order.edge(*writer, at);
                readers.drain(..).for_each(|reader| order.edge(Some(reader), at));
                *writer = Some(at);
            }
            if !operation.repeatable {
                order.edge(once, at);
                once = Some(at);
            }
        }
        order
    }

    fn edge(&mut self, from: Option<u32>, to: u32) {
        if let Some(from) = from.filter(|&from| from != to) {
            self.after[from as usize].push(to);
            self.waits[to as usize] += 1;
        }
    }

    /// The order nearest to the keys.
    fn by(&self, keys: &[f64]) -> Vec<u32> {
        let mut rank: Vec<u32> = (0..u32::try_from(keys.len()).unwrap_or(u32::MAX)).collect();
        rank.sort_by(|&one, &other| {
            keys[one as usize].total_cmp(&keys[other as usize]).then(one.cmp(&other))
        });
        let mut place = alloc::vec![0_u32; keys.len()];
        (0..).zip(&rank).for_each(|(at, &operation)| place[operation as usize] = at);
        let mut waits = self.waits.clone();
        let mut ready: BTreeSet<u32> =
            (0..waits.len()).filter(|&at| waits[at] == 0).map(|at| place[at]).collect();
        let mut all = Vec::with_capacity(keys.len());
        while let Some(next) = ready.pop_first() {
            let operation = rank[next as usize];
            all.push(operation);
            for &later in &self.after[operation as usize] {
                waits[later as usize] -= 1;
                if waits[later as usize] == 0 {
                    ready.insert(place[later as usize]);
                }
            }
        }
        all
    }
}

/// A storage on the host: after which position it leaves, and before which it is needed.
struct Away {
    storage: u32,
    after: usize,
    before: usize,
}

/// The steps of an order of operations with swaps by Belady's rule; or by how much an operation is
/// over the budget.
fn swaps(graph: &Graph, link: &Link, budget: u64, runs: &[u32]) -> Result<Vec<Step>, u64> {
    let uses = positions(graph, runs);
    let mut next = alloc::vec![0_usize; uses.len()];
    let mut gone: Vec<Option<usize>> = alloc::vec![None; uses.len()];
    let mut here: BTreeSet<u32> = BTreeSet::new();
    let bytes = |storage: u32| graph.storages()[storage as usize].bytes;
    let fixed = |storage: u32| graph.storages()[storage as usize].initial;
    let initial = graph.storages().iter().filter(|one| one.initial && one.alias.is_none());
    let mut held: u64 = initial.map(|one| one.bytes).sum();
    let mut away: Vec<Away> = Vec::new();
    let mut live = Vec::with_capacity(runs.len());
    for (at, &run) in runs.iter().enumerate() {
        let operation = &graph.operations()[run as usize];
        let own = |storage: u32| {
            operation.reads.binary_search(&storage).is_ok()
                || operation.writes.binary_search(&storage).is_ok()
        };
        for &storage in operation.reads.iter().chain(&operation.writes) {
            if !fixed(storage) && here.insert(storage) {
                held += bytes(storage);
                if let Some(after) = gone[storage as usize].take() {
                    away.push(Away { storage, after, before: at });
                }
            }
        }
        while held > budget {
            let later = |&&storage: &&u32| !own(storage) && bytes(storage) > 0;
            let use_of = |storage: u32| {
                uses[storage as usize].get(next[storage as usize]).copied().unwrap_or(usize::MAX)
            };
            let victim = here.iter().filter(later).max_by_key(|&&one| (use_of(one), bytes(one)));
            let Some(&victim) = victim else { return Err(held - budget) };
            here.remove(&victim);
            held -= bytes(victim);
            let last = uses[victim as usize][..next[victim as usize]].last().copied();
            gone[victim as usize] = Some(last.unwrap_or(0));
        }
        live.push(held);
        for &storage in operation.reads.iter().chain(&operation.writes) {
            let used = &mut next[storage as usize];
            while uses[storage as usize].get(*used).is_some_and(|&one| one <= at) {
                *used += 1;
            }
            let over = *used >= uses[storage as usize].len();
            if over && !graph.storages()[storage as usize].kept && !fixed(storage) {
                held -= if here.remove(&storage) { bytes(storage) } else { 0 };
            }
        }
    }
    // What is kept has to be there in the end.
    for (storage, after) in (0_u32..).zip(&gone) {
        if let Some(after) = after.filter(|_| graph.storages()[storage as usize].kept) {
            away.push(Away { storage, after, before: runs.len() });
        }
    }
    Ok(with_moves(graph, link, budget, runs, away, live))
}

/// The positions at which each storage is in use, ascending.
fn positions(graph: &Graph, runs: &[u32]) -> Vec<Vec<usize>> {
    let mut uses = alloc::vec![Vec::new(); graph.storages().len()];
    for (at, &run) in runs.iter().enumerate() {
        let operation = &graph.operations()[run as usize];
        for &storage in operation.reads.iter().chain(&operation.writes) {
            let all: &mut Vec<usize> = &mut uses[storage as usize];
            if all.last() != Some(&at) {
                all.push(at);
            }
        }
    }
    uses
}

/// Out right after the use before, and back as early as memory allows, no earlier than the transfer
/// takes.
fn with_moves(
    graph: &Graph,
    link: &Link,
    budget: u64,
    runs: &[u32],
    mut away: Vec<Away>,
    mut live: Vec<u64>,
) -> Vec<Step> {
    let mut out = alloc::vec![Vec::new(); runs.len()];
    let mut back = alloc::vec![Vec::new(); runs.len() + 1];
    away.sort_unstable_by_key(|one| (one.before, one.storage));
    for one in away {
        let bytes = graph.storages()[one.storage as usize].bytes;
        out[one.after].push(Step::Out(one.storage));
        let (mut at, mut hidden) = (one.before, 0_u64);
        while at > one.after + 1
            && hidden < link.nanos_back(bytes)
            && live[at - 1].saturating_add(bytes) <= budget
        {
            at -= 1;
            live[at] += bytes;
            hidden = hidden.saturating_add(graph.operations()[runs[at] as usize].nanos);
        }
        back[at].push(Step::In(one.storage));
    }
    let mut all = Vec::with_capacity(2 * runs.len());
    for (at, &run) in runs.iter().enumerate() {
        all.append(&mut back[at]);
        all.push(Step::Run(run));
        all.append(&mut out[at]);
    }
    if let Some(last) = back.last_mut() {
        all.append(last);
    }
    sequence::with_drops(graph, &all)
}
