//! The data, with the marks that its files have.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use zico_cli::relief;
use zico_plan::relief::{Graph, Kind, Operation, Storage};

use crate::Failed;

pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Failed> {
    let all = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut all = all.collect::<Result<Vec<PathBuf>, Failed>>()?;
    all.sort();
    Ok(all)
}

pub(crate) fn name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next().unwrap_or(&name).to_owned()
}

/// A graph of Checkmate's with its fixed memory, and the rest of the file.
pub(crate) fn exact(path: &Path) -> Result<(Graph, Value), Failed> {
    let file: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
    let list = |name: &str| file[name].as_array().cloned().ok_or_else(|| format!("no {name}"));
    let number = |value: &Value| value.as_u64().ok_or("no number");
    let mut storages = Vec::new();
    let mut operations = Vec::new();
    for ((at, bytes), cost) in (0..).zip(list("mem_KiB")?).zip(list("cost")?) {
        storages.push(Storage::new(number(&bytes)? << 10));
        // A cost is a hundredth of a millisecond.
        let nanos = number(&cost)? * 10_000;
        operations.push(Operation { reads: vec![], writes: vec![at], nanos, repeatable: true });
    }
    for edge in list("edge")? {
        let reads = &mut operations[usize::try_from(number(&edge[1])?)?].reads;
        reads.push(u32::try_from(number(&edge[0])?)?);
    }
    storages.push(Storage::persistent(number(&file["fixed_KiB"])? << 10));
    let kinds = list("op")?.iter().map(|op| Kind::of(op.as_str().unwrap_or(""))).collect();
    let loss = u32::try_from(number(&file["loss"])?)?;
    Ok((Graph::new(storages, operations)?.with_backward(loss).with_kinds(kinds), file))
}

/// An iteration as the program reads it; of a node-link graph with where the backward pass begins
/// and what operations are.
pub(crate) fn open(path: &Path) -> Result<Graph, Failed> {
    let graph = relief::open(path, &relief::Options::default())?.graph;
    if path.extension().is_none_or(|extension| extension != "json") {
        return Ok(graph);
    }
    let file: Value = serde_json::from_str(&fs::read_to_string(path)?)?;
    let nodes = file["nodes"].as_array().ok_or("no nodes")?;
    let forward = nodes.iter().take_while(|node| node["backward"] != true).count();
    if forward == nodes.len() {
        return Ok(graph);
    }
    let kind = |node: &Value| Kind::of(node["name"].as_str().unwrap_or(""));
    let kinds = nodes.iter().map(kind).collect();
    Ok(graph.with_backward(u32::try_from(forward)?).with_kinds(kinds))
}
