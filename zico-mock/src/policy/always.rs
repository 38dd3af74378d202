use zico_core::policy::{Policy, Verdict, View};

/// Each iteration starts when its job asks.
///
/// With a [cap](zico_core::JobConfig::cap) for each job, and caps that together come to no more
/// than the budget, this is a static partition: what MPS's per-client memory limits and MIG's
/// instances come to (NVIDIA). What a job does not use of its share nobody else gets, and a job
/// whose peak is larger runs out of memory
/// ([`AllocError::BeyondCap`](zico_core::AllocError::BeyondCap)): the budget has to be the sum of
/// the peaks. Profiles do not matter.
///
/// Without caps jobs share all memory with nothing but the pool's own rules between them: an
/// iteration stalls whenever what it asks for could leave every job waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysStart;

impl Policy for AlwaysStart {
    fn name(&self) -> &'static str {
        "static"
    }

    fn decide(&mut self, _: &View<'_>) -> Verdict {
        Verdict::Start
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{running, unknown, verdict, waiting};
    use super::*;
    use zico_core::Activity;

    #[test]
    fn neither_memory_nor_profiles_matter() {
        let jobs = [running(&[(10, 9)], 0), waiting(&[(10, 9)])];
        assert_eq!(verdict(&mut AlwaysStart, 1, &jobs), Verdict::Start);
        let jobs = [unknown(Activity::Stalled), unknown(Activity::Waiting)];
        assert_eq!(verdict(&mut AlwaysStart, 1, &jobs), Verdict::Start);
    }
}
