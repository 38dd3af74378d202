//! The tree of calls, and which of them are operations.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde_json::Value;

use super::super::InputProblem;
use super::schema::{self, Argument};

/// A tensor in a file. No device has an address twice at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor {
    /// Its address, where its bytes lie on the device that counts.
    pub(super) address: u64,
    /// The bytes from there to its end.
    pub(super) end: u64,
}

/// A call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: u64,
    pub(super) name: String,
    /// The number by which a profile of the same run names it.
    pub(super) record: Option<u64>,
    parent: u64,
    has_schema: bool,
    pub(super) given: Vec<(Tensor, Argument)>,
    pub(super) gives: Vec<Tensor>,
    /// It reads a tensor that lies on another device.
    pub(super) from_elsewhere: bool,
    /// Its direct calls, by position.
    calls: Vec<usize>,
}

impl Call {
    fn new(node: &Value, counts: &str) -> Result<Self, String> {
        let number = |name: &str| attribute(node, name).and_then(Value::as_u64);
        let name = node.get("name").and_then(Value::as_str).ok_or("it has no name")?.to_owned();
        let id = number("id").ok_or("it has no id")?;
        let parent = number("ctrl_deps").or_else(|| number("parent")).unwrap_or(0);
        let schema = attribute(node, "op_schema").and_then(Value::as_str).unwrap_or_default();
        let arguments = schema::arguments(schema);
        let talks = talks(&name);
        let (mut given, mut gives, mut from_elsewhere) = (Vec::new(), Vec::new(), false);
        let short = name.rsplit("::").next().unwrap_or_default();
        // Of what they are given these read the shape.
        let shape_only = short.ends_with("_like") || short.starts_with("new_");
        for (at, value) in values(node, "inputs").iter().enumerate() {
            let mut argument = arguments.get(at).copied().unwrap_or_default();
            argument.changed |= talks;
            tensors(value, &mut |address, end, device| {
                if device != counts {
                    // A number is given as a tensor of the CPU, too.
                    from_elsewhere |= end > 64;
                } else if !argument.ignored && !shape_only {
                    given.push((Tensor { address, end }, argument));
                }
            });
        }
        for value in values(node, "outputs") {
            tensors(value, &mut |address, end, device| {
                if device == counts {
                    gives.push(Tensor { address, end });
                }
            });
        }
        let (record, has_schema) = (number("rf_id"), !schema.is_empty());
        let calls = Vec::new();
        Ok(Self { id, name, record, parent, has_schema, given, gives, from_elsewhere, calls })
    }

    /// It makes storages and writes nothing.
    pub(super) fn allocates(&self) -> bool {
        const NAMES: [&str; 4] = ["aten::empty", "aten::new_empty", "aten::resize_", "aten::set_"];
        NAMES.iter().any(|name| self.name.starts_with(name))
    }

    /// It writes something, or the host waits for it.
    fn works(&self) -> bool {
        let given =
            |tensor: &Tensor| self.given.iter().any(|(one, _)| one.address == tensor.address);
        self.given.iter().any(|(_, argument)| argument.changed)
            || !self.gives.iter().all(given)
            || (self.name.ends_with("_local_scalar_dense") && !self.given.is_empty())
    }

    fn addresses(&self) -> HashSet<u64> {
        let given = self.given.iter().map(|(tensor, _)| tensor.address);
        given.chain(self.gives.iter().map(|tensor| tensor.address)).collect()
    }
}

/// Communication, which has no schema.
fn talks(name: &str) -> bool {
    ["nccl:", "gloo:", "record_param_comms"].iter().any(|part| name.starts_with(part))
}

/// All calls by their ids, which is the order in which they began.
#[derive(Debug)]
pub(super) struct Calls {
    pub(super) all: Vec<Call>,
    /// The tensors are on the CPU.
    pub(super) on_cpu: bool,
}

fn wrong(at: usize, reason: &str) -> InputProblem {
    InputProblem::Node(format!("node {at}: {reason}"))
}

/// A tensor as it is written: address, end, device.
fn tensor(value: &Value) -> Option<(u64, u64, &str)> {
    let [_, storage, offset, elements, size, device] = value.as_array()?.as_slice() else {
        return None;
    };
    let (storage, offset) = (storage.as_u64()?, offset.as_u64()?);
    let (elements, size) = (elements.as_u64()?, size.as_u64()?);
    let end = if elements == 0 { 0 } else { offset.saturating_add(elements).saturating_mul(size) };
    Some((storage, end.min(1 << 61), device.as_str()?))
}

/// Calls `each` with the tensors of a value, which may be a list of them.
fn tensors<'a>(value: &'a Value, each: &mut impl FnMut(u64, u64, &'a str)) {
    if let Some((address, end, device)) = tensor(value) {
        if end > 0 {
            each(address, end, device);
        }
    } else if let Some(list) = value.as_array() {
        list.iter().filter(|one| one.is_array()).for_each(|one| tensors(one, each));
    }
}

/// `inputs` and `outputs` are lists, or objects with a list.
fn values<'a>(node: &'a Value, which: &str) -> &'a [Value] {
    let found = node.get(which);
    let list = found.and_then(|found| found.get("values").or(Some(found)));
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn attribute<'a>(node: &'a Value, name: &str) -> Option<&'a Value> {
    let listed = node.get("attrs").and_then(Value::as_array).and_then(|attributes| {
        attributes.iter().find(|one| one.get("name").and_then(Value::as_str) == Some(name))
    });
    listed.map_or_else(|| node.get(name), |one| one.get("value"))
}

/// The device that counts: that with the most bytes which is not the CPU, or else the CPU.
fn device(nodes: &[Value]) -> String {
    let mut bytes: HashMap<&str, HashMap<u64, u64>> = HashMap::new();
    for value in
        nodes.iter().flat_map(|node| values(node, "inputs").iter().chain(values(node, "outputs")))
    {
        tensors(value, &mut |address, end, device| {
            let most = bytes.entry(device).or_default().entry(address).or_default();
            *most = end.max(*most);
        });
    }
    let sum =
        |all: &HashMap<u64, u64>| all.values().fold(0_u64, |sum, &end| sum.saturating_add(end));
    let most = bytes.iter().max_by_key(|&(&name, all)| (name != "cpu", sum(all), name));
    most.map_or_else(|| "cpu".to_owned(), |(&name, _)| name.to_owned())
}

impl Calls {
    pub(super) fn new(raw: &Value) -> Result<Self, InputProblem> {
        let nodes = raw.get("nodes").and_then(Value::as_array);
        let nodes = nodes.ok_or(InputProblem::Unrecognised)?;
        let device = device(nodes);
        let mut all = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            all.push(Call::new(node, &device).map_err(|reason| wrong(at, &reason))?);
        }
        all.sort_by_key(|call| call.id);
        let position: HashMap<u64, usize> =
            all.iter().enumerate().map(|(at, call)| (call.id, at)).collect();
        if let Some(pair) = all.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(InputProblem::Node(format!("two nodes have the id {}", pair[0].id)));
        }
        for at in 0..all.len() {
            // Who called has begun before: anything else makes a root of it.
            let parent = position.get(&all[at].parent).copied().filter(|&parent| parent < at);
            if let Some(parent) = parent {
                all[parent].calls.push(at);
            }
        }
        Ok(Self { all, on_cpu: device == "cpu" })
    }

    /// The ids of the last whole iteration.
    pub(super) fn iteration(&self) -> Range<u64> {
        let named = |part: &str| -> Vec<u64> {
            self.all.iter().filter(|call| call.name.starts_with(part)).map(|call| call.id).collect()
        };
        // Until the calls of the last step are over: the next call that is not within it.
        let steps = self.steps_end();
        let marks = named("ProfilerStep#");
        match (steps.as_slice(), marks.as_slice()) {
            ([.., from, until], _) => *from..*until,
            ([_], _) | (_, [] | [_]) => 0..u64::MAX,
            (_, [.., from, until]) => *from..*until,
        }
    }

    /// The id behind the last call within each step of the optimizer.
    fn steps_end(&self) -> Vec<u64> {
        let mut ends = Vec::new();
        for (at, call) in self.all.iter().enumerate() {
            if call.name.starts_with("Optimizer.step#") {
                let last = self.within(at).into_iter().max().unwrap_or(at);
                ends.push(self.all[last].id.saturating_add(1));
            }
        }
        ends
    }

    /// A call and all calls within it, by position.
    pub(super) fn within(&self, at: usize) -> Vec<usize> {
        let mut all = vec![at];
        let mut next = 0;
        while let Some(&call) = all.get(next) {
            all.extend(&self.all[call].calls);
            next += 1;
        }
        all
    }

    /// The calls that are operations, in their order.
    pub(super) fn operations(&self) -> Vec<usize> {
        let mut parts: Vec<Part> = (0..self.all.len()).map(|_| Part::default()).collect();
        let mut inner = vec![false; self.all.len()];
        for at in (0..self.all.len()).rev() {
            let mut part = Part::default();
            for &call in &self.all[at].calls {
                inner[call] = true;
                part.add(std::mem::take(&mut parts[call]));
            }
            parts[at] = self.part(at, part);
        }
        let roots = (0..self.all.len()).filter(|&at| !inner[at]);
        let mut chosen: Vec<usize> =
            roots.flat_map(|at| std::mem::take(&mut parts[at].chosen)).collect();
        chosen.sort_unstable();
        chosen
    }

    /// What a call with these within it comes to.
    fn part(&self, at: usize, within: Part) -> Part {
        let call = &self.all[at];
        let alone = || Part { chosen: vec![at], uses: call.addresses() };
        let leaf = within.chosen.is_empty();
        if call.has_schema && !call.allocates() {
            let covered = |(tensor, _): &(Tensor, _)| within.uses.contains(&tensor.address);
            let whole = if leaf { call.works() } else { !call.given.iter().all(covered) };
            return if whole { alone() } else { within };
        }
        if leaf && talks(&call.name) && call.works() { alone() } else { within }
    }
}

/// The operations within a call, and the addresses that they use.
#[derive(Debug, Default)]
struct Part {
    chosen: Vec<usize>,
    uses: HashSet<u64>,
}

impl Part {
    fn add(&mut self, mut other: Self) {
        if other.uses.len() > self.uses.len() {
            std::mem::swap(&mut self.uses, &mut other.uses);
        }
        self.chosen.append(&mut other.chosen);
        self.uses.extend(other.uses);
    }
}
