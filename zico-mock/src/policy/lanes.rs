use std::cmp::Ordering;

use zico_core::policy::{Policy, Tenant, Verdict, View};
use zico_core::{Profile, Regions, Ticks};

/// Which of the waiting iterations goes first (Salus's three policies).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The one that has waited longest: what fits, runs.
    #[default]
    Pack,
    /// That of the job that has had the least memory x time since a job last joined. Salus meters
    /// that; here it is an estimate: the time that the job's iterations have taken, times what it
    /// keeps and the mean demand of its profile.
    Fair,
    /// That of the job with the shortest remaining time: the iterations that it still has to do,
    /// times the length of its profile. A job of which no profile is known, or which has done all
    /// that it was to do, goes last. A running iteration is not interrupted.
    Srtf {
        /// How many iterations each of the jobs is to do.
        iterations: u64,
    },
}

/// Jobs take turns in lanes: parts of the memory that iterations use, one iteration at a time in
/// each.
///
/// Salus (Yu and Chowdhury, MLSys 2020; the lane manager of `SymbioticLab/Salus`). With P the
/// persistent memory of a job and E the peak of its iterations beside that, the safety condition is
/// *sum of all P + sum over lanes of the largest E in each <= budget*. Each job in turn, in the
/// order in which they joined, gets a lane of its own if there is room for it; else the smallest
/// lane that it fits in; else the largest lane, if there is room to make it larger. Lanes are laid
/// out anew at each decision, from the jobs as they are: a job that leaves takes its lane along,
/// and nothing is kept.
///
/// Two iterations of one lane do not run at once, until the first has been at its peak and falls
/// from it (Salus releases the lane early when the slope of the use turns negative at 0.9 of the
/// estimate or more; here the profile tells where that is). What the second one then needs before
/// the first has given it up it waits for.
///
/// A job for which there is no lane, and a first iteration, run alone: Salus keeps such a job
/// waiting until another one leaves, which may be never.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    order: Order,
    /// The size of each lane.
    lanes: Vec<Regions>,
    /// The lane of each job.
    placed: Vec<Option<usize>>,
}

impl Lanes {
    /// Lanes with this order of those who wait.
    #[must_use]
    pub fn new(order: Order) -> Self {
        Self { order, ..Self::default() }
    }

    /// Gives each job its lane.
    fn lay_out(&mut self, view: &View<'_>) {
        self.lanes.clear();
        self.placed.clear();
        let kept = view.jobs.iter().map(|job| job.persistent);
        let mut available = kept.fold(view.budget, Regions::saturating_sub);
        for job in view.jobs {
            let lane = job.profile.as_ref().and_then(|profile| {
                let (lane, more) = self.place(profile.peak(), available)?;
                available = available.saturating_sub(more);
                Some(lane)
            });
            self.placed.push(lane);
        }
    }

    /// The lane for iterations with this peak, and how much of what is available it takes.
    fn place(&mut self, peak: Regions, available: Regions) -> Option<(usize, Regions)> {
        if peak <= available {
            self.lanes.push(peak);
            return Some((self.lanes.len() - 1, peak));
        }
        let sizes = || self.lanes.iter().copied().enumerate();
        let best = sizes().filter(|&(_, size)| size >= peak).min_by_key(|&(_, size)| size);
        // The first of the largest ones.
        let largest = || sizes().rev().max_by_key(|&(_, size)| size);
        let (lane, size) = best.or_else(largest)?;
        let more = peak.saturating_sub(size);
        if more > available {
            return None;
        }
        self.lanes[lane] = size.at_least(peak);
        Some((lane, more))
    }
}

impl Policy for Lanes {
    fn name(&self) -> &'static str {
        match self.order {
            Order::Pack => "salus-pack",
            Order::Fair => "salus-fair",
            Order::Srtf { .. } => "salus-srtf",
        }
    }

    fn decide(&mut self, view: &View<'_>) -> Verdict {
        self.lay_out(view);
        let Some(own) = self.placed[view.candidate] else { return Verdict::AfterAnEnd };
        let mut delay = Ticks::ZERO;
        for (i, job) in view.jobs.iter().enumerate() {
            if i == view.candidate || !job.is_running() {
                continue;
            }
            match (self.placed[i], &job.profile) {
                (Some(lane), Some(profile)) if lane == own => {
                    delay = delay.at_least(profile.crest_ends().saturating_sub(job.position()));
                }
                (Some(_), _) => {}
                (None, _) => return Verdict::AfterAnEnd,
            }
        }
        if delay.is_zero() { Verdict::Start } else { Verdict::After(delay) }
    }

    fn order(&self, one: &Tenant, other: &Tenant) -> Ordering {
        match self.order {
            Order::Pack => Ordering::Equal,
            Order::Fair => memory_time(one).cmp(&memory_time(other)),
            Order::Srtf { iterations } => {
                remaining(one, iterations).cmp(&remaining(other, iterations))
            }
        }
    }
}

/// The memory that a job's iterations have had, times how long, in regions x ticks, as far as its
/// profile tells. O(steps).
fn memory_time(job: &Tenant) -> u128 {
    let mean = job.profile.as_deref().map_or(0, mean_demand);
    let held = u128::from(job.persistent.value()).saturating_add(mean);
    held.saturating_mul(u128::from(job.served.value()))
}

/// The mean over time of what an iteration takes, in regions, rounded up.
fn mean_demand(profile: &Profile) -> u128 {
    let (steps, end) = (profile.steps(), profile.length());
    let ends = steps.iter().skip(1).map(|step| step.at).chain([end]);
    let area = steps.iter().zip(ends).map(|(step, until)| {
        u128::from(step.demand.value()) * u128::from(until.saturating_sub(step.at).value())
    });
    area.sum::<u128>().div_ceil(u128::from(end.value()).max(1))
}

/// The time that a job still needs to do so many iterations in all. The longest there is if nobody
/// knows, or if it has done them: it may go on for ever.
fn remaining(job: &Tenant, iterations: u64) -> u128 {
    match (iterations.saturating_sub(job.iterations), &job.profile) {
        (0, _) | (_, None) => u128::MAX,
        (left, Some(profile)) => u128::from(left) * u128::from(profile.length().value()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, running, unknown, verdict, waiting};
    use super::*;
    use zico_core::{Activity, Progress};

    /// A job that keeps `persistent` and whose iterations take up to `peak` beside that, halfway.
    fn job(persistent: u32, peak: u32) -> Tenant {
        let wave = [(10, peak / 2), (10, peak), (10, peak / 2)];
        Tenant { persistent: Regions::new(persistent), ..waiting(&wave) }
    }

    fn lanes(budget: u32, jobs: &[Tenant]) -> (Vec<u32>, Vec<Option<usize>>) {
        let mut lanes = Lanes::default();
        lanes.lay_out(&View::new(Regions::new(budget), jobs, 0));
        (lanes.lanes.iter().map(|size| size.value()).collect(), lanes.placed)
    }

    /// Salus's safety condition: sum of P + sum over lanes of the largest E <= C. Two jobs that
    /// each hold half of what both need and wait for the other half cannot come about.
    #[test]
    fn salus_safety_condition() {
        let jobs = [job(1, 5), job(1, 5)];
        assert_eq!(lanes(12, &jobs), ([5, 5].into(), [Some(0), Some(1)].into()), "1 + 1 + 5 + 5");
        assert_eq!(lanes(11, &jobs), ([5].into(), [Some(0), Some(0)].into()), "1 + 1 + max(5, 5)");
        assert_eq!(lanes(7, &jobs), ([5].into(), [Some(0), Some(0)].into()));
        assert_eq!(lanes(6, &jobs), ([].into(), [None, None].into()), "they cannot share at all");
    }

    #[test]
    fn the_safety_condition_holds_for_any_jobs() {
        let mut seed = 7u32;
        let mut below = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % n
        };
        for _ in 0..2000 {
            let jobs: Vec<Tenant> = (0..=below(6)).map(|_| job(below(4), 1 + below(9))).collect();
            let budget = below(40);
            let (sizes, placed) = lanes(budget, &jobs);
            let kept: u32 = jobs.iter().map(|job| job.persistent.value()).sum();
            assert!(sizes.is_empty() || kept + sizes.iter().sum::<u32>() <= budget);
            for (job, lane) in jobs.iter().zip(placed) {
                let peak = job.profile.as_ref().unwrap().peak().value();
                assert!(lane.is_none_or(|lane| peak <= sizes[lane]));
            }
        }
    }

    #[test]
    fn a_job_takes_the_smallest_lane_that_it_fits_in() {
        let jobs = [job(0, 8), job(0, 4), job(0, 3), job(0, 6), job(0, 9)];
        // The fifth makes the lane of 8 larger by what is left.
        let placed = [Some(0), Some(1), Some(1), Some(0), Some(0)];
        assert_eq!(lanes(13, &jobs), ([9, 4].into(), placed.into()));
        assert_eq!(lanes(12, &jobs).1[4], None, "no lane can hold it beside the other one");
    }

    #[test]
    fn one_lane_one_iteration_until_it_has_passed_its_peak() {
        let of = |budget, progress| {
            let one = Tenant {
                activity: Activity::Running,
                progress: Progress::new(progress),
                ..job(1, 5)
            };
            verdict(&mut Lanes::default(), budget, &[one, job(1, 5)])
        };
        assert_eq!(of(12, 0), Verdict::Start, "a lane for each");
        assert_eq!(of(11, 3), after(17), "the lane is released early");
        assert_eq!(of(11, 20), Verdict::Start);
    }

    #[test]
    fn those_without_a_lane_run_alone() {
        let other = || running(&[(10, 4)], 0);
        let of = |one, two| verdict(&mut Lanes::default(), 9, &[one, two]);
        assert_eq!(of(other(), unknown(Activity::Waiting)), Verdict::AfterAnEnd);
        assert_eq!(of(unknown(Activity::Running), waiting(&[(10, 1)])), Verdict::AfterAnEnd);
        assert_eq!(of(other(), waiting(&[(10, 10)])), Verdict::AfterAnEnd, "too large for any");
    }

    #[test]
    fn three_orders() {
        let base = || waiting(&[(10, 1), (10, 3)]);
        let served = |ticks| Tenant { served: Ticks::new(ticks), ..base() };
        let order = |order, one: &Tenant, two: &Tenant| Lanes::new(order).order(one, two);
        assert_eq!(order(Order::Pack, &served(5), &served(7)), Ordering::Equal);
        assert_eq!(order(Order::Fair, &served(5), &served(7)), Ordering::Less);
        // A mean of 2 regions for 7 ticks, and 2 beside 1 that is kept for 5.
        let keeps = Tenant { persistent: Regions::new(1), ..served(5) };
        assert_eq!((memory_time(&served(7)), memory_time(&keeps)), (14, 15));
        assert_eq!(order(Order::Fair, &keeps, &served(7)), Ordering::Greater);

        let srtf = Order::Srtf { iterations: 9 };
        let done = |iterations| Tenant { iterations, ..base() };
        assert_eq!(order(srtf, &done(3), &done(6)), Ordering::Greater);
        assert_eq!(
            order(srtf, &done(3), &Tenant { iterations: 3, ..waiting(&[(30, 1)]) }),
            Ordering::Less
        );
        assert_eq!(order(srtf, &done(8), &done(9)), Ordering::Less, "it has done all it was to do");
        assert_eq!(order(srtf, &done(0), &unknown(Activity::Waiting)), Ordering::Less);
    }

    #[test]
    fn a_profile_without_length_or_end_has_a_mean() {
        assert_eq!(mean_demand(&Profile::flat(Regions::new(7))), 7);
        assert_eq!(mean_demand(&Profile::of([], Progress::ZERO, Ticks::ZERO)), 0);
    }
}
