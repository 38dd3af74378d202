//! A strict reader for pickles of plain data.
//!
//! A pickle is a program for a machine with a stack and a memo (PEP 307, PEP 3154, and Python's
//! `pickletools`). Most of its instructions make data; some name a Python function and call it,
//! which is why Python's own reader must not be given a file from elsewhere. Here those that make
//! `None`, numbers, texts, lists, tuples and dictionaries in protocols 2 to 5 are carried out, and
//! nothing else: any other instruction ends the reading with its name and place.
//!
//! Whatever a file holds,
//!
//! - what it shares stays shared: values live in a [`Heap`] and hold each other by number, so a
//!   reference takes as much as a number does, however large the thing is;
//! - nothing recurses, neither reading nor dropping, so lists may be nested to any depth, and a
//!   list that holds itself is just that;
//! - it takes at most [`MAX_HELD`] bytes of memory, and no memory is reserved for a length before
//!   that many bytes have been read.
//!
//! It is not the crate `serde-pickle` (1.2) because that copies what is shared each time it is
//! used, carries out `GLOBAL` and `REDUCE` for some functions, and nests values within each other.

mod error;
mod heap;
mod opcodes;

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use opcodes as op;

pub use error::PickleError;
pub(super) use heap::{Heap, Value};

/// The most memory that the values of a pickle may take: 1 GiB. A million events of a snapshot
/// take a third of that.
pub const MAX_HELD: u64 = 1 << 30;

const LAST_PROTOCOL: u8 = 5;

/// Reads a pickle, with which the file has to end.
pub(super) fn read(from: impl BufRead) -> Result<(Heap, Value), PickleError> {
    read_within(MAX_HELD, from)
}

fn read_within(left: u64, from: impl BufRead) -> Result<(Heap, Value), PickleError> {
    let mut machine = Machine {
        from,
        offset: 0,
        at: 0,
        opcode: op::STOP,
        left,
        heap: Heap::default(),
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
    };
    loop {
        machine.at = machine.offset;
        machine.opcode = machine.byte()?;
        if machine.opcode == op::STOP {
            return machine.stop();
        }
        machine.step()?;
    }
}

struct Machine<R> {
    from: R,
    /// Bytes read so far.
    offset: u64,
    /// Where the present instruction starts.
    at: u64,
    opcode: u8,
    /// How much memory may still be taken.
    left: u64,
    heap: Heap,
    stack: Vec<Value>,
    /// How high the stack was at each mark.
    marks: Vec<usize>,
    memo: HashMap<u32, Value>,
}

impl<R: BufRead> Machine<R> {
    fn step(&mut self) -> Result<(), PickleError> {
        match self.opcode {
            op::NONE | op::NEWTRUE | op::NEWFALSE => self.push(Value::Other),
            op::BINFLOAT => {
                self.bytes::<8>()?;
                self.push(Value::Other)
            }
            op::BININT => {
                let value = i32::from_le_bytes(self.bytes()?);
                self.push(Value::Int(value.into()))
            }
            op::BININT1 => {
                let value = self.byte()?;
                self.push(Value::Int(value.into()))
            }
            op::BININT2 => {
                let value = u16::from_le_bytes(self.bytes()?);
                self.push(Value::Int(value.into()))
            }
            op::LONG1 => self.long(),
            op::BINUNICODE => {
                let length = u32::from_le_bytes(self.bytes()?);
                self.text(length)
            }
            op::SHORT_BINUNICODE => {
                let length = self.byte()?;
                self.text(length.into())
            }
            op::EMPTY_LIST | op::EMPTY_TUPLE => self.new_list(Vec::new()),
            op::TUPLE => {
                let items = self.pop_to_mark()?;
                self.new_list(items)
            }
            op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
                let items = self.pop(usize::from(self.opcode - op::TUPLE1) + 1)?;
                self.new_list(items)
            }
            op::EMPTY_DICT => {
                self.take(size_of::<Vec<(Value, Value)>>())?;
                self.heap.dicts.push(Vec::new());
                self.push(Value::Dict(number(self.heap.dicts.len())))
            }
            op::APPEND => {
                let items = self.pop(1)?;
                self.append(&items)
            }
            op::APPENDS => {
                let items = self.pop_to_mark()?;
                self.append(&items)
            }
            op::SETITEM => {
                let items = self.pop(2)?;
                self.set(&items)
            }
            op::SETITEMS => {
                let items = self.pop_to_mark()?;
                self.set(&items)
            }
            op::MARK => {
                self.take(size_of::<usize>())?;
                self.marks.push(self.stack.len());
                Ok(())
            }
            _ => self.memo_or_frame(),
        }
    }

    /// Instructions that make nothing themselves.
    fn memo_or_frame(&mut self) -> Result<(), PickleError> {
        match self.opcode {
            op::BINGET => {
                let key = self.byte()?;
                self.recall(key.into())
            }
            op::LONG_BINGET => {
                let key = u32::from_le_bytes(self.bytes()?);
                self.recall(key)
            }
            op::BINPUT => {
                let key = self.byte()?;
                self.memorise(key.into())
            }
            op::LONG_BINPUT => {
                let key = u32::from_le_bytes(self.bytes()?);
                self.memorise(key)
            }
            op::MEMOIZE => self.memorise(u32::try_from(self.memo.len()).unwrap_or(u32::MAX)),
            op::PROTO => {
                let (offset, found) = (self.at, self.byte()?);
                let known = found <= LAST_PROTOCOL;
                known.then_some(()).ok_or(PickleError::Protocol { offset, found })
            }
            // How many bytes had better be read at once: of no use here.
            op::FRAME => self.bytes::<8>().map(|_| ()),
            opcode => Err(match op::name(opcode) {
                Some(opcode) => PickleError::Refused { offset: self.at, opcode },
                None => PickleError::Unknown { offset: self.at, opcode },
            }),
        }
    }

    /// The end: one value is left, and nothing follows. (That is also where a decompressor looks
    /// whether the file is whole.)
    fn stop(mut self) -> Result<(Heap, Value), PickleError> {
        let value = self.top()?;
        if self.stack.len() > 1 {
            return Err(self.malformed("leaves more than one value"));
        }
        let offset = self.offset;
        match self.from.fill_buf() {
            Ok([]) => Ok((self.heap, value)),
            Ok(_) => Err(PickleError::Trailing { offset }),
            Err(error) => Err(unreadable(offset, error)),
        }
    }

    /// An integer of any length, the lowest byte first.
    fn long(&mut self) -> Result<(), PickleError> {
        let length = usize::from(self.byte()?);
        let mut bytes = [0; 255];
        let bytes = &mut bytes[..length];
        self.from.read_exact(bytes).map_err(|error| unreadable(self.offset, error))?;
        self.offset += length as u64;
        let negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut value = [if negative { 0xff } else { 0 }; 8];
        let fits = length <= value.len();
        if fits {
            value[..length].copy_from_slice(bytes);
        }
        self.push(if fits { Value::Int(i64::from_le_bytes(value)) } else { Value::Other })
    }

    /// A text. One that is not UTF-8, as the name of a file may be, is none that anybody asks for:
    /// it is kept as an empty one.
    fn text(&mut self, length: u32) -> Result<(), PickleError> {
        self.take(size_of::<Box<str>>().saturating_add(length as usize))?;
        let mut text = Vec::new();
        let read = self.from.by_ref().take(length.into()).read_to_end(&mut text);
        let offset = self.offset + text.len() as u64;
        read.map_err(|error| unreadable(offset, error))?;
        if text.len() < length as usize {
            return Err(PickleError::CutOff { offset });
        }
        self.offset = offset;
        self.heap.texts.push(String::from_utf8(text).unwrap_or_default().into());
        self.push(Value::Text(number(self.heap.texts.len())))
    }

    fn new_list(&mut self, items: Vec<Value>) -> Result<(), PickleError> {
        self.take(size_of::<Vec<Value>>())?;
        self.heap.lists.push(items);
        self.push(Value::List(number(self.heap.lists.len())))
    }

    fn append(&mut self, items: &[Value]) -> Result<(), PickleError> {
        match self.top()? {
            Value::List(number) => self.heap.lists[number as usize].extend(items),
            _ => return Err(self.malformed("appends to what is no list")),
        }
        Ok(())
    }

    fn set(&mut self, items: &[Value]) -> Result<(), PickleError> {
        let (pairs, rest) = items.as_chunks::<2>();
        match self.top()? {
            Value::Dict(number) if rest.is_empty() => self.heap.dicts[number as usize]
                .extend(pairs.iter().map(|&[key, value]| (key, value))),
            Value::Dict(_) => return Err(self.malformed("finds a key without a value")),
            _ => return Err(self.malformed("sets an item of what is no dictionary")),
        }
        Ok(())
    }

    fn memorise(&mut self, key: u32) -> Result<(), PickleError> {
        // What a table takes for an entry, and as much again for places that are free.
        self.take(2 * size_of::<(u32, Value)>())?;
        let value = self.top()?;
        self.memo.insert(key, value);
        Ok(())
    }

    fn recall(&mut self, key: u32) -> Result<(), PickleError> {
        let value = self.memo.get(&key).copied();
        self.push(value.ok_or_else(|| self.malformed("asks for what is not in the memo"))?)
    }

    fn push(&mut self, value: Value) -> Result<(), PickleError> {
        self.take(size_of::<Value>())?;
        self.stack.push(value);
        Ok(())
    }

    /// The value on top of the stack, above the last mark.
    fn top(&self) -> Result<Value, PickleError> {
        let top = self.stack.last().filter(|_| self.stack.len() > self.floor());
        top.copied().ok_or_else(|| self.malformed("finds too little on the stack"))
    }

    /// Takes `count` values from the stack.
    fn pop(&mut self, count: usize) -> Result<Vec<Value>, PickleError> {
        let from = self.stack.len().checked_sub(count).filter(|&from| from >= self.floor());
        let from = from.ok_or_else(|| self.malformed("finds too little on the stack"))?;
        Ok(self.stack.split_off(from))
    }

    /// Takes all values above the last mark, and the mark.
    fn pop_to_mark(&mut self) -> Result<Vec<Value>, PickleError> {
        let from = self.marks.pop().ok_or_else(|| self.malformed("finds no mark"))?;
        Ok(self.stack.split_off(from))
    }

    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    /// Takes memory.
    fn take(&mut self, bytes: usize) -> Result<(), PickleError> {
        let left = self.left.checked_sub(bytes as u64);
        self.left = left.ok_or(PickleError::TooLarge { offset: self.at })?;
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, PickleError> {
        self.bytes::<1>().map(|[byte]| byte)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], PickleError> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).map_err(|error| unreadable(self.offset, error))?;
        self.offset += N as u64;
        Ok(bytes)
    }

    fn malformed(&self, problem: &'static str) -> PickleError {
        let opcode = op::name(self.opcode).unwrap_or("?");
        PickleError::Malformed { offset: self.at, opcode, problem }
    }
}

fn unreadable(offset: u64, source: io::Error) -> PickleError {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => PickleError::CutOff { offset },
        _ => PickleError::Io { offset, source },
    }
}

/// The number of the last of `count` values. [`MAX_HELD`] has no room for more than 32 bits of
/// them.
#[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^30 / 16")]
const fn number(count: usize) -> u32 {
    (count - 1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(file: &[u8]) -> (Heap, Value) {
        read(file).unwrap()
    }

    #[test]
    fn integers_of_any_length_are_read() {
        for (bytes, expected) in [
            (&b"K\xff"[..], Value::Int(255)),
            (b"M\x01\xff", Value::Int(0xff01)),
            (b"J\xfe\xff\xff\xff", Value::Int(-2)),
            (b"\x8a\x00", Value::Int(0)),
            (b"\x8a\x01\xff", Value::Int(-1)),
            (b"\x8a\x02\xff\x00", Value::Int(255)),
            (b"\x8a\x08\0\0\0\0\0\0\0\x80", Value::Int(i64::MIN)),
            (b"\x8a\x09\0\0\0\0\0\0\0\x80\0", Value::Other),
            (b"G\x3f\xf0\0\0\0\0\0\0", Value::Other),
            (b"\x88", Value::Other),
        ] {
            let file = [b"\x80\x02", bytes, b"."].concat();
            assert_eq!(value(&file).1, expected, "{bytes:x?}");
        }
    }

    #[test]
    fn texts_lists_and_dictionaries_keep_what_they_are_given() {
        let (heap, root) = value(
            b"\x80\x04}\x94(\x8c\x01a](K\x01K\x02eX\x02\0\0\0\xc3\xa9NK\x03)u\x8c\x01bh\x00s.",
        );
        let pairs = heap.dict(root).unwrap();
        let texts: Vec<_> = pairs.iter().map(|&(key, _)| heap.text(key)).collect();
        assert_eq!(texts, [Some("a"), Some("\u{e9}"), None, Some("b")]);
        assert_eq!(heap.list(pairs[0].1), Some(&[Value::Int(1), Value::Int(2)][..]));
        assert_eq!((pairs[1].1, pairs[2].0), (Value::Other, Value::Int(3)));
        assert_eq!((heap.list(pairs[2].1), pairs[3].1), (Some(&[][..]), root));
        let (heap, root) = value(b"\x80\x02X\x02\0\0\0\xff\xff.");
        assert_eq!(heap.text(root), Some(""), "it is not UTF-8");
    }

    /// Whatever is repeated, it is too much at some point, and that comes before the end.
    #[test]
    fn memory_is_bounded() {
        const LIMIT: u64 = 1 << 20;
        for part in [&b"N"[..], b"(", b"]", b"}", b"\x8c\x00", b"K\x01\x85", b"h\x00", b"q\x01"] {
            let file = [b"\x80\x02Nq\x00", &*part.repeat(1 << 18)].concat();
            let error = read_within(LIMIT, &*file).err().unwrap();
            assert!(matches!(error, PickleError::TooLarge { .. }), "{part:x?}: {error}");
        }
        // No more is made room for than comes.
        let error = read_within(1 << 40, &b"\x80\x02X\xff\xff\xff\xffx"[..]).err().unwrap();
        assert!(matches!(error, PickleError::CutOff { offset: 8 }), "{error}");
    }
}
