//! Profiles of jobs on a GPU, in the shape in which PyTorch writes them.

use zico_mock::trace::Trace;

use crate::profile::{annotation, memory, op, read, short};

/// An event of the host's call number `correlation`, as the CUDA runtime records it.
fn call(at: &str, name: &str, correlation: u32) -> String {
    let category = if name.starts_with("cuda") { "cuda_runtime" } else { "cuda_driver" };
    format!(
        r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 2157, "tid": 2157, "ts": {at}, "dur": 6.4,
            "args": {{"External id": 31, "cbid": 211, "correlation": {correlation}}}}}"#
    )
}

/// What that call made device `device` do.
fn ran(category: &str, at: &str, dur: &str, device: u32, stream: u32, correlation: u32) -> String {
    let more = match category {
        "kernel" => {
            r#""queued": 0, "context": 1, "registers per thread": 32, "shared memory": 0,
               "blocks per SM": 0.75, "warps per SM": 3.0, "grid": [81, 1, 1], "block": [128, 1, 1],
               "est. achieved occupancy %": 5"#
        }
        _ => r#""context": 1, "bytes": 1024, "memory bandwidth (GB/s)": 0.7"#,
    };
    format!(
        r#"{{"ph": "X", "cat": "{category}", "name": "void at::native::f<float>(int)", "pid": {device}, "tid": {stream},
            "ts": {at}, "dur": {dur}, "args": {{"External id": 31, "device": {device}, "stream": {stream},
            "correlation": {correlation}, {more}}}}}"#
    )
}

fn on_gpu(device: u32, at: &str, address: u32, bytes: i64, total: i64) -> String {
    let gpu = format!(
        r#""Total Reserved": 2097152, "Total Allocated": {total}, "Device Type": 1, "Device Id": {device}"#
    );
    memory(at, address, bytes).replace(r#""Device Type": 0, "Device Id": -1"#, &gpu)
}

/// A job with a GPU: host events up to microsecond 400, the GPU runs on until 1350.
fn job() -> Vec<String> {
    vec![
        annotation("iteration", "100", "300"),
        annotation("forward", "100", "300").replace("user_annotation", "gpu_user_annotation"),
        memory("101", 77, 4096), // on the host
        op("110", "80"),
        on_gpu(1, "120", 8, 1024, 1024),
        call("130", "cudaMemcpyAsync", 40),
        ran("gpu_memcpy", "300.500", "100.250", 1, 7, 40),
        on_gpu(1, "140", 9, 512, 1536),
        call("150", "cudaLaunchKernel", 41),
        r#"{"ph": "s", "id": 41, "pid": 2157, "tid": 2157, "ts": 150, "cat": "ac2g", "name": "ac2g"}"#.to_owned(),
        ran("kernel", "401", "600.000", 1, 7, 41),
        r#"{"ph": "f", "id": 41, "pid": 1, "tid": 7, "ts": 401, "cat": "ac2g", "name": "ac2g", "bp": "e"}"#.to_owned(),
        call("160", "cuLaunchKernel", 42),
        ran("kernel", "900", "250.5", 1, 20, 42), // on another stream, for 101 in part beside it
        on_gpu(1, "170", 9, -512, 1024),
        call("180", "cudaMemsetAsync", 43),
        ran("gpu_memset", "1200", "2", 1, 7, 43),
        call("350", "cudaDeviceSynchronize", 44),
        on_gpu(1, "390", 8, -1024, 0),
        // After the iteration, and on another device.
        call("450", "cudaLaunchKernel", 45),
        ran("kernel", "1300", "50", 1, 7, 45),
        ran("kernel", "200", "1000", 0, 7, 46),
    ]
}

const STEPS: &str = "iteration 0=1024, run 100250, iteration 1=512, run 600000, run 149500, free 1, \
                     run 2000, free 0";

fn read_all(events: &[String]) -> Trace {
    read(events).unwrap()
}

#[test]
fn launches_last_as_long_as_on_the_gpu_and_stand_where_the_host_made_them() {
    let trace = read_all(&job());
    assert_eq!(short(&trace), ["", STEPS]);
    assert_eq!(trace.provenance(), "by hand; launches last as long as on the GPU");
    // In whatever order they stand in the file.
    let mut events = job();
    events.reverse();
    assert_eq!(short(&read_all(&events)), ["", STEPS]);
}

#[test]
fn without_a_gpus_activities_the_hosts_operators_count() {
    let mut events = job();
    events.retain(|event| !event.contains("\"device\": 1"));
    let trace = read_all(&events);
    assert_eq!(trace.provenance(), "by hand");
    let expected = "run 10000, iteration 0=1024, run 20000, iteration 1=512, run 30000, free 1, \
                    run 20000, free 0";
    assert_eq!(short(&trace), ["", expected]);
    // And where memory of the host is all there is, a GPU's activities are not those of the job.
    let host: Vec<_> =
        job().into_iter().filter(|event| !event.contains("Total Reserved")).collect();
    assert_eq!(short(&read_all(&host)), ["", "iteration 0=4096, run 80000"]);
}

#[test]
fn activities_that_say_too_little_are_passed_over() {
    let mut events = job();
    events.push(ran("kernel", "1", "1", 1, 7, 99).replace("correlation", "x"));
    events.push(ran("kernel", "1", "1", 1, 7, 99).replace("\"device\"", "\"x\""));
    events.push(call("1", "cudaLaunchKernel", 41).replace("\"args\"", "\"x\""));
    assert_eq!(short(&read_all(&events)), ["", STEPS]);
    events.push(ran("kernel", "1", "\"soon\"", 1, 7, 99));
    let error = read(&events).unwrap_err().to_string();
    assert_eq!(error, format!("record {}: dur is \"soon\"", events.len() - 1));
}
