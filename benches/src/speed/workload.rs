//! What the allocators are put through: lists of allocations and frees that leave the same set of
//! live blocks behind, so that they can be played again and again.
//!
//! A block is known by its place in a table, so that the loop that plays a list does the same for
//! every allocator: read an operation, read or write one handle.

use std::error::Error;

use zico_core::Lifetime;
use zico_mock::bundled;
use zico_mock::trace::{GRAIN, Step, Trace};

/// Of what may fail for many reasons.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// One operation.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// An allocation.
    Alloc {
        /// Where to put the handle.
        place: u32,
        /// Its size, in units of 512 bytes.
        granules: u32,
        /// How long it lives, as recorded.
        lifetime: Lifetime,
    },
    /// A free.
    Free {
        /// Where its handle is.
        place: u32,
    },
    /// An iteration begins.
    Begin,
    /// An iteration ends.
    End,
}

/// Operations to play again and again.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What people know it by.
    pub name: String,
    /// How many blocks can be alive.
    pub places: usize,
    /// Brings it about that `round` can be played.
    pub setup: Vec<Op>,
    /// Leaves what it has found.
    pub round: Vec<Op>,
    /// A round consists of turns of this many operations, each with as many allocations as frees.
    pub turn: usize,
    /// The bytes of address space that do.
    pub space: u64,
}

/// The random sizes are log-uniform over this many factors of two: 512 bytes to 64 MiB.
const OCTAVES: f64 = 17.0;
/// Operations in a turn: some 100 us, so that most turns have the core for themselves.
const TURN: usize = 2_000;
/// For 100,000 live blocks of a mean of 5.4 MiB, rounded up to powers of two by some, and holes.
const MOST_SPACE: u64 = 1792 << 30;

impl Workload {
    /// The part of the round that is the n-th turn.
    pub fn turn(&self, number: usize) -> &[Op] {
        let turns = self.round.len() / self.turn;
        let from = number % turns * self.turn;
        &self.round[from..from + self.turn]
    }
}

/// `live` blocks of random sizes; a step frees one of them and allocates another.
pub fn random(live: u32, pairs: usize) -> Workload {
    let mut random = fastrand::Rng::with_seed(7);
    let mut alloc = |place| {
        let granules = (random.f64() * OCTAVES).exp2();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 2^17")]
        // The largest are a granule less than 64 MiB: that is what zico's pages have room for.
        let granules = (granules as u32).clamp(1, (1 << 17) - 1);
        Op::Alloc { place, granules, lifetime: Lifetime::Iteration }
    };
    let mut victims = fastrand::Rng::with_seed(8);
    let mut steps = |pairs: usize| {
        let mut ops = Vec::with_capacity(2 * pairs);
        for _ in 0..pairs {
            let place = victims.u32(..live);
            ops.extend([Op::Free { place }, alloc(place)]);
        }
        ops
    };
    // As many again as live, and more, so that holes look as they will.
    let (aging, round) = (steps(4 * live as usize), steps(pairs));
    let setup = (0..live).map(alloc).chain(aging).collect();
    Workload {
        name: format!("random, {live} live"),
        places: live as usize,
        setup,
        round,
        space: MOST_SPACE.min(u64::from(live) << 24),
        turn: TURN,
    }
}

/// Bursts of allocations, freed in reverse, as forward and backward do it. 4 KiB to 2 MiB.
pub fn last_in_first_out(burst: u32) -> Workload {
    let mut random = fastrand::Rng::with_seed(7);
    let mut alloc = |place| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "up to 2^12")]
        let granules = ((random.f64() * 9.0).exp2() * 8.0) as u32;
        Op::Alloc { place, granules, lifetime: Lifetime::Iteration }
    };
    let up: Vec<Op> = (0..burst).map(&mut alloc).collect();
    let down = (0..burst).rev().map(|place| Op::Free { place });
    let once: Vec<Op> = up.into_iter().chain(down).collect();
    Workload {
        name: format!("LIFO, bursts of {burst}"),
        places: burst as usize,
        setup: Vec::new(),
        round: once,
        space: 4 << 30,
        turn: 2 * burst as usize,
    }
}

/// The same block again and again.
pub fn one_size(granules: u32) -> Workload {
    let alloc = Op::Alloc { place: 0, granules, lifetime: Lifetime::Iteration };
    Workload {
        name: "one size".to_owned(),
        places: 1,
        setup: Vec::new(),
        round: [alloc, Op::Free { place: 0 }].repeat(TURN / 2),
        space: 4 << 30,
        turn: TURN,
    }
}

/// A recorded job in program order: its setup, all recorded iterations, and then what is left is
/// freed.
///
/// # Errors
/// If no trace has this name.
pub fn recorded(name: &str) -> Outcome<Workload> {
    let trace = bundled::open(name)?;
    let mut round = Vec::new();
    let mut live = vec![false; trace.blocks().len()];
    let mut put = |steps: &[Step], round: &mut Vec<Op>| -> Outcome<()> {
        for step in steps {
            if let Some(op) = op(step)? {
                if let Op::Alloc { place, .. } | Op::Free { place } = op {
                    live[place as usize] ^= true;
                }
                round.push(op);
            }
        }
        Ok(())
    };
    put(trace.setup(), &mut round)?;
    for iteration in trace.iterations() {
        round.push(Op::Begin);
        put(iteration.steps(), &mut round)?;
        round.push(Op::End);
    }
    for (place, _) in live.iter().enumerate().filter(|(_, live)| **live) {
        round.push(Op::Free { place: u32::try_from(place)? });
    }
    Ok(Workload {
        name: name.to_owned(),
        places: trace.blocks().len(),
        setup: Vec::new(),
        turn: round.len(),
        round,
        space: space(&trace),
    })
}

/// The last recorded iteration of a job, as one that repeats: the setup is all that comes before
/// it. On the recorded jobs an iteration frees all that it allocates, but for what persists.
///
/// # Errors
/// If no trace has this name, or its iterations do leave something.
pub fn repeating(name: &str) -> Outcome<Workload> {
    let whole = recorded(name)?;
    let at = |which: fn(&Op) -> bool| whole.round.iter().rposition(which).ok_or("no iteration");
    let (from, to) = (at(|op| matches!(op, Op::Begin))?, at(|op| matches!(op, Op::End))?);
    let (setup, round) = (whole.round[..from].to_vec(), whole.round[from..=to].to_vec());
    let pairs = round.iter().filter(|op| matches!(op, Op::Alloc { .. })).count();
    if pairs != round.iter().filter(|op| matches!(op, Op::Free { .. })).count() {
        return Err(format!("an iteration of {name} does not free what it allocates").into());
    }
    Ok(Workload { setup, turn: round.len(), round, ..whole })
}

fn op(step: &Step) -> Outcome<Option<Op>> {
    Ok(match *step {
        Step::Alloc { block, bytes, lifetime } => {
            let granules = u32::try_from(bytes.value().max(1).div_ceil(GRAIN.value()))?;
            Some(Op::Alloc { place: block.value(), granules, lifetime })
        }
        Step::Free { block } => Some(Op::Free { place: block.value() }),
        Step::Launch { .. } | Step::Use { .. } | Step::Phase(_) => None,
    })
}

fn space(trace: &Trace) -> u64 {
    2 * trace.stats().peak.value().next_power_of_two()
}
