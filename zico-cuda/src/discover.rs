//! Discovery of CUDA devices, with the reason if there are none.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::fs::OpenOptions;
use std::io;

use zico_core::Bytes;

use crate::abi::{
    AllocationProp, COMPUTE_MAJOR, COMPUTE_MINOR, FILE_DESCRIPTORS, GRANULARITY_MINIMUM,
    VIRTUAL_MEMORY,
};
use crate::driver::Driver;
use crate::error::{CudaError, DriverVersion};

/// The file through which a process reaches the driver in the kernel.
const CONTROL: &str = "/dev/nvidiactl";

/// What [`discover`] has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Discovery {
    /// The CUDA version that the driver supports; none if there is no driver, or one that does not
    /// say so.
    pub driver: Option<DriverVersion>,
    /// The devices, by their numbers.
    pub devices: Vec<DeviceInfo>,
    /// Why there is no device, or why some are missing.
    pub trouble: Option<CudaError>,
}

/// Properties of a CUDA device that can be read without a context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Its ordinal, for [`CudaDevice::open`](crate::CudaDevice::open).
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Which device it is, however the driver numbers it.
    pub uuid: Uuid,
    /// Its memory.
    pub memory: Bytes,
    /// Its compute capability: 9 and 0 of 9.0.
    pub compute: (u32, u32),
    /// The unit of physical allocation; none without virtual memory management, which zico needs.
    pub granularity: Option<Bytes>,
    /// Whether its memory can be handed to other processes.
    pub shareable: bool,
}

/// Which device it is, on whatever machine. A part of one (MIG) has its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    /// As `nvidia-smi` writes that of a whole device: `GPU-5a7e6c1d-...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU")?;
        for (at, byte) in self.0.iter().enumerate() {
            let gap = if matches!(at, 0 | 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{gap}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Looks for CUDA devices. Makes no context, so it takes none of their memory. Never fails: the
/// reason for an empty list is part of the answer.
#[must_use]
pub fn discover() -> Discovery {
    let mut found = Discovery { driver: None, devices: Vec::new(), trouble: None };
    found.trouble = look(&mut found).err();
    if let Some(CudaError::DriverTooOld { version, .. }) = found.trouble {
        found.driver = version;
    }
    found
}

fn look(found: &mut Discovery) -> Result<(), CudaError> {
    let driver = Driver::get()?;
    found.driver = driver.version().ok();
    start(driver)?;
    for ordinal in 0..count(driver)? {
        let device = device(driver, ordinal)?;
        found.devices.push(describe(driver, ordinal, device)?);
    }
    Ok(())
}

/// Initialises the driver. A driver that may not open its device file reports only that there is no
/// device, so the file is checked as well.
pub(crate) fn start(driver: &Driver) -> Result<(), CudaError> {
    driver.start().map_err(|error| {
        explain(error, || OpenOptions::new().read(true).write(true).open(CONTROL).map(drop))
    })
}

fn explain(error: CudaError, open: impl FnOnce() -> io::Result<()>) -> CudaError {
    match open() {
        Err(denied) if denied.kind() == io::ErrorKind::PermissionDenied => {
            CudaError::NoPermission { path: CONTROL }
        }
        _ => error,
    }
}

fn describe(driver: &Driver, ordinal: u32, device: i32) -> Result<DeviceInfo, CudaError> {
    let capability = |attribute| {
        driver.attribute(attribute, device).map(|number| u32::try_from(number).unwrap_or(0))
    };
    let managed = driver.attribute(VIRTUAL_MEMORY, device)? != 0;
    Ok(DeviceInfo {
        ordinal,
        name: name(driver, device)?,
        uuid: uuid(driver, device)?,
        memory: memory(driver, device)?,
        compute: (capability(COMPUTE_MAJOR)?, capability(COMPUTE_MINOR)?),
        granularity: if managed { Some(granularity(driver, device, false)?) } else { None },
        shareable: managed && driver.attribute(FILE_DESCRIPTORS, device)? != 0,
    })
}

/// The driver's number of the device with this ordinal.
pub(crate) fn device(driver: &Driver, ordinal: u32) -> Result<i32, CudaError> {
    let count = count(driver)?;
    let known = i32::try_from(ordinal).ok().filter(|_| ordinal < count);
    let Some(wanted) = known else { return Err(CudaError::NoSuchDevice { ordinal, count }) };
    let mut device = 0;
    // SAFETY: the pointer is to a c_int.
    unsafe { driver.device(&raw mut device, wanted) }?;
    Ok(device)
}

/// The unit of physical allocation and of mapping.
pub(crate) fn granularity(
    driver: &Driver,
    device: i32,
    shareable: bool,
) -> Result<Bytes, CudaError> {
    let prop = AllocationProp::on(device, shareable);
    let mut granularity = 0;
    // SAFETY: the pointers are to a size and to properties of the driver's layout.
    unsafe { driver.granularity(&raw mut granularity, &raw const prop, GRANULARITY_MINIMUM) }?;
    Ok(Bytes::new(granularity as u64))
}

pub(crate) fn uuid(driver: &Driver, device: i32) -> Result<Uuid, CudaError> {
    driver.uuid(device).map(Uuid)
}

pub(crate) fn memory(driver: &Driver, device: i32) -> Result<Bytes, CudaError> {
    let mut bytes = 0;
    // SAFETY: the pointer is to a size.
    unsafe { driver.device_memory(&raw mut bytes, device) }?;
    Ok(Bytes::new(bytes as u64))
}

fn count(driver: &Driver) -> Result<u32, CudaError> {
    let mut count = 0;
    // SAFETY: the pointer is to a c_int.
    unsafe { driver.device_count(&raw mut count) }?;
    Ok(u32::try_from(count).unwrap_or(0))
}

fn name(driver: &Driver, device: i32) -> Result<String, CudaError> {
    let mut name: [c_char; 256] = [0; 256];
    // SAFETY: the buffer has as many bytes as it is said to have.
    unsafe { driver.device_name(name.as_mut_ptr(), 256, device) }?;
    // One that fills the buffer has no zero at its end.
    name[255] = 0;
    // SAFETY: there is a zero in the buffer.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Ok(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_nvidia_smi_writes_it() {
        let uuid = Uuid(std::array::from_fn(|at| 0x10 * 9 + u8::try_from(at).unwrap()));
        assert_eq!(uuid.to_string(), "GPU-90919293-9495-9697-9899-9a9b9c9d9e9f");
    }

    #[test]
    fn a_missing_permission_is_told_from_a_missing_device() {
        let error = CudaError::Driver { call: "cuInit", code: 100, name: "NAME", text: "text" };
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied] {
            let explained = explain(error.clone(), || Err(kind.into()));
            let denied = kind == io::ErrorKind::PermissionDenied;
            assert_eq!(explained == error, !denied);
            assert_eq!(explained.to_string().contains("no permission for /dev/nvidiactl"), denied);
        }
        assert_eq!(explain(error.clone(), || Ok(())), error);
    }
}
