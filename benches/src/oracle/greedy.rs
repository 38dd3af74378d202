//! zico's rule on the same model: an iteration starts at the first moment at which its wave fits.
//!
//! Jobs queue in the order in which they ask, and the first waiter has a reservation, as in zico's
//! admission: another starts before it only if that does not delay it. Moments are exact: when an
//! iteration ends, and when a delay that the rule gave is over.

use std::collections::HashMap;

use super::{Case, Wave};

/// So many iterations in all are simulated if no state ever returns.
const MOST_ITERATIONS: u64 = 20_000;

/// Decides which of the waiting jobs starts now, if any, and when to ask again at the latest.
pub trait Rule {
    /// The place in the queue of the job to start, or how long to wait at most if nothing ends.
    fn decide(&mut self, now: &Moment<'_>) -> Decision;
}

/// What a [`Rule`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Start the job at this place of the queue.
    Start(usize),
    /// Ask again when an iteration ends, or after so much clock if that is sooner.
    Wait(Option<u64>),
}

/// How far each job has come and who waits.
type Seen = (Vec<Option<u64>>, Vec<usize>);

/// The jobs at one moment.
#[derive(Clone, Debug)]
pub struct Moment<'a> {
    /// The jobs.
    pub case: &'a Case,
    /// How far each job's iteration has come, if one runs.
    pub at: Vec<Option<u64>>,
    /// The jobs that wait, in the order in which they asked.
    pub queue: Vec<usize>,
}

impl Moment<'_> {
    /// How long a job has to wait until its wave fits beside those that run.
    #[must_use]
    pub fn delay(&self, job: usize, beside: Option<usize>) -> Option<u64> {
        let mut others: Vec<(&Wave, u64)> = Vec::with_capacity(self.at.len());
        for (other, wave) in self.case.waves.iter().enumerate() {
            let at = if beside == Some(other) { Some(0) } else { self.at[other] };
            others.extend(at.map(|at| (wave, at)));
        }
        first_fit(&self.case.waves[job], &others, self.case.room)
    }
}

/// zico's time shift with its reservation for the first waiter.
#[derive(Clone, Copy, Debug, Default)]
pub struct FirstFit;

impl Rule for FirstFit {
    fn decide(&mut self, now: &Moment<'_>) -> Decision {
        let delays: Vec<Option<u64>> = now.queue.iter().map(|&job| now.delay(job, None)).collect();
        let Some(&first) = now.queue.first() else { return Decision::Wait(None) };
        let delays_first = |job: usize| match (delays[0], now.delay(first, Some(job))) {
            (Some(alone), Some(beside)) => beside > alone,
            _ => true,
        };
        let may_start = |&place: &usize| {
            delays[place] == Some(0) && (place == 0 || !delays_first(now.queue[place]))
        };
        match (0..delays.len()).find(may_start) {
            Some(place) => Decision::Start(place),
            None => Decision::Wait(delays.iter().flatten().copied().filter(|&d| d > 0).min()),
        }
    }
}

/// The throughput of a rule in the long run: of the cycle that it comes to, or, if no state returns
/// in `MOST_ITERATIONS`, of all but the first tenth of it. None if a job does not fit alone, or if
/// the rule lets all jobs wait.
#[must_use]
pub fn throughput(case: &Case, rule: &mut dyn Rule) -> Option<f64> {
    if !case.is_possible() || case.waves.iter().any(Wave::is_empty) {
        return None;
    }
    let jobs = case.waves.len();
    let mut now = Moment { case, at: vec![None; jobs], queue: (0..jobs).collect() };
    let mut seen: HashMap<Seen, (u64, f64)> = HashMap::new();
    // Work, time, iterations; and the first two after a tenth.
    let (mut work, mut time, mut ended, mut tenth) = (0, 0.0, 0, None);
    while ended < MOST_ITERATIONS {
        if ended * 10 >= MOST_ITERATIONS && tenth.is_none() {
            tenth = Some((work, time));
        }
        if let Some((work_then, time_then)) =
            seen.insert((now.at.clone(), now.queue.clone()), (work, time))
        {
            return Some((work - work_then) as f64 / (time - time_then));
        }
        let most = loop {
            match rule.decide(&now) {
                Decision::Start(place) => {
                    let job = now.queue.remove(place);
                    now.at[job] = Some(0);
                }
                Decision::Wait(most) => break most,
            }
        };
        let left = |job: usize| Some(case.waves[job].length() - now.at[job]?);
        let clock = (0..jobs).filter_map(left).min()?;
        let clock = most.map_or(clock, |most| clock.min(most.max(1)));
        let running = now.at.iter().flatten().count();
        work += running as u64 * clock;
        time += clock as f64 * case.stretch(running);
        ended += advance(&mut now, clock);
    }
    let (work_then, time_then) = tenth?;
    Some((work - work_then) as f64 / (time - time_then))
}

/// All that run go on by `clock`; how many iterations end. Their jobs ask again at once.
pub(super) fn advance(now: &mut Moment<'_>, clock: u64) -> u64 {
    let mut ended = 0;
    for (job, wave) in now.case.waves.iter().enumerate() {
        let Some(at) = &mut now.at[job] else { continue };
        *at += clock;
        if *at >= wave.length() {
            now.at[job] = None;
            now.queue.push(job);
            ended += 1;
        }
    }
    ended
}

/// The least delay at which `own` fits beside iterations that have come so far and go on to their
/// end.
fn first_fit(own: &Wave, others: &[(&Wave, u64)], room: u32) -> Option<u64> {
    if own.peak() > room {
        return None;
    }
    let sum = sum(others);
    let mut delay = 0;
    let last_conflict = |(from, to): (u64, u64), demand: u32| {
        let first = sum.partition_point(|piece| piece.0 <= from);
        let begins_before = |piece: usize| piece == 0 || sum[piece - 1].0 < to;
        let within = (first..sum.len()).take_while(|&piece| begins_before(piece));
        within.filter(|&piece| sum[piece].1 + demand > room).last().map(|piece| sum[piece].0)
    };
    // A conflict forbids all delays up to the one at which it is just over.
    let next = |delay: u64| {
        own.pieces().find_map(|(a, b, demand)| {
            last_conflict((delay + a, delay + b), demand).map(|end| end - a)
        })
    };
    while let Some(later) = next(delay) {
        delay = later;
    }
    Some(delay)
}

/// What iterations take together from now on: pieces by where they end.
fn sum(others: &[(&Wave, u64)]) -> Vec<(u64, u32)> {
    let mut ends: Vec<u64> = Vec::new();
    for (wave, at) in others {
        ends.extend(wave.pieces().filter(|piece| piece.1 > *at).map(|piece| piece.1 - at));
    }
    ends.sort_unstable();
    ends.dedup();
    let mut pieces: Vec<(u64, u32)> = ends.into_iter().map(|end| (end, 0)).collect();
    for (wave, at) in others {
        let mut next = 0;
        for (_, to, demand) in wave.pieces().filter(|piece| piece.1 > *at) {
            while let Some(piece) = pieces.get_mut(next).filter(|piece| piece.0 <= to - at) {
                piece.1 += demand;
                next += 1;
            }
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_fits_when_the_others_have_fallen_far_enough() {
        let wave = Wave::new([(10, 2), (10, 6), (10, 2)]);
        for (at, room, delay) in [
            (0, 12, Some(0)),
            (0, 8, Some(10)),
            (5, 8, Some(5)),
            (20, 8, Some(0)),
            (0, 7, Some(20)),
            (0, 6, Some(20)),
            (0, 5, None),
        ] {
            assert_eq!(first_fit(&wave, &[(&wave, at)], room), delay, "{at} {room}");
        }
        assert_eq!(first_fit(&wave, &[(&wave, 0), (&wave, 10)], 10), Some(10));
    }
}
