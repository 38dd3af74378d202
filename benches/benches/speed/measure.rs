//! The method of measurement. The machine is shared and noisy, and the results are ratios. So the
//! candidates take turns: in each round each of them runs two short turns to warm up and one that
//! is timed. A figure is the median over the rounds. (criterion and divan measure candidates one
//! after the other, so the load by other processes would show as a difference.)

use std::time::{Duration, Instant};

use zico_bench::speed::{Allocator, Op, Outcome, Workload};

use crate::player::{Nothing, Player, Plays};

/// A candidate that takes longer than this to warm up is measured as it is; it only gets slower.
const PATIENCE: Duration = Duration::from_secs(4);

/// Turns that warm up.
const WARMING: usize = 2;

/// One allocator that goes through one workload.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'static str,
    workload: &'a Workload,
    player: Box<dyn Plays + 'a>,
    /// The next turn.
    turn: usize,
    times: Vec<f64>,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Runs,
    /// It was too slow to be warmed up: its figure, in nanoseconds a pair, is one of the way there.
    Slow(f64),
    /// It ran out of space.
    Full,
}

/// The result, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) name: &'static str,
    /// A pair, without the loop.
    pub(crate) median: Option<f64>,
    /// The interquartile range over the rounds.
    pub(crate) spread: f64,
    /// It was too slow to be warmed up.
    pub(crate) at_least: bool,
    /// Of single allocations, what the clock takes left out: median and 99th percentile.
    pub(crate) alloc: Option<(u64, u64)>,
}

impl<'a> Contender<'a> {
    /// Sets it up, and plays the round twice.
    pub(crate) fn new<A: Allocator + 'a>(
        name: &'static str,
        workload: &'a Workload,
        allocator: Outcome<A>,
    ) -> Outcome<Self> {
        let player = Player::new(allocator?, workload.places).ok_or("no room at all")?;
        let mut player: Box<dyn Plays> = Box::new(player);
        let (mut fate, start) = (Fate::Runs, Instant::now());
        let setup = workload.setup.chunks(workload.turn);
        let rounds = workload.round.chunks(workload.turn);
        for ops in setup.chain(rounds.clone()).chain(rounds) {
            let before = Instant::now();
            if !player.play(ops) {
                fate = Fate::Full;
                break;
            }
            if start.elapsed() > PATIENCE {
                fate = Fate::Slow(before.elapsed().as_nanos() as f64 / pairs(ops));
                break;
            }
        }
        Ok(Self { name, workload, player, turn: 0, times: Vec::new(), fate })
    }

    fn next(&mut self) -> &'a [Op] {
        self.turn += 1;
        self.workload.turn(self.turn - 1)
    }

    /// Warms the caches, which other candidates have used.
    fn warm(&mut self) -> bool {
        (0..WARMING).all(|_| {
            let ops = self.next();
            self.player.play(ops)
        })
    }

    fn round(&mut self) {
        if self.fate != Fate::Runs {
            return;
        }
        let mut done = self.warm();
        let measured = self.next();
        let start = Instant::now();
        done &= self.player.play(measured);
        self.times.push(start.elapsed().as_nanos() as f64 / pairs(measured));
        if !done {
            self.fate = Fate::Full;
        }
    }

    /// The time that single allocations take, in some more turns.
    fn singles(&mut self, rounds: usize, clock: u64) -> Option<(u64, u64)> {
        let mut times = Vec::new();
        for _ in 0..rounds {
            let warm = self.warm();
            let measured = self.next();
            if !warm || !self.player.play_timed(measured, &mut times) {
                return None;
            }
        }
        times.sort_unstable();
        let at = |part: usize| times[times.len() * part / 100].saturating_sub(clock);
        Some((at(50), at(99)))
    }

    /// The figures without the time of the loop.
    fn figures(mut self, idle: f64, clock: u64) -> Figures {
        self.times.sort_by(f64::total_cmp);
        let mut figures =
            Figures { name: self.name, median: None, spread: 0.0, at_least: false, alloc: None };
        match self.fate {
            Fate::Full => {}
            Fate::Slow(nanos) => {
                (figures.median, figures.at_least) = (Some(nanos - idle), true);
            }
            Fate::Runs => {
                let rounds = self.times.len();
                let quarter = |n: usize| self.times[(n * rounds / 4).min(rounds - 1)];
                figures.median = Some((quarter(2) - idle).max(0.0));
                figures.spread = quarter(3) - quarter(1);
                figures.alloc = self.singles(rounds, clock);
            }
        }
        figures
    }
}

/// Runs all candidates for a number of rounds.
pub(crate) fn compare(
    workload: &Workload,
    mut contenders: Vec<Contender<'_>>,
    rounds: usize,
) -> Outcome<Vec<Figures>> {
    let mut idle = Contender::new("loop", workload, Ok(Nothing))?;
    for _ in 0..rounds {
        idle.round();
        contenders.iter_mut().for_each(Contender::round);
    }
    let clock = idle_clock();
    let idle = idle.figures(0.0, clock).median.unwrap_or_default();
    Ok(contenders.into_iter().map(|one| one.figures(idle, clock)).collect())
}

/// Allocations.
pub(crate) fn pairs(ops: &[Op]) -> f64 {
    ops.iter().filter(|op| matches!(op, Op::Alloc { .. })).count() as f64
}

/// The figure noted for an allocation that takes no measurable time.
fn idle_clock() -> u64 {
    let clock = quanta::Clock::new();
    let mut times: Vec<u64> = (0..10_000)
        .map(|_| {
            let before = clock.raw();
            let after = clock.raw();
            clock.delta_as_nanos(before, after)
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}
