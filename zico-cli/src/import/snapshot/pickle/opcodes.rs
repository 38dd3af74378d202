//! The instructions of pickles, by the names that Python's `pickletools` gives them.

pub(super) const STOP: u8 = b'.';
pub(super) const MARK: u8 = b'(';
pub(super) const NONE: u8 = b'N';
pub(super) const NEWTRUE: u8 = 0x88;
pub(super) const NEWFALSE: u8 = 0x89;
pub(super) const BININT: u8 = b'J';
pub(super) const BININT1: u8 = b'K';
pub(super) const BININT2: u8 = b'M';
pub(super) const LONG1: u8 = 0x8a;
pub(super) const BINFLOAT: u8 = b'G';
pub(super) const BINUNICODE: u8 = b'X';
pub(super) const SHORT_BINUNICODE: u8 = 0x8c;
pub(super) const EMPTY_LIST: u8 = b']';
pub(super) const APPEND: u8 = b'a';
pub(super) const APPENDS: u8 = b'e';
pub(super) const EMPTY_TUPLE: u8 = b')';
pub(super) const TUPLE: u8 = b't';
pub(super) const TUPLE1: u8 = 0x85;
pub(super) const TUPLE2: u8 = 0x86;
pub(super) const TUPLE3: u8 = 0x87;
pub(super) const EMPTY_DICT: u8 = b'}';
pub(super) const SETITEM: u8 = b's';
pub(super) const SETITEMS: u8 = b'u';
pub(super) const BINGET: u8 = b'h';
pub(super) const LONG_BINGET: u8 = b'j';
pub(super) const BINPUT: u8 = b'q';
pub(super) const LONG_BINPUT: u8 = b'r';
pub(super) const MEMOIZE: u8 = 0x94;
pub(super) const PROTO: u8 = 0x80;
pub(super) const FRAME: u8 = 0x95;

/// The name of an instruction, also of one that is not supported; none if it does not exist.
pub(super) fn name(opcode: u8) -> Option<&'static str> {
    NAMES.iter().find(|&&(code, _)| code == opcode).map(|&(_, name)| name)
}

const NAMES: [(u8, &str); 68] = [
    (STOP, "STOP"),
    (MARK, "MARK"),
    (NONE, "NONE"),
    (NEWTRUE, "NEWTRUE"),
    (NEWFALSE, "NEWFALSE"),
    (BININT, "BININT"),
    (BININT1, "BININT1"),
    (BININT2, "BININT2"),
    (LONG1, "LONG1"),
    (BINFLOAT, "BINFLOAT"),
    (BINUNICODE, "BINUNICODE"),
    (SHORT_BINUNICODE, "SHORT_BINUNICODE"),
    (EMPTY_LIST, "EMPTY_LIST"),
    (APPEND, "APPEND"),
    (APPENDS, "APPENDS"),
    (EMPTY_TUPLE, "EMPTY_TUPLE"),
    (TUPLE, "TUPLE"),
    (TUPLE1, "TUPLE1"),
    (TUPLE2, "TUPLE2"),
    (TUPLE3, "TUPLE3"),
    (EMPTY_DICT, "EMPTY_DICT"),
    (SETITEM, "SETITEM"),
    (SETITEMS, "SETITEMS"),
    (BINGET, "BINGET"),
    (LONG_BINGET, "LONG_BINGET"),
    (BINPUT, "BINPUT"),
    (LONG_BINPUT, "LONG_BINPUT"),
    (MEMOIZE, "MEMOIZE"),
    (PROTO, "PROTO"),
    (FRAME, "FRAME"),
    // Those that a snapshot does not need, first what finds or runs code.
    (b'c', "GLOBAL"),
    (0x93, "STACK_GLOBAL"),
    (b'R', "REDUCE"),
    (b'b', "BUILD"),
    (b'i', "INST"),
    (b'o', "OBJ"),
    (0x81, "NEWOBJ"),
    (0x92, "NEWOBJ_EX"),
    (b'P', "PERSID"),
    (b'Q', "BINPERSID"),
    (0x82, "EXT1"),
    (0x83, "EXT2"),
    (0x84, "EXT4"),
    (b'I', "INT"),
    (b'L', "LONG"),
    (0x8b, "LONG4"),
    (b'F', "FLOAT"),
    (b'S', "STRING"),
    (b'T', "BINSTRING"),
    (b'U', "SHORT_BINSTRING"),
    (b'V', "UNICODE"),
    (0x8d, "BINUNICODE8"),
    (b'B', "BINBYTES"),
    (b'C', "SHORT_BINBYTES"),
    (0x8e, "BINBYTES8"),
    (0x96, "BYTEARRAY8"),
    (0x97, "NEXT_BUFFER"),
    (0x98, "READONLY_BUFFER"),
    (b'l', "LIST"),
    (b'd', "DICT"),
    (0x8f, "EMPTY_SET"),
    (0x90, "ADDITEMS"),
    (0x91, "FROZENSET"),
    (b'0', "POP"),
    (b'1', "POP_MARK"),
    (b'2', "DUP"),
    (b'g', "GET"),
    (b'p', "PUT"),
];
