//! The activities of a GPU, as launches at the moments of the host's calls.

use std::collections::{BTreeMap, HashMap};

use crate::import::recording::Launch;

/// A kernel, a copy or a memset ran on a GPU.
#[derive(Clone, Copy)]
pub(super) struct Activity {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) device: i32,
    pub(super) correlation: i64,
}

/// The host called the CUDA runtime or driver.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) at: i64,
    pub(super) correlation: i64,
}

/// The launches of one GPU, in order of time: one for each call that made it do something.
///
/// What several streams do at once counts once: an activity counts for the time by which it makes
/// the GPU busy for longer. One whose call was not recorded stands where it ran.
pub(super) fn launches(activities: &[Activity], calls: &[Call], device: i32) -> Vec<Launch> {
    let mut called: HashMap<i64, i64> = HashMap::new();
    for call in calls {
        let at = called.entry(call.correlation).or_insert(call.at);
        *at = call.at.min(*at);
    }
    let mut activities: Vec<_> =
        activities.iter().filter(|activity| activity.device == device).collect();
    activities.sort_by_key(|activity| (activity.start, activity.end, activity.correlation));
    let mut launches: BTreeMap<(i64, i64), u64> = BTreeMap::new();
    let mut busy_until = i64::MIN;
    for Activity { start, end, correlation, .. } in activities {
        let from = busy_until.max(*start);
        if from < *end {
            let at = called.get(correlation).copied().unwrap_or(*start);
            let work = launches.entry((at, *correlation)).or_default();
            // Pieces do not overlap, so that their sum is at most the span of all times.
            *work += end.abs_diff(from);
            busy_until = *end;
        }
    }
    launches.into_iter().map(|((start, _), work)| Launch { start, work }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(activities: &[(i64, i64, i64)], calls: &[(i64, i64)]) -> Vec<(i64, u64)> {
        let activity = |&(start, end, correlation)| Activity { start, end, device: 2, correlation };
        let mut activities: Vec<_> = activities.iter().map(activity).collect();
        activities.push(Activity { start: 0, end: 1_000, device: 1, correlation: 1 });
        let calls: Vec<_> =
            calls.iter().map(|&(at, correlation)| Call { at, correlation }).collect();
        let launches = launches(&activities, &calls, 2);
        launches.into_iter().map(|launch| (launch.start, launch.work)).collect()
    }

    #[test]
    fn work_stands_where_the_host_asked_for_it() {
        let calls = [(10, 1), (20, 2), (30, 3)];
        let activities = [(100, 107, 1), (110, 125, 3), (125, 126, 2)];
        assert_eq!(of(&activities, &calls), [(10, 7), (20, 1), (30, 15)]);
    }

    #[test]
    fn one_call_may_launch_many_kernels() {
        let activities = [(100, 110, 1), (110, 130, 1), (140, 141, 1)];
        assert_eq!(of(&activities, &[(10, 1)]), [(10, 31)]);
    }

    #[test]
    fn what_streams_do_at_once_counts_once() {
        let activities = [(100, 200, 1), (150, 180, 2), (150, 260, 3), (255, 270, 4)];
        let calls = [(1, 1), (2, 2), (3, 3), (4, 4)];
        assert_eq!(of(&activities, &calls), [(1, 100), (3, 60), (4, 10)]);
    }

    #[test]
    fn an_unknown_call_leaves_its_kernel_where_it_ran() {
        assert_eq!(of(&[(100, 110, 7), (50, 60, 1)], &[(10, 1)]), [(10, 10), (100, 10)]);
        assert_eq!(of(&[(5, 5, 1)], &[]), []);
    }
}
