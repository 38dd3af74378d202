//! Modules and kernels. A module is PTX text, of which only the names of its entries are read; the
//! kernels of these names are done by the host:
//!
//! * `zico_spin(nanoseconds: u64)` takes that long;
//! * `zico_fill(address: u64, words: u64, stride: u64, seed: u32)` writes a pattern;
//! * `zico_check(address, words, stride, seed, count: u64)` adds to the word at `count` how many
//!   words are other than those of the pattern. Word i is `(i * 0x9E3779B1) ^ seed`, modulo 2 to
//!   the 32;
//! * those of an example that trains a network are in `training.rs`.

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::handles::{self, Table};
use crate::training::Training;
use crate::{Done, codes, memory};

static MODULES: Mutex<Table<String>> = Mutex::new(Table::new());
/// The functions, by name, and the modules that they are in.
static FUNCTIONS: Mutex<Table<(usize, String)>> = Mutex::new(Table::new());

/// A kernel with its parameters.
pub(crate) enum Kernel {
    Spin(Duration),
    Fill(Pattern),
    Check(Pattern, u64),
    Train(Training),
}

#[derive(Clone, Copy)]
pub(crate) struct Pattern {
    address: u64,
    words: u64,
    stride: u64,
    seed: u32,
}

/// # Safety
/// The image has to be a string with a zero at its end.
pub(crate) unsafe fn load(image: *const c_char) -> Result<usize, u32> {
    if image.is_null() {
        return Err(codes::INVALID_VALUE);
    }
    // SAFETY: by the contract of this function.
    let text = unsafe { CStr::from_ptr(image) }.to_string_lossy().into_owned();
    if [".version", ".target", ".address_size 64"].iter().any(|part| !text.contains(part)) {
        return Err(codes::INVALID_IMAGE);
    }
    let handle = handles::new();
    lock(&MODULES).insert(handle, text);
    Ok(handle)
}

/// # Safety
/// The name has to be a string with a zero at its end.
pub(crate) unsafe fn function(module: usize, name: *const c_char) -> Result<usize, u32> {
    if name.is_null() {
        return Err(codes::INVALID_VALUE);
    }
    // SAFETY: by the contract of this function.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let modules = lock(&MODULES);
    let text = modules.get(&module).ok_or(codes::INVALID_HANDLE)?;
    if !text.contains(&format!(".visible .entry {name}(")) {
        return Err(codes::NOT_FOUND);
    }
    let handle = handles::new();
    lock(&FUNCTIONS).insert(handle, (module, name));
    Ok(handle)
}

pub(crate) fn unload(module: usize) -> Done {
    lock(&MODULES).remove(&module).ok_or(codes::INVALID_HANDLE)?;
    lock(&FUNCTIONS).retain(|_, (of, _)| *of != module);
    Ok(())
}

/// How many modules are loaded.
pub(crate) fn count() -> usize {
    lock(&MODULES).len()
}

/// A kernel and a copy of its parameters.
///
/// # Safety
/// The pointers have to be to as many parameters as the kernel has, each of its type.
pub(crate) unsafe fn bind(function: usize, parameters: *mut *mut c_void) -> Result<Kernel, u32> {
    let functions = lock(&FUNCTIONS);
    let (_, name) = functions.get(&function).ok_or(codes::INVALID_HANDLE)?;
    // SAFETY: by the contract of this function; `at` is less than the number of parameters.
    let long = |at: usize| unsafe { (*parameters.add(at)).cast::<u64>().read() };
    // SAFETY: as above.
    let short = |at: usize| unsafe { (*parameters.add(at)).cast::<u32>().read() };
    let pattern = || Pattern { address: long(0), words: long(1), stride: long(2), seed: short(3) };
    match name.as_str() {
        "zico_spin" => Ok(Kernel::Spin(Duration::from_nanos(long(0)))),
        "zico_fill" => Ok(Kernel::Fill(pattern())),
        "zico_check" => Ok(Kernel::Check(pattern(), long(4))),
        name => {
            // SAFETY: by the contract of this function.
            let kernel = unsafe { Training::bind(name, parameters) };
            kernel.map(Kernel::Train).ok_or(codes::NOT_SUPPORTED)
        }
    }
}

impl Kernel {
    /// Does what the kernel does. A failure is found by the next call.
    pub(crate) fn run(self) {
        let _ = match self {
            Self::Spin(time) => {
                std::thread::sleep(time);
                Ok(())
            }
            Self::Train(training) => training.run(),
            Self::Fill(pattern) => pattern.each(|word, expected| *word = expected),
            Self::Check(pattern, count) => {
                let mut bad = 0u32;
                let seen = pattern.each(|word, expected| bad += u32::from(*word != expected));
                // The count is of 64 bits; no test counts to more than 32.
                seen.and_then(|()| memory::touch(count, 4, |word| *word += bad))
            }
        };
    }
}

impl Pattern {
    fn each(self, mut each: impl FnMut(&mut u32, u32)) -> Done {
        let mut index = 0u32;
        memory::touch_words(self.address, self.words, self.stride, |word| {
            each(word, index.wrapping_mul(0x9E37_79B1) ^ self.seed);
            index = index.wrapping_add(1);
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
