use zico_core::Regions;
use zico_core::policy::{Policy, Verdict, View};

/// Start if the peaks fit at once, else one at a time.
///
/// "Spatial" sharing, a baseline in the artifact of Zico (Lim et al., ATC 2021; `coordinator`),
/// where it is peak + peak <= budget for two jobs. For more: the sum of the peaks of all that would
/// run. An iteration that nothing is known of runs alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spatial;

impl Policy for Spatial {
    fn name(&self) -> &'static str {
        "spatial"
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        let Some(own) = view.known() else { return Verdict::AfterAnEnd };
        let others = view.running().filter_map(|job| job.profile.as_deref());
        let sum = others.fold(own.peak(), |sum, other| sum.saturating_add(other.peak()));
        if sum <= view.room && sum < Regions::MAX { Verdict::Start } else { Verdict::AfterAnEnd }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{running, unknown, verdict, waiting};
    use super::*;
    use zico_core::Activity;
    use zico_core::policy::Tenant;

    #[test]
    fn the_sum_of_the_peaks_has_to_fit_wherever_the_others_are() {
        let (low, high) = (&[(10, 2), (10, 4)][..], &[(10, 6), (10, 1)][..]);
        let jobs = [running(low, 15), running(high, 19), waiting(low)];
        assert_eq!(verdict(&mut Spatial, 14, &jobs), Verdict::Start);
        assert_eq!(verdict(&mut Spatial, 13, &jobs), Verdict::AfterAnEnd);
    }

    #[test]
    fn what_is_kept_is_no_room() {
        let jobs = [
            running(&[(10, 4)], 0),
            Tenant { persistent: Regions::new(1), ephemeral: Regions::new(2), ..Tenant::default() },
            waiting(&[(10, 4)]),
        ];
        assert_eq!(verdict(&mut Spatial, 11, &jobs), Verdict::Start);
        assert_eq!(verdict(&mut Spatial, 10, &jobs), Verdict::AfterAnEnd);
    }

    #[test]
    fn the_unknown_runs_alone() {
        let known = || running(&[(10, 1)], 0);
        let jobs = [known(), unknown(Activity::Waiting)];
        assert_eq!(verdict(&mut Spatial, 99, &jobs), Verdict::AfterAnEnd);
        let jobs = [unknown(Activity::Stalled), waiting(&[(10, 1)])];
        assert_eq!(verdict(&mut Spatial, 99, &jobs), Verdict::AfterAnEnd);
    }
}
