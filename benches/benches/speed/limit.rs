//! Lower bounds of this machine for an allocator: following a plan costs a compare and an add;
//! finding a block and its neighbour costs two loads that miss the cache.

use std::hint::black_box;

use zico_bench::speed::Outcome;

use crate::paths::Runs;

const LOADS: usize = 20_000;

/// A compare and an add of what was loaded, one after the other.
pub(crate) fn compare_and_add() -> Outcome<Runs> {
    let plan: Vec<(u64, u64)> = (0..1_000).map(|n| (n % 7, 512 * n)).collect();
    Runs::of(501, || {
        let mut base = black_box(0);
        for &(size, offset) in plan.iter().cycle().take(LOADS) {
            if black_box(size) > 7 {
                return Err("the plan does not fit".into());
            }
            base = black_box(base + offset);
        }
        Ok(LOADS)
    })
}

/// Dependent loads, spread over this many bytes.
pub(crate) fn loads(bytes: usize) -> Outcome<Runs> {
    const LINE: usize = 16;
    let lines = bytes / (4 * LINE);
    let mut random = fastrand::Rng::with_seed(7);
    // One cycle through all lines (Sattolo).
    let mut order: Vec<usize> = (0..lines).collect();
    for last in (1..lines).rev() {
        order.swap(last, random.usize(..last));
    }
    let mut next = vec![0u32; lines * LINE];
    for (line, &to) in order.iter().enumerate() {
        next[line * LINE] = u32::try_from(to * LINE)?;
    }
    let mut at = 0;
    Runs::of(101, || {
        for _ in 0..LOADS {
            at = next[at as usize];
        }
        black_box(at);
        Ok(LOADS)
    })
}
