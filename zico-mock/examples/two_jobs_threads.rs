//! Two jobs on threads of their own, in less memory than the two would take one beside the other.
//!
//! Each thread blocks where it has to wait: for the start of an iteration, where the waves would
//! not fit together, and for memory that the other job has yet to give up. The mock's virtual time
//! is driven by a third thread, as a real device would run by itself.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use zico_core::{Bytes, Device, Job, Lifetime, Pool, PoolConfig, Request, Ticks};
use zico_mock::{MockConfig, MockDevice, MockStream, Utilisation};

type AnyError = Box<dyn Error + Send + Sync>;

const BUDGET: Bytes = Bytes::mib(640);
const LAYERS: u64 = 8;
const ITERATIONS: u64 = 20;
/// How often a thread that waits looks at what the device has passed.
const LOOK: Duration = Duration::from_micros(200);

fn main() -> Result<(), AnyError> {
    // The mock's oracle is to report it if the pool ever holds more than the budget.
    let device = MockDevice::new(MockConfig::new(Bytes::gib(1)).budget(BUDGET))?;
    let pool = Pool::new(device.clone(), PoolConfig::new(BUDGET))?;
    let done = AtomicBool::new(false);

    let peaks = thread::scope(|scope| {
        scope.spawn(|| run_device(&device, &done));
        let jobs = ["resnet", "bert"].map(|name| {
            let (pool, device) = (&pool, &device);
            scope.spawn(move || -> Result<Bytes, AnyError> {
                let stream = device.add_stream();
                let job = pool.join(name, stream)?;
                train(device, stream, &job)?;
                Ok(job.held().peak)
            })
        });
        let peaks = jobs.map(|job| job.join().unwrap_or_else(|_| Err("a job panicked".into())));
        done.store(true, Ordering::Release);
        peaks
    });

    let mut sum = Bytes::ZERO;
    for peak in peaks {
        sum = sum.saturating_add(peak?);
    }
    println!("{}", pool.snapshot());
    println!("the sum of the peaks is {sum}, in a budget of {BUDGET}");
    assert!(sum > BUDGET, "nothing was shared");
    assert_eq!(device.violations(), [], "the oracle has something to say");
    Ok(())
}

/// Up through the forward pass, down through the backward pass, once per iteration.
fn train(device: &MockDevice, stream: MockStream, job: &Job<MockDevice>) -> Result<(), AnyError> {
    // `alloc` may be refused for now here as well: while the other job's first iteration runs
    // nobody knows what it will come to take.
    let request = Request::new(Bytes::mib(32), Lifetime::Persistent);
    let weights = job.alloc_blocking(request, LOOK)?;
    for _ in 0..ITERATIONS {
        job.begin_blocking(None, LOOK)?;
        let mut activations = Vec::new();
        for _ in 0..LAYERS {
            let request = Request::new(Bytes::mib(48), Lifetime::Iteration);
            activations.push(job.alloc_blocking(request, LOOK)?);
            device.launch(stream, Ticks::micros(200), Utilisation::FULL)?;
            run_ahead(device, stream);
        }
        while let Some(activation) = activations.pop() {
            device.launch(stream, Ticks::micros(400), Utilisation::FULL)?;
            job.free(activation)?;
            run_ahead(device, stream);
        }
        job.end()?;
    }
    job.free(weights)?;
    Ok(())
}

/// The host runs ahead of the device by four launches, as runtimes bound it too.
fn run_ahead(device: &MockDevice, stream: MockStream) {
    while device.outstanding(stream) >= 4 {
        thread::sleep(LOOK);
    }
}

/// Lets virtual time pass until all is done.
fn run_device(device: &MockDevice, done: &AtomicBool) {
    while !done.load(Ordering::Acquire) {
        let now = device.now();
        device.advance_to(now.saturating_add(Ticks::micros(500)));
        thread::sleep(Duration::from_micros(50));
    }
}
