//! A strict reader of pickles that hold plain data.
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
//! - it takes at most [`MAX_HELD`] bytes of memory, and no length is believed before that many
//!   bytes have come.
//!
//! It is not the crate `serde-pickle` (1.2) because that copies what is shared each time it is
//! used, carries out `GLOBAL` and `REDUCE` for some functions, and nests values within each other.

use std::collections::HashMap;
use std::io::{self, BufRead, Read};

use super::opcodes as op;

/// The most memory that the values of a pickle may take: 1 GiB. A million events of a snapshot
/// take a third of that.
pub const MAX_HELD: u64 = 1 << 30;

/// Why a file is no pickle of plain data. Offsets count bytes from the start of the (not
/// compressed) file; that of an instruction is where it starts.
#[derive(Debug, thiserror::Error)]
pub enum PickleError {
    /// The file cannot be read on, or cannot be decompressed.
    #[error("byte {offset}: the file cannot be read on")]
    Io {
        /// Where.
        offset: u64,
        /// Why.
        source: io::Error,
    },
    /// The file, or the gzip file that it is in, ends too early.
    #[error("the file is cut off at byte {offset}: was the dump interrupted?")]
    CutOff {
        /// Its length, as far as it can be read.
        offset: u64,
    },
    /// There is something after the end.
    #[error("byte {offset}: something follows the end of the pickle")]
    Trailing {
        /// Where it begins.
        offset: u64,
    },
    /// An instruction makes something else than plain data, or is not used for it.
    #[error("byte {offset}: {opcode} is not carried out: a snapshot is plain data and needs none")]
    Refused {
        /// Where it stands.
        offset: u64,
        /// What it is called.
        opcode: &'static str,
    },
    /// There is no such instruction.
    #[error("byte {offset}: {opcode:#04x} is no instruction of a pickle")]
    Unknown {
        /// Where it stands.
        offset: u64,
        /// The byte.
        opcode: u8,
    },
    /// The pickle is of a later protocol.
    #[error("byte {offset}: protocol {found} is not known, only those up to {LAST_PROTOCOL}")]
    Protocol {
        /// Where it says so.
        offset: u64,
        /// The protocol.
        found: u8,
    },
    /// An instruction does not find what it works on.
    #[error("byte {offset}: {opcode} {problem}")]
    Malformed {
        /// Where it stands.
        offset: u64,
        /// What it is called.
        opcode: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
    /// The values take too much memory.
    #[error(
        "byte {offset}: what it holds takes more than {} MiB of memory: record fewer events \
         (max_entries), and without stacks (context=None)", MAX_HELD >> 20
    )]
    TooLarge {
        /// The instruction that is too much.
        offset: u64,
    },
}

const LAST_PROTOCOL: u8 = 5;

/// A value, or the number of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// `None`, a truth value, a float, or an integer of more than 64 bits: there is such a thing.
    Other,
    Int(i64),
    Text(u32),
    /// A list or a tuple.
    List(u32),
    Dict(u32),
}

/// All values of a pickle.
#[derive(Default)]
pub(super) struct Heap {
    texts: Vec<Box<str>>,
    lists: Vec<Vec<Value>>,
    dicts: Vec<Vec<(Value, Value)>>,
}

impl Heap {
    pub(super) fn text(&self, value: Value) -> Option<&str> {
        match value {
            Value::Text(number) => Some(&self.texts[number as usize]),
            _ => None,
        }
    }

    pub(super) fn list(&self, value: Value) -> Option<&[Value]> {
        match value {
            Value::List(number) => Some(&self.lists[number as usize]),
            _ => None,
        }
    }

    /// Its keys and values, in the order in which they were set; of those with the same key the
    /// last one counts.
    pub(super) fn dict(&self, value: Value) -> Option<&[(Value, Value)]> {
        match value {
            Value::Dict(number) => Some(&self.dicts[number as usize]),
            _ => None,
        }
    }
}

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

/// The number of the last of `count` values. [`MAX_HELD`] has no room for more than 32 bits of them.
#[expect(clippy::cast_possible_truncation, reason = "there are fewer than 2^30 / 16")]
const fn number(count: usize) -> u32 {
    (count - 1) as u32
}
