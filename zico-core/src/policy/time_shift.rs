use super::{Policy, Running, Verdict, View};
use crate::profile::{Profile, Step};
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

/// The smallest delay at which `own` fits beside the running iterations, each of which goes on from
/// its position to its end. None if `own` does not fit at all.
///
/// Walks the sum of the others' waves and `own` side by side. Where they conflict, every delay up to
/// the one that puts the conflicting part of the sum before the conflicting part of `own` conflicts
/// too, so the walk goes on from there: the delays skipped are the union of forbidden intervals.
fn delay(own: &Profile, others: &[Running<'_>], room: Regions) -> Option<Ticks> {
    if own.peak() > room {
        return None;
    }
    let mut delay = Ticks::ZERO;
    while let Some(next) = conflict(own, others, room, delay) {
        delay = next;
    }
    Some(delay)
}

/// The first conflict when `own` starts after `delay`: the delay that gets past it.
fn conflict(own: &Profile, others: &[Running<'_>], room: Regions, delay: Ticks) -> Option<Ticks> {
    for (i, step) in own.steps().iter().enumerate() {
        let end = own.steps().get(i + 1).map_or(own.length(), |next| next.at);
        let left = room.saturating_sub(step.demand);
        // The sum of the others changes within this step of `own`: look at each of its pieces.
        let mut at = step.at;
        while at < end {
            let (sum, until) = sum_at(others, delay.saturating_add(at));
            let until = until?;
            if sum > left {
                // This step of `own` has to begin when the piece ends.
                return Some(until.saturating_sub(step.at));
            }
            at = until.saturating_sub(delay);
        }
    }
    None
}

/// The sum of the others' demands `ahead` of now, and until when it holds; no end once all of them
/// have ended.
fn sum_at(others: &[Running<'_>], ahead: Ticks) -> (Regions, Option<Ticks>) {
    let mut sum = Regions::ZERO;
    let mut until: Option<Ticks> = None;
    for other in others {
        let Some(profile) = other.profile else { continue };
        let at = other.position.saturating_add(ahead);
        if at >= profile.length() {
            continue;
        }
        let next = profile.steps().partition_point(|step| step.at <= at);
        sum = sum.saturating_add(profile.steps()[next.saturating_sub(1)].demand);
        let end = profile.steps().get(next).map_or(profile.length(), |step: &Step| step.at);
        let end = end.saturating_sub(other.position);
        until = Some(until.map_or(end, |until| until.min(end)));
    }
    (sum, until)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::profile::Recorder;
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
