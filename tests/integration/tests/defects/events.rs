//! Events that the device refuses, and streams that are remembered (D2, D6).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use zico_core::{AllocError, Begin};
use zico_mock::{MockStream, Operation};
use zico_tests::hook::{Hook, HookError};

use super::{Hooked, LOOK, Setup, own};

/// D2: another job's stream takes no event for a while. That does not end other jobs' waits.
#[test]
fn another_jobs_stream_that_takes_no_event_is_waited_out() {
    let setup = Hooked::new(4);
    let ((a, _), (b, stream)) = (setup.join("a"), setup.join("b"));
    assert_eq!(b.begin(None), Ok(Begin::Started));
    b.free(b.alloc(own(3)).unwrap()).unwrap();
    let captured = Arc::new(AtomicBool::new(true));
    // Each try to record on the stream of `b` fails until the capture is over.
    fn refuse(hook: &Hook, stream: MockStream, captured: &Arc<AtomicBool>) {
        let (next, still) = (hook.clone(), captured.clone());
        hook.on_stream(stream, move || {
            let fails = still.load(Ordering::SeqCst);
            if fails {
                refuse(&next, stream, &still);
            }
            fails
        });
    }
    refuse(&setup.hook, stream, &captured);
    b.end().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| a.alloc_blocking(own(3), LOOK));
        thread::sleep(Duration::from_millis(30));
        let (finished, polled) = (waiting.is_finished(), setup.pool.poll().is_ok());
        captured.store(false, Ordering::SeqCst);
        waiting.join().unwrap().unwrap();
        assert!(!finished && polled, "that is not its business, nor that of whoever polls");
    });
}

/// D2: what the device refuses of the job's own stream does end its wait.
#[test]
fn a_jobs_own_stream_that_takes_no_event_ends_its_wait() {
    let setup = Hooked::new(4);
    let ((a, stream), (b, _)) = (setup.join("a"), setup.join("b"));
    b.alloc(own(2)).unwrap();
    a.free(a.alloc(own(2)).unwrap()).unwrap();
    fn refuse(hook: &Hook, stream: MockStream) {
        let next = hook.clone();
        hook.on_stream(stream, move || {
            refuse(&next, stream);
            true
        });
    }
    refuse(&setup.hook, stream);
    let result = a.alloc_blocking(own(3), LOOK);
    assert!(matches!(result, Err(AllocError::Device(HookError::Made))), "{result:?}");
}

/// D6: of the streams that have used a job's blocks only the last few are remembered. One that is
/// not is asked for an event again.
#[test]
fn few_streams_are_remembered() {
    let setup = Setup::new(8);
    let job = setup.join("job");
    let block = job.alloc(own(1)).unwrap();
    let streams: Vec<MockStream> = (0..65).map(|_| setup.device.add_stream()).collect();
    let events = |stream| {
        let before = setup.device.calls().of(Operation::Record);
        job.record_use(block, stream).unwrap();
        setup.device.calls().of(Operation::Record) - before
    };
    assert!(streams.iter().all(|&stream| events(stream) == 1), "each is new");
    assert_eq!(events(streams[64]), 0, "known");
    assert_eq!(events(streams[1]), 0, "the 64th but last");
    assert_eq!(events(streams[0]), 1, "forgotten");
}

/// Regions that come and go while no event can be recorded are tried again in batches, not one by
/// one: the batch that stays open does not grow.
#[test]
fn a_batch_does_not_grow_with_each_event_that_is_refused() {
    let setup = Hooked::new(4);
    let (job, stream) = setup.join("job");
    let tries = Arc::new(AtomicU32::new(0));
    fn refuse(hook: &Hook, stream: MockStream, tries: &Arc<AtomicU32>) {
        let (next, count) = (hook.clone(), tries.clone());
        hook.on_stream(stream, move || {
            count.fetch_add(1, Ordering::SeqCst);
            refuse(&next, stream, &count);
            true
        });
    }
    refuse(&setup.hook, stream, &tries);
    assert_eq!(job.begin(None), Ok(Begin::Started));
    for _ in 0..300 {
        job.free(job.alloc(own(1)).unwrap()).unwrap();
    }
    // Four regions of 2 MiB are a batch.
    let tries = tries.load(Ordering::SeqCst);
    assert!((50..=101).contains(&tries), "{tries}");
}
