//! Execution traces as PyTorch's `ExecutionTraceObserver` writes them (the format that MLCommons'
//! Chakra reads): a tree of calls, each with the tensors that it was given and gave back.
//!
//! A tensor is `[tensor, storage, offset, elements, bytes of an element, device]`. Of that an
//! iteration is made:
//!
//! - *Operations* are the innermost calls that account for what was given to the call around them:
//!   a convolution that only allocates within is one; a wrapper whose calls read all that it was
//!   given is not. Views, allocations and questions about shapes are none.
//! - *Writes* are the arguments that the schema marks as changed (`Tensor(a!)`), and outputs whose
//!   storage was not given. Communication changes all tensors that it is given. The running
//!   statistics of a batch normalisation in training are left out, as its result does not depend on
//!   them: who runs it again gives it none.
//! - *Storages* are addresses in such a file, and are used again. An allocation, or an output in a
//!   storage that was not given, makes a new storage of the same address. What is used and was
//!   never made was there before and stays, as parameters do. A file does not say when memory is
//!   freed: a storage leaves after its last use, and stays if something after the iteration uses
//!   it.
//! - *Device*: where tensors lie on several, the one with the most bytes that is not the CPU
//!   counts.
//! - *The iteration* is the last whole one by the optimizer's steps (`Optimizer.step#...`), or else
//!   by `ProfilerStep#N`, or else all that there is.
//! - Random numbers, communication, what is copied from another device and what the host waits for
//!   does not run again.
//!
//! The times come from the Kineto profile of the same run or model ([`Times`]), or else of a rule:
//! 5 us, and 1 ns for each 1,000 bytes that are read and written.

mod calls;
mod memory;
mod schema;
#[cfg(test)]
mod tests;
mod times;

use serde_json::Value;
use zico_plan::relief::{Graph, Operation};

use super::{Input, InputProblem};

pub use times::Times;

use calls::{Call, Calls};
use memory::Memory;

/// Whether a JSON object is such a trace.
pub(super) fn looks_like(raw: &Value) -> bool {
    let nodes = raw.get("nodes").and_then(Value::as_array);
    nodes.and_then(|nodes| nodes.first()).is_some_and(|node| {
        let new = node.get("ctrl_deps").is_some() && node.get("attrs").is_some();
        new || (node.get("op_schema").is_some() && node.get("parent").is_some())
    })
}

/// The iteration that a trace has recorded, with the times of a profile.
///
/// # Errors
/// The first call that is wrong, by its position and id; or there is no iteration in it.
pub fn parse(raw: &Value, times: Option<&Times>) -> Result<Input, InputProblem> {
    let calls = Calls::new(raw)?;
    let chosen = calls.operations();
    if chosen.is_empty() {
        return Err(InputProblem::Node("no call of it reads or writes a tensor".to_owned()));
    }
    let mut memory = Memory::new(&calls);
    let accesses: Vec<_> = chosen.iter().map(|&at| memory.access(&calls, at)).collect();
    let window = calls.iteration();
    let inside = |at: usize| window.contains(&calls.all[at].id);
    let from = chosen.iter().take_while(|&&at| !inside(at)).count();
    let until = from + chosen[from..].iter().take_while(|&&at| inside(at)).count();
    let (storages, names) = memory.storages(&accesses, from..until);
    let times = times.map(|times| times.of(&calls, &chosen));
    let mut origins = [0_usize; 4];
    let mut operations = Vec::with_capacity(until - from);
    let called: Vec<String> = (from..until).map(|at| calls.all[chosen[at]].name.clone()).collect();
    for at in from..until {
        let names = |all: &[u32]| -> Vec<u32> {
            all.iter().filter_map(|one| names.get(one).copied()).collect()
        };
        let (reads, writes) = (names(&accesses[at].reads), names(&accesses[at].writes));
        let found = times.as_ref().and_then(|times| times[at]);
        let origin = found.map_or(3, |(_, origin)| origin as usize);
        origins[origin] += 1;
        let bytes = reads.iter().chain(&writes).map(|&name| storages[name as usize].bytes);
        let rule = 5_000 + bytes.fold(0, u64::saturating_add) / 1_000;
        let nanos = found.map_or(rule, |(nanos, _)| nanos);
        let repeatable = calls.all[chosen[at]].is_repeatable();
        operations.push(Operation { reads, writes, nanos, repeatable });
    }
    let [recorded, placed, mean, ruled] = origins;
    let note = format!(
        "times of operations: {recorded} as the profile names the call, {placed} by their position in it, \
         {mean} the mean of their name in it, {ruled} by their bytes"
    );
    let graph = super::with_kinds(Graph::new(storages, operations)?, &called);
    Ok(Input { graph, name: None, names: called, notes: vec![note] })
}

impl Call {
    /// Whether it gives the same result each time, and does nothing else.
    fn is_repeatable(&self) -> bool {
        const NOT: [&str; 15] = [
            "dropout",
            "rand",
            "bernoulli",
            "normal_",
            "uniform_",
            "multinomial",
            "exponential_",
            "poisson",
            "geometric_",
            "c10d::",
            "nccl:",
            "gloo:",
            "record_param_comms",
            "_local_scalar_dense",
            "flash_attention_forward",
        ];
        !self.from_elsewhere && !NOT.iter().any(|part| self.name.contains(part))
    }
}
