use super::{Policy, Verdict, View};
use crate::units::Regions;

/// A fixed share of the budget for each job: everybody starts when they like, nobody holds more.
///
/// What memory limits of MPS clients or the instances of MIG come to (NVIDIA). A job's share is its
/// [cap](crate::JobConfig::cap); what the caps leave is shared evenly by the jobs that have none, so
/// these should all have joined before one of them allocates. What a job does not use of its share
/// nobody else gets, and a job whose peak is larger runs out of memory
/// ([`AllocError::BeyondCap`](crate::AllocError::BeyondCap)): the budget has to be the sum of the
/// peaks. Profiles do not matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Static;

impl Policy for Static {
    fn name(&self) -> &'static str {
        "static"
    }

    fn decide(&mut self, _: &View<'_>) -> Verdict {
        Verdict::Start
    }

    fn cap(&self, view: &View<'_>) -> Regions {
        if let Some(cap) = view.own().cap {
            return cap.min(view.budget);
        }
        let given = view.jobs.iter().filter_map(|job| job.cap);
        let rest = given.fold(view.budget, Regions::saturating_sub);
        let sharers = view.jobs.iter().filter(|job| job.cap.is_none()).count();
        Regions::new(rest.value() / u32::try_from(sharers).unwrap_or(u32::MAX).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Tenant;
    use alloc::vec::Vec;

    fn caps(caps: &[Option<u32>]) -> Vec<u32> {
        let jobs: Vec<Tenant> = caps
            .iter()
            .map(|cap| Tenant { cap: cap.map(Regions::new), ..Tenant::default() })
            .collect();
        let cap = |i| Static.cap(&View::new(Regions::new(100), &jobs, i)).value();
        (0..jobs.len()).map(cap).collect()
    }

    #[test]
    fn shares_are_as_given_and_the_rest_is_even() {
        assert_eq!(caps(&[None]), [100]);
        assert_eq!(caps(&[None, None, None]), [33, 33, 33]);
        assert_eq!(caps(&[Some(70), Some(30)]), [70, 30]);
        assert_eq!(caps(&[Some(40), None, None]), [40, 30, 30]);
        assert_eq!(caps(&[Some(200), None]), [100, 0]);
    }
}
