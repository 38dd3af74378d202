//! Trains two small networks on one GPU. Streams are `cudarc`'s, memory is zico's.
//!
//! Each job learns `|a| + b - c` from noise with one hidden layer: a forward pass that fills
//! memory, a backward pass that empties it. Tensors are `cudarc` slices over blocks of zico, so
//! launches and copies are `cudarc`'s own. Without a CUDA driver the example says so and ends.
//!
//! `cargo run --release -p zico-cuda --example cudarc_training`

mod network;

use std::error::Error;
use std::sync::Arc;
use std::thread;

use cudarc::driver::CudaContext;
use network::{Kernels, Network, Trained};
use zico_core::{Bytes, Pool, PoolConfig};
use zico_cuda::{CudaDevice, Options, discover};

pub(crate) type AnyError = Box<dyn Error + Send + Sync>;

/// Less than the sum of the two peaks.
const BUDGET: Bytes = Bytes::mib(16);
const ITERATIONS: u32 = 30;

fn main() -> Result<(), AnyError> {
    if let Some(trouble) = discover().trouble {
        println!("nothing to train on here: {trouble}");
        return Ok(());
    }
    let context = CudaContext::new(0)?;
    let kernels = Kernels::load(&context)?;
    let device = CudaDevice::with_context(context.clone(), Options::new())?;
    let pool = Pool::new(device, PoolConfig::new(BUDGET))?;

    let jobs = [("wide", 256), ("narrow", 224)];
    let trained = thread::scope(|scope| {
        let threads = jobs.map(|(name, hidden)| {
            let (context, pool, kernels) = (&context, &pool, &kernels);
            scope.spawn(move || train(context, pool, kernels, name, hidden))
        });
        threads.map(|thread| thread.join().unwrap_or_else(|_| Err("a job panicked".into())))
    });

    let mut sum = Bytes::ZERO;
    for ((name, _), trained) in jobs.into_iter().zip(trained) {
        let Trained { first_loss, last_loss, peak } = trained?;
        println!("{name}: loss {first_loss:.3} -> {last_loss:.3}, held {peak} at most");
        if last_loss.is_nan() || last_loss >= first_loss / 2.0 {
            return Err(format!("{name} has not learned").into());
        }
        sum = sum.saturating_add(peak);
    }
    println!("the sum of the peaks is {sum}, in a budget of {BUDGET}\n\n{}", pool.snapshot());
    Ok(())
}

/// One job: its stream, its place in the pool, its iterations.
fn train(
    context: &Arc<CudaContext>,
    pool: &Pool<CudaDevice>,
    kernels: &Kernels,
    name: &str,
    hidden: u32,
) -> Result<Trained, AnyError> {
    let stream = context.new_stream()?;
    let job = pool.join(name, pool.device().adopt_stream(stream.clone())?)?;
    let mut network = Network::new(&job, &stream, kernels, hidden)?;
    let mut losses = Vec::new();
    for iteration in 0..ITERATIONS {
        losses.push(network.iteration(iteration)?);
    }
    network.end()?;
    let (first_loss, last_loss) = (losses[0], losses[losses.len() - 1]);
    Ok(Trained { first_loss, last_loss, peak: job.held().peak })
}
