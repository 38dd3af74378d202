use super::*;

const UNIT: u64 = 4096;

/// A range of eight units, and memory of two.
fn registry() -> (Registry, u64, u64) {
    let mut registry = Registry::new(UNIT);
    let (base, len) = (16 * UNIT, 8 * UNIT);
    registry.add_range(Reservation { base, len, reserved: (base, len) });
    let memory = registry.add_memory(77, 2 * UNIT);
    (registry, base, memory)
}

#[test]
fn what_is_left_over_goes_before_its_address_or_memory_is_used() {
    let (mut registry, base, memory) = registry();
    let (place, handle) = registry.map(base, Bytes::ZERO, &[memory]).unwrap()[0];
    assert_eq!((place, handle), (Place { start: base, len: 2 * UNIT }, 77));
    registry.left_over(place);
    let blocked = |result: Result<_, Blocked>| match result {
        Err(Blocked::By(by)) => by == place,
        _ => false,
    };
    assert!(blocked(registry.destroy(memory)));
    assert!(blocked(registry.release(base).map(|_| 0)));
    assert!(blocked(registry.map(base, Bytes::new(UNIT), &[memory]).map(|_| 0)));
    // Callers see no mapping.
    let len = Bytes::new(2 * UNIT);
    assert!(matches!(registry.unmap(base, Bytes::ZERO, len), Err(CudaError::NotMapped { .. })));
    assert!(registry.is_mapped(Addr::new(base), len).is_err());
    assert!(registry.claim_left_over(place));
    assert!(!registry.claim_left_over(place), "somebody takes it away already");
    registry.unmapped(place);
    assert!(matches!(registry.destroy(memory), Ok(77)));
    assert!(registry.release(base).is_ok());
}

#[test]
fn what_changes_is_in_everybodys_way() {
    let (mut registry, base, memory) = registry();
    let (place, _) = registry.map(base, Bytes::new(UNIT), &[memory]).unwrap()[0];
    let other = registry.add_memory(78, UNIT);
    let refused = |result: Result<_, Blocked>| matches!(result, Err(Blocked::Refused(_)));
    assert!(refused(registry.map(base, Bytes::new(UNIT), &[other])));
    assert!(refused(registry.destroy(memory).map(|_| Vec::new())));
    assert!(refused(registry.release(base).map(|_| Vec::new())));
    assert!(registry.unmap(base, Bytes::new(UNIT), Bytes::new(2 * UNIT)).is_err());
    registry.mapped(place);
    assert_eq!(registry.is_mapped(Addr::new(base + UNIT), Bytes::new(2 * UNIT)), Ok(()));
    let hole = CudaError::NotMapped { hole: Addr::new(base + 3 * UNIT) };
    assert_eq!(registry.is_mapped(Addr::new(base + UNIT), Bytes::new(2 * UNIT + 1)), Err(hole));
    assert!(registry.is_mapped(Addr::MAX, Bytes::new(2)).is_err());
}

#[test]
fn a_range_is_out_before_the_driver_can_give_its_addresses_away_again() {
    let (mut registry, base, memory) = registry();
    let range = registry.release(base).unwrap();
    assert_eq!(range.reserved, (base, 8 * UNIT));
    assert!(registry.map(base, Bytes::ZERO, &[memory]).is_err());
    registry.add_range(range);
    assert!(registry.map(base, Bytes::ZERO, &[memory]).is_ok());
}

#[test]
fn the_end_finds_all_that_is_left() {
    let (mut registry, base, memory) = registry();
    registry.map(base, Bytes::ZERO, &[memory]).unwrap();
    let (mappings, memories, ranges) = registry.take_all();
    assert_eq!(mappings, [Place { start: base, len: 2 * UNIT }]);
    assert_eq!((memories, ranges), (vec![77], vec![(base, 8 * UNIT)]));
}
