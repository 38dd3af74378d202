use super::{Policy, Tenant, Verdict, View};
use crate::types::units::Ticks;

/// Start only while every other running iteration is in its backward pass, which begins where its
/// profile peaks.
///
/// "TickTock", a baseline in the artifact of Zico (Lim et al., ATC 2021; `coordinator`): forward of
/// one beside backward of the other. It does not look at how much memory there is, so iterations
/// may stall for memory. A candidate of which nothing is known may start in the others' backward
/// passes as well (Zico's first alignment); beside an iteration of which nothing is known nothing
/// starts.
#[derive(Clone, Copy, Debug, Default)]
pub struct TickTock;

impl Policy for TickTock {
    fn name(&self) -> &'static str {
        "tick-tock"
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        backward(view.running())
    }
}

/// When all of them are in their backward passes.
pub(super) fn backward<'a>(running: impl Iterator<Item = &'a Tenant>) -> Verdict {
    let mut delay = Ticks::ZERO;
    for job in running {
        let Some(profile) = &job.profile else { return Verdict::AfterAnEnd };
        delay = delay.at_least(profile.crest_begins().saturating_sub(job.position()));
    }
    if delay.is_zero() { Verdict::Start } else { Verdict::After(delay) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, running, unknown, verdict, waiting};
    use super::*;
    use crate::types::report::Activity;

    const UP_AND_DOWN: &[(u32, u32)] = &[(10, 2), (10, 6), (10, 2)];

    #[test]
    fn all_others_have_to_be_in_their_backward_pass() {
        let of = |progress: [u32; 2]| {
            let [one, two] = progress.map(|progress| running(UP_AND_DOWN, progress));
            verdict(&mut TickTock, 1, &[one, two, waiting(UP_AND_DOWN)])
        };
        assert_eq!(of([10, 29]), Verdict::Start, "however little memory there is");
        assert_eq!(of([9, 29]), after(1));
        assert_eq!(of([4, 1]), after(9));
    }

    #[test]
    fn the_unknown_starts_in_the_others_backward_and_nothing_beside_it() {
        let of = |one, two| verdict(&mut TickTock, 9, &[one, two]);
        assert_eq!(of(running(UP_AND_DOWN, 12), unknown(Activity::Waiting)), Verdict::Start);
        let alone = of(unknown(Activity::Running), waiting(UP_AND_DOWN));
        assert_eq!(alone, Verdict::AfterAnEnd);
    }
}
