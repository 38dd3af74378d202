//! Blocks in MiniMalloc's CSV: a header `id,lower,upper,size`, then a block a line.
//!
//! Columns come in any order. `upper` is the moment at which a block is gone. A column `alignment` is
//! read if it is there; other columns are not, save that a block with `gaps` in its lifetime is refused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use zico_core::plan::Block;

/// What keeps a file from being a list of blocks.
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
    let bytes = fs::read(path).map_err(failed)?;
    read(&String::from_utf8_lossy(&bytes)).map_err(|(line, reason)| CsvError::Line {
        path: path.to_owned(),
        line,
        reason,
    })
}

/// Whether a file begins as a CSV does and no recorded job does: with a small letter.
#[must_use]
pub fn looks_like(path: &Path) -> bool {
    let mut first = [0];
    let read =
        fs::File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut first));
    read.is_ok() && (first[0].is_ascii_lowercase() || first[0] == b'"')
}

/// Reads blocks from text. Whatever is wrong comes with its line, counted from 1.
///
/// # Errors
/// The first line that is wrong, and in which way.
pub fn read(text: &str) -> Result<Blocks, (usize, String)> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let (number, header) = lines.next().ok_or((1, "the file is empty".to_owned()))?;
    let columns = Columns::new(header).map_err(|reason| (number, reason))?;
    let mut all = Blocks::default();
    for (number, line) in lines {
        let (id, block) = columns.block(line).map_err(|reason| (number, reason))?;
        all.ids.push(id);
        all.blocks.push(block);
    }
    Ok(all)
}

/// Where in a line what is.
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
