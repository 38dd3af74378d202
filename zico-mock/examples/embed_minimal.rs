//! One job, from the device to the end of its last iteration.

use std::{error::Error, time::Duration};

use zico_core::{Bytes, Lifetime, Pool, PoolConfig, Request, Ticks};
use zico_mock::{MockConfig, MockDevice, Utilisation};

fn main() -> Result<(), Box<dyn Error>> {
    let device = MockDevice::new(MockConfig::new(Bytes::gib(1)))?;
    let pool = Pool::new(device.clone(), PoolConfig::new(Bytes::mib(256)))?;
    let stream = device.add_stream();
    let job = pool.join("training", stream)?;
    let weights = job.alloc(Request::new(Bytes::mib(64), Lifetime::Persistent))?;
    for _ in 0..10 {
        job.begin_blocking(None, Duration::from_millis(1))?; // with other jobs about, waits for its turn
        let activations = job.alloc(Request::new(Bytes::mib(128), Lifetime::Iteration))?;
        device.launch(stream, Ticks::millis(5), Utilisation::FULL)?; // kernels get the addresses
        assert_ne!(weights.address(), activations.address());
        job.free(activations)?; // at once: other jobs get it only when the device is through
        job.end()?;
    }
    println!("{}", pool.snapshot());
    job.free(weights)?;
    Ok(())
}
