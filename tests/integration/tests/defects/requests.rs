//! Single requests: absurd sizes, the text of errors, pages that are leased in vain (D7 to D9).

use std::sync::{Arc, Mutex};

use zico_core::{AllocError, Begin, Bytes, JobConfig, Lifetime, Pool, PoolConfig, Request};
use zico_mock::{MockConfig, MockDevice, Operation};
use zico_tests::hook::When;
use zico_tests::waves::REGION;

use super::{Hooked, Setup, out_of_memory, own};

/// D7: a request of an absurd size is refused before anything is listed for it.
#[test]
fn absurd_sizes_are_refused() {
    let device = MockConfig::new(Bytes::new(1 << 50)).granularity(Bytes::kib(4));
    let device = MockDevice::new(device).unwrap();
    let pool = Pool::new(device.clone(), PoolConfig::new(Bytes::gib(1))).unwrap();
    let job = pool.join("job", device.add_stream()).unwrap();
    let text = out_of_memory(job.alloc(Request::learned(Bytes::new(1 << 50))));
    assert!(text.contains("asked 1.00 PiB") || text.contains("asked 1 PiB"), "{text}");
    let capped =
        pool.join(JobConfig::new("capped").cap(Bytes::mib(1)), device.add_stream()).unwrap();
    let result = capped.alloc(Request::learned(Bytes::gib(2)));
    assert!(matches!(result, Err(AllocError::BeyondCap { .. })), "{result:?}");
}

/// D8: errors say what is wrong.
#[test]
fn errors_say_what_is_wrong() {
    let setup = Setup::new(8);
    let job = setup.join("job");
    let error = job.alloc(Request::learned(Bytes::MAX)).unwrap_err().to_string();
    assert_eq!(error, "cannot allocate 16.00 EiB: no address space is that large");
    let device = MockDevice::new(MockConfig::new(Bytes::gib(1))).unwrap();
    let refused = |budget: u64| {
        let config = PoolConfig::new(Bytes::new(budget)).region_size(REGION);
        Pool::new(device.clone(), config).err().unwrap().to_string()
    };
    assert_eq!(refused(REGION.value() - 1), "a budget of 2097151 B holds no region of 2 MiB");
    assert_eq!(refused((1 << 30) + 1), "a budget of 1073741825 B is more than the device's 1 GiB");
    let declared = setup.join(JobConfig::new("large").declare(Bytes::MAX));
    let error = declared.begin(None).unwrap_err().to_string();
    assert!(error.starts_with("large needs 16.00 EiB at its peak"), "{error}");
}

/// D9: a page that one thread has leased and that stays empty, since another thread has made room
/// elsewhere meanwhile, goes back.
#[test]
fn a_page_that_is_leased_and_left_empty_goes_back() {
    let setup = Hooked::new(8);
    let (job, _) = setup.join("job");
    let half = Request::new(Bytes::mib(1), Lifetime::Iteration);
    let (a, b, e) =
        (job.alloc(half).unwrap(), job.alloc(half).unwrap(), job.alloc(own(1)).unwrap());
    let other = job.clone();
    setup.hook.on(Operation::Create, When::Before, move || {
        other.free(e).unwrap();
        other.free(a).unwrap();
        false
    });
    let last = job.alloc(half).unwrap();
    assert_eq!(job.held().iteration, REGION, "one page is enough for both halves");
    job.free(b).unwrap();
    job.free(last).unwrap();
    setup.device.run_until_idle();
    setup.pool.poll().unwrap();
    assert_eq!((job.held().total(), job.live_blocks().blocks.len()), (Bytes::ZERO, 0));
}

/// D9: the same where the place was taken meanwhile and there is no more.
#[test]
fn a_page_that_is_leased_in_vain_goes_back() {
    let setup = Hooked::new(3);
    let (job, _) = setup.join("job");
    let part = |mib| Request::new(Bytes::mib(mib), Lifetime::Iteration);
    let small = Request::new(Bytes::kib(1536), Lifetime::Iteration);
    // Half a page is free at the end of the first, where three halves more would begin.
    let first = job.alloc(part(1)).unwrap();
    let (other, taken) = (job.clone(), Arc::new(Mutex::new(None)));
    let slot = taken.clone();
    setup.hook.on(Operation::Create, When::Before, move || {
        *slot.lock().unwrap() = other.alloc(Request::new(Bytes::mib(1), Lifetime::Iteration)).ok();
        false
    });
    let large = job.alloc(part(5));
    let held = job.held().iteration;
    let live: Bytes = job
        .live_blocks()
        .blocks
        .iter()
        .fold(Bytes::ZERO, |sum, block| sum.saturating_add(block.bytes));
    assert!(held.value() < live.value() + REGION.value(), "{held} for {live}: {large:?}");
    let _ = (first, small);
}

/// An iteration begins while another thread of the job leases for a block: where that goes has been
/// decided before, so the plan of the iteration does not foresee it.
#[test]
fn an_allocation_under_way_when_a_planned_iteration_begins_is_none_of_its_plan() {
    let setup = Hooked::new(16);
    let (job, _) = setup.join("job");
    let iteration = || {
        let blocks = [2, 3].map(|count| job.alloc(own(count)).unwrap());
        blocks.into_iter().for_each(|block| job.free(block).unwrap());
    };
    for _ in 0..3 {
        assert_eq!(job.begin(None), Ok(Begin::Started));
        iteration();
        job.end().unwrap();
        setup.device.run_until_idle();
        setup.pool.poll().unwrap();
    }
    assert_eq!(job.snapshot().planning.plans, 1);
    let other = job.clone();
    setup.hook.on(Operation::Create, When::Before, move || {
        assert_eq!(other.begin(None), Ok(Begin::Started));
        false
    });
    let block = job.alloc(own(7)).unwrap();
    iteration();
    job.end().unwrap();
    assert_eq!(job.live_blocks().blocks.len(), 1);
    job.free(block).unwrap();
}
