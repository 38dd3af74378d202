//! Traces: validation, statistics, and files (round trips and damage).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    reason = "helpers of tests"
)]

use std::io::Write;
use std::num::NonZeroU8;

use proptest::collection::vec;
use proptest::prelude::*;
use zico_core::{Bytes, Lifetime, Ticks};
use zico_mock::trace::format::{MAGIC, MAX_TEXT, Malformed, VERSION};
use zico_mock::trace::{
    Access, BlockId, Iteration, OperationsError, Phase, Place, ReadError, Step, Trace, TraceError,
};

fn alloc(block: u32, bytes: u64, lifetime: Lifetime) -> Step {
    Step::Alloc { block: BlockId::new(block), bytes: Bytes::new(bytes), lifetime }
}

fn free(block: u32) -> Step {
    Step::Free { block: BlockId::new(block) }
}

fn launch(work: u64) -> Step {
    Step::Launch { work: Ticks::new(work) }
}

fn lend(block: u32, stream: u8) -> Step {
    Step::Use { block: BlockId::new(block), stream: NonZeroU8::new(stream).unwrap() }
}

fn trace(setup: Vec<Step>, iterations: Vec<Vec<Step>>) -> Result<Trace, TraceError> {
    let iterations = iterations.into_iter().map(|steps| Iteration::new(steps, Ticks::millis(1)));
    Trace::new("t".to_owned(), "by hand".to_owned(), setup, iterations.collect())
}

/// A job with one parameter of 100 bytes whose input (block 1) is replaced in each iteration, and
/// whose first iteration makes optimizer state of 50.
fn small() -> Trace {
    let first = vec![
        Step::Phase(Phase::Forward),
        alloc(2, 300, Lifetime::Iteration),
        launch(10),
        Step::Phase(Phase::Backward),
        alloc(3, 7, Lifetime::Iteration),
        launch(30),
        free(3),
        alloc(4, 50, Lifetime::Persistent),
        free(2),
        free(1),
        alloc(5, 20, Lifetime::Iteration),
    ];
    let second = vec![launch(40), alloc(6, 1000, Lifetime::Iteration), launch(40), free(6)];
    let setup = vec![alloc(0, 100, Lifetime::Persistent), alloc(1, 20, Lifetime::Iteration)];
    trace(setup, vec![first, second]).unwrap()
}

#[test]
fn figures_are_those_of_a_person_with_a_pencil() {
    let stats = small().stats();
    let [first, second] = &stats.iterations[..] else { panic!("two iterations") };
    assert_eq!((first.allocations, first.frees, first.launches), (4, 3, 2));
    assert_eq!((first.work, first.recorded), (Ticks::new(40), Ticks::millis(1)));
    assert_eq!(first.persistent_at_start, Bytes::new(100));
    assert_eq!((first.live_at_start, first.live_at_end), (Bytes::new(120), Bytes::new(170)));
    // Block 4 comes while block 2 is still there.
    assert_eq!((first.peak, first.peak_phase), (Bytes::new(470), Some(Phase::Backward)));
    assert_eq!(first.trough, Bytes::new(120));
    assert_eq!(second.persistent_at_start, Bytes::new(150));
    assert_eq!((second.peak, second.peak_phase), (Bytes::new(1170), None));
    assert_eq!((second.trough, second.live_at_end), (Bytes::new(170), Bytes::new(170)));
    assert_eq!(stats.peak, Bytes::new(1170));
}

#[test]
fn blocks_that_cross_iterations_are_named() {
    let small = small();
    assert_eq!(small.live_at_start(0), [BlockId::new(1)]);
    assert_eq!(small.live_at_start(1), [BlockId::new(5)]);
    assert_eq!(small.live_at_start(2), [BlockId::new(5)]);
    assert_eq!(small.live_at_start(3), []);
    assert_eq!(small.blocks()[3].lifetime, Lifetime::Iteration);
}

/// A block more in each iteration, made before the backward phase or at the end, that goes when the
/// next one has come.
#[test]
fn a_job_may_be_made_to_carry_a_block_over() {
    let short = |trace: &Trace| {
        let step = |step: &Step| match *step {
            Step::Alloc { block, bytes, .. } => format!("{}={}", block.value(), bytes.value()),
            Step::Free { block } => format!("-{}", block.value()),
            Step::Launch { .. } => "run".to_owned(),
            Step::Use { block, stream } => format!("{}@{stream}", block.value()),
            Step::Phase(phase) => phase.to_string(),
        };
        let steps = |steps: &[Step]| steps.iter().map(step).collect::<Vec<_>>().join(" ");
        let iterations = trace.iterations().iter().map(|iteration| steps(iteration.steps()));
        std::iter::once(steps(trace.setup())).chain(iterations).collect::<Vec<_>>()
    };
    let carrying = small().carrying(Bytes::new(9)).unwrap();
    assert_eq!(
        short(&carrying),
        [
            "0=100 1=20",
            "forward 2=300 run 3=9 backward 4=7 run -4 5=50 -2 -1 6=20",
            "run 7=1000 run -7 8=9 -3",
        ]
    );
    let is = |block: u32| (BlockId::new(block), Lifetime::Iteration);
    let lives = |block: BlockId| carrying.blocks()[block.index()].lifetime;
    assert_eq!(
        [3, 8].map(|block| (BlockId::new(block), lives(BlockId::new(block)))),
        [is(3), is(8)]
    );
    assert_eq!(carrying.live_at_start(1), [BlockId::new(3), BlockId::new(6)]);
    assert_eq!(carrying.live_at_start(2), [BlockId::new(6), BlockId::new(8)]);
    assert_eq!((carrying.name(), carrying.provenance()), ("t", "by hand"));
    // A job can carry several.
    let twice = carrying.carrying(Bytes::new(2)).unwrap();
    assert_eq!(twice.stats().iterations[1].live_at_start, Bytes::new(170 + 9 + 2));
    assert!(matches!(small().carrying(Bytes::ZERO), Err(TraceError::ZeroBytes { .. })));
    let most = small().carrying(Bytes::new(u64::MAX));
    assert!(matches!(most, Err(TraceError::Overflow { what: "bytes", .. })), "{most:?}");
}

#[test]
fn waves_give_the_most_of_each_span() {
    let small = small();
    let wave = |iteration, buckets| -> Vec<u64> {
        small.wave(iteration, buckets).into_iter().map(Bytes::value).collect()
    };
    // Work 0..10 with 420 alive, 10..40 with 427, and what comes after the last launch.
    assert_eq!(wave(0, 4), [420, 427, 427, 470]);
    assert_eq!(wave(0, 1), [470]);
    assert_eq!(wave(1, 2), [170, 1170]);
    assert_eq!(wave(1, 0), []);
    assert_eq!(wave(2, 8), []);
    // What is freed where one bucket ends is not in the next one.
    let falling = vec![alloc(0, 9, Lifetime::Iteration), launch(10), free(0), launch(10)];
    let falling = trace(vec![], vec![falling]).unwrap();
    assert_eq!(falling.wave(0, 2), [Bytes::new(9), Bytes::ZERO]);
    let idle = trace(vec![], vec![vec![alloc(0, 9, Lifetime::Iteration)]]).unwrap();
    assert_eq!(idle.wave(0, 2), [Bytes::new(9), Bytes::new(9)]);
}

#[test]
fn every_peak_is_in_its_wave() {
    let small = small();
    for (iteration, stats) in small.stats().iterations.iter().enumerate() {
        for buckets in 1..60 {
            assert_eq!(small.wave(iteration, buckets).into_iter().max(), Some(stats.peak));
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    use Lifetime::{Iteration as Short, Persistent};
    let at = |step| Place { iteration: Some(0), step };
    let block = BlockId::new(0);
    let cases = [
        (vec![], vec![], TraceError::NoIterations),
        (
            vec![launch(1)],
            vec![vec![]],
            TraceError::NotAnAllocation { place: Place { iteration: None, step: 0 } },
        ),
        (
            vec![alloc(0, 1, Short)],
            vec![vec![alloc(0, 1, Short)]],
            TraceError::OutOfOrder { place: at(0), expected: BlockId::new(1), found: block },
        ),
        (vec![], vec![vec![alloc(0, 0, Short)]], TraceError::ZeroBytes { place: at(0), block }),
        (vec![], vec![vec![free(0)]], TraceError::NotAlive { place: at(0), block, before: false }),
        (
            vec![],
            vec![vec![alloc(0, 1, Short), free(0), free(0)]],
            TraceError::NotAlive { place: at(2), block, before: true },
        ),
        (
            vec![alloc(0, 1, Persistent)],
            vec![vec![free(0)]],
            TraceError::PersistentFreed { place: at(0), block },
        ),
        (
            vec![],
            vec![vec![alloc(0, u64::MAX, Short), free(0), alloc(1, 1, Short)]],
            TraceError::Overflow { place: at(2), what: "bytes" },
        ),
        (
            vec![],
            vec![vec![launch(u64::MAX), launch(1)]],
            TraceError::Overflow { place: at(1), what: "launches" },
        ),
    ];
    for (setup, iterations, error) in cases {
        assert_eq!(trace(setup, iterations).unwrap_err(), error);
    }
}

/// Turns any choices into a trace that makes sense, with every kind of step in it.
fn any_trace() -> impl Strategy<Value = Trace> {
    let choices = vec(vec((0..8u8, any::<u64>()), 0..60), 1..5);
    (".{0,20}", "\\PC{0,40}", vec((any::<bool>(), 1..1u64 << 40), 0..10), choices).prop_map(
        |(name, provenance, setup, iterations)| {
            let mut blocks = 0..;
            let mut live = Vec::new();
            let mut alloc = |live: &mut Vec<u32>, bytes, lifetime| {
                let block = blocks.next().unwrap();
                if lifetime != Lifetime::Persistent {
                    live.push(block);
                }
                alloc(block, bytes, lifetime)
            };
            let lifetime = |keep| if keep { Lifetime::Persistent } else { Lifetime::Iteration };
            let setup = setup.into_iter();
            let setup = setup.map(|(keep, bytes)| alloc(&mut live, bytes, lifetime(keep)));
            let setup = setup.collect();
            let iterations = iterations.into_iter().map(|choices| {
                let mut steps = Vec::new();
                let known = choices.first().is_some_and(|&(_, value)| value % 2 == 0);
                let mut accesses = Vec::new();
                for (choice, value) in choices {
                    match choice {
                        0..2 => {
                            let kind = Lifetime::ALL[usize::from(choice)];
                            steps.push(alloc(&mut live, 1 + value % (1 << (value % 50)), kind));
                        }
                        2..5 if !live.is_empty() => {
                            steps.push(free(live.remove(value as usize % live.len())));
                        }
                        5 => steps.push(Step::Phase(Phase::ALL[value as usize % 5])),
                        6 if !live.is_empty() => {
                            let block = live[value as usize % live.len()];
                            steps.push(lend(block, 1 + (value >> 56).min(254) as u8));
                        }
                        _ => {
                            steps.push(launch(value >> 16));
                            let all = live.iter().map(|&block| BlockId::new(block));
                            let name = if value % 3 == 0 { "f" } else { "" };
                            let (reads, writes) = all.partition(|block| block.value() % 2 == 0);
                            let repeatable = value % 5 == 0;
                            accesses.push(Access { name: name.into(), reads, writes, repeatable });
                        }
                    }
                }
                accesses.truncate(if known { usize::MAX } else { 0 });
                Iteration::new(steps, Ticks::new(u64::MAX)).with_accesses(accesses)
            });
            let iterations = iterations.collect();
            Trace::new(name, provenance, setup, iterations).unwrap()
        },
    )
}

fn written(trace: &Trace) -> Vec<u8> {
    let mut file = Vec::new();
    trace.write(&mut file).unwrap();
    file
}

proptest! {
    #[test]
    fn files_bring_traces_back(trace in any_trace()) {
        prop_assert_eq!(Trace::read(&written(&trace)[..]).unwrap(), trace);
    }

    /// The checksum sees to it that damage never goes unnoticed.
    #[test]
    fn damaged_files_are_refused(
        trace in any_trace(),
        damage in vec((any::<prop::sample::Index>(), 1..=255u8), 1..4),
        kept in any::<prop::sample::Index>(),
    ) {
        let file = written(&trace);
        prop_assert!(Trace::read(&file[..kept.index(file.len())]).is_err());
        let mut damaged = file.clone();
        for (at, change) in damage {
            damaged[at.index(file.len())] ^= change;
        }
        if let Ok(read) = Trace::read(&damaged[..]) {
            prop_assert_eq!(read, trace);
        }
    }

    /// Valid compression around any content: the reader itself has to cope.
    #[test]
    fn any_content_gives_a_trace_or_an_error(
        content in vec(0..8u8, 0..200),
        version in 1..=VERSION,
        wild in any::<Vec<u8>>(),
    ) {
        for content in [&content, &wild] {
            if let Ok(trace) = Trace::read(&file_of(version, content)[..]) {
                prop_assert_eq!(Trace::read(&written(&trace)[..]).unwrap(), trace);
            }
        }
    }
}

fn file(content: &[u8]) -> Vec<u8> {
    file_of(1, content)
}

fn file_of(version: u8, content: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.push(version);
    let mut deflated = flate2::write::ZlibEncoder::new(file, flate2::Compression::fast());
    deflated.write_all(content).unwrap();
    deflated.finish().unwrap()
}

#[test]
fn the_format_is_as_documented() {
    // Name "t", no provenance; setup of one persistent block of 300 bytes; two iterations.
    let steps = [1, b't', 0, 1, 1, 0xac, 2, 2, 9, 5, 2, 5, 3, 8, 4, 6, 0, 0, 5, 4, 5, 1, 0, 1];
    let read = Trace::read(&file(&steps)[..]).unwrap();
    assert_eq!((read.name(), read.provenance()), ("t", ""));
    assert_eq!(read.setup(), [alloc(0, 300, Lifetime::Persistent)]);
    let [first, second] = read.iterations() else { panic!("two iterations") };
    let expected = [
        alloc(1, 5, Lifetime::Iteration),
        alloc(2, 8, Lifetime::Iteration),
        launch(6),
        free(2),
        Step::Phase(Phase::ZeroGrad),
    ];
    assert_eq!((first.recorded(), first.steps()), (Ticks::new(9), &expected[..]));
    assert_eq!((second.recorded(), second.steps()), (Ticks::new(5), &[free(1)][..]));
    assert_eq!(Trace::read(&written(&read)[..]).unwrap(), read);
}

#[test]
fn operations_are_as_documented() {
    // No name and provenance; "f" and "g"; setup of a persistent block of 8 bytes; one iteration:
    // a block of 5 bytes, g of 6 ns reads block 0 and writes block 1, backward, f of 7 ns, which does
    // not repeat, changes block 0 and reads block 1, which goes.
    let steps = [
        vec![0, 0, 2, 1, b'f', 1, b'g', 1, 1, 8, 1, 9, 5],
        vec![2, 5, 6, 6, 1, 1, 1, 1, 1, 0, 5, 2, 6, 7, 0, 0, 1, 0, 1, 1, 0, 0],
    ];
    let content = steps.concat();
    let read = Trace::read(&file_of(VERSION, &content)[..]).unwrap();
    let (first, second) = (BlockId::new(0), BlockId::new(1));
    let access = |name: &str, reads: &[BlockId], writes: &[BlockId], repeatable| Access {
        name: name.into(),
        reads: reads.to_vec(),
        writes: writes.to_vec(),
        repeatable,
    };
    let accesses =
        [access("g", &[first], &[second], true), access("f", &[second], &[first], false)];
    assert_eq!(read.iterations()[0].accesses(), accesses);
    assert_eq!(Trace::read(&written(&read)[..]).unwrap(), read);
    let operations = read.operations(0).unwrap();
    assert_eq!(
        (operations.backward, operations.blocks.as_slice()),
        (Some(1), &[first, second][..])
    );
    let graph = &operations.graph;
    assert_eq!((graph.nanos(), graph.peak(), graph.storages().len()), (13, 13, 2));
    assert!(graph.storages()[0].kept && graph.storages()[0].initial);
    assert_eq!((graph.storages()[1].kept, graph.storages()[1].released), (false, Some(1)));
    assert_eq!(read.operations(1).unwrap_err(), OperationsError::None);
    assert_eq!(small().operations(0).unwrap_err(), OperationsError::None);
    assert!(read.has_operations() && !small().has_operations());

    let wrong = |at: usize, byte: u8| {
        let mut content = content.clone();
        content[at] = byte;
        Trace::read(&file_of(VERSION, &content)[..]).unwrap_err()
    };
    let source = |error| match error {
        ReadError::Malformed { source, record, .. } => (record, source),
        other => panic!("{other:?}"),
    };
    assert_eq!(source(wrong(17, 2)), (2, Malformed::Name(2)));
    assert_eq!(source(wrong(18, 2)), (2, Malformed::Repeats(2)));
    assert_eq!(source(wrong(20, 2)), (2, Malformed::Used { back: 2, allocated: 2 }));
    // More steps than there are; an operation in a file of version 1.
    assert!(matches!(wrong(12, 0xff), ReadError::Malformed { .. } | ReadError::Damaged { .. }));
    let plain = [&[0, 0, 0, 1, 9, 1, 6, 1, 0, 1, 0, 0][..]].concat();
    assert_eq!(malformed(&plain), (7, 0, Malformed::Tag(6)));
}

#[test]
fn other_streams_are_as_documented() {
    // No name, provenance and names of operations; a setup of a block of 8 bytes; one iteration: a
    // block of 5 bytes, stream 2 uses the first one, stream 255 the second one, which goes.
    let content = [0, 0, 0, 1, 2, 8, 1, 9, 5, 2, 5, 7, 1, 2, 7, 0, 0xff, 1, 4, 6, 0, 0];
    let read = Trace::read(&file_of(3, &content)[..]).unwrap();
    let expected = [alloc(1, 5, Lifetime::Iteration), lend(0, 2), lend(1, 255), launch(6), free(1)];
    assert_eq!(read.iterations()[0].steps(), expected);
    let stats = read.stats();
    assert_eq!((stats.iterations[0].uses, stats.peak), (2, Bytes::new(13)));
    let again = written(&read);
    assert_eq!((again[6], Trace::read(&again[..]).unwrap()), (3, read.clone()));
    assert_eq!(read.carrying(Bytes::new(3)).unwrap().iterations()[0].steps()[1], lend(0, 2));
    // A trace without has the version that other programs read.
    assert_eq!(written(&small())[6], 1);

    let wrong = |version: u8, at: usize, byte: u8| {
        let mut content = content;
        content[at] = byte;
        match Trace::read(&file_of(version, &content)[..]) {
            Err(ReadError::Malformed { source, record, .. }) => (record, source),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(wrong(3, 13, 0), (2, Malformed::Stream(0)));
    assert_eq!(wrong(3, 17, 2), (3, Malformed::Stream(0x17f)));
    assert_eq!(wrong(3, 12, 2), (2, Malformed::Used { back: 2, allocated: 2 }));
    assert_eq!(wrong(2, 0, 0), (2, Malformed::Tag(7)));
    let dead = trace(vec![], vec![vec![alloc(0, 8, Lifetime::Iteration), free(0), lend(0, 1)]]);
    let (place, block) = (Place { iteration: Some(0), step: 2 }, BlockId::new(0));
    assert_eq!(dead, Err(TraceError::UsesDead { place, block }));
}

#[test]
fn operations_use_what_is_alive_and_are_known_of_all_launches() {
    let steps = vec![alloc(0, 8, Lifetime::Iteration), launch(1), free(0), launch(1)];
    let access =
        |reads: Vec<BlockId>| Access { name: "".into(), reads, writes: vec![], repeatable: true };
    let trace = |accesses| {
        let iteration = Iteration::new(steps.clone(), Ticks::ZERO).with_accesses(accesses);
        Trace::new("t".into(), String::new(), vec![], vec![iteration])
    };
    let block = BlockId::new(0);
    assert!(trace(vec![access(vec![block]), access(vec![])]).is_ok());
    let place = Place { iteration: Some(0), step: 3 };
    let dead = trace(vec![access(vec![]), access(vec![block])]);
    assert_eq!(dead, Err(TraceError::UsesDead { place, block }));
    let one = trace(vec![access(vec![])]);
    assert_eq!(one, Err(TraceError::Accesses { iteration: 0, launches: 2, accesses: 1 }));
}

fn malformed(content: &[u8]) -> (u64, u64, Malformed) {
    match Trace::read(&file(content)[..]) {
        Err(ReadError::Malformed { offset, record, source }) => (offset, record, source),
        other => panic!("{other:?}"),
    }
}

#[test]
fn malformed_content_is_named() {
    let start = |rest: &[u8]| [&[0, 0, 1, 1, 8, 1, 0, 3, 4, 1], rest].concat();
    assert_eq!(malformed(&start(&[9])), (11, 2, Malformed::Tag(9)));
    assert_eq!(malformed(&start(&[5, 5])), (12, 2, Malformed::Phase(5)));
    let free = Malformed::Free { back: 1, allocated: 1 };
    assert_eq!(malformed(&start(&[0, 1])), (12, 2, free));
    assert_eq!(malformed(&start(&[4, 0x80, 0])), (13, 2, Malformed::Number));
    let long = [&[4][..], &[0xff; 9], &[2]].concat();
    assert_eq!(malformed(&start(&long)), (21, 2, Malformed::Number));
    assert_eq!(malformed(&[1, 0xff]), (2, 0, Malformed::Text));
    assert_eq!(malformed(&[0, 0, 0, 1, 0, 0, 7]), (6, 0, Malformed::Trailing));
}

#[test]
fn files_that_are_something_else_are_named() {
    let good = written(&small());
    assert!(matches!(Trace::read(&b""[..]), Err(ReadError::NotATrace)));
    assert!(matches!(Trace::read(&b"ZTRAPEZE"[..]), Err(ReadError::NotATrace)));
    let mut newer = good.clone();
    newer[6] = VERSION + 1;
    let found = VERSION + 1;
    assert!(matches!(Trace::read(&newer[..]), Err(ReadError::Version { found: f }) if f == found));
    let longer = [&good[..], b"x"].concat();
    let trailing = ReadError::Malformed { offset: 0, record: 0, source: Malformed::Trailing };
    let error = Trace::read(&longer[..]).unwrap_err();
    assert_eq!(std::mem::discriminant(&error), std::mem::discriminant(&trailing));
    let cut = Trace::read(&good[..good.len() - 1]).unwrap_err();
    assert!(matches!(cut, ReadError::Damaged { .. }), "{cut:?}");
    // Steps that follow the format and make no sense: a block of zero bytes.
    let error = Trace::read(&file(&[0, 0, 1, 1, 0, 1, 0, 0])[..]).unwrap_err();
    assert!(matches!(error, ReadError::Invalid(TraceError::ZeroBytes { .. })), "{error:?}");
}

/// A file of some kilobytes that inflates without end, and one that promises more than it has.
#[test]
fn bombs_are_defused() {
    let bomb = [&[0, 0][..], &[0xff, 0xff, 0xff, 0xff, 0x0f], &[4; 70 << 20]].concat();
    let bomb = file(&bomb);
    assert!(bomb.len() < 1 << 20);
    // Tag 4 and number 4, over and over: launches without end.
    assert!(matches!(Trace::read(&bomb[..]), Err(ReadError::TooLarge)));
    let promise = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    assert_eq!(malformed(&promise), (9, 0, Malformed::Length { length: u64::MAX >> 1 }));
}

/// Neither is read beyond what a description may take, nor written so that it could not be read.
#[test]
fn names_and_provenances_have_an_end() {
    let described = |name: usize, provenance: usize| {
        small().described("n".repeat(name), "p".repeat(provenance))
    };
    let write = |trace: &Trace| {
        let mut file = Vec::new();
        trace.write(&mut file).map(|()| file)
    };
    let longest = described(MAX_TEXT, MAX_TEXT);
    assert_eq!(Trace::read(&write(&longest).unwrap()[..]).unwrap(), longest);
    for (trace, what) in
        [(described(MAX_TEXT + 1, 0), "name"), (described(0, MAX_TEXT + 1), "provenance")]
    {
        let error = write(&trace).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), format!("a {what} of 65537 bytes, and 65536 is the most"));
    }
    // 65,537 bytes, as a number and then as text.
    let content = [&[0x81, 0x80, 0x04][..], &[b'x'; MAX_TEXT + 1]].concat();
    assert_eq!(malformed(&content), (3, 0, Malformed::Length { length: 65537 }));
}
