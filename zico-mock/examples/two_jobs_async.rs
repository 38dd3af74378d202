//! Two jobs as tasks of one thread, on an executor of a few lines that needs no std.
//!
//! `begin_async` and `alloc_async` are plain futures: no executor is assumed, no timer and no
//! thread. What an executor has to do beside polling them is to look at the device when all tasks
//! sleep, since a device passes fences without telling anybody: that is [`Pool::poll`].

use std::cell::RefCell;
use std::error::Error;
use std::future::poll_fn;
use std::task::{Context, Poll};

use zico_core::{Bytes, Device, Job, Lifetime, Pool, PoolConfig, Request, Ticks};
use zico_mock::{MockConfig, MockDevice, MockStream, Utilisation};

const BUDGET: Bytes = Bytes::mib(640);

/// The executor: nothing in it is std's, so it runs where the core does.
mod executor {
    extern crate alloc;

    use alloc::boxed::Box;
    use alloc::sync::Arc;
    use alloc::task::Wake;
    use alloc::vec::Vec;
    use core::future::Future;
    use core::pin::Pin;
    use core::sync::atomic::{AtomicBool, Ordering};
    use core::task::{Context, Waker};

    /// A task that has been woken is polled again.
    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Release);
        }
    }

    type Task<'t> = Pin<Box<dyn Future<Output = ()> + 't>>;

    /// Runs tasks until all are done. When all of them sleep, `idle` has to advance the device, and
    /// all are looked at again: they may wait for the device rather than for the pool.
    pub(crate) fn run<'t>(tasks: impl IntoIterator<Item = Task<'t>>, mut idle: impl FnMut()) {
        let awake = |task| (task, Arc::new(Flag(AtomicBool::new(true))));
        let mut tasks: Vec<_> = tasks.into_iter().map(awake).collect();
        while !tasks.is_empty() {
            let mut polled = false;
            tasks.retain_mut(|(task, flag)| {
                if !flag.0.swap(false, Ordering::AcqRel) {
                    return true;
                }
                polled = true;
                let waker = Waker::from(flag.clone());
                task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
            });
            if !polled {
                idle();
                tasks.iter().for_each(|(_, flag)| flag.0.store(true, Ordering::Release));
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = MockDevice::new(MockConfig::new(Bytes::gib(1)).budget(BUDGET))?;
    let pool = Pool::new(device.clone(), PoolConfig::new(BUDGET))?;
    let peaks: RefCell<Vec<Result<Bytes, Box<dyn Error>>>> = RefCell::default();

    let tasks = ["resnet", "bert"].map(|name| {
        let task = async {
            let peak = train(&device, &pool, name).await;
            peaks.borrow_mut().push(peak);
        };
        Box::pin(task) as _
    });
    executor::run(tasks, || {
        // All wait for the device: let it finish something, and look.
        device.advance_to(device.next_completion().unwrap_or(device.now()));
        if let Err(error) = pool.poll() {
            eprintln!("the device refused, and is asked again: {error}");
        }
    });

    let sum: Result<Vec<Bytes>, _> = peaks.into_inner().into_iter().collect();
    let sum = sum?.into_iter().fold(Bytes::ZERO, Bytes::saturating_add);
    println!("{}", pool.snapshot());
    println!("{} of virtual time; the sum of the peaks is {sum} in {BUDGET}", device.now());
    assert!(sum > BUDGET, "nothing was shared");
    assert_eq!(device.violations(), [], "the oracle has something to say");
    Ok(())
}

async fn train(
    device: &MockDevice,
    pool: &Pool<MockDevice>,
    name: &str,
) -> Result<Bytes, Box<dyn Error>> {
    let stream = device.add_stream();
    let job = pool.join(name, stream)?;
    for _ in 0..20 {
        job.begin_async(None).await?;
        iteration(device, stream, &job).await?;
        job.end()?;
    }
    Ok(job.held().peak)
}

async fn iteration(
    device: &MockDevice,
    stream: MockStream,
    job: &Job<MockDevice>,
) -> Result<(), Box<dyn Error>> {
    let mut activations = Vec::new();
    for _ in 0..8 {
        let request = Request::new(Bytes::mib(48), Lifetime::Iteration);
        activations.push(job.alloc_async(request).await?);
        device.launch(stream, Ticks::micros(200), Utilisation::FULL)?;
        run_ahead(device, stream).await;
    }
    while let Some(activation) = activations.pop() {
        device.launch(stream, Ticks::micros(400), Utilisation::FULL)?;
        job.free(activation)?;
        run_ahead(device, stream).await;
    }
    Ok(())
}

/// The host runs ahead of the device by four launches, as runtimes bound it too.
async fn run_ahead(device: &MockDevice, stream: MockStream) {
    let is_through = |_: &mut Context<'_>| match device.outstanding(stream) {
        0..4 => Poll::Ready(()),
        _ => Poll::Pending,
    };
    poll_fn(is_through).await;
}
