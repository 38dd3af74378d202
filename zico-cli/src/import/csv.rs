//! Blocks in MiniMalloc's CSV: a header `id,lower,upper,size`, then a block a line.
//!
//! Columns come in any order. `upper` is the moment at which a block is gone. A column `alignment`
//! is read if it is there; other columns are not, save that a block with `gaps` in its lifetime is
//! refused.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use zico_plan::Block;

use super::MAX_EVENTS;

/// The most bytes of a line: 64 KiB.
pub const LONGEST_LINE: usize = 64 << 10;

/// The most bytes of all blocks' ids together: 64 MiB.
pub const MAX_IDS: usize = 64 << 20;

/// Why a file is not a list of blocks.
#[derive(Debug, thiserror::Error)]
pub enum CsvError {
    /// It cannot be read.
    #[error("cannot read {}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("{}, line {line}: {reason}", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// Blocks and what the file calls them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// The names, in the order of the file.
    pub ids: Vec<String>,
    /// The blocks.
    pub blocks: Vec<Block>,
}

/// Reads the blocks in the file at `path`.
///
/// # Errors
/// The file cannot be read, or the first line that is wrong.
pub fn open(path: &Path) -> Result<Blocks, CsvError> {
    let failed = |source| CsvError::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    read(BufReader::new(file)).map_err(|stop| match stop {
        Stop::Io(source) => failed(source),
        Stop::Line(line, reason) => CsvError::Line { path: path.to_owned(), line, reason },
    })
}

/// Whether a file begins as a CSV does and no recorded job does: with a small letter.
#[must_use]
pub fn looks_like(path: &Path) -> bool {
    let mut first = [0];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
    read.is_ok() && (first[0].is_ascii_lowercase() || first[0] == b'"')
}

/// Why reading stopped.
#[derive(Debug)]
enum Stop {
    Io(io::Error),
    /// The line, counted from 1, and what is wrong with it.
    Line(usize, String),
}

/// Reads blocks, of which there are [`MAX_EVENTS`] at most.
fn read(mut from: impl BufRead) -> Result<Blocks, Stop> {
    let mut all = Blocks::default();
    let (mut columns, mut text, mut left) = (None, Vec::new(), MAX_IDS);
    for number in 1.. {
        let wrong = |reason: String| Stop::Line(number, reason);
        text.clear();
        let most = LONGEST_LINE as u64 + 1;
        let length = from.by_ref().take(most).read_until(b'\n', &mut text).map_err(Stop::Io)?;
        if length == 0 {
            break;
        }
        if length > LONGEST_LINE {
            return Err(wrong(format!("the line has more than {LONGEST_LINE} bytes")));
        }
        let line = String::from_utf8_lossy(&text);
        if line.trim().is_empty() {
            continue;
        }
        let Some(columns) = &columns else {
            columns = Some(Columns::new(&line).map_err(wrong)?);
            continue;
        };
        let (id, block) = columns.block(&line).map_err(wrong)?;
        let rest = left.checked_sub(id.len()).filter(|_| all.blocks.len() < MAX_EVENTS);
        left = rest.ok_or_else(|| {
            wrong(format!("more than {MAX_EVENTS} blocks, or {MAX_IDS} bytes of ids"))
        })?;
        all.ids.push(id);
        all.blocks.push(block);
    }
    columns.map_or_else(|| Err(Stop::Line(1, "the file is empty".to_owned())), |_| Ok(all))
}

/// The columns of a line.
struct Columns {
    count: usize,
    id: usize,
    lower: usize,
    upper: usize,
    size: usize,
    alignment: Option<usize>,
    gaps: Option<usize>,
}

impl Columns {
    fn new(header: &str) -> Result<Self, String> {
        let names: Vec<&str> = fields(header).collect();
        let find = |name| names.iter().position(|&column| column == name);
        let need = |name| {
            find(name).ok_or_else(|| {
                format!("there is no column {name:?}; a header is id,lower,upper,size in any order")
            })
        };
        Ok(Self {
            count: names.len(),
            id: need("id")?,
            lower: need("lower")?,
            upper: need("upper")?,
            size: need("size")?,
            alignment: find("alignment"),
            gaps: find("gaps"),
        })
    }

    fn block(&self, line: &str) -> Result<(String, Block), String> {
        let fields: Vec<&str> = fields(line).collect();
        if fields.len() != self.count {
            return Err(format!("{} fields, where the header has {}", fields.len(), self.count));
        }
        let number = |name: &str, column: usize| {
            let field = fields[column];
            field
                .parse::<u64>()
                .map_err(|_| format!("the {name} {field:?} is no number of 64 bits"))
        };
        let (lower, upper) = (number("lower", self.lower)?, number("upper", self.upper)?);
        if lower > upper {
            return Err(format!("the block ends at {upper}, before it begins at {lower}"));
        }
        if self.gaps.is_some_and(|gaps| !fields[gaps].is_empty()) {
            return Err("gaps in a lifetime cannot be planned".to_owned());
        }
        let align = match self.alignment.filter(|&column| !fields[column].is_empty()) {
            Some(column) => number("alignment", column)?,
            None => 1,
        };
        if align == 0 {
            return Err("an alignment of 0".to_owned());
        }
        let block = Block { lower, upper, size: number("size", self.size)?, align };
        Ok((fields[self.id].to_owned(), block))
    }
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|field| field.trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Blocks, (usize, String)> {
        super::read(text.as_bytes()).map_err(|stop| match stop {
            Stop::Line(line, reason) => (line, reason),
            Stop::Io(error) => (0, error.to_string()),
        })
    }

    #[test]
    fn lines_and_ids_have_an_end() {
        let header = "id,lower,upper,size\n";
        let long = |id: usize| format!("{header}{},1,2,3\n", "x".repeat(id));
        assert_eq!(read(&long(LONGEST_LINE - 7)).unwrap().ids.len(), 1);
        let (line, reason) = read(&long(LONGEST_LINE)).unwrap_err();
        assert!(line == 2 && reason.contains("more than 65536 bytes"), "{reason}");
        // Ids of half a line each, up to the limit.
        let many = MAX_IDS / (LONGEST_LINE / 2);
        let line = format!("{},1,2,3\n", "x".repeat(LONGEST_LINE / 2));
        let all = |lines: usize| read(&format!("{header}{}", line.repeat(lines)));
        assert_eq!(all(many).unwrap().ids.len(), many);
        let (line, reason) = all(many + 1).unwrap_err();
        assert!(line == many + 2 && reason.contains("67108864 bytes of ids"), "{reason}");
    }

    #[test]
    fn columns_come_in_any_order() {
        let text = "size, upper,lower ,id,alignment,hint\r\n\n10,5,0,a,,x\n7,9,\"5\",b,4,\n";
        let all = read(text).unwrap();
        assert_eq!(all.ids, ["a", "b"]);
        assert_eq!(all.blocks, [Block::new(0, 5, 10), Block::new(5, 9, 7).aligned(4)]);
        assert_eq!(read("id,lower,upper,size").unwrap(), Blocks::default());
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        for (text, line, words) in [
            ("", 1, "empty"),
            ("id,start,end,size\n", 1, "no column \"lower\""),
            ("id,lower,upper,size\n1,2,3,4\n1,2,3\n", 3, "3 fields, where the header has 4"),
            ("id,lower,upper,size\n\n1,2,x,4\n", 3, "upper \"x\" is no number"),
            ("id,lower,upper,size\n1,-2,3,4\n", 2, "lower \"-2\""),
            ("id,lower,upper,size\n1,2,3,18446744073709551616\n", 2, "64 bits"),
            ("id,lower,upper,size\n1,3,2,4\n", 2, "before it begins"),
            ("id,lower,upper,size,gaps\n1,2,9,4,3-5\n", 2, "gaps"),
            ("id,lower,upper,size,alignment\n1,2,9,4,0\n", 2, "alignment of 0"),
        ] {
            let (at, reason) = read(text).unwrap_err();
            assert!(at == line && reason.contains(words), "{text:?}: {at}: {reason}");
        }
    }
}
