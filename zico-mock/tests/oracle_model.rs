//! The oracle against a model that keeps an owner for every single block of physical memory.
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a panic is the report")]

use zico_core::{Bytes, Device};
use zico_mock::{Claim, MockConfig, MockDevice, ViolationKind};

/// Blocks a mapping, mappings, and addresses of twice that so that each mapping has two.
const BLOCKS: usize = 4;
const MAPPINGS: usize = 8;
const BLOCK: Bytes = Bytes::new(16);

/// The physical block behind a block of addresses: the second half is the first, mapped in another
/// order.
fn physical(block: usize) -> usize {
    let (mapping, offset) = (block / BLOCKS, block % BLOCKS);
    let mapping = if mapping < MAPPINGS { mapping } else { (mapping * 3) % MAPPINGS };
    mapping * BLOCKS + offset
}

fn device() -> (MockDevice, zico_core::Addr) {
    let unit = Bytes::new(64);
    let config = MockConfig::new(Bytes::kib(64)).granularity(unit);
    let device = MockDevice::new(config).unwrap();
    let range = device.reserve(Bytes::new(64 * 2 * MAPPINGS as u64), unit).unwrap();
    let memory: Vec<_> = (0..MAPPINGS).map(|_| device.create(unit).unwrap()).collect();
    for mapping in 0..2 * MAPPINGS {
        let at = Bytes::new(64 * mapping as u64);
        device.map(&range, at, &[&memory[physical(mapping * BLOCKS) / BLOCKS]]).unwrap();
    }
    (device.clone(), device.base(&range))
}

#[test]
fn random_claims_over_aliased_memory() {
    let (device, base) = device();
    let stream = device.add_stream();
    let mut owners: Vec<Option<u32>> = vec![None; BLOCKS * MAPPINGS];
    let mut live: Vec<(Claim, Vec<usize>)> = Vec::new();
    let (mut seed, mut expected, mut granted) = (11u64, Vec::new(), 0);
    let mut random = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(seed >> 33).unwrap() % n
    };
    for owner in 0..2_000 {
        if random(2) == 0 && !live.is_empty() {
            let (claim, blocks) = live.swap_remove(random(live.len()));
            device.disown(stream, claim).unwrap();
            blocks.into_iter().for_each(|block| owners[block] = None);
            continue;
        }
        let first = random(2 * BLOCKS * MAPPINGS);
        let len = (1 + random(10)).min(2 * BLOCKS * MAPPINGS - first);
        let mut blocks: Vec<_> = (first..first + len).map(physical).collect();
        let clash = blocks.iter().find_map(|block| owners[*block]);
        let addr = base.checked_add(Bytes::new(BLOCK.value() * first as u64)).unwrap();
        let bytes = Bytes::new(BLOCK.value() * len as u64);
        let claim = device.own(stream, owner, addr, bytes).unwrap();
        blocks.sort_unstable();
        let twice = blocks.windows(2).any(|pair| pair[0] == pair[1]);
        if clash.is_some() || twice {
            expected.push(owner);
            blocks.clear();
        } else {
            blocks.iter().for_each(|block| owners[*block] = Some(owner));
            granted += 1;
        }
        live.push((claim, blocks));
    }
    let seen: Vec<_> = device
        .violations()
        .into_iter()
        .map(|violation| match violation.kind {
            ViolationKind::Overlap { owner, .. } => owner,
            other => unreachable!("{other}"),
        })
        .collect();
    assert!(granted > 100 && expected.len() > 100, "{granted} granted, {} not", expected.len());
    assert!(expected.len() <= 1_000, "more than the oracle keeps: {}", expected.len());
    assert_eq!(seen, expected);
}
