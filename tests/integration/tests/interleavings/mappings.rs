//! Mappings that change while another thread leases, frees or leaves.

use std::sync::{Arc, Mutex};

use zico_core::{Begin, Bytes, HandOver, Request};
use zico_mock::Operation;
use zico_tests::hook::When;
use zico_tests::waves::REGION;

use super::{Setup, blocks};

#[test]
fn trim_does_not_unmap_a_page_that_is_leased_meanwhile() {
    let setup = Setup::new(2, |config| config);
    let (job, stream) = setup.join("job");
    job.free(job.alloc(blocks(1)).unwrap()).unwrap();
    setup.pool.poll().unwrap();
    let (other, block) = (job.clone(), Arc::new(Mutex::new(None)));
    let slot = block.clone();
    setup.hook.on(Operation::Unmap, When::Before, move || {
        *slot.lock().unwrap() = other.alloc(blocks(1)).ok();
        false
    });
    setup.pool.trim(Bytes::ZERO).unwrap();
    let early = block.lock().unwrap().take();
    let block = early.unwrap_or_else(|| job.alloc(blocks(1)).unwrap());
    assert!(setup.reaches(stream, block), "a live block has lost its memory");
}

#[test]
fn an_isolated_lease_does_not_unmap_what_its_last_owner_leases_meanwhile() {
    let setup = Setup::new(2, |config| config.hand_over(HandOver::Isolated));
    let ((one, stream), (two, _)) = (setup.join("one"), setup.join("two"));
    one.free(one.alloc(blocks(1)).unwrap()).unwrap();
    setup.pool.poll().unwrap();
    let (other, block) = (one.clone(), Arc::new(Mutex::new(None)));
    let slot = block.clone();
    setup.hook.on(Operation::Unmap, When::Before, move || {
        *slot.lock().unwrap() = other.alloc(blocks(1)).ok();
        false
    });
    two.alloc(blocks(1)).unwrap();
    let early = block.lock().unwrap().take();
    let block = early.unwrap_or_else(|| one.alloc(blocks(1)).unwrap());
    assert!(setup.reaches(stream, block), "a live block has lost its memory");
}

#[test]
fn a_job_may_leave_while_its_page_is_unmapped() {
    let setup = Setup::new(2, |config| config);
    let (job, _) = setup.join("job");
    job.free(job.alloc(blocks(1)).unwrap()).unwrap();
    setup.pool.poll().unwrap();
    setup.hook.on(Operation::Unmap, When::After, move || {
        drop(job);
        false
    });
    setup.pool.trim(Bytes::ZERO).unwrap();
    setup.pool.poll().unwrap();
    assert_eq!(setup.device.usage().mappings, 0);
    assert_eq!(setup.device.usage().ranges, 0);
}

#[test]
fn mappings_of_a_job_that_has_left_are_no_way_in_and_in_nobodys_way() {
    let setup = Setup::new(1, |config| config.hand_over(HandOver::Isolated));
    let ((one, stream), (two, _)) = (setup.join("one"), setup.join("two"));
    let stale = one.alloc(blocks(1)).unwrap();
    one.free(stale).unwrap();
    setup.pool.poll().unwrap();
    drop(one);
    two.alloc(blocks(1)).unwrap();
    assert!(!setup.reaches(stream, stale), "by the address of the job that left");
}

#[test]
fn a_lifetime_is_decided_once_for_an_allocation() {
    let setup = Setup::new(4, |config| config);
    let (job, _) = setup.join("job");
    let other = job.clone();
    setup.hook.on(Operation::Map, When::Before, move || {
        assert_eq!(other.begin(None).unwrap(), Begin::Started);
        false
    });
    let block = job.alloc(Request::learned(REGION)).unwrap();
    job.free(block).unwrap();
    job.end().unwrap();
    setup.pool.poll().unwrap();
    assert_eq!(job.held().total(), Bytes::ZERO);
}

#[test]
fn one_failed_call_does_not_keep_a_dropped_pools_memory() {
    let setup = Setup::new(4, |config| config);
    let ((one, _), (two, _)) = (setup.join("one"), setup.join("two"));
    one.alloc(blocks(1)).unwrap();
    two.alloc(blocks(3)).unwrap();
    drop((one, two));
    setup.hook.on(Operation::Query, When::Before, || true);
    drop(setup.pool);
    assert_eq!(setup.device.usage().physical, Bytes::ZERO);
}
