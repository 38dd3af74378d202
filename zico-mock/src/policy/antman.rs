//! AntMan: a job's memory and computation are scaled while it runs.
//!
//! Xiao, Ren, Li, Zhang, Hou, Li, Feng, Lin, Jia: *AntMan: Dynamic Scaling on GPU Clusters for Deep
//! Learning*, OSDI 2020. A job has an elastic *cap* on the device's memory, which changes between
//! two of its iterations. What it allocates beyond the cap is memory of the host, which its kernels
//! reach over the link. And it has a *share* of the time in which its kernels are launched.
//!
//! These mechanisms are those of the paper and of the authors' re-implementation
//! (`alibaba/GPU-scheduler-for-deep-learning`). How caps and shares follow from what the jobs do,
//! the paper says in words only, and the re-implementation leaves it out: what is inferred here is
//! marked. [`caps`] and [`Throttle`] are pure, and have no clock.

use std::collections::BTreeMap;

use zico_core::{Bytes, Ticks};

/// Inferred: so many iterations of a production job are looked at together, and no less than those
/// of so long. Iterations are not all alike, and an opportunistic job with a tenth of the time is
/// not beside each of a few.
const WINDOW: (usize, Ticks) = (12, Ticks::millis(1000));
/// Inferred: up to this much longer than its best ones they count as not slowed.
const FINE: f64 = 1.03;
/// Inferred: while they are fine the share grows by so many hundredths, else it is halved.
const STEP: u32 = 10;
/// Inferred: a production job that has ended no iteration for so many times as long as one takes is
/// idle.
const IDLE: u32 = 10;
/// All of the time, in hundredths.
const WHOLE: u32 = 100;

/// What a job asks of the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Its resources are guaranteed. Otherwise it is opportunistic.
    pub production: bool,
    /// The most that it had in its last iterations, on the device and on the host. Unknown before
    /// one has ended.
    pub need: Option<Bytes>,
}

/// The caps of jobs that share so much memory: no more than that in all.
///
/// Production jobs come first, each with what it needs, or all that is left as long as that is
/// unknown. The rest is the opportunistic jobs', shared alike: who needs less leaves it to the
/// others. (Inferred: the paper tries which of them gains most.)
///
/// O(n log n) for n jobs.
///
/// ```
/// use zico_core::Bytes;
/// use zico_mock::policy::antman::{Demand, caps};
///
/// let production = Demand { production: true, need: Some(Bytes::gib(5)) };
/// let other = Demand { production: false, need: Some(Bytes::gib(6)) };
/// assert_eq!(caps(Bytes::gib(8), &[production, other]), [Bytes::gib(5), Bytes::gib(3)]);
/// ```
#[must_use]
pub fn caps(budget: Bytes, jobs: &[Demand]) -> Vec<Bytes> {
    let mut caps = vec![Bytes::ZERO; jobs.len()];
    let mut left = budget.value();
    let need = |job: usize| jobs[job].need.unwrap_or(Bytes::MAX).value();
    let (production, mut others): (Vec<usize>, Vec<usize>) =
        (0..jobs.len()).partition(|&job| jobs[job].production);
    others.sort_by_key(|&job| need(job));
    let sharing = (1..=others.len() as u64).rev();
    let first = production.into_iter().map(|job| (job, 1));
    for (job, among) in first.chain(others.into_iter().zip(sharing)) {
        let cap = need(job).min(left / among);
        left -= cap;
        caps[job] = Bytes::new(cap);
    }
    caps
}

/// The share of the time that opportunistic jobs have, by what becomes of the production jobs.
///
/// The last iterations of each production job are held against the best that there were. While
/// none has been slowed the share grows, else it is halved (inferred). Before there is anything to
/// hold them against the opportunistic jobs have none of the time, and all of it where no
/// production job is there or all are idle.
#[derive(Clone, Debug, Default)]
pub struct Throttle {
    jobs: BTreeMap<usize, Record>,
    /// In hundredths.
    share: u32,
}

/// What has become of a production job.
#[derive(Clone, Debug, Default)]
struct Record {
    /// Seconds of an iteration: the least mean of a window.
    best: Option<f64>,
    /// Those of the window that is open.
    last: Vec<f64>,
    /// When the last iteration ended, or the job came.
    ended: Ticks,
}

impl Record {
    /// Whether it has ended no iteration for long.
    fn is_idle(&self, now: Ticks) -> bool {
        let since = now.saturating_sub(self.ended).seconds();
        self.best.is_some_and(|best| since > best * f64::from(IDLE))
    }
}

impl Throttle {
    /// A production job is there. It is seen without the others first.
    pub fn comes(&mut self, job: usize, now: Ticks) {
        let share = &mut self.share;
        self.jobs.entry(job).or_insert_with(|| {
            *share = 0;
            Record { ended: now, ..Record::default() }
        });
    }

    /// It has ended an iteration, which took so long.
    pub fn ended(&mut self, job: usize, now: Ticks, took: Ticks) {
        let Some(record) = self.jobs.get_mut(&job) else { return };
        record.ended = now;
        record.last.push(took.seconds());
        let sum: f64 = record.last.iter().sum();
        if record.last.len() < WINDOW.0 || sum < WINDOW.1.seconds() {
            return;
        }
        let mean = sum / record.last.len() as f64;
        record.last.clear();
        let best = record.best.map_or(mean, |best| best.min(mean));
        record.best = Some(best);
        let is_fine = mean <= best * FINE;
        self.share = if is_fine { (self.share + STEP).min(WHOLE) } else { self.share / 2 };
    }

    /// It has left.
    pub fn leaves(&mut self, job: usize) {
        self.jobs.remove(&job);
    }

    /// What opportunistic jobs have of the time now, in hundredths.
    #[must_use]
    pub fn share(&self, now: Ticks) -> u32 {
        let is_unseen = self.jobs.values().any(|record| record.best.is_none());
        if self.jobs.values().all(|record| record.is_idle(now)) {
            WHOLE
        } else if is_unseen {
            0
        } else {
            self.share
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: fn(u64) -> Bytes = Bytes::mib;

    fn capped(budget: u64, jobs: &[(bool, Option<u64>)]) -> Vec<u64> {
        let demand =
            |&(production, need): &(bool, Option<u64>)| Demand { production, need: need.map(MIB) };
        let jobs: Vec<Demand> = jobs.iter().map(demand).collect();
        caps(MIB(budget), &jobs).into_iter().map(|cap| cap.value() >> 20).collect()
    }

    #[test]
    fn production_comes_first_and_the_rest_is_shared_alike() {
        let (production, other) = (true, false);
        assert_eq!(capped(100, &[(other, Some(80)), (production, Some(60))]), [40, 60]);
        assert_eq!(capped(100, &[(production, Some(60)), (production, Some(60))]), [60, 40]);
        // One that needs less leaves it to the others.
        let three = [(other, Some(90)), (other, Some(10)), (other, None)];
        assert_eq!(capped(100, &three), [45, 10, 45]);
        // As long as nothing is known of it, all that is left is a production job's.
        assert_eq!(capped(100, &[(production, None), (other, Some(1))]), [100, 0]);
        assert_eq!(capped(100, &[]), [0_u64; 0]);
    }

    /// A production job that ends so many iterations of this length, each in so long.
    fn run(throttle: &mut Throttle, now: &mut Ticks, iterations: usize, took: Ticks) {
        for _ in 0..iterations {
            *now = now.saturating_add(took);
            throttle.ended(0, *now, took);
        }
    }

    #[test]
    fn the_share_grows_while_production_is_not_slowed_and_is_halved_when_it_is() {
        let (mut throttle, mut now) = (Throttle::default(), Ticks::ZERO);
        assert_eq!(throttle.share(now), 100, "nobody is there");
        throttle.comes(0, now);
        assert_eq!(throttle.share(now), 0, "it is seen alone first");
        run(&mut throttle, &mut now, 11, Ticks::millis(1000));
        assert_eq!(throttle.share(now), 0);
        run(&mut throttle, &mut now, 1, Ticks::millis(1000));
        assert_eq!(throttle.share(now), 10);
        run(&mut throttle, &mut now, 24, Ticks::millis(1020));
        assert_eq!(throttle.share(now), 30);
        run(&mut throttle, &mut now, 12, Ticks::millis(1040));
        assert_eq!(throttle.share(now), 15);
        run(&mut throttle, &mut now, 120, Ticks::millis(1000));
        assert_eq!(throttle.share(now), 100, "and no further");
        run(&mut throttle, &mut now, 500, Ticks::millis(10));
        assert_eq!(throttle.share(now), 100, "500 of them take 5 s");
        run(&mut throttle, &mut now, 12, Ticks::millis(1000));
        assert_eq!(throttle.share(now), 50, "five windows have set what is best");
        throttle.leaves(0);
        assert_eq!(throttle.share(now), 100);
    }

    #[test]
    fn what_an_idle_job_leaves_is_taken() {
        let (mut throttle, mut now) = (Throttle::default(), Ticks::ZERO);
        throttle.comes(0, now);
        run(&mut throttle, &mut now, 12, Ticks::millis(1000));
        let after = |ticks: u64| now.saturating_add(Ticks::millis(ticks));
        assert_eq!([after(10_000), after(10_001)].map(|now| throttle.share(now)), [10, 100]);
        let mut second = throttle.clone();
        second.comes(1, now);
        assert_eq!(second.share(after(10_001)), 0, "another one is there");
        run(&mut throttle, &mut now, 1, Ticks::millis(1000));
        assert_eq!(throttle.share(now), 10, "it is back");
    }
}
