//! Host memory as a device: a descriptor for each piece of memory, mapped where it is wanted.
