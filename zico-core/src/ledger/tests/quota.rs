//! Floors and caps.

use super::*;

#[test]
fn a_floor_is_there_for_its_job_alone() {
    let mut books = Books::new(8);
    let one = books.try_join(JobConfig::new("a").floor(Bytes::mib(3))).unwrap();
    let two = books.join("b");
    books.lease(two, Zone::Iteration, &[0, 1, 2, 3, 4]);
    assert!(books.ask(two, Zone::Iteration, &[5]).is_err());
    books.lease(one, Zone::Persistent, &[0, 1, 2]);
    assert_eq!(books.state().0, 0);
}

#[test]
fn a_floor_is_there_whatever_of_others_drains() {
    let mut books = Books::new(8);
    let one = books.try_join(JobConfig::new("a").floor(Bytes::mib(3))).unwrap();
    let (two, three) = (books.join("b"), books.join("c"));
    books.lease(two, Zone::Iteration, &[0, 1, 2, 3, 4]);
    books.give(two, Zone::Iteration, &[0, 1, 2, 3, 4]);
    assert!(books.is_denied(three, Zone::Iteration, &[0]));
    assert_eq!(books.lease(one, Zone::Persistent, &[0, 1, 2]), (0, 3, 3));
}

#[test]
fn a_floor_has_to_fit_beside_what_others_need() {
    let floor = |mib| JobConfig::new("b").floor(Bytes::mib(mib));
    let mut books = Books::new(8);
    let one = books.join("a");
    assert!(books.try_join(floor(9)).is_none());
    books.lease(one, Zone::Persistent, &[0]);
    books.iterate(one, 4);
    assert!(books.try_join(floor(4)).is_none(), "1 persists and 4 are its peak");
    assert!(books.try_join(floor(3)).is_some());
}

#[test]
fn a_cap_is_the_most_that_a_job_holds_draining_included() {
    let mut books = Books::new(8);
    let job = books.try_join(JobConfig::new("a").cap(Bytes::mib(3))).unwrap();
    books.lease(job, Zone::Iteration, &[0, 1, 2]);
    let refused = books.ask(job, Zone::Iteration, &[3]);
    assert!(matches!(refused, Err(Denied::BeyondCap(_, cap)) if cap == Bytes::mib(3)));
    books.give(job, Zone::Iteration, &[0, 1, 2]);
    // At other pages it may have what drains, and no more.
    assert_eq!(books.lease(job, Zone::Iteration, &[7]), (0, 0, 1));
    assert_eq!(books.state(), (5, 1, 2));
}

#[test]
fn an_iteration_beyond_its_cap_is_refused() {
    let mut books = Books::new(8);
    let config = JobConfig::new("a").cap(Bytes::mib(3)).declare(Bytes::mib(4));
    let job = books.try_join(config).unwrap();
    assert!(matches!(books.begin(job), Err(BeginError::BeyondCap { .. })));
}
