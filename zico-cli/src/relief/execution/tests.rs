//! A training step in three calls of the program, and what is wrong with some files.

use serde_json::{Value, json};
use zico_plan::relief::Graph;

use super::super::{Input, InputProblem, parse};
use super::Times;

/// A tensor of so many floats at an address.
fn tensor(address: u64, floats: u64) -> Value {
    json!([1, address, 0, floats, 4, "cuda:0"])
}

fn node(id: u64, parent: u64, name: &str, schema: &str, [given, gives]: [Value; 2]) -> Value {
    json!({
        "id": id, "name": name, "ctrl_deps": parent,
        "inputs": {"values": given, "shapes": [], "types": []},
        "outputs": {"values": gives, "shapes": [], "types": []},
        "attrs": [
            {"name": "rf_id", "type": "uint64", "value": id + 100},
            {"name": "op_schema", "type": "string", "value": schema},
        ],
    })
}

const RELU: &str = "aten::relu(Tensor self) -> Tensor";
const MM: &str = "aten::mm(Tensor self, Tensor mat2) -> Tensor";
const EMPTY: &str = "aten::empty.memory_format(SymInt[] size) -> Tensor";
const VIEW: &str = "aten::t(Tensor(a) self) -> Tensor(a)";

/// y = relu(x w) with w at 10 and x at 20, and w changed with a gradient: the storage of y is used
/// again for the gradient. What is around it is a whole iteration before, and one call after it.
fn step() -> Vec<Value> {
    let (w, x, h, y) = (tensor(10, 100), tensor(20, 200), tensor(30, 300), tensor(40, 400));
    let add = "aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)";
    let backward = "aten::threshold_backward(Tensor grad_output, Tensor self) -> Tensor";
    vec![
        node(2, 1, "Optimizer.step#SGD.step", "", [json!([]), json!([])]),
        node(3, 2, "aten::relu", RELU, [json!([w]), json!([w])]),
        // A wrapper, whose calls read all that it is given.
        node(5, 1, "aten::linear", MM, [json!([x, w]), json!([h])]),
        node(6, 5, "aten::t", VIEW, [json!([w]), json!([w])]),
        node(7, 5, "aten::mm", MM, [json!([x, w]), json!([h])]),
        // It allocates itself, what it gives and what it needs for a while.
        node(8, 1, "aten::relu", RELU, [json!([h]), json!([y])]),
        node(9, 8, "aten::empty", EMPTY, [json!([[100]]), json!([y])]),
        node(10, 8, "aten::empty", EMPTY, [json!([[7]]), json!([tensor(50, 7)])]),
        node(11, 1, "aten::native_dropout", RELU, [json!([y]), json!([tensor(60, 500)])]),
        // The address of y anew.
        node(12, 1, "aten::empty", EMPTY, [json!([[100]]), json!([tensor(40, 100)])]),
        node(
            13,
            1,
            "aten::threshold_backward",
            backward,
            [json!([tensor(60, 500), h]), json!([tensor(40, 100)])],
        ),
        node(14, 1, "Optimizer.step#SGD.step", "", [json!([]), json!([])]),
        node(15, 14, "aten::add_", add, [json!([w, tensor(40, 100)]), json!([w])]),
        node(16, 1, "aten::relu", RELU, [json!([tensor(60, 500)]), json!([tensor(70, 1)])]),
    ]
}

fn read(nodes: &[Value], times: Option<&Times>) -> Result<Input, InputProblem> {
    parse(&json!({"schema": "1.1.0-chakra.0.0.4", "nodes": nodes}).to_string(), 1.0, times)
}

fn graph(nodes: &[Value]) -> Graph {
    read(nodes, None).expect("fine").graph
}

#[test]
fn operations_storages_and_the_last_iteration() {
    let graph = graph(&step());
    let of = |at: usize| {
        let operation = &graph.operations()[at];
        let bytes = |all: &[u32]| {
            let mut all: Vec<u64> =
                all.iter().map(|&one| graph.storages()[one as usize].bytes).collect();
            all.sort_unstable();
            all
        };
        (bytes(&operation.reads), bytes(&operation.writes), operation.repeatable)
    };
    // mm, relu, dropout, threshold_backward, add_: not what is before and after.
    assert_eq!(graph.operations().len(), 5);
    assert_eq!(of(0), (vec![400, 800], vec![1200], true));
    assert_eq!(of(1), (vec![1200], vec![28, 1600], true));
    assert_eq!(of(2), (vec![1600], vec![2000], false));
    assert_eq!(of(3), (vec![1200, 2000], vec![400], true));
    assert_eq!(of(4), (vec![400], vec![400], true));
    let kept: Vec<u64> =
        graph.storages().iter().filter(|storage| storage.kept).map(|one| one.bytes).collect();
    // The weights, the input, and what is used after the iteration.
    assert_eq!(kept, [800, 400, 2000]);
    assert_eq!(graph.storages().len(), 7);
    assert_eq!(graph.operations()[0].nanos, 5_002);
}

#[test]
fn the_form_of_older_files() {
    let mut nodes = step();
    for node in &mut nodes {
        let parent = node["ctrl_deps"].take();
        let schema = node["attrs"][1]["value"].take();
        let (given, gives) = (node["inputs"]["values"].take(), node["outputs"]["values"].take());
        *node = json!({
            "id": node["id"], "name": node["name"], "parent": parent, "op_schema": schema,
            "inputs": given, "outputs": gives, "rf_id": 1,
        });
    }
    assert_eq!(graph(&nodes).operations(), graph(&step()).operations());
}

/// A profile: the calls in order, each with the nanoseconds of its kernel.
fn profile(calls: &[(&str, Option<u64>, u64)]) -> Times {
    let mut events = vec![json!({"ph": "M", "name": "process_name"})];
    for (at, &(name, record, kernel)) in calls.iter().enumerate() {
        let at = at as u64;
        events.push(json!({"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": "1",
            "ts": 10 * at, "dur": 5, "args": {"External id": at, "Record function id": record}}));
        events.push(json!({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7,
            "ts": 10 * at + 90, "dur": kernel as f64 / 1e3, "args": {"External id": at}}));
    }
    Times::parse(&json!({"traceEvents": events}).to_string()).expect("fine")
}

#[test]
fn times_of_the_same_run_and_of_another() {
    let nanos = |times: &Times| -> Vec<u64> {
        let input = read(&step(), Some(times)).expect("fine");
        input.graph.operations().iter().map(|operation| operation.nanos).collect()
    };
    let same = profile(&[
        ("aten::mm", Some(107), 70),
        ("aten::relu", Some(108), 80),
        ("aten::native_dropout", Some(111), 110),
        ("aten::threshold_backward", Some(113), 130),
        ("other", Some(115), 1),
    ]);
    // The profile means another call by 115, and does not have add_.
    assert_eq!(nanos(&same), [70, 80, 110, 130, 5_000]);
    // aten::relu three times, as in the trace, aten::mm twice; dropout is missing.
    let other = profile(&[
        ("aten::relu", None, 1),
        ("aten::relu", None, 2),
        ("aten::relu", None, 3),
        ("aten::mm", None, 10),
        ("aten::mm", None, 20),
        ("aten::threshold_backward", None, 9),
        ("aten::add_", None, 4),
    ]);
    assert_eq!(nanos(&other), [15, 2, 5_003, 9, 4]);
}

#[test]
fn a_file_that_is_wrong() {
    let wrong = |change: &dyn Fn(&mut Vec<Value>), word: &str| {
        let mut nodes = step();
        change(&mut nodes);
        let error = read(&nodes, None).expect_err(word).to_string();
        assert!(error.contains(word), "{word}: {error}");
    };
    wrong(&|nodes| nodes[3]["id"] = json!("x"), "node 3: it has no id");
    wrong(&|nodes| nodes[2]["name"] = json!(7), "node 2: it has no name");
    wrong(&|nodes| nodes[4]["id"] = json!(3), "the id 3");
    wrong(&|nodes| nodes.truncate(1), "no call");
    let error = Times::parse("{\"traceEvents\": [{\"cat\": \"cpu_op\", \"ts\": \"now\"}]}");
    assert!(error.expect_err("no time").to_string().contains("event 0"));
    assert!(Times::parse("{}").expect_err("none").to_string().contains("traceEvents"));
    let chain = r#"{"nodes": [{"id": 1, "cost": 1, "mem": 1}], "links": []}"#;
    assert!(matches!(parse(chain, 1.0, Some(&profile(&[]))), Err(InputProblem::NotTimed)));
}
