//! Pages that are mapped anew in each iteration.

use proptest::prelude::*;

use super::*;
use crate::ledger::retire::Excess;

const ARENA: Zone = Zone::Iteration;

/// Iterations that each keep two pages until the next one has made its own, which are others, by
/// turns; then a block of two pages lies where the last ones' memory was. How often that is mapped
/// anew in the last of them.
fn alternate(books: &mut Books, job: JobKey, iterations: u64) -> usize {
    let mut mapped = 0;
    for iteration in 0..iterations {
        let [made, kept] = if iteration % 2 == 0 { [[0, 1], [2, 3]] } else { [[2, 3], [0, 1]] };
        books.start(job);
        books.lease(job, ARENA, &made);
        if books.ledger.is_leased(Place { job, zone: ARENA, page: kept[0] }) {
            books.give_for_good(job, ARENA, &kept);
        }
        mapped = books.lease(job, ARENA, &[4, 5]).2;
        books.give_for_good(job, ARENA, &[4, 5]);
        books.end(job);
    }
    mapped
}

fn with_few_calls(regions: u32) -> Books {
    let mut books = Books::new(regions);
    books.ledger.fewest_calls = true;
    books
}

#[test]
fn they_get_regions_of_their_own_where_few_calls_are_what_counts() {
    let mut books = Books::new(10);
    let job = books.join("a");
    assert_eq!((alternate(&mut books, job, 12), books.ledger.created()), (2, 4));
    let mut books = with_few_calls(10);
    let job = books.join("a");
    // Not before that has shown not to be by chance.
    assert_eq!((alternate(&mut books, job, 4), books.ledger.created()), (2, 4));
    assert_eq!((alternate(&mut books, job, 12), books.ledger.created()), (0, 6));
}

#[test]
fn what_another_job_comes_to_need_is_not_to_spare() {
    let mut books = with_few_calls(10);
    let [job, other] = ["a", "b"].map(|name| books.join(name));
    (0..4).for_each(|_| books.iterate(other, 5));
    assert_eq!((alternate(&mut books, job, 12), books.ledger.created()), (1, 10));
    // It gives its memory back to the device, and will want as much again.
    let mut books = with_few_calls(10);
    let [job, other] = ["a", "b"].map(|name| books.join(name));
    (0..4).for_each(|_| books.iterate(other, 5));
    let mut retired = books.ledger.retire(&[0, 1, 2, 3, 4], Excess::Above(0));
    for region in &mut retired {
        for (place, number) in region.mapped() {
            books.ledger.unmapped(place, number);
        }
        region.destroyed = true;
    }
    books.ledger.retired(&retired);
    assert_eq!((alternate(&mut books, job, 12), books.ledger.created()), (1, 5));
    books.start(job);
    assert!(books.ask(job, ARENA, &[6, 7, 8]).is_ok(), "it may have more where it uses more");
}

#[test]
fn nothing_is_to_spare_where_peaks_do_not_fit_side_by_side() {
    let mut books = with_few_calls(10);
    let [job, other] = ["a", "b"].map(|name| books.join(name));
    (0..4).for_each(|_| books.iterate(other, 7));
    assert_eq!(alternate(&mut books, job, 12), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// One lease of pages that move and of others, for which memory is created too, with as much to
    /// spare as there is.
    #[test]
    fn each_page_of_a_lease_has_a_region_of_its_own(
        regions in 6..14_u32,
        iterations in 1..9_u64,
        others in 0..6_u64,
    ) {
        let mut books = with_few_calls(regions);
        let job = books.join("a");
        alternate(&mut books, job, iterations);
        books.start(job);
        let [made, kept] = if iterations % 2 == 0 { [[0, 1], [2, 3]] } else { [[2, 3], [0, 1]] };
        books.lease(job, ARENA, &made);
        let pages: Vec<u64> = (4..6 + others).collect();
        if let Ok(order) = books.ask(job, ARENA, &pages) {
            books.settle(job, ARENA, &order);
            for page in pages.iter().chain(&made).chain(&kept) {
                let place = Place { job, zone: ARENA, page: *page };
                prop_assert!(books.ledger.is_leased(place), "{page}");
            }
        } else {
            prop_assert!(u64::from(regions) < 6 + others);
        }
    }
}
