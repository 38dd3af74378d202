use zico_core::policy::{Policy, TickTock, Verdict, View};
use zico_core::{Profile, Regions, Ticks};

/// How far apart samples are, and how long to wait before looking again: what Zico has.
const GRAIN: Ticks = Ticks::micros(500);

/// The most samples of one iteration, so that a decision stays short however long iterations are.
const SAMPLES: u64 = 1000;

/// Zico as published: start if, from where the other iteration is now, own and other samples fit
/// one by one up to the end of either.
///
/// Zico (Lim et al., ATC 2021, section 5 and its artifact's `coordinator`): both profiles are
/// sampled every half a millisecond; the other's first sample at or past its present progress meets
/// the candidate's first. If they do not fit the candidate waits for half a millisecond and looks
/// again. What samples do not see (a peak between two of them) is not seen here either. Zico knows
/// two jobs; with more, the samples of all that run are added up. A first iteration starts when all
/// others are in their backward passes ("first alignment"), and nothing starts beside it; Zico lets
/// it run alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelBased;

impl Policy for ModelBased {
    fn name(&self) -> &'static str {
        "model-based"
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let Some(own) = view.own().profile.as_deref() else { return TickTock.decide(view) };
        if view.known().is_none() || own.peak() > view.room {
            return Verdict::AfterAnEnd;
        }
        let grain = grain(view, own);
        if fits(view, own, grain) { Verdict::Start } else { Verdict::AskAgain(grain) }
    }
}

fn grain(view: &View<'_>, own: &Profile) -> Ticks {
    let others = view.running().filter_map(|job| job.profile.as_deref());
    let ends = others.filter(|other| other.length() < Ticks::MAX).map(Profile::length);
    // The walk ends with the candidate's iteration, or with the last of the others.
    let longest = own.length().min(ends.max().unwrap_or(own.length()));
    GRAIN.at_least(Ticks::new(longest.value().div_ceil(SAMPLES)))
}

fn fits(view: &View<'_>, own: &Profile, grain: Ticks) -> bool {
    let waves = || {
        view.running().filter_map(|job| {
            let from = job.position().value().div_ceil(grain.value()).saturating_mul(grain.value());
            Some((job.profile.as_deref()?, Ticks::new(from)))
        })
    };
    for sample in 0..=SAMPLES {
        let at = Ticks::new(grain.value().saturating_mul(sample));
        let mut running = waves().filter(|(wave, from)| from.saturating_add(at) < wave.length());
        if at >= own.length() || running.next().is_none() {
            break;
        }
        let others = waves().map(|(wave, from)| wave.demand_at(from.saturating_add(at)));
        if others.fold(own.demand_at(at), Regions::saturating_add) > view.room {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::testing::{running, unknown, verdict, waiting};
    use super::*;
    use zico_core::Activity;

    /// A sample, in ticks.
    const MS: u32 = 500_000;

    fn up_and_down() -> [(u32, u32); 3] {
        [(10 * MS, 2), (10 * MS, 6), (10 * MS, 2)]
    }

    fn of(room: u32, progress: u32) -> Verdict {
        let wave = up_and_down();
        verdict(&mut ModelBased, room, &[running(&wave, progress), waiting(&wave)])
    }

    #[test]
    fn samples_meet_one_by_one_up_to_the_end_of_the_other() {
        assert_eq!(of(12, 0), Verdict::Start);
        assert_eq!(of(11, 0), Verdict::AskAgain(GRAIN), "peak upon peak");
        assert_eq!(of(8, 9 * MS), Verdict::AskAgain(GRAIN), "looks again after a sample");
        assert_eq!(of(8, 10 * MS), Verdict::Start);
        assert_eq!(of(6, 20 * MS), Verdict::Start, "flank upon flank, then the other is over");
    }

    #[test]
    fn a_peak_between_two_samples_is_missed() {
        let other = [(MS, 1), (MS / 4, 1), (MS / 4, 90), (10 * MS, 1)];
        let jobs = [running(&other, 0), waiting(&[(30 * MS, 1)])];
        assert_eq!(verdict(&mut ModelBased, 90, &jobs), Verdict::Start);
    }

    #[test]
    fn the_first_iteration_is_aligned_with_the_others_backward() {
        let jobs = [running(&up_and_down(), 11 * MS), unknown(Activity::Waiting)];
        assert_eq!(verdict(&mut ModelBased, 9, &jobs), Verdict::Start);
        let jobs = [running(&up_and_down(), 9 * MS), unknown(Activity::Waiting)];
        assert_eq!(verdict(&mut ModelBased, 9, &jobs), Verdict::After(Ticks::new(MS.into())));
        let jobs = [unknown(Activity::Running), waiting(&up_and_down())];
        assert_eq!(verdict(&mut ModelBased, 99, &jobs), Verdict::AfterAnEnd);
    }
}
