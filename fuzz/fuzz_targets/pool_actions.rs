//! The public interface as a stream of calls, with faults: the promises hold after each.

#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use zico_core::{HandOver, Lifetime};
use zico_mock::Operations;
use zico_tests::world::{Call, JOBS, World};

/// A call made of bytes.
fn call(bytes: &mut Unstructured<'_>, depth: u32) -> arbitrary::Result<Call> {
    if depth > 2 {
        return Ok(Call::Poll);
    }
    let job = bytes.choose_index(JOBS)?;
    Ok(match bytes.int_in_range(0..=19u8)? {
        0 => Call::JoinOrLeave(job),
        1 | 2 => Call::BeginOrEnd(job),
        3..=7 => Call::Alloc {
            job,
            kib: u64::from(u16::arbitrary(bytes)?) % 20_000,
            align: bytes.int_in_range(9..=22)?,
            lifetime: if bool::arbitrary(bytes)? {
                Some(*bytes.choose(&Lifetime::ALL)?)
            } else {
                None
            },
        },
        8..=10 => Call::Free { job, which: u8::arbitrary(bytes)?.into() },
        11 => Call::UseElsewhere {
            job,
            which: u8::arbitrary(bytes)?.into(),
            micros: u8::arbitrary(bytes)?.into(),
        },
        12 => Call::Launch { job, micros: u8::arbitrary(bytes)?.into() },
        13 if bool::arbitrary(bytes)? => {
            Call::Routine { job, steps: usize::from(u8::arbitrary(bytes)? % 48) }
        }
        13 => Call::Advance { micros: u64::from(u8::arbitrary(bytes)?) * 4 },
        14 => match bytes.int_in_range(0..=3u8)? {
            0 => Call::Trim { mib: bytes.int_in_range(0..=32)? },
            1 => Call::SetBudget { mib: bytes.int_in_range(0..=50)? },
            2 => Call::SetPace {
                job,
                operations: u8::arbitrary(bytes)?.into(),
                micros: u16::arbitrary(bytes)?.into(),
                burst: u8::arbitrary(bytes)?.into(),
            },
            _ => Call::Poll,
        },
        15 => Call::Absurd { job, what: u8::arbitrary(bytes)? },
        16 if bool::arbitrary(bytes)? => Call::Mute { job, side: bool::arbitrary(bytes)? },
        16 => Call::Idle { job, calls: u8::arbitrary(bytes)? },
        // What happens in the middle of something else, which may be such a call again.
        17 => Call::During {
            skip: bytes.int_in_range(0..=16)?,
            before: bool::arbitrary(bytes)?,
            call: Box::new(call(bytes, depth + 1)?),
        },
        18 => Call::SuspendOrResume(job),
        _ => Call::Fail {
            operations: Operations::from_bits_truncate(u16::arbitrary(bytes)?),
            permille: bytes.int_in_range(0..=1000)?,
        },
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = Unstructured::new(bytes);
    let modes = [HandOver::Fenced, HandOver::Isolated];
    let hand_over = bytes.choose(&modes).copied().unwrap_or_default();
    let fewest_calls = bool::arbitrary(&mut bytes).unwrap_or(false);
    let jobs = bytes.int_in_range(2..=JOBS).unwrap_or(2);
    let mut world = World::new(hand_over, fewest_calls, jobs);
    while !bytes.is_empty() {
        let Ok(call) = call(&mut bytes, 0) else { break };
        world.call(&call);
        world.check();
    }
    world.end();
});
