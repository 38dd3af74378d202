use zico_core::policy::{Policy, Verdict, View};

/// One iteration at a time, whoever's it is, in the order of asking.
///
/// What a cluster does that gives a GPU to its jobs by turns (Zico's and Salus's baseline of
/// exclusive or "temporal" sharing, at the granularity of an iteration; "Last-Execution" in Zico's
/// artifact).
#[derive(Clone, Copy, Debug, Default)]
pub struct Exclusive;

impl Policy for Exclusive {
    fn name(&self) -> &'static str {
        "exclusive"
    }

    fn decide(&mut self, _: &View<'_>) -> Verdict {
        Verdict::AfterAnEnd
    }
}
