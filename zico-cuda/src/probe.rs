//! Test kernels: they keep a stream busy, and write and check patterns in memory.
//!
//! Tests and measurements need work with a known effect: three kernels in PTX, which the driver
//! compiles for the device when they are loaded.

use std::ffi::{CStr, c_void};

use zico_core::{Addr, Bytes, Device, Ticks};

use crate::abi::Opaque;
use crate::device::{CudaDevice, CudaMemory, CudaRange};
use crate::error::CudaError;
use crate::retry::retry_once;
use crate::streams::StreamId;

const IMAGE: &str = concat!(include_str!("probe.ptx"), "\0");
/// The bytes of a word.
const WORD: u64 = 4;
/// Threads in a block, and blocks at most.
const THREADS: u32 = 256;
const BLOCKS: u32 = 1024;

/// Which words of a block of memory a pattern covers, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Where it begins: a multiple of 4.
    pub addr: Addr,
    /// How many bytes it covers.
    pub len: Bytes,
    /// From one word to the next: a multiple of 4. With 4 every word is written, with 512 one in
    /// each 512 bytes.
    pub stride: u32,
    /// Patterns of two seeds differ in every word.
    pub seed: u32,
}

impl Pattern {
    fn words(&self) -> u64 {
        self.len.value().saturating_sub(WORD).checked_div(self.stride.into()).map_or(0, |n| n + 1)
    }

    fn is_valid(&self) -> bool {
        let whole = |number: u64| number.is_multiple_of(WORD);
        self.stride > 0
            && self.len.value() >= WORD
            && whole(self.stride.into())
            && whole(self.addr.value())
    }
}

/// The kernels, loaded on a device.
pub struct Probe {
    device: CudaDevice,
    module: Opaque,
    spin: Opaque,
    fill: Opaque,
    check: Opaque,
    /// Device memory for the kernels' counter.
    counter: Option<Counter>,
}

/// A word of device memory.
struct Counter {
    address: u64,
    range: CudaRange,
    memory: CudaMemory,
}

impl Probe {
    /// Loads the kernels, and maps a unit of memory for what they count.
    ///
    /// # Errors
    /// If the driver cannot compile them or refuses anything else.
    pub fn load(device: &CudaDevice) -> Result<Self, CudaError> {
        let entered = device.enter()?;
        let driver = device.inner.context.driver;
        let mut module = Opaque::default();
        // SAFETY: the image is PTX text with a zero at its end; the context is current.
        unsafe { driver.module_load(&raw mut module, IMAGE.as_ptr().cast()) }?;
        let function = |name: &CStr| {
            let mut function = Opaque::default();
            // SAFETY: the module is live, the name a string with a zero at its end.
            unsafe { driver.module_function(&raw mut function, module, name.as_ptr()) }?;
            Ok(function)
        };
        let functions =
            || Ok((function(c"zico_spin")?, function(c"zico_fill")?, function(c"zico_check")?));
        let loaded = functions().and_then(|functions| Ok((functions, Counter::new(device)?)));
        drop(entered);
        match loaded {
            Ok(((spin, fill, check), counter)) => {
                let counter = Some(counter);
                let probe = Self { device: device.clone(), module, spin, fill, check, counter };
                probe.reset()?;
                Ok(probe)
            }
            Err(error) => {
                unload(device, module);
                Err(error)
            }
        }
    }

    /// Keeps a stream busy for a time.
    ///
    /// # Errors
    /// If the stream is none of the device's, or the driver refuses.
    pub fn spin(&self, stream: StreamId, time: Ticks) -> Result<(), CudaError> {
        let mut nanoseconds = time.value();
        self.launch(self.spin, stream, (1, 1), &mut [(&raw mut nanoseconds).cast()])
    }

    /// Writes a pattern.
    ///
    /// # Errors
    /// If not all of it is mapped now, the stream is none of the device's, or the driver refuses.
    /// The caller keeps it mapped until the kernel has finished; otherwise the device reports a
    /// fault and is lost.
    pub fn fill(&self, stream: StreamId, pattern: Pattern) -> Result<(), CudaError> {
        self.touch(self.fill, stream, pattern)
    }

    /// Counts the words that differ from a pattern, for [`mismatches`](Self::mismatches).
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub fn check(&self, stream: StreamId, pattern: Pattern) -> Result<(), CudaError> {
        self.touch(self.check, stream, pattern)
    }

    /// Waits for all work on the device. Returns the number of words that differed from their
    /// patterns since the last call.
    ///
    /// # Errors
    /// If the driver refuses, or work has failed.
    pub fn mismatches(&self) -> Result<u64, CudaError> {
        self.device.synchronize()?;
        let entered = self.device.enter()?;
        let mut count = 0u64;
        let address = self.counter_address();
        let to = (&raw mut count).cast::<c_void>();
        // SAFETY: the pointer is to as many bytes as are copied; the counter is mapped.
        unsafe { self.device.inner.context.driver.copy_to_host(to, address, size_of::<u64>()) }?;
        drop(entered);
        self.reset()?;
        Ok(count)
    }

    fn counter_address(&self) -> u64 {
        self.counter.as_ref().map_or(0, |counter| counter.address)
    }

    fn reset(&self) -> Result<(), CudaError> {
        let entered = self.device.enter()?;
        let address = self.counter_address();
        // SAFETY: the counter is mapped, and has as many words.
        unsafe { self.device.inner.context.driver.set_words(address, 0, 2) }?;
        drop(entered);
        self.device.synchronize()
    }

    fn touch(&self, kernel: Opaque, stream: StreamId, pattern: Pattern) -> Result<(), CudaError> {
        if !pattern.is_valid() {
            let granularity = Bytes::new(WORD);
            return Err(CudaError::BadSize { size: pattern.len, granularity });
        }
        self.device.check_mapped(pattern.addr, pattern.len)?;
        let (mut address, mut words) = (pattern.addr.value(), pattern.words());
        let (mut stride, mut seed) = (u64::from(pattern.stride), pattern.seed);
        let mut count = self.counter_address();
        let blocks = u32::try_from(words.div_ceil(THREADS.into())).unwrap_or(BLOCKS).min(BLOCKS);
        // The kernel that writes has the first four of them.
        let parameters: &mut [*mut c_void] = &mut [
            (&raw mut address).cast(),
            (&raw mut words).cast(),
            (&raw mut stride).cast(),
            (&raw mut seed).cast(),
            (&raw mut count).cast(),
        ];
        self.launch(kernel, stream, (blocks, THREADS), parameters)
    }

    fn launch(
        &self,
        kernel: Opaque,
        stream: StreamId,
        (blocks, threads): (u32, u32),
        parameters: &mut [*mut c_void],
    ) -> Result<(), CudaError> {
        let inner = &self.device.inner;
        let stream = inner.streams.get(stream)?;
        let _entered = self.device.enter()?;
        let parameters = parameters.as_mut_ptr();
        // SAFETY: the kernel is live and of the current context, as the stream is. Each parameter
        // points to a value of the size that the kernel declares, and is copied before the call
        // returns. What the kernel touches is mapped device memory, to which nothing in Rust
        // refers.
        unsafe {
            let extra = std::ptr::null_mut();
            let (driver, raw) = (inner.context.driver, stream.raw());
            driver.launch(kernel, blocks, 1, 1, threads, 1, 1, 0, raw, parameters, extra)
        }
    }
}

impl Drop for Probe {
    /// Waits for the work and releases everything. There is no caller left to report an error to:
    /// what cannot be released now is released with the device.
    fn drop(&mut self) {
        let _ = retry_once(|| self.device.synchronize());
        unload(&self.device, self.module);
        if let Some(Counter { range, memory, .. }) = self.counter.take() {
            let _ = self.device.unmap(&range, Bytes::ZERO, self.device.caps().granularity);
            let _ = self.device.destroy(memory);
            let _ = self.device.release(range);
        }
    }
}

impl Counter {
    fn new(device: &CudaDevice) -> Result<Self, CudaError> {
        let unit = device.caps().granularity;
        let range = device.reserve(unit, unit)?;
        let memory = match device.create(unit) {
            Ok(memory) => memory,
            Err(error) => {
                let _ = device.release(range);
                return Err(error);
            }
        };
        match device.map(&range, Bytes::ZERO, &[&memory]) {
            Ok(()) => Ok(Self { address: device.base(&range).value(), range, memory }),
            Err(error) => {
                let _ = device.destroy(memory);
                let _ = device.release(range);
                Err(error)
            }
        }
    }
}

fn unload(device: &CudaDevice, module: Opaque) {
    if let Ok(_entered) = retry_once(|| device.enter()) {
        // SAFETY: the module is live and its context current; no kernel of it runs. There is no
        // caller left to report an error to.
        let _ = retry_once(|| unsafe { device.inner.context.driver.module_unload(module) });
    }
}
