//! CUDA devices under test: on a GPU (`tests/gpu/run`) and on the driver in software.

mod bench;
pub mod patterns;

pub use bench::CudaBench;
