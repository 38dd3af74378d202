//! Memory kept for other processes, without a context.

use std::fs;

use zico_core::Bytes;
use zico_cuda::{CudaPhysical, Physical};

use crate::driver::on_driver;

/// Descriptors of memory that this process has open. The driver in software has one for each
/// memory, and gives another one to who exports it.
fn open_descriptors() -> usize {
    let entries = fs::read_dir("/proc/self/fd").unwrap();
    let names = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    names.filter(|name| name.to_string_lossy().starts_with("/memfd:")).count()
}

#[test]
fn one_descriptor_stays_open_while_its_memory_is_there() {
    let test = "physical::one_descriptor_stays_open_while_its_memory_is_there";
    let _ = on_driver(test, &[], || {
        let device = CudaPhysical::open(0).unwrap();
        let before = open_descriptors();
        let [one, other] = [(); 2].map(|()| device.create(Bytes::mib(2)).unwrap());
        assert_eq!(open_descriptors(), before + 2);
        for memory in [&one, &other, &one] {
            drop(device.export(memory).unwrap());
            assert_eq!(open_descriptors(), before + 3);
        }
        // A descriptor keeps its memory allocated: it goes with it, and another one is kept.
        device.destroy(one).unwrap();
        assert_eq!(open_descriptors(), before + 1);
        drop(device.export(&other).unwrap());
        assert_eq!(open_descriptors(), before + 2);
        device.destroy(other).unwrap();
        assert_eq!(open_descriptors(), before);
    });
}
