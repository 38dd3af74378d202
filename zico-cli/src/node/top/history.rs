//! What jobs have held over the last minute, and how fast they get on.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use zico_core::{JobId, Snapshot};

/// What is remembered.
pub(super) const MINUTE: Duration = Duration::from_secs(60);
/// A rate is that of so long where enough has happened in it ...
const RECENTLY: Duration = Duration::from_secs(10);
/// ... which is this many iterations. Otherwise it is that of the minute.
const ENOUGH: u64 = 5;

/// The last minute of all jobs that are there.
#[derive(Debug, Default)]
pub(super) struct History {
    jobs: BTreeMap<JobId, VecDeque<Sample>>,
    now: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    held: u64,
    iterations: u64,
}

impl History {
    /// How it is now. Time only goes on.
    pub(super) fn add(&mut self, now: Duration, pool: &Snapshot) {
        self.now = now;
        self.jobs.retain(|id, _| pool.jobs.iter().any(|job| job.id == *id));
        for job in &pool.jobs {
            let samples = self.jobs.entry(job.id).or_default();
            let (held, iterations) = (job.held.total().value(), job.iterations);
            samples.push_back(Sample { at: now, held, iterations });
            while samples.front().is_some_and(|first| now.saturating_sub(first.at) > MINUTE) {
                samples.pop_front();
            }
        }
    }

    /// The last minute in so many columns: the most that the job held in each, now on the right. A
    /// column in which it was not looked at is as the one before; those before it was seen are
    /// missing.
    pub(super) fn wave(&self, job: JobId, columns: usize) -> Vec<u64> {
        let Some(samples) = self.jobs.get(&job) else { return Vec::new() };
        let mut most: Vec<Option<u64>> = vec![None; columns];
        for sample in samples {
            let age = self.now.saturating_sub(sample.at).as_secs_f64() / MINUTE.as_secs_f64();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "saturates"
            )]
            let back = (age * columns as f64) as usize;
            let Some(column) = columns.checked_sub(back + 1) else { continue };
            let before = most[column].unwrap_or(0);
            most[column] = Some(before.max(sample.held));
        }
        let mut last = None;
        let filled = most.into_iter().map(|held| {
            last = held.or(last);
            last
        });
        filled.flatten().collect()
    }

    /// Iterations a second; none before there is a time to count them in.
    pub(super) fn rate(&self, job: JobId) -> Option<f64> {
        let samples = self.jobs.get(&job)?;
        let last = samples.back()?;
        let since = |first: &Sample| {
            let time = last.at.saturating_sub(first.at).as_secs_f64();
            let done = last.iterations.saturating_sub(first.iterations);
            (time > 0.0).then(|| (done, done as f64 / time))
        };
        let recent = samples.iter().find(|sample| self.now.saturating_sub(sample.at) <= RECENTLY);
        match recent.and_then(since) {
            Some((done, rate)) if done >= ENOUGH => Some(rate),
            _ => samples.front().and_then(since).map(|(_, rate)| rate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::books::tests::{books_of, job};

    /// A job that holds `held` MiB and has done so many iterations.
    fn at(history: &mut History, seconds: f64, held: u64, iterations: u64) -> JobId {
        let mut job = job(1, "job", "Running", held);
        job["iterations"] = iterations.into();
        let pool = books_of(&[job]).pool;
        history.add(Duration::from_secs_f64(seconds), &pool);
        pool.jobs[0].id
    }

    #[test]
    fn a_column_is_the_most_of_its_time() {
        let mut history = History::default();
        for quarter in 0..240_u32 {
            // 4 MiB, and 64 MiB once every 12 s.
            let held = if quarter % 48 == 40 { 64 } else { 4 };
            at(&mut history, f64::from(quarter) / 4.0, held, 0);
        }
        let id = at(&mut history, 60.0, 4, 0);
        let wave = history.wave(id, 20);
        let mib: Vec<u64> = wave.iter().map(|held| held >> 20).collect();
        // 3 s a column: the peaks, at 10, 22, 34, 46 and 58 s, are four columns apart.
        let peaks: Vec<usize> = (0..20).filter(|&at| mib[at] == 64).collect();
        assert_eq!(peaks, [3, 7, 11, 15, 19], "{mib:?}");
        assert!(mib.iter().all(|&mib| mib == 4 || mib == 64));
        // A minute later nothing of that is left.
        let id = at(&mut history, 121.0, 8, 0);
        assert_eq!(history.wave(id, 20), [8 << 20]);
    }

    #[test]
    fn a_job_that_has_just_come_has_a_short_wave() {
        let mut history = History::default();
        let id = at(&mut history, 100.0, 4, 0);
        assert_eq!((history.wave(id, 20), history.rate(id)), (vec![4 << 20], None));
        // What was not looked at is as before.
        at(&mut history, 110.0, 8, 0);
        assert_eq!(
            history.wave(id, 20).iter().map(|held| held >> 20).collect::<Vec<_>>(),
            [4, 4, 4, 8]
        );
        history.add(Duration::from_secs(120), &Snapshot::default());
        assert!(history.wave(id, 20).is_empty(), "it has gone");
    }

    #[test]
    fn rates_are_of_the_last_seconds_or_of_the_minute() {
        let mut history = History::default();
        at(&mut history, 0.0, 1, 0);
        at(&mut history, 40.0, 1, 4000);
        let id = at(&mut history, 50.0, 1, 4020);
        assert_eq!(history.rate(id), Some(2.0), "of the last ten seconds");
        let id = at(&mut history, 58.0, 1, 4024);
        assert_eq!(history.rate(id), Some(4024.0 / 58.0), "nothing much has happened in those");
    }
}
