//! Options of `zico replay` for jobs that are relieved.

use clap::Parser;
use zico_mock::replay::Means;
use zico_plan::relief::{Link, Strategy};

use super::relief::{link, strategy};

/// Options of `zico replay` for jobs that are relieved.
#[derive(Clone, Debug, Parser)]
pub struct RelieveArgs {
    /// Jobs that do not fit move memory to the host and run again what made it, as planned by `zico
    /// relief`: so they run below the least budget too, with f=F below 0. Traces have to say what
    /// their operations read and write (.ztrace of version 2); names are those of the bundled
    /// recordings with operations: bert-base, gcn, gpt2-small, resnet50
    #[arg(long, conflicts_with_all = ["processes", "carry"])]
    pub relief: bool,

    /// With --relief: the way to the host, which all jobs share, as for `zico relief`: pcie4, pcie5,
    /// nvlink-c2c, or GB/s each way
    #[arg(
        short, long, default_value = "pcie4", value_parser = link, value_name = "LINK|GB/s",
        requires = "relief"
    )]
    pub link: Link,

    /// With --relief: who plans; `zico relief --help` lists the strategies
    #[arg(
        short, long, default_value = "zico", value_parser = strategy, value_name = "STRATEGY",
        requires = "relief"
    )]
    pub strategy: Strategy,

    /// With --relief: how many steps our own planners may work on each plan beyond the first
    #[arg(short, long, default_value_t = 1 << 20, value_name = "N", requires = "relief")]
    pub work: u64,
}

impl RelieveArgs {
    /// How plans are to be made, if they are.
    #[must_use]
    pub fn means(&self) -> Option<Means> {
        let Self { strategy, link, work, .. } = *self;
        self.relief.then_some(Means { strategy, link, work })
    }
}
