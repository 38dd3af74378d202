//! The CUDA driver: its functions, found in the library at run time.
//!
//! `cudarc` loads the library, but panics where the library or a function is missing and reads
//! result codes as an enum, which is undefined behaviour where a driver is newer. So the library is
//! looked for first, the functions are resolved once into a table of our own, and their codes are
//! numbers that become a [`CudaError`].

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;

use crate::abi::{AccessDesc, AllocationProp, NOT_READY, Opaque, SUCCESS};
use crate::costs::{self, CallCost, Cost};
use crate::error::{CudaError, DriverVersion};

type UuidFunction = unsafe extern "C" fn(*mut [u8; 16], c_int) -> u32;

/// The functions that are used. Names with `_v2` are those that a C program gets under the plain
/// name; the plain symbols are the interface of CUDA 3.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($arg:ident: $type:ty),*);)*) => {
        /// The driver's functions. All devices share one table.
        pub(crate) struct Driver {
            $($name: unsafe extern "C" fn($($type),*) -> u32,)*
            /// That of CUDA 11.4, which gives a part of a device (MIG) a UUID of its own, or of
            /// 9.2.
            uuid: UuidFunction,
            costs: Costs,
        }

        #[derive(Default)]
        struct Costs {
            $($name: Cost,)*
        }

        impl Driver {
            /// Resolves all functions in the library, which has to be present; or returns the first
            /// that is missing.
            fn resolve() -> Result<Self, &'static str> {
                // SAFETY: loading the library runs its initialisers, as a CUDA program does. It is
                // there, so this does not panic.
                let library = unsafe { sys::culib() };
                Ok(Self {
                    $($name: {
                        type Function = unsafe extern "C" fn($($type),*) -> u32;
                        // SAFETY: the type is that of the function in cuda.h, with its enums and
                        // handles as the integers that they are in the C ABI.
                        let found = unsafe { library.get::<Function>(concat!($symbol, "\0")) };
                        *found.map_err(|_| $symbol)?
                    },)*
                    uuid: {
                        let find = |symbol: &str| {
                            // SAFETY: the type is that of both functions in cuda.h.
                            unsafe { library.get::<UuidFunction>(symbol) }
                        };
                        let found = find("cuDeviceGetUuid_v2\0");
                        let found = found.or_else(|_| find("cuDeviceGetUuid\0"));
                        *found.map_err(|_| "cuDeviceGetUuid")?
                    },
                    costs: Costs::default(),
                })
            }

            /// The cost of each function since the last reading.
            pub(crate) fn take_costs(&self) -> Vec<CallCost> {
                let costs = [$(self.costs.$name.take($symbol),)*];
                costs.into_iter().filter(|cost| cost.calls > 0).collect()
            }

            $(
                /// # Safety
                /// The driver's documentation of this function has to be kept: pointers are valid
                /// for what is read or written through them, handles are live.
                #[inline]
                #[allow(dead_code, reason = "errors are named through the table")]
                #[allow(clippy::too_many_arguments, reason = "as many as the driver wants")]
                pub(crate) unsafe fn $name(&self, $($arg: $type),*) -> Result<(), CudaError> {
                    let started = costs::start();
                    // SAFETY: the caller keeps what the function asks for.
                    let code = unsafe { (self.$name)($($arg),*) };
                    self.costs.$name.add(started);
                    if code == SUCCESS { Ok(()) } else { Err(self.error($symbol, code)) }
                }
            )*
        }
    };
}

functions! {
    init = "cuInit"(flags: c_uint);
    version_of_driver = "cuDriverGetVersion"(version: *mut c_int);
    error_name = "cuGetErrorName"(code: u32, name: *mut *const c_char);
    error_text = "cuGetErrorString"(code: u32, text: *mut *const c_char);
    device_count = "cuDeviceGetCount"(count: *mut c_int);
    device = "cuDeviceGet"(device: *mut c_int, ordinal: c_int);
    device_name = "cuDeviceGetName"(name: *mut c_char, len: c_int, device: c_int);
    device_memory = "cuDeviceTotalMem_v2"(bytes: *mut usize, device: c_int);
    device_attribute = "cuDeviceGetAttribute"(value: *mut c_int, attribute: c_int, device: c_int);
    primary_retain = "cuDevicePrimaryCtxRetain"(context: *mut Opaque, device: c_int);
    primary_release = "cuDevicePrimaryCtxRelease_v2"(device: c_int);
    current = "cuCtxGetCurrent"(context: *mut Opaque);
    push_current = "cuCtxPushCurrent_v2"(context: Opaque);
    pop_current = "cuCtxPopCurrent_v2"(context: *mut Opaque);
    synchronize = "cuCtxSynchronize"();
    memory_info = "cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
    granularity = "cuMemGetAllocationGranularity"(
        granularity: *mut usize, prop: *const AllocationProp, option: c_uint);
    reserve = "cuMemAddressReserve"(
        address: *mut u64, size: usize, alignment: usize, hint: u64, flags: u64);
    free_addresses = "cuMemAddressFree"(address: u64, size: usize);
    create = "cuMemCreate"(
        handle: *mut u64, size: usize, prop: *const AllocationProp, flags: u64);
    release = "cuMemRelease"(handle: u64);
    map = "cuMemMap"(address: u64, size: usize, offset: usize, handle: u64, flags: u64);
    set_access = "cuMemSetAccess"(
        address: u64, size: usize, access: *const AccessDesc, count: usize);
    unmap = "cuMemUnmap"(address: u64, size: usize);
    export = "cuMemExportToShareableHandle"(
        shareable: *mut c_void, handle: u64, kind: c_uint, flags: u64);
    import = "cuMemImportFromShareableHandle"(
        handle: *mut u64, shareable: *mut c_void, kind: c_uint);
    stream_create = "cuStreamCreate"(stream: *mut Opaque, flags: c_uint);
    stream_destroy = "cuStreamDestroy_v2"(stream: Opaque);
    stream_wait = "cuStreamWaitEvent"(stream: Opaque, event: Opaque, flags: c_uint);
    event_create = "cuEventCreate"(event: *mut Opaque, flags: c_uint);
    event_record = "cuEventRecord"(event: Opaque, stream: Opaque);
    event_query = "cuEventQuery"(event: Opaque);
    event_destroy = "cuEventDestroy_v2"(event: Opaque);
    module_load = "cuModuleLoadData"(module: *mut Opaque, image: *const c_void);
    module_unload = "cuModuleUnload"(module: Opaque);
    module_function = "cuModuleGetFunction"(
        function: *mut Opaque, module: Opaque, name: *const c_char);
    launch = "cuLaunchKernel"(
        function: Opaque, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: Opaque,
        parameters: *mut *mut c_void, extra: *mut *mut c_void);
    set_words = "cuMemsetD32_v2"(address: u64, value: c_uint, count: usize);
    copy_to_host = "cuMemcpyDtoH_v2"(to: *mut c_void, from: u64, bytes: usize);
    host_allocate = "cuMemHostAlloc"(block: *mut Opaque, bytes: usize, flags: c_uint);
    host_free = "cuMemFreeHost"(block: Opaque);
    copy_out = "cuMemcpyDtoHAsync_v2"(to: Opaque, from: u64, bytes: usize, stream: Opaque);
    copy_in = "cuMemcpyHtoDAsync_v2"(to: u64, from: Opaque, bytes: usize, stream: Opaque);
}

impl Driver {
    /// The driver of this machine. It is looked for once, also if there is none.
    pub(crate) fn get() -> Result<&'static Self, CudaError> {
        static DRIVER: OnceLock<Result<Driver, CudaError>> = OnceLock::new();
        DRIVER.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Self, CudaError> {
        // SAFETY: loading the library runs its initialisers, which is what a CUDA program does.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoDriver);
        }
        Self::resolve().map_err(|symbol| CudaError::DriverTooOld { symbol, version: old_version() })
    }

    /// Initialises the driver; may be called any number of times.
    pub(crate) fn start(&self) -> Result<(), CudaError> {
        // SAFETY: the flags have to be zero.
        unsafe { self.init(0) }
    }

    pub(crate) fn version(&self) -> Result<DriverVersion, CudaError> {
        let mut version = 0;
        // SAFETY: the pointer is to a c_int.
        unsafe { self.version_of_driver(&raw mut version) }?;
        Ok(DriverVersion::new(version))
    }

    pub(crate) fn attribute(&self, attribute: c_int, device: c_int) -> Result<c_int, CudaError> {
        let mut value = 0;
        // SAFETY: the pointer is to a c_int; what the attribute or the device may be is checked.
        unsafe { self.device_attribute(&raw mut value, attribute, device) }?;
        Ok(value)
    }

    /// The 16 bytes that tell a device, or a part of one, from all others.
    pub(crate) fn uuid(&self, device: c_int) -> Result<[u8; 16], CudaError> {
        let mut uuid = [0; 16];
        // SAFETY: the pointer is to as many bytes as a `CUuuid` has; what the device may be is
        // checked.
        let code = unsafe { (self.uuid)(&raw mut uuid, device) };
        if code == SUCCESS { Ok(uuid) } else { Err(self.error("cuDeviceGetUuid", code)) }
    }

    /// The name and the description of a code, from the driver.
    #[cold]
    fn error(&self, call: &'static str, code: u32) -> CudaError {
        if code == NOT_READY {
            // The usual answer to a query: no need to ask what it means.
            return CudaError::Driver {
                call,
                code,
                name: "CUDA_ERROR_NOT_READY",
                text: "not ready",
            };
        }
        let text = |function: unsafe extern "C" fn(u32, *mut *const c_char) -> u32| {
            let mut text: *const c_char = std::ptr::null();
            // SAFETY: the pointer is to a pointer. The driver sets it to null for a code that it
            // does not know.
            let code = unsafe { function(code, &raw mut text) };
            if code != SUCCESS || text.is_null() {
                return None;
            }
            // SAFETY: on success it points to a string with a zero at its end, in the library's
            // constant data; the library is never unloaded.
            let text: &'static CStr = unsafe { CStr::from_ptr(text) };
            text.to_str().ok()
        };
        let name = text(self.error_name).unwrap_or("unknown to this driver");
        CudaError::Driver { call, code, name, text: text(self.error_text).unwrap_or("no text") }
    }
}

/// The costs of calls since the last call of this function, by function of the driver; only those
/// that were called. Empty without a driver.
#[must_use]
pub fn take_call_costs() -> Vec<CallCost> {
    Driver::get().map(Driver::take_costs).unwrap_or_default()
}

/// The version of a driver that lacks functions.
fn old_version() -> Option<DriverVersion> {
    type Function = unsafe extern "C" fn(*mut c_int) -> u32;
    let mut version = 0;
    // SAFETY: the library has been loaded before, so this does not panic.
    let library = unsafe { sys::culib() };
    // SAFETY: the type is that of the function in cuda.h, since CUDA 2.2.
    let function = unsafe { library.get::<Function>("cuDriverGetVersion\0") }.ok()?;
    // SAFETY: the pointer is to a c_int. The function may be called before `cuInit`.
    let code = unsafe { function(&raw mut version) };
    (code == SUCCESS).then(|| DriverVersion::new(version))
}
