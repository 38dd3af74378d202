//! What makes the library one that a Python wheel can carry: a module without anything in it.
//! Python calls the functions of `zico.h` in the same file.

use pyo3::prelude::pymodule;

/// No functions: `zico._native` calls those of `zico.h`.
#[pymodule(name = "_zico")]
mod empty {}
