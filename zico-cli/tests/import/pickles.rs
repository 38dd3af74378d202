//! Pickles: valid and malicious.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use serde_json::{Value, json};
use zico_cli::import::Options;
use zico_cli::import::snapshot::{self, PickleError, SnapshotError};

/// A pickle of protocol 2 of `value`, each list and dictionary in it memorised.
pub(crate) fn pickle(value: &Value) -> Vec<u8> {
    let mut file = b"\x80\x02".to_vec();
    let mut memo = 0u32;
    write(&mut file, &mut memo, value);
    file.push(b'.');
    file
}

fn write(file: &mut Vec<u8>, memo: &mut u32, value: &Value) {
    let mut put = |file: &mut Vec<u8>, opcode| {
        file.push(opcode);
        file.push(b'r');
        file.extend(memo.to_le_bytes());
        *memo += 1;
    };
    match value {
        Value::Null => file.push(b'N'),
        Value::Bool(_) => file.push(0x88),
        Value::Number(number) => {
            file.extend(b"\x8a\x08");
            file.extend(number.as_i64().unwrap().to_le_bytes());
        }
        Value::String(text) => {
            file.push(b'X');
            file.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
            file.extend(text.as_bytes());
        }
        Value::Array(items) => {
            put(file, b']');
            file.push(b'(');
            items.iter().for_each(|item| write(file, memo, item));
            file.push(b'e');
        }
        Value::Object(items) => {
            put(file, b'}');
            file.push(b'(');
            for (key, value) in items {
                write(file, memo, &json!(key));
                write(file, memo, value);
            }
            file.push(b'u');
        }
    }
}

const SAMPLE: [&[u8]; 4] = [
    include_bytes!("../data/snapshot-2.pickle"),
    include_bytes!("../data/snapshot-3.pickle"),
    include_bytes!("../data/snapshot-4.pickle"),
    include_bytes!("../data/snapshot-5.pickle"),
];

fn read(file: &[u8]) -> SnapshotError {
    snapshot::read(file, String::new(), String::new(), &Options::default()).unwrap_err()
}

fn said(file: &[u8]) -> String {
    read(file).to_string()
}

#[test]
fn nothing_is_carried_out_but_what_makes_data() {
    for (file, offset, opcode) in [
        // What `pickle.dumps` makes of an object whose `__reduce__` is `(os.system, ("id",))`.
        (&b"\x80\x02cposix\nsystem\nq\x00X\x02\x00\x00\x00idq\x01\x85q\x02Rq\x03."[..], 2, "GLOBAL"),
        (
            b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94.",
            28,
            "STACK_GLOBAL",
        ),
        (b"\x80\x02X\x01\0\0\0x)R.", 9, "REDUCE"),
        (b"\x80\x02}}b.", 4, "BUILD"),
        (b"\x80\x02(ios\nsystem\n.", 3, "INST"),
        (b"\x80\x02(No.", 4, "OBJ"),
        (b"\x80\x02N)\x81.", 4, "NEWOBJ"),
        (b"\x80\x04N)}\x92.", 5, "NEWOBJ_EX"),
        (b"\x80\x02Psomething\n.", 2, "PERSID"),
        (b"\x80\x02NQ.", 3, "BINPERSID"),
        (b"\x80\x02\x82\x01.", 2, "EXT1"),
        (b"\x80\x02\x83\x01\0.", 2, "EXT2"),
        (b"\x80\x02\x84\x01\0\0\0.", 2, "EXT4"),
        // Plain data, but nothing that a snapshot has.
        (b"\x80\x05\x96\0\0\0\0\0\0\0\0.", 2, "BYTEARRAY8"),
        (b"\x80\x05\x97.", 2, "NEXT_BUFFER"),
        (b"\x80\x04\x8f.", 2, "EMPTY_SET"),
        (b"\x80\x02I1\n.", 2, "INT"),
        (b"\x80\x02N2.", 3, "DUP"),
        (b"\x80\x02\x8b\xff\xff\xff\x7f.", 2, "LONG4"),
        (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", 2, "BINUNICODE8"),
    ] {
        let expected = format!(
            "byte {offset}: {opcode} is not carried out: a snapshot is plain data and needs none"
        );
        assert_eq!(said(file), expected);
    }
    assert_eq!(said(b"\x80\x02\xff"), "byte 2: 0xff is no instruction of a pickle");
    assert_eq!(said(b"\x80\x06."), "byte 0: protocol 6 is not known, only those up to 5");
}

#[test]
fn instructions_that_find_too_little_are_named() {
    for (file, expected) in [
        (&b"\x80\x02."[..], "byte 2: STOP finds too little on the stack"),
        (b"\x80\x02(.", "byte 3: STOP finds too little on the stack"),
        (b"\x80\x02N(.", "byte 4: STOP finds too little on the stack"),
        (b"\x80\x02NN.", "byte 4: STOP leaves more than one value"),
        (b"\x80\x02N.N", "byte 4: something follows the end of the pickle"),
        (b"\x80\x02e.", "byte 2: APPENDS finds no mark"),
        (b"\x80\x02(Ne.", "byte 4: APPENDS finds too little on the stack"),
        (b"\x80\x02}Na.", "byte 4: APPEND appends to what is no list"),
        (b"\x80\x02]a.", "byte 3: APPEND finds too little on the stack"),
        (b"\x80\x02](a.", "byte 4: APPEND finds too little on the stack"),
        (b"\x80\x02]NNs.", "byte 5: SETITEM sets an item of what is no dictionary"),
        (b"\x80\x02}(Nu.", "byte 5: SETITEMS finds a key without a value"),
        (b"\x80\x02N(N\x86.", "byte 5: TUPLE2 finds too little on the stack"),
        (b"\x80\x02t.", "byte 2: TUPLE finds no mark"),
        (b"\x80\x02(u.", "byte 3: SETITEMS finds too little on the stack"),
        (b"\x80\x02h\x05.", "byte 2: BINGET asks for what is not in the memo"),
        (b"\x80\x02j\xff\xff\xff\xff.", "byte 2: LONG_BINGET asks for what is not in the memo"),
        (b"\x80\x02q\x05.", "byte 2: BINPUT finds too little on the stack"),
        (b"\x80\x04\x94.", "byte 2: MEMOIZE finds too little on the stack"),
        (b"\x80\x02X\xff\xff\xff\x7f", "byte 2: what it holds takes more than 1024 MiB of memory"),
        (
            b"\x80\x02X\xff\xff\xff\x00abc",
            "the file is cut off at byte 10: was the dump interrupted?",
        ),
    ] {
        let said = said(file);
        assert!(said.starts_with(expected), "{said:?} is not {expected:?}");
    }
}

/// Lists of ten references each to the list before, 100 deep: 10^100 items.
#[test]
fn what_is_shared_is_not_copied() {
    let mut file = b"\x80\x02}(X\x05\0\0\0bombs](]q\x00".to_vec();
    for level in 0..100u8 {
        file.extend(b"](");
        file.extend([b'h', level].repeat(10));
        file.extend([b'e', b'q', level + 1]);
    }
    file.extend(b"eu.");
    assert!(matches!(read(&file), SnapshotError::NotASnapshot));
}

#[test]
fn depth_and_cycles_are_no_matter() {
    const DEPTH: usize = 1 << 20;
    let mut file = b"\x80\x02".to_vec();
    file.extend(b"]".repeat(DEPTH));
    file.extend(b"a".repeat(DEPTH - 1));
    file.push(b'.');
    assert!(matches!(read(&file), SnapshotError::NotASnapshot));
    // A list that holds itself, as device_traces and as a device in it.
    let error = read(b"\x80\x02}X\x0d\0\0\0device_traces]q\x00h\x00as.");
    assert_eq!(error.to_string(), "device_traces[0][0] is no dictionary");
}

#[test]
fn a_file_that_is_cut_off_says_where() {
    for file in SAMPLE {
        for length in 0..file.len() {
            match read(&file[..length]) {
                SnapshotError::Pickle(PickleError::CutOff { offset }) => {
                    assert!(offset <= length as u64, "{offset} of {length}");
                    assert!(offset + 255 > length as u64, "{offset} of {length}");
                }
                other => panic!("{length}: {other}"),
            }
        }
    }
    let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
    zipped.write_all(SAMPLE[2]).unwrap();
    let zipped = zipped.finish().unwrap();
    for length in [zipped.len() / 2, zipped.len() - 1] {
        let plain = std::io::BufReader::new(flate2::bufread::GzDecoder::new(&zipped[..length]));
        let error =
            snapshot::read(plain, String::new(), String::new(), &Options::default()).unwrap_err();
        assert!(matches!(error, SnapshotError::Pickle(PickleError::CutOff { .. })), "{error}");
    }
}

proptest! {
    /// A snapshot with a few changed bytes gives a trace or an error.
    #[test]
    fn damage_is_survived(
        which in 0..SAMPLE.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut file = SAMPLE[which].to_vec();
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let _ = snapshot::read(&*file, String::new(), String::new(), &Options::default());
    }
}
