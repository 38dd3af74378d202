//! A job's own peak, its floor, and persistent growth (D14).

use zico_core::{Begin, JobConfig};
use zico_tests::waves::regions;

use super::{Setup, out_of_memory, stays};

/// D14: a job whose persistent memory outgrows the room for its own peak is refused that growth,
/// and does not block others.
#[test]
fn a_job_cannot_outgrow_its_own_peak() {
    let setup = Setup::new(8);
    let (x, f) = (setup.join("x"), setup.join("f"));
    setup.learn(&x, 5, 2);
    let text = out_of_memory(x.alloc(stays(4)));
    assert!(text.contains("larger by 2 MiB"), "{text}");
    x.alloc(stays(3)).unwrap();
    assert_eq!(x.begin(None), Ok(Begin::Started), "its own peak still fits");
    x.end().unwrap();
    out_of_memory(f.alloc(stays(1)));
}

/// D14: a peak that never fitted is no reason to refuse others.
#[test]
fn a_peak_that_does_not_fit_any_more_shuts_nobody_out() {
    let setup = Setup::new(8);
    let (x, f) = (setup.join("x"), setup.join("f"));
    setup.learn(&x, 5, 2);
    x.alloc(stays(1)).unwrap();
    setup.pool.set_budget(regions(4)).unwrap();
    setup.settle();
    f.alloc(stays(1)).unwrap();
}

/// D14: what is reserved for a job is there for it.
#[test]
fn within_its_floor_a_job_is_never_refused() {
    let setup = Setup::new(8);
    let x = setup.join("x");
    setup.learn(&x, 5, 2);
    let f = setup.join(JobConfig::new("f").floor(regions(3)));
    out_of_memory(x.alloc(stays(1)));
    for _ in 0..3 {
        f.alloc(stays(1)).unwrap();
    }
    setup.pool.set_budget(regions(6)).unwrap();
    setup.settle();
    f.free(f.alloc(stays(0)).unwrap()).unwrap();
}

/// The same where that leaves no room for its own iterations: what is reserved is its own to use.
#[test]
fn within_its_floor_a_job_may_outgrow_its_own_peak() {
    let setup = Setup::new(8);
    let f = setup.join(JobConfig::new("f").floor(regions(3)));
    setup.learn(&f, 8, 2);
    f.alloc(stays(3)).unwrap();
}
