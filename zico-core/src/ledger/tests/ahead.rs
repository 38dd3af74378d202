//! Pages that are leased before they are asked for.

use super::*;

const ARENA: Zone = Zone::Iteration;

/// An iteration whose wave rises page by page and falls from the top. `at` is called at each lease.
fn wave(books: &mut Books, job: JobKey, pages: u64, mut at: impl FnMut(&mut Books, u64)) {
    books.start(job);
    for page in 0..pages {
        if !books.ledger.is_leased(Place { job, zone: ARENA, page }) {
            books.lease(job, ARENA, &[page]);
        }
        at(books, page);
        books.tick(job);
    }
    for page in (0..pages).rev() {
        books.give(job, ARENA, &[page]);
    }
    let batch = books.fence(job).unwrap();
    assert_eq!(books.ledger.completed(job, batch, books.now), Some(true));
    books.end(job);
}

fn ahead(books: &mut Books, job: JobKey, after: u64) -> Vec<u64> {
    books.ledger.lease_ahead(job, after, books.now)
}

#[test]
fn what_a_wave_is_about_to_take_is_leased_ahead() {
    let mut books = Books::new(40);
    let job = books.join("a");
    // Nothing is known in the first iterations.
    for _ in 0..4 {
        let mut got = Vec::new();
        let mut held = Vec::new();
        wave(&mut books, job, 32, |books, page| {
            if page == 8 && books.ledger.accounts[&job].iterations < 2 {
                got = ahead(books, job, page);
            }
            held.push(books.state().1);
        });
        assert_eq!(got, []);
        assert_eq!(held[31], 32);
    }
    // In half the wave's time there are 32 parts: two of them are three pages or four.
    let mut got = Vec::new();
    wave(&mut books, job, 32, |books, page| {
        if page == 8 {
            got = ahead(books, job, page);
            assert_eq!(books.state().1, 9 + u32::try_from(got.len()).unwrap());
            assert_eq!(ahead(books, job, 100), [], "never used");
        }
    });
    assert!(!got.is_empty() && got.len() <= 5, "{got:?}");
    assert_eq!(got, (9..9 + got.len() as u64).collect::<Vec<_>>());
}

#[test]
fn nothing_is_leased_ahead_beyond_the_wave_or_while_somebody_waits() {
    let mut books = Books::new(40);
    let (job, other) = (books.join("a"), books.join("b"));
    books.lease(job, Zone::Persistent, &[0, 1, 2, 3, 4, 5, 6, 7]);
    for _ in 0..4 {
        wave(&mut books, job, 8, |_, _| {});
        // Their peaks fit side by side.
        wave(&mut books, other, 8, |_, _| {});
    }
    // It holds all that its profile promises, at other pages than usual and in regions that it has
    // had elsewhere: those of its usual pages are free.
    books.give_for_good(job, Zone::Persistent, &[0, 1, 2, 3, 4, 5, 6, 7]);
    books.start(job);
    books.lease(job, ARENA, &[8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(ahead(&mut books, job, 15), []);
    books.give(job, ARENA, &[15]);
    assert_eq!(ahead(&mut books, job, 15), [0]);
    books.give_for_good(job, ARENA, &[0, 8, 9, 10, 11, 12, 13, 14]);
    books.end(job);
    // Somebody waits for more than there is.
    books.start(job);
    books.lease(job, ARENA, &[0]);
    books.start(other);
    let all: Vec<u64> = (0..40).collect();
    assert!(books.is_denied(other, ARENA, &all));
    assert_eq!(ahead(&mut books, job, 0), []);
    // It is content with less.
    books.lease(other, ARENA, &[0]);
    books.give_for_good(other, ARENA, &[0]);
    books.end(other);
    assert_ne!(ahead(&mut books, job, 0), []);
    // One that runs no iteration gets none.
    books.give_for_good(job, ARENA, &[0]);
    books.end(job);
    assert_eq!(ahead(&mut books, job, 0), []);
}

#[test]
fn a_job_of_many_regions_gets_more_of_them_ahead() {
    for (pages, most) in [(256, 4), (1024, 16)] {
        let mut books = Books::new(1100);
        let job = books.join("a");
        for _ in 0..4 {
            wave(&mut books, job, pages, |_, _| {});
        }
        let mut got = Vec::new();
        wave(&mut books, job, pages, |books, page| {
            if page == pages / 4 {
                got = ahead(books, job, page);
            }
        });
        assert_eq!(got.len(), most, "of {pages}");
    }
}
