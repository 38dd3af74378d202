use super::{Policy, Verdict, View};

/// No decision and no hand-over: each job starts when it likes and keeps its own peak.
///
/// What happens when jobs with caching allocators are put on one device. It needs the sum of the
/// jobs' peaks as its budget; below that a job runs out of memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unmanaged;

impl Policy for Unmanaged {
    fn name(&self) -> &'static str {
        "unmanaged"
    }

    fn decide(&mut self, _: &View<'_>) -> Verdict {
        Verdict::Start
    }

    fn hands_over(&self) -> bool {
        false
    }
}
