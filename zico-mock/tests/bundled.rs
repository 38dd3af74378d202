//! The bundled traces have the figures of their recordings. The recorder computed these figures,
//! not the importer.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use zico_core::Bytes;
use zico_mock::bundled::{self, BundledError};

/// What the recorder says of a job.
struct Recorded {
    name: &'static str,
    /// Bytes of parameters, buffers and optimizer state.
    persistent: u64,
    iterations: [Iteration; 3],
}

/// Allocations, allocations and frees together, peak and trough in bytes, the phase with the peak,
/// bytes alive at start and end, wall milliseconds.
type Iteration = (usize, usize, u64, u64, &'static str, u64, u64, u64);

const RECORDED: [Recorded; 11] = [
    Recorded {
        name: "bert-base",
        persistent: 1_314_180_576,
        iterations: [
            (4142, 7678, 1_939_781_336, 438_065_384, "optimizer", 438_065_384, 1_314_180_576, 4405),
            (
                3536,
                7072,
                2_614_309_352,
                1_314_180_576,
                "backward",
                1_314_180_576,
                1_314_180_576,
                4862,
            ),
            (
                3536,
                7072,
                2_614_309_352,
                1_314_180_576,
                "backward",
                1_314_180_576,
                1_314_180_576,
                4705,
            ),
        ],
    },
    Recorded {
        name: "dlrm",
        persistent: 1_427_737_860,
        iterations: [
            (445, 890, 1_528_631_640, 1_427_737_860, "backward", 1_427_737_860, 1_427_737_860, 176),
            (445, 890, 1_528_762_224, 1_427_737_860, "backward", 1_427_737_860, 1_427_737_860, 179),
            (445, 890, 1_528_582_568, 1_427_737_860, "backward", 1_427_737_860, 1_427_737_860, 181),
        ],
    },
    Recorded {
        name: "gcn",
        persistent: 42_458_232,
        iterations: [
            (203, 388, 1_287_378_264, 42_152_736, "forward", 42_152_736, 42_458_232, 2725),
            (185, 370, 1_287_683_760, 42_458_232, "forward", 42_458_232, 42_458_232, 3229),
            (185, 370, 1_287_683_760, 42_458_232, "forward", 42_458_232, 42_458_232, 2587),
        ],
    },
    Recorded {
        name: "gnmt",
        persistent: 873_778_352,
        iterations: [
            (949, 1766, 1_361_662_400, 291_259_392, "optimizer", 291_259_392, 873_778_352, 2369),
            (817, 1634, 1_622_905_016, 873_778_352, "backward", 873_778_352, 873_778_352, 2380),
            (817, 1634, 1_685_035_320, 873_778_352, "backward", 873_778_352, 873_778_352, 2270),
        ],
    },
    Recorded {
        name: "gpt2-small",
        persistent: 1_493_278_288,
        iterations: [
            (3621, 6798, 2_710_416_680, 497_759_232, "backward", 497_759_232, 1_493_278_288, 7492),
            (
                3177,
                6354,
                3_705_935_736,
                1_493_278_288,
                "backward",
                1_493_278_288,
                1_493_278_288,
                6523,
            ),
            (
                3177,
                6354,
                3_705_935_736,
                1_493_278_288,
                "backward",
                1_493_278_288,
                1_493_278_288,
                7566,
            ),
        ],
    },
    Recorded {
        name: "mobilenet_v2",
        persistent: 28_175_840,
        iterations: [
            (1683, 3208, 2_537_861_096, 14_156_352, "backward", 14_156_352, 28_175_840, 2499),
            (1841, 3682, 2_551_880_584, 28_175_840, "backward", 28_175_840, 28_175_840, 2999),
            (1841, 3682, 2_551_880_584, 28_175_840, "backward", 28_175_840, 28_175_840, 3108),
        ],
    },
    Recorded {
        name: "nasnetalarge",
        persistent: 710_813_984,
        iterations: [
            (
                11_952,
                22_886,
                4_484_399_976,
                355_801_384,
                "forward",
                355_801_384,
                710_813_984,
                15_363,
            ),
            (
                12_970,
                25_940,
                4_839_412_576,
                710_813_984,
                "forward",
                710_813_984,
                710_813_984,
                16_880,
            ),
            (
                12_970,
                25_940,
                4_839_412_576,
                710_813_984,
                "forward",
                710_813_984,
                710_813_984,
                16_164,
            ),
        ],
    },
    Recorded {
        name: "resnet110-cifar",
        persistent: 13_856_952,
        iterations: [
            (3570, 6811, 1_088_890_752, 6_945_104, "backward", 6_945_104, 13_856_952, 2382),
            (3899, 7798, 1_095_802_600, 13_856_952, "backward", 13_856_952, 13_856_952, 2440),
            (3899, 7798, 1_095_802_600, 13_856_952, "backward", 13_856_952, 13_856_952, 2351),
        ],
    },
    Recorded {
        name: "resnet50",
        persistent: 204_669_160,
        iterations: [
            (1700, 3239, 1_522_938_608, 102_441_032, "backward", 102_441_032, 204_669_160, 4922),
            (1861, 3722, 1_625_166_736, 204_669_160, "backward", 204_669_160, 204_669_160, 5734),
            (1861, 3722, 1_625_166_736, 204_669_160, "backward", 204_669_160, 204_669_160, 4757),
        ],
    },
    Recorded {
        name: "unet",
        persistent: 248_348_832,
        iterations: [
            (697, 1330, 1_652_049_448, 124_198_040, "backward", 124_198_040, 248_348_832, 10_499),
            (761, 1522, 1_776_200_240, 248_348_832, "backward", 248_348_832, 248_348_832, 10_697),
            (761, 1522, 1_776_200_240, 248_348_832, "backward", 248_348_832, 248_348_832, 10_971),
        ],
    },
    Recorded {
        name: "whisper-tiny",
        persistent: 448_520_344,
        iterations: [
            (3233, 5968, 1_124_630_120, 151_042_560, "backward", 151_042_560, 448_520_344, 4781),
            (2735, 5470, 1_422_108_064, 448_520_344, "backward", 448_520_344, 448_520_344, 4769),
            (2735, 5470, 1_422_108_032, 448_520_344, "backward", 448_520_344, 448_520_344, 5630),
        ],
    },
];

#[test]
fn names_are_sorted_and_those_of_the_traces() {
    let names: Vec<_> = bundled::names().collect();
    assert!(names.is_sorted());
    assert_eq!(names, RECORDED.map(|recorded| recorded.name));
    for name in names {
        let trace = bundled::open(name).unwrap();
        assert_eq!(trace.name(), name);
        assert!(trace.provenance().contains("PyTorch"), "{}", trace.provenance());
    }
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    let error = bundled::open("resnet").unwrap_err();
    assert!(matches!(error, BundledError::Unknown { .. }));
    assert!(
        error.to_string().contains("unet, whisper-tiny, carry, bert-large-like, gpt2-large"),
        "{error}"
    );
}

/// The job that carries its loss over: one of 8 MiB, which the next iteration frees once it has its
/// own.
#[test]
fn what_was_made_does_what_it_was_made_for() {
    assert_eq!(bundled::made().collect::<Vec<_>>(), ["carry"]);
    let carry = bundled::open("carry").unwrap();
    assert_eq!((carry.name(), carry.setup().len()), ("carry", 5));
    assert!(carry.provenance().contains("make_carry.py"), "{}", carry.provenance());
    let stats = carry.stats().iterations;
    assert_eq!(stats.len(), 5);
    for (number, stats) in stats.iter().enumerate() {
        let later = number > 0;
        assert_eq!((stats.allocations, stats.frees), (12 + 1, 12 + usize::from(later)));
        assert_eq!(stats.persistent_at_start, Bytes::mib(5));
        assert_eq!(stats.live_at_start, Bytes::mib(if later { 5 + 8 } else { 5 }));
        assert_eq!(stats.live_at_end, Bytes::mib(5 + 8));
        // For a moment there are two losses.
        assert_eq!(stats.peak, Bytes::mib(5 + 12 * 5 + if later { 16 } else { 8 }));
        assert_eq!(stats.peak_phase.unwrap().name(), "forward");
    }
}

/// PyTorch's own figures of the same runs: the most bytes that were allocated, in blocks of a
/// multiple of 512 bytes.
#[test]
fn large_ones_have_the_peaks_that_pytorch_says() {
    const ALLOCATED: [(&str, f64); 2] = [("bert-large-like", 66.67), ("gpt2-large", 59.12)];
    assert_eq!(bundled::large().collect::<Vec<_>>(), ALLOCATED.map(|(name, _)| name));
    for (name, gib) in ALLOCATED {
        let trace = bundled::open(name).unwrap();
        assert!(trace.provenance().contains("times by a rule"), "{}", trace.provenance());
        let stats = trace.stats();
        let peak = stats.iterations.iter().map(|one| one.peak.value()).max().unwrap();
        let share = peak as f64 / (gib * f64::from(1 << 30));
        assert!((0.995..=1.0).contains(&share), "{name}: {peak} bytes live of {gib} GiB");
        // The same work in each iteration that has the optimizer's state already.
        let work = |at: usize| stats.iterations[at].work;
        assert_eq!(work(1), work(3), "{name}");
        assert!(work(0) > work(1), "{name}: the first one makes the state");
    }
}

#[test]
fn figures_are_those_of_the_recorder() {
    for Recorded { name, persistent, iterations } in RECORDED {
        let stats = bundled::open(name).unwrap().stats();
        assert_eq!(stats.iterations.len(), iterations.len(), "{name}");
        for (number, (stats, recorded)) in stats.iterations.iter().zip(iterations).enumerate() {
            let (allocations, events, peak, trough, phase, start, end, millis) = recorded;
            let job = format!("{name}, iteration {number}");
            assert_eq!(stats.allocations, allocations, "{job}");
            assert_eq!(stats.allocations + stats.frees, events, "{job}");
            assert_eq!((stats.peak, stats.trough), (Bytes::new(peak), Bytes::new(trough)), "{job}");
            assert_eq!(stats.peak_phase.unwrap().name(), phase, "{job}");
            assert_eq!(stats.live_at_start, Bytes::new(start), "{job}");
            assert_eq!(stats.live_at_end, Bytes::new(end), "{job}");
            // All that the setup holds is kept, and so is the state that the first step makes.
            let kept = if number == 0 { start } else { persistent };
            assert_eq!(stats.persistent_at_start, Bytes::new(kept), "{job}");
            let wall = stats.recorded.value() / 1_000_000;
            assert!(wall.abs_diff(millis) <= 1, "{job}: {wall} ms, not {millis}");
        }
    }
}

/// What replaying a trace rests on: work for most of the time, and iterations that end empty.
#[test]
fn traces_are_worth_replaying() {
    for name in bundled::names() {
        let trace = bundled::open(name).unwrap();
        for stats in trace.stats().iterations {
            let covered = stats.work.seconds() / stats.recorded.seconds();
            // dlrm runs many operators that are over before they count as a launch.
            let least = if name == "dlrm" { 0.84 } else { 0.95 };
            assert!((least..1.0).contains(&covered), "{name}: launches cover {covered}");
        }
        // Every recorded iteration can follow every other one: nothing is carried over.
        for iteration in 0..=trace.iterations().len() {
            assert_eq!(trace.live_at_start(iteration), [], "{name}");
        }
    }
}
