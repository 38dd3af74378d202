//! The values of a pickle.

/// A value, or the number of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Value {
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
pub(in super::super) struct Heap {
    pub(super) texts: Vec<Box<str>>,
    pub(super) lists: Vec<Vec<Value>>,
    pub(super) dicts: Vec<Vec<(Value, Value)>>,
}

impl Heap {
    pub(in super::super) fn text(&self, value: Value) -> Option<&str> {
        match value {
            Value::Text(number) => Some(&self.texts[number as usize]),
            _ => None,
        }
    }

    pub(in super::super) fn list(&self, value: Value) -> Option<&[Value]> {
        match value {
            Value::List(number) => Some(&self.lists[number as usize]),
            _ => None,
        }
    }

    /// Its keys and values, in the order in which they were set; of those with the same key the
    /// last one counts.
    pub(in super::super) fn dict(&self, value: Value) -> Option<&[(Value, Value)]> {
        match value {
            Value::Dict(number) => Some(&self.dicts[number as usize]),
            _ => None,
        }
    }
}
