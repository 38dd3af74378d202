use zico_core::policy::{Policy, Verdict, View};
use zico_core::{Regions, Ticks};

/// Start if all that may still come fits at once: the candidate's peak beside the largest demand
/// that each running iteration has from here to its end.
///
/// Salus's safety condition with what is still ahead of an iteration in place of its peak. As long
/// as iterations keep to their profiles no pace and no interleaving makes one stall: the
/// counterpart of [`TimeShift`](zico_core::policy::TimeShift), which trusts that the iterations
/// keep their pace as well. The waves' falling flanks are used, their rising ones are not. An
/// iteration that nothing is known of runs alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conservative;

impl Policy for Conservative {
    fn name(&self) -> &'static str {
        "conservative"
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let Some(own) = view.known() else { return Verdict::AfterAnEnd };
        let Some(left) = view.room.checked_sub(own.peak()) else { return Verdict::AfterAnEnd };
        match delay(view, left) {
            Ticks::ZERO => Verdict::Start,
            delay => Verdict::After(delay),
        }
    }
}

/// When what is still ahead of the running iterations comes to no more than `left`. It never grows,
/// so halving finds the moment. O(running x log steps x log time).
fn delay(view: &View<'_>, left: Regions) -> Ticks {
    let waves = || view.running().filter_map(|job| Some((job.profile.as_deref()?, job.position())));
    let fits = |delay: Ticks| {
        let ahead = waves().map(|(wave, from)| wave.demand_from(from.saturating_add(delay)));
        ahead.fold(Regions::ZERO, Regions::saturating_add) <= left
    };
    if fits(Ticks::ZERO) {
        return Ticks::ZERO;
    }
    let ends = waves().map(|(wave, from)| wave.length().saturating_sub(from).value());
    let (mut not, mut yes) = (0, ends.max().unwrap_or_default());
    while yes - not > 1 {
        let middle = not + (yes - not) / 2;
        *(if fits(Ticks::new(middle)) { &mut yes } else { &mut not }) = middle;
    }
    Ticks::new(yes)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, running, unknown, verdict, waiting};
    use super::*;
    use zico_core::Activity;

    const UP_AND_DOWN: &[(u32, u32)] = &[(10, 2), (10, 6), (10, 2)];

    fn of(room: u32, progress: u32) -> Verdict {
        verdict(&mut Conservative, room, &[running(UP_AND_DOWN, progress), waiting(UP_AND_DOWN)])
    }

    #[test]
    fn only_what_is_still_ahead_counts() {
        assert_eq!(of(12, 0), Verdict::Start);
        assert_eq!(of(11, 0), after(20), "the peak has to be over");
        assert_eq!(of(8, 13), after(7));
        assert_eq!(of(8, 20), Verdict::Start);
        assert_eq!(of(7, 20), after(10), "the last flank does not fit beside the peak");
        assert_eq!(of(5, 0), Verdict::AfterAnEnd, "the peak does not fit at all");
    }

    #[test]
    fn the_sum_over_all_others_has_to_fall() {
        let jobs = [running(UP_AND_DOWN, 5), running(UP_AND_DOWN, 12), waiting(&[(9, 3)])];
        for (room, expected) in
            [(15, Verdict::Start), (11, after(8)), (7, after(15)), (3, after(25))]
        {
            assert_eq!(verdict(&mut Conservative, room, &jobs), expected, "room {room}");
        }
    }

    #[test]
    fn the_unknown_runs_alone() {
        let jobs = [unknown(Activity::Running), waiting(UP_AND_DOWN)];
        assert_eq!(verdict(&mut Conservative, 99, &jobs), Verdict::AfterAnEnd);
        let jobs = [running(UP_AND_DOWN, 0), unknown(Activity::Waiting)];
        assert_eq!(verdict(&mut Conservative, 99, &jobs), Verdict::AfterAnEnd);
    }
}
