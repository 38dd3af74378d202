//! How calls of the C ABI fail: a status, and a sentence that the calling thread can ask for.

use std::cell::RefCell;
use std::ffi::CString;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use zico_core::{
    AllocError, BeginError, BrokerError, BudgetError, Class, DeviceError, FreeError, JoinError,
    NotRunning, PoolError, ResumeError, SuspendError, UseError,
};
use zico_cuda::CudaError;
use zico_node::host::HostError;

use crate::fork;

/// What came of a call. `zico_last_error` says it in words.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was done.
    ZicoOk = 0,
    /// An argument cannot be: a null pointer, a name that is not UTF-8, a budget without a region.
    ZicoInvalid = 1,
    /// The handle is none, or none any more.
    ZicoBadHandle = 2,
    /// No live block begins at the address.
    ZicoNotLive = 3,
    /// Not now; asking again later may help.
    ZicoBusy = 4,
    /// The memory cannot be had, and waiting does not help.
    ZicoOutOfMemory = 5,
    /// The job is in no iteration, or already in one.
    ZicoNotNow = 6,
    /// This machine or device cannot do that.
    ZicoUnsupported = 7,
    /// The device refused, or is lost.
    ZicoDevice = 8,
    /// The process was forked from the one that has the memory.
    ZicoForked = 9,
    /// A defect of zico. Nothing is known of what was done.
    ZicoInternal = 10,
    /// There is no broker, or it cannot be reached, or it lets nobody in.
    ZicoNoBroker = 11,
}

/// A status other than OK, with a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(status: Status, text: impl fmt::Display) -> Self {
        Self { status, text: text.to_string() }
    }
}

thread_local! {
    /// What the last call that failed on this thread had to say.
    static LAST: RefCell<Option<(Status, CString)>> = const { RefCell::new(None) };
}

/// Runs the body of a call of the C ABI: a failure becomes a status and this thread's last error,
/// and no panic leaves.
pub(crate) fn call(body: impl FnOnce() -> Result<(), Failure>) -> Status {
    match attempt(body) {
        Ok(()) => Status::ZicoOk,
        Err(failure) => tell(&failure),
    }
}

/// Notes a failure for this thread.
pub(crate) fn tell(failure: &Failure) -> Status {
    // A zero within would end the sentence.
    let text = failure.text.replace('\0', " ");
    // A thread that ends has nobody to ask.
    let _ = LAST.try_with(|last| {
        *last.borrow_mut() = CString::new(text).ok().map(|text| (failure.status, text));
    });
    failure.status
}

/// Runs a body, unless this process is a forked child. A panic becomes a failure.
pub(crate) fn attempt<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    if fork::is_child() {
        let text = "this process was forked from one that uses zico, and has none of its memory";
        return Err(Failure::new(Status::ZicoForked, text));
    }
    // State shared between calls is behind locks that are used also when poisoned, and changed by
    // single steps.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason");
        Err(Failure::new(Status::ZicoInternal, format_args!("a defect of zico: {what}")))
    })
}

/// The sentence of the last call that failed on this thread.
pub(crate) fn last_error() -> *const libc::c_char {
    let own = LAST.try_with(|last| last.borrow().as_ref().map(|(_, text)| text.as_ptr()));
    // None has failed, or the thread ends.
    own.ok().flatten().unwrap_or(c"".as_ptr())
}

/// The status of the last call that failed on this thread.
pub(crate) fn last_status() -> Status {
    let own = LAST.try_with(|last| last.borrow().as_ref().map(|(status, _)| *status));
    own.ok().flatten().unwrap_or(Status::ZicoOk)
}

/// The status for an error of a device.
fn of_class(class: Class) -> Status {
    match class {
        Class::OutOfMemory => Status::ZicoOutOfMemory,
        Class::Unsupported => Status::ZicoUnsupported,
        Class::Misuse => Status::ZicoInvalid,
        Class::Transient | Class::Lost | _ => Status::ZicoDevice,
    }
}

/// The status for what a broker could not do.
fn of_broker(error: &BrokerError) -> Status {
    match error {
        BrokerError::Device(_) => Status::ZicoOutOfMemory,
        _ => Status::ZicoNoBroker,
    }
}

/// Failures from errors that say all there is to say themselves.
macro_rules! failure {
    ($([$($generic:ident)?] $error:ty => |$it:ident| $status:expr;)*) => {
        $(impl$(<$generic: DeviceError>)? From<$error> for Failure {
            fn from($it: $error) -> Self {
                Self { status: $status, text: $it.to_string() }
            }
        })*
    };
}

failure! {
    [E] AllocError<E> => |error| match &error {
        AllocError::Busy(_) => Status::ZicoBusy,
        AllocError::OutOfMemory(_) | AllocError::BeyondCap { .. } | AllocError::OutOfAddresses { .. } => {
            Status::ZicoOutOfMemory
        }
        AllocError::Suspended => Status::ZicoNotNow,
        AllocError::Left => Status::ZicoBadHandle,
        AllocError::Broker(error) => of_broker(error),
        AllocError::Device(error) => of_class(error.class()),
        _ => Status::ZicoInvalid,
    };
    [E] PoolError<E> => |error| match &error {
        PoolError::Device(error) => of_class(error.class()),
        _ => Status::ZicoInvalid,
    };
    [E] JoinError<E> => |error| match &error {
        JoinError::Device(error) => of_class(error.class()),
        JoinError::Broker(error) => of_broker(error),
        JoinError::FloorNotFree { .. } => Status::ZicoOutOfMemory,
        JoinError::NotPreemptible => Status::ZicoUnsupported,
        _ => Status::ZicoInvalid,
    };
    [E] UseError<E> => |error| match &error {
        UseError::Block(_) => Status::ZicoNotLive,
        UseError::Device(error) => of_class(error.class()),
        _ => Status::ZicoInvalid,
    };
    [E] SuspendError<E> => |error| match &error {
        SuspendError::InIteration | SuspendError::Suspended => Status::ZicoNotNow,
        SuspendError::Busy => Status::ZicoBusy,
        SuspendError::NoTicket(_) => Status::ZicoOutOfMemory,
        SuspendError::Unsupported => Status::ZicoUnsupported,
        SuspendError::Left => Status::ZicoBadHandle,
        SuspendError::Device(error) => of_class(error.class()),
        SuspendError::Broker(error) => of_broker(error),
        _ => Status::ZicoInvalid,
    };
    [E] ResumeError<E> => |error| match &error {
        ResumeError::Left => Status::ZicoBadHandle,
        ResumeError::Device(error) => of_class(error.class()),
        ResumeError::Broker(error) => of_broker(error),
        _ => Status::ZicoInvalid,
    };
    [] BudgetError => |error| Status::ZicoInvalid;
    [] BeginError => |error| match &error {
        BeginError::AlreadyRunning | BeginError::Suspended => Status::ZicoNotNow,
        BeginError::Left => Status::ZicoBadHandle,
        BeginError::Broker(error) => of_broker(error),
        _ => Status::ZicoOutOfMemory,
    };
    [] NotRunning => |error| Status::ZicoNotNow;
    [] FreeError => |error| Status::ZicoNotLive;
    [] HostError => |error| of_class(error.class());
    [] CudaError => |error| of_class(error.class());
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn last() -> String {
        // SAFETY: a text of this thread, ended by a zero; nothing is called meanwhile.
        unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_is_a_failure_with_its_words() {
        assert_eq!(call(|| panic!("no {}", 7)), Status::ZicoInternal);
        assert_eq!(last(), "a defect of zico: no 7");
    }

    #[test]
    fn each_thread_has_its_own_last_error() {
        let fail = |text| call(|| Err(Failure::new(Status::ZicoBusy, text)));
        assert_eq!(fail("one\0two"), Status::ZicoBusy);
        std::thread::spawn(move || {
            assert_eq!(last(), "");
            fail("other");
        })
        .join()
        .unwrap();
        assert_eq!(last(), "one two");
        assert_eq!(call(|| Ok(())), Status::ZicoOk);
        assert_eq!(last(), "one two", "success leaves it as it was");
    }
}
