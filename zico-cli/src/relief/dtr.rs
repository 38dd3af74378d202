//! Logs of DTR's recorder (Kirisame et al., ICLR 2021; `uwsampl/dtr-prototype`): an instruction a
//! line, as JSON.
//!
//! `CONSTANT` with its `MEMORY` was there before; `CALL` runs an operation and is followed by
//! `MEMORY` and `ALIAS` of each result, an alias being the index of the argument whose bytes it
//! shares, or -1; `MUTATE` changes arguments; `COPY` and `COPY_FROM` make names, `RELEASE` drops
//! them. As DTR does, a mutation is taken to make new storages and to let go of the old ones, so
//! that any operation can run again; and what is named in the end is kept. A view costs nothing
//! again: it is a name.

use std::collections::HashMap;

use serde::Deserialize;
use zico_plan::relief::{Graph, Operation, Storage};

use super::InputProblem;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct Line {
    instruction: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    result: Vec<String>,
    #[serde(default)]
    mutate: Vec<usize>,
    #[serde(default)]
    time: Option<Number>,
    #[serde(default)]
    memory: Option<Number>,
    #[serde(default)]
    alias: Option<Number>,
    #[serde(default)]
    dst: String,
    #[serde(default)]
    src: String,
}

/// Numbers are written as text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Number {
    Text(String),
    Number(i64),
}

impl Number {
    fn value(&self) -> Option<i64> {
        match self {
            Self::Text(text) => text.parse().ok(),
            Self::Number(number) => Some(*number),
        }
    }
}

/// Whether the first line is one of a log.
pub(super) fn looks_like(text: &str) -> bool {
    text.trim_start().lines().next().is_some_and(|line| {
        line.contains("\"INSTRUCTION\"") && serde_json::from_str::<Line>(line).is_ok()
    })
}

/// The iteration that a log records.
///
/// # Errors
/// The first line that is wrong.
pub fn parse(text: &str) -> Result<Graph, InputProblem> {
    let mut log = Log::default();
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    while let Some((at, line)) = lines.next() {
        let wrong = |reason: String| InputProblem::Line { line: at + 1, reason };
        let line: Line = read(line).map_err(wrong)?;
        let results = match line.instruction.as_str() {
            "CONSTANT" => 1,
            "CALL" => line.result.len(),
            _ => 0,
        };
        let mut made = Vec::with_capacity(results);
        for _ in 0..results {
            let mut number = |which: fn(&Line) -> Option<&Number>, name: &str| {
                let missing = || wrong(format!("it is not followed by {name}"));
                let (_, line) = lines.next().ok_or_else(missing)?;
                let line: Line = read(line).map_err(wrong)?;
                which(&line).and_then(Number::value).ok_or_else(missing)
            };
            let bytes = number(|line| line.memory.as_ref(), "MEMORY")?;
            let bytes = u64::try_from(bytes).map_err(|_| wrong("negative memory".to_owned()))?;
            let alias = match line.instruction.as_str() {
                "CALL" => number(|line| line.alias.as_ref(), "ALIAS")?,
                _ => -1,
            };
            made.push((bytes, usize::try_from(alias).ok()));
        }
        log.instruction(&line, &made).map_err(wrong)?;
    }
    Ok(Graph::new(log.storages, log.operations)?)
}

fn read(line: &str) -> Result<Line, String> {
    serde_json::from_str(line).map_err(|error| error.to_string())
}

#[derive(Default)]
struct Log {
    storages: Vec<Storage>,
    /// How many names each has.
    names: Vec<u32>,
    operations: Vec<Operation>,
    tensors: HashMap<String, u32>,
}

impl Log {
    fn tensor(&self, name: &str) -> Result<u32, String> {
        self.tensors.get(name).copied().ok_or_else(|| format!("there is no {name}"))
    }

    fn storage(&mut self, storage: Storage) -> Result<u32, String> {
        let at = u32::try_from(self.storages.len()).map_err(|_| "too many storages".to_owned())?;
        self.storages.push(storage);
        self.names.push(0);
        Ok(at)
    }

    fn name(&mut self, name: &str, storage: u32) {
        self.names[storage as usize] += 1;
        if let Some(old) = self.tensors.insert(name.to_owned(), storage) {
            self.unname(old);
        }
    }

    fn unname(&mut self, storage: u32) {
        let left = &mut self.names[storage as usize];
        *left = left.saturating_sub(1);
        if *left == 0 {
            let last = self.operations.len().saturating_sub(1);
            self.storages[storage as usize].kept = false;
            self.storages[storage as usize].released = u32::try_from(last).ok();
        }
    }

    fn instruction(&mut self, line: &Line, made: &[(u64, Option<usize>)]) -> Result<(), String> {
        match line.instruction.as_str() {
            "CONSTANT" => {
                let storage = self.storage(Storage::persistent(made.first().map_or(0, |m| m.0)))?;
                self.name(&line.name, storage);
            }
            "CALL" => self.call(line, made)?,
            "MUTATE" => self.mutate(line)?,
            "COPY" => {
                let storage = self.tensor(&line.src)?;
                self.name(&line.dst, storage);
            }
            "COPY_FROM" => {
                self.tensor(&line.dst)?;
                let storage = self.tensor(&line.src)?;
                self.name(&line.dst, storage);
            }
            "RELEASE" => {
                let storage = self.tensors.remove(&line.name);
                self.unname(storage.ok_or_else(|| format!("there is no {}", line.name))?);
            }
            "ANNOTATE" => {}
            other => return Err(format!("unknown instruction {other}")),
        }
        Ok(())
    }

    fn operation(&self, line: &Line) -> Result<Operation, String> {
        let nanos = line.time.as_ref().and_then(Number::value);
        let nanos = nanos.and_then(|nanos| u64::try_from(nanos).ok());
        let reads = line.args.iter().map(|name| self.tensor(name)).collect::<Result<_, _>>()?;
        let nanos = nanos.ok_or_else(|| "no TIME in nanoseconds".to_owned())?;
        Ok(Operation { reads, writes: Vec::new(), nanos, repeatable: true })
    }

    fn call(&mut self, line: &Line, made: &[(u64, Option<usize>)]) -> Result<(), String> {
        let mut operation = self.operation(line)?;
        let mut results = Vec::with_capacity(made.len());
        for &(bytes, alias) in made {
            if let Some(argument) = alias {
                let missing = || "an alias of no argument".to_owned();
                let name = line.args.get(argument).ok_or_else(missing)?;
                results.push(self.tensor(name)?);
            } else {
                let storage = self.storage(Storage { kept: true, ..Storage::new(bytes) })?;
                operation.writes.push(storage);
                results.push(storage);
            }
        }
        self.operations.push(operation);
        for (name, storage) in line.result.iter().zip(results) {
            self.name(name, storage);
        }
        Ok(())
    }

    fn mutate(&mut self, line: &Line) -> Result<(), String> {
        let mut operation = self.operation(line)?;
        let mut new = Vec::with_capacity(line.mutate.len());
        for &argument in &line.mutate {
            let missing = || "a mutation of no argument".to_owned();
            let name = line.args.get(argument).ok_or_else(missing)?;
            let bytes = self.storages[self.tensor(name)? as usize].bytes;
            let storage = self.storage(Storage { kept: true, ..Storage::new(bytes) })?;
            operation.writes.push(storage);
            new.push((name, storage));
        }
        self.operations.push(operation);
        for (name, storage) in new {
            self.name(name, storage);
        }
        Ok(())
    }
}
