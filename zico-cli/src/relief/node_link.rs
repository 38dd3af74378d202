//! Graphs as networkx writes them in node-link form, as Checkmate's are: a node is an operation
//! with one output, an edge says who reads it. (Some writers name its ends `0` and `1`, and call
//! nodes by `name` where there is no `id`.)
//!
//! Of a node, `cost_cpu`, `cost` or `duration` is its time, `cost_ram`, `mem` or `out_cost` the
//! bytes of its output. Operations run in the order of `graph.order` if there is one, or else of
//! the nodes; where an edge goes against that, in the order nearest to it in which none does. Each
//! output leaves after its last use. Every operation can run again.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::Value;
use zico_plan::relief::{Graph, Operation, Storage};

use super::InputProblem;

#[derive(Debug, Deserialize)]
struct NodeLink {
    nodes: Vec<HashMap<String, Value>>,
    #[serde(alias = "edges")]
    links: Vec<Link>,
    #[serde(default)]
    graph: Value,
    directed: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Link {
    #[serde(alias = "0")]
    source: Value,
    #[serde(alias = "1")]
    target: Value,
}

/// The names of a node's time, and of its output's bytes.
const TIMES: [&str; 3] = ["cost_cpu", "cost", "duration"];
const BYTES: [&str; 3] = ["cost_ram", "mem", "out_cost"];

/// No figure of a node is larger: 2^61.
const MOST: f64 = (1_u64 << 61) as f64;

/// The iteration that a graph describes. Its times are in units of so many nanoseconds.
///
/// # Errors
/// It is no such graph, or names nodes that there are not, or has a cycle.
pub fn parse(raw: Value, unit: f64) -> Result<Graph, InputProblem> {
    if raw.get("nodes").is_none() {
        return Err(InputProblem::Unrecognised);
    }
    let found: NodeLink = serde_json::from_value(raw)?;
    if found.directed == Some(false) {
        return Err(InputProblem::Node("its edges have no direction".to_owned()));
    }
    let mut ids = HashMap::new();
    for (at, node) in found.nodes.iter().enumerate() {
        let id = node.get("id").or_else(|| node.get("name"));
        let id = id.ok_or_else(|| wrong(format!("node {at} has no id")))?;
        if ids.insert(id.to_string(), at).is_some() {
            return Err(wrong(format!("two nodes have the id {id}")));
        }
    }
    let node = |id: &Value| {
        ids.get(&id.to_string()).copied().ok_or_else(|| wrong(format!("there is no node {id}")))
    };
    let mut reads = vec![Vec::new(); found.nodes.len()];
    for link in &found.links {
        reads[node(&link.target)?].push(node(&link.source)?);
    }
    let rank = ranks(&found, node)?;
    let order = order(&reads, &rank)?;
    let mut position = vec![0_u32; order.len()];
    for (at, &node) in (0..).zip(&order) {
        position[node] = at;
    }
    let mut storages = Vec::with_capacity(order.len());
    let mut operations = Vec::with_capacity(order.len());
    for (&node, at) in order.iter().zip(0..) {
        let known = &found.nodes[node];
        storages.push(Storage::new(figure(known, &BYTES, 1.0)?));
        let reads = reads[node].iter().map(|&other| position[other]).collect();
        let nanos = figure(known, &TIMES, unit)?;
        operations.push(Operation { reads, writes: vec![at], nanos, repeatable: true });
    }
    Ok(Graph::new(storages, operations)?)
}

fn wrong(reason: String) -> InputProblem {
    InputProblem::Node(reason)
}

/// The first of some figures that a node has.
fn figure(node: &HashMap<String, Value>, names: &[&str], unit: f64) -> Result<u64, InputProblem> {
    let id = node.get("id").map(Value::to_string).unwrap_or_default();
    let found = names.iter().find_map(|name| node.get(*name));
    let found =
        found.ok_or_else(|| wrong(format!("node {id} has none of {}", names.join(", "))))?;
    let value =
        found.as_f64().map(|value| value * unit).filter(|value| (0.0..MOST).contains(value));
    let value = value.ok_or_else(|| wrong(format!("node {id}: {found} is no such figure")))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    Ok(value.round() as u64)
}

/// Where each node stands in the order that the graph asks for.
fn ranks(
    found: &NodeLink,
    node: impl Fn(&Value) -> Result<usize, InputProblem>,
) -> Result<Vec<usize>, InputProblem> {
    let mut rank: Vec<usize> = (0..found.nodes.len()).collect();
    let Some(order) = found.graph.get("order").and_then(Value::as_array) else { return Ok(rank) };
    rank.fill(usize::MAX);
    for (at, id) in order.iter().enumerate() {
        rank[node(id)?] = at;
    }
    Ok(rank)
}

/// The order in which each node comes after what it reads, and else as early as its rank says
/// (Kahn, CACM 1962).
fn order(reads: &[Vec<usize>], rank: &[usize]) -> Result<Vec<usize>, InputProblem> {
    let mut waits: Vec<usize> = reads.iter().map(Vec::len).collect();
    let mut readers = vec![Vec::new(); reads.len()];
    for (node, all) in reads.iter().enumerate() {
        all.iter().for_each(|&other: &usize| readers[other].push(node));
    }
    let mut ready: BTreeSet<(usize, usize)> =
        (0..reads.len()).filter(|&node| waits[node] == 0).map(|node| (rank[node], node)).collect();
    let mut order = Vec::with_capacity(reads.len());
    while let Some((_, node)) = ready.pop_first() {
        order.push(node);
        for &reader in &readers[node] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.insert((rank[reader], reader));
            }
        }
    }
    if order.len() < reads.len() {
        return Err(wrong("its edges go round in a circle".to_owned()));
    }
    Ok(order)
}
