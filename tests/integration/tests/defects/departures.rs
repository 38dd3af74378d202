//! Jobs that leave, or are evicted, while other threads are in a call (R4, D1).

use zico_core::{AllocError, Begin, BeginError, Bytes, FreeError, Ticks};
use zico_mock::{Operation, Utilisation};
use zico_tests::hook::When;
use zico_tests::waves::REGION;

use super::{Hooked, Setup, own};

/// R4: a job whose thread has died in an iteration is evicted from outside.
#[test]
fn a_job_is_ended_from_outside() {
    let setup = Setup::new(8);
    let (dead, b) = (setup.join("dead"), setup.join("b"));
    assert_eq!(dead.begin(None), Ok(Begin::Started));
    let block = dead.alloc(own(5)).unwrap();
    assert_eq!(b.begin(None), Ok(Begin::Wait(None)));
    let waits = setup.pool.waits();
    assert_eq!(waits[0].to_string(), "b waits to start an iteration: dead (Running) holds 10 MiB");
    let generation = setup.pool.generation();
    let left = setup.pool.evict(waits[0].blockers[0].id).unwrap();
    assert_eq!((&*left.job, left.blocks.len()), ("dead", 1));
    assert_ne!(setup.pool.generation(), generation);
    assert_eq!(setup.pool.evict(dead.id()), None, "once");
    setup.settle();
    assert_eq!(b.begin(None), Ok(Begin::Started));
    b.alloc(own(8)).unwrap();
    // The handle of the one that was made to leave is of no use, and does no harm.
    assert_eq!(dead.free(block), Err(FreeError::NotLive(block.address())));
    assert_eq!(dead.begin(None), Err(BeginError::Left));
    assert!(matches!(dead.alloc(own(1)), Err(AllocError::Left)));
    assert!(dead.end().is_err() && dead.held().total().is_zero());
    drop(dead);
    assert_eq!(setup.pool.snapshot().jobs.len(), 1);
}

/// D1: a job that leaves while another thread looks at its parked blocks waits for the streams that
/// use them.
#[test]
fn a_job_that_leaves_while_another_thread_polls_waits_for_its_other_streams() {
    for operation in [Operation::Query, Operation::OrderAfter] {
        Hooked::new(4).leave_at(operation, |job, _| drop(job));
        Hooked::new(4).leave_at(operation, |job, pool| {
            pool.evict(job.id()).unwrap();
        });
    }
}

/// D1: the same between a free and the moment at which the block is parked.
#[test]
fn a_job_that_is_made_to_leave_within_a_free_waits_for_its_other_streams() {
    let setup = Hooked::new(4);
    let (a, _) = setup.join("a");
    let side = setup.device.add_stream();
    let block = a.alloc(own(1)).unwrap();
    a.record_use(block, side).unwrap();
    setup.device.launch(side, Ticks::millis(5), Utilisation::FULL).unwrap();
    let (pool, id) = (setup.pool.clone(), a.id());
    setup.hook.on(Operation::Record, When::Before, move || {
        pool.evict(id).unwrap();
        true
    });
    a.free(block).unwrap();
    setup.pool.poll().unwrap();
    assert_eq!(setup.pool.snapshot().free, Bytes::ZERO, "the other stream still uses it");
    setup.device.run_until_idle();
    setup.pool.poll().unwrap();
    assert_eq!(setup.pool.snapshot().free, REGION);
}

/// A job that is made to leave in the middle of a lease: what it gets goes with the rest.
#[test]
fn a_job_that_is_made_to_leave_within_a_lease_gives_that_back_as_well() {
    for operation in [Operation::Create, Operation::Map] {
        let setup = Hooked::new(4);
        let (a, _) = setup.join("a");
        a.alloc(own(1)).unwrap();
        let (pool, id) = (setup.pool.clone(), a.id());
        setup.hook.on(operation, When::Before, move || {
            pool.evict(id).unwrap();
            false
        });
        assert!(matches!(a.alloc(own(2)), Err(AllocError::Left)));
        setup.device.run_until_idle();
        setup.pool.poll().unwrap();
        let snapshot = setup.pool.snapshot();
        assert!(snapshot.jobs.is_empty() && snapshot.free == snapshot.held, "{snapshot}");
        assert_eq!((setup.device.usage().mappings, setup.device.violation_count()), (0, 0));
    }
}
