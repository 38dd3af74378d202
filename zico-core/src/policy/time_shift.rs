use alloc::vec::Vec;

use super::{Policy, Running, Verdict, View};
use crate::profile::Profile;
use crate::units::{Regions, Ticks};

/// Start at the first moment from which all waves fit together (the default).
///
/// The smallest delay d >= 0 such that for all t: own(t) + sum over the running iterations of
/// theirs(position + d + t) <= room. Zico's time-shift model (section 5) for any number of jobs;
/// exact on the profiles' step functions instead of trying one step of time after another. An
/// iteration with no profile yet runs alone, and nothing starts beside it.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeShift;

impl Policy for TimeShift {
    fn name(&self) -> &'static str {
        "zico"
    }

    fn decide(&self, view: &View<'_>) -> Verdict {
        if view.running.is_empty() {
            return Verdict::Start;
        }
        let all_known = view.running.iter().all(|other| other.profile.is_some());
        match view.candidate {
            Some(own) if all_known => match delay(own, view.running, view.room) {
                Some(Ticks::ZERO) => Verdict::Start,
                Some(delay) => Verdict::After(delay),
                None => Verdict::AfterAnEnd,
            },
            _ => Verdict::AfterAnEnd,
        }
    }
}

/// From the end of the piece before until `end`, measured from now, the others take `demand`.
#[derive(Clone, Copy)]
struct Piece {
    end: Ticks,
    demand: Regions,
}

/// The smallest delay at which `own` fits beside the running iterations, each of which goes on from
/// its position to its end. None if `own` does not fit at all.
///
/// A step [a, b) of `own` conflicts with a piece [s, e) of the others' sum for every delay in
/// (s - b, e - a). Where the step conflicts at the present delay, the last piece that it conflicts
/// with forbids every delay up to e - a, so the walk goes on from there: what is skipped is the
/// union of the forbidden intervals. It ends when all steps in a row fit. O(steps of `own` + pieces)
/// for each time round.
fn delay(own: &Profile, others: &[Running<'_>], room: Regions) -> Option<Ticks> {
    if own.peak() > room {
        return None;
    }
    let pieces = sum(others);
    let highest = pieces.iter().map(|piece| piece.demand).max().unwrap_or_default();
    let mut delay = Ticks::ZERO;
    if own.peak().saturating_add(highest) <= room {
        return Some(delay);
    }
    let steps = own.steps();
    let mut fitting = 0;
    for i in (0..steps.len()).cycle() {
        let step = steps[i];
        let end = steps.get(i + 1).map_or(own.length(), |next| next.at);
        let window = (delay.saturating_add(step.at), delay.saturating_add(end));
        match last_conflict(&pieces, window, room.saturating_sub(step.demand)) {
            Some(until) => (delay, fitting) = (until.saturating_sub(step.at), 0),
            None => fitting += 1,
        }
        if fitting == steps.len() {
            break;
        }
    }
    Some(delay)
}

/// The end of the last piece within the window that takes more than `left`.
fn last_conflict(pieces: &[Piece], (from, to): (Ticks, Ticks), left: Regions) -> Option<Ticks> {
    if from >= to {
        return None;
    }
    let first = pieces.partition_point(|piece| piece.end <= from);
    let begins_before = |piece: usize| piece == 0 || pieces[piece - 1].end < to;
    let within = pieces[first..].iter().enumerate().take_while(|&(i, _)| begins_before(first + i));
    within.filter(|(_, piece)| piece.demand > left).last().map(|(_, piece)| piece.end)
}

/// What the running iterations take together from now on, until all have ended.
fn sum(others: &[Running<'_>]) -> Vec<Piece> {
    // When a demand ends and another one begins.
    let mut changes: Vec<(Ticks, Regions, Regions)> = Vec::new();
    let mut demand = Regions::ZERO;
    for other in others {
        let Some(profile) = other.profile.filter(|profile| other.position < profile.length())
        else {
            continue;
        };
        let next = profile.steps().partition_point(|step| step.at <= other.position);
        let mut before = profile.steps()[next.saturating_sub(1)].demand;
        demand = demand.saturating_add(before);
        for step in &profile.steps()[next..] {
            changes.push((step.at.saturating_sub(other.position), before, step.demand));
            before = step.demand;
        }
        changes.push((profile.length().saturating_sub(other.position), before, Regions::ZERO));
    }
    changes.sort_unstable();
    let mut pieces: Vec<Piece> = Vec::with_capacity(changes.len());
    for (end, before, after) in changes {
        match pieces.last() {
            Some(last) if last.end == end => {}
            _ => pieces.push(Piece { end, demand }),
        }
        demand = demand.saturating_add(after).saturating_sub(before);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Recorder, Step};
    use crate::units::Progress;

    /// A wave of steps `(length, demand)`, one operation per tick.
    fn wave(steps: &[(u32, u32)]) -> Profile {
        let mut recorder = Recorder::default();
        let mut at = 0;
        for &(length, demand) in steps {
            let (progress, demand) = (Progress::new(at), Regions::new(demand));
            recorder.note(Step { progress, at: Ticks::new(at.into()), demand, leased: demand });
            at += length;
        }
        recorder.finish(Progress::new(at), Ticks::new(at.into()))
    }

    fn delay_of(own: &Profile, others: &[(&Profile, u64)], room: u32) -> Option<u64> {
        let running: Vec<Running<'_>> = others
            .iter()
            .map(|&(profile, position)| Running {
                profile: Some(profile),
                position: Ticks::new(position),
            })
            .collect();
        delay(own, &running, Regions::new(room)).map(Ticks::value)
    }

    #[test]
    fn a_wave_starts_when_the_other_has_fallen_far_enough() {
        let job = wave(&[(10, 2), (10, 6), (10, 2)]);
        assert_eq!(delay_of(&job, &[(&job, 0)], 12), Some(0), "both peaks fit");
        assert_eq!(delay_of(&job, &[(&job, 0)], 8), Some(10), "a peak fits beside a flank");
        assert_eq!(delay_of(&job, &[(&job, 5)], 8), Some(5), "measured from where the other is");
        assert_eq!(delay_of(&job, &[(&job, 20)], 8), Some(0), "the other is past its peak");
        assert_eq!(
            delay_of(&job, &[(&job, 0)], 7),
            Some(20),
            "own flank beside the last flank only"
        );
        assert_eq!(delay_of(&job, &[(&job, 0)], 6), Some(20), "own peak alone, flanks together");
        assert_eq!(delay_of(&job, &[(&job, 0)], 5), None, "the peak does not fit at all");
    }

    /// Tries one delay after the other, tick by tick.
    fn by_trying(own: &[u32], others: &[(Vec<u32>, u32)], room: u32) -> u64 {
        let fits = |delay: usize| {
            own.iter().enumerate().all(|(t, demand)| {
                let at =
                    |(wave, from): &(Vec<u32>, u32)| wave.get(*from as usize + delay + t).copied();
                demand + others.iter().filter_map(at).sum::<u32>() <= room
            })
        };
        (0..).find(|&delay| fits(delay)).map_or(0, |delay| delay as u64)
    }

    #[test]
    fn agrees_with_trying_every_delay() {
        let mut seed = 1u32;
        let mut below = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % n
        };
        let flat = |steps: &[(u32, u32)]| -> Vec<u32> {
            steps
                .iter()
                .flat_map(|&(length, demand)| core::iter::repeat_n(demand, length as usize))
                .collect()
        };
        for case in 0..3000 {
            let mut steps = || -> Vec<(u32, u32)> {
                (0..=below(6)).map(|_| (1 + below(5), below(9))).collect()
            };
            let (own, a, b) = (steps(), steps(), steps());
            let (at_a, at_b) = (below(10), below(10));
            let room = own.iter().map(|step| step.1).max().unwrap_or(0) + below(6);
            let expected = by_trying(&flat(&own), &[(flat(&a), at_a), (flat(&b), at_b)], room);
            let (wave_a, wave_b) = (wave(&a), wave(&b));
            let found =
                delay_of(&wave(&own), &[(&wave_a, at_a.into()), (&wave_b, at_b.into())], room);
            assert_eq!(
                found,
                Some(expected),
                "case {case}: {own:?} beside {a:?} at {at_a}, {b:?} at {at_b}, room {room}"
            );
        }
    }
}
