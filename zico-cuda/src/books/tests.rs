use super::*;

const UNIT: u64 = 4096;

/// A range of eight units, and memory of two.
fn books() -> (Books, u64, u64) {
    let mut books = Books::new(UNIT);
    let (base, len) = (16 * UNIT, 8 * UNIT);
    books.add_range(Range { base, len, reserved: (base, len) });
    let memory = books.add_memory(77, 2 * UNIT);
    (books, base, memory)
}

#[test]
fn what_is_left_over_goes_before_its_address_or_memory_is_used() {
    let (mut books, base, memory) = books();
    let (place, handle) = books.map(base, Bytes::ZERO, &[memory]).unwrap()[0];
    assert_eq!((place, handle), (Place { start: base, len: 2 * UNIT }, 77));
    books.left_over(place);
    let blocked = |result: Result<_, Blocked>| match result {
        Err(Blocked::By(by)) => by == place,
        _ => false,
    };
    assert!(blocked(books.destroy(memory)));
    assert!(blocked(books.release(base).map(|_| 0)));
    assert!(blocked(books.map(base, Bytes::new(UNIT), &[memory]).map(|_| 0)));
    // For callers there is nothing.
    let len = Bytes::new(2 * UNIT);
    assert!(matches!(books.unmap(base, Bytes::ZERO, len), Err(CudaError::NotMapped { .. })));
    assert!(books.is_mapped(Addr::new(base), len).is_err());
    assert!(books.claim_left_over(place));
    assert!(!books.claim_left_over(place), "somebody takes it away already");
    books.unmapped(place);
    assert!(matches!(books.destroy(memory), Ok(77)));
    assert!(books.release(base).is_ok());
}

#[test]
fn what_changes_is_in_everybodys_way() {
    let (mut books, base, memory) = books();
    let (place, _) = books.map(base, Bytes::new(UNIT), &[memory]).unwrap()[0];
    let other = books.add_memory(78, UNIT);
    let refused = |result: Result<_, Blocked>| matches!(result, Err(Blocked::Refused(_)));
    assert!(refused(books.map(base, Bytes::new(UNIT), &[other])));
    assert!(refused(books.destroy(memory).map(|_| Vec::new())));
    assert!(refused(books.release(base).map(|_| Vec::new())));
    assert!(books.unmap(base, Bytes::new(UNIT), Bytes::new(2 * UNIT)).is_err());
    books.mapped(place);
    assert_eq!(books.is_mapped(Addr::new(base + UNIT), Bytes::new(2 * UNIT)), Ok(()));
    let hole = CudaError::NotMapped { hole: Addr::new(base + 3 * UNIT) };
    assert_eq!(books.is_mapped(Addr::new(base + UNIT), Bytes::new(2 * UNIT + 1)), Err(hole));
    assert!(books.is_mapped(Addr::MAX, Bytes::new(2)).is_err());
}

#[test]
fn a_range_is_out_before_the_driver_can_give_its_addresses_away_again() {
    let (mut books, base, memory) = books();
    let range = books.release(base).unwrap();
    assert_eq!(range.reserved, (base, 8 * UNIT));
    assert!(books.map(base, Bytes::ZERO, &[memory]).is_err());
    books.add_range(range);
    assert!(books.map(base, Bytes::ZERO, &[memory]).is_ok());
}

#[test]
fn the_end_finds_all_that_is_left() {
    let (mut books, base, memory) = books();
    books.map(base, Bytes::ZERO, &[memory]).unwrap();
    let (mappings, memories, ranges) = books.take_all();
    assert_eq!(mappings, [Place { start: base, len: 2 * UNIT }]);
    assert_eq!((memories, ranges), (vec![77], vec![(base, 8 * UNIT)]));
}
