//! Any blocks are planned or refused with a typed error, and every plan passes the checker.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zico_plan::{Baseline, Block, Planner, baseline, check, extent};

fuzz_target!(|input: (Vec<(u64, u64, u64, u64)>, u16, Option<u64>, Option<u64>, bool)| {
    let (values, work, capacity, region, small) = input;
    // Full 64-bit values find the edges of the arithmetic, small ones find hard problems.
    let small = |value: u64, below: u64| if small { value % below } else { value };
    let block = |&(lower, life, size, align): &(u64, u64, u64, u64)| {
        let lower = small(lower, 16);
        Block {
            lower,
            upper: lower.wrapping_add(small(life, 8)),
            size: small(size, 32),
            align: small(align, 4),
        }
    };
    let blocks: Vec<Block> = values.iter().take(64).map(block).collect();
    let planner = match Planner::new(&blocks) {
        Ok(planner) => planner.capacity(capacity).regions(region).work(u64::from(work) << 8),
        Err(error) => {
            assert_eq!(check(&blocks, &vec![0; blocks.len()]), Err(error));
            return;
        }
    };
    let mut planner = planner;
    for _ in 0..2 {
        let plan = planner.run();
        assert_eq!(check(&blocks, &plan.offsets), Ok(plan.height));
        assert!(plan.lower_bound <= plan.least && plan.least <= plan.height);
        assert!(extent(&blocks, &plan.offsets, region.unwrap_or(1)).is_ok());
    }
    for known in Baseline::ALL {
        let offsets = baseline(&blocks, known).expect("a planner takes them");
        assert!(check(&blocks, &offsets).is_ok());
    }
});
