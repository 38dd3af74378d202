//! The suite for machines with a GPU, on the driver in software: it passes, and it can fail.

use crate::driver::program;

/// The exit code and the output of `zico-gpu`.
fn suite(arguments: &[&str], settings: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut program = program(env!("CARGO_BIN_EXE_zico-gpu"));
    program.args(arguments).env("ZICO_GPU_ITERATIONS", "5").envs(settings.iter().copied());
    let output = program.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn the_gpu_suite_passes() {
    let parts = ["costs", "leases", "sharing", "processes", "memory"];
    let (code, text) = suite(&parts, &[]);
    assert_eq!(code, Some(0), "{text}");
    for words in
        ["| 256 MiB |", "cuEventQuery |", "| Isolated |", "64 MiB went to another", "OUT_OF_MEMORY"]
    {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
}

#[test]
fn the_gpu_suite_fails_where_something_is_wrong() {
    for (part, fault, words) in [
        ("conformance", "cuMemUnmap:3+=304", "not so: an address has one mapping"),
        ("sharing", "cuMemMap:3+=304", "cuMemMap: CUDA_ERROR_OPERATING_SYSTEM (304)"),
        ("processes", "cuMemExportToShareableHandle:1=2", "cuMemExportToShareableHandle"),
        ("memory", "cuMemCreate:5=304", "the end of memory is another error"),
    ] {
        let (code, text) = suite(&[part], &[("ZICO_DRIVER_FAULTS", fault)]);
        assert_eq!(code, Some(1), "{part}: {text}");
        assert!(text.contains(&format!("{part}: FAILED")) && text.contains(words), "{text}");
    }
    let (code, text) = suite(&["memory"], &[("ZICO_DRIVER_DEVICES", "0")]);
    assert_eq!((code, text.contains("no CUDA device: cuInit")), (Some(2), true), "{text}");
}
