//! Small files of each kind, and what is wrong with some.

use zico_plan::relief::Graph;

use super::InputProblem;

fn parse(text: &str) -> Result<Graph, InputProblem> {
    Ok(super::parse(text, 1000.0, None)?.graph)
}

const CHAIN: &str = r#"{"directed": true, "graph": {"order": ["a", 7, "c"]}, "nodes": [
    {"id": "c", "cost": 0.5, "mem": 30}, {"id": "a", "cost_cpu": 1, "cost_ram": 10},
    {"id": 7, "duration": 2, "out_cost": 20}],
    "links": [{"source": "a", "target": 7}, {"source": 7, "target": "c"}]}"#;

#[test]
fn a_node_link_graph_in_its_order() {
    let graph = parse(CHAIN).expect("fine");
    let nanos: Vec<u64> = graph.operations().iter().map(|operation| operation.nanos).collect();
    assert_eq!((nanos, graph.peak()), (vec![1000, 2000, 500], 50));
    // As the random graphs of Moccasin are written.
    let other = CHAIN.replace("\"id\"", "\"name\"").replace("source", "0").replace("target", "1");
    assert_eq!(parse(&other).expect("fine").nanos(), 3500);
    // Without an order it is that of the nodes, as far as the edges let it.
    let graph = parse(&CHAIN.replace("order", "other").replace("links", "edges")).expect("fine");
    assert_eq!(graph.operations()[0].nanos, 1000);
}

#[test]
fn a_node_link_graph_that_is_wrong() {
    for (from, to, word) in [
        (r#""source": "a""#, r#""source": "x""#, "no node"),
        (r#""mem": 30"#, r#""size": 30"#, "none of"),
        (r#""mem": 30"#, r#""mem": -1"#, "no such figure"),
        (r#""id": 7"#, r#""id": "a""#, "two nodes"),
        (r#""source": "a""#, r#""source": "c""#, "circle"),
        ("true", "false", "direction"),
        (r#""nodes""#, r#""events""#, "neither"),
        ("[{", "[", "no JSON"),
    ] {
        let error = parse(&CHAIN.replace(from, to)).expect_err(word);
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

const LOG: &str = r#"{"INSTRUCTION":"CONSTANT","NAME":"w"}
{"INSTRUCTION":"MEMORY","MEMORY":"100","NAME":"w"}
{"ARGS":["w"],"INSTRUCTION":"CALL","NAME":"f","RESULT":["x","y"],"TIME":"50"}
{"INSTRUCTION":"MEMORY","MEMORY":"10","NAME":"x"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"x"}
{"INSTRUCTION":"MEMORY","MEMORY":"10","NAME":"y"}
{"ALIAS":"0","INSTRUCTION":"ALIAS","NAME":"y"}
{"ARGS":["x"],"INSTRUCTION":"MUTATE","MUTATE":[0],"NAME":"g","TIME":"7"}
{"DST":"z","INSTRUCTION":"COPY","SRC":"x"}
{"INSTRUCTION":"RELEASE","NAME":"x"}
{"INSTRUCTION":"ANNOTATE","ANNOTATION":"BACKWARD"}
"#;

#[test]
fn a_log_of_dtr() {
    let graph = parse(LOG).expect("fine");
    assert_eq!((graph.operations().len(), graph.nanos()), (2, 57));
    // A mutation makes a new storage; the name z keeps it, y is the weights'.
    assert_eq!((graph.storages().len(), graph.peak()), (3, 120));
    assert!(graph.storages()[0].kept && !graph.storages()[1].kept && graph.storages()[2].kept);
    for (from, to, line) in [
        (r#""SRC":"x""#, r#""SRC":"q""#, 9),
        (r#""MUTATE":[0]"#, r#""MUTATE":[3]"#, 8),
        (r#""TIME":"50""#, r#""TIME":"-50""#, 3),
        (r#""MEMORY":"100""#, r#""MEMORY":"much""#, 1),
        (r#""ANNOTATE""#, r#""JUMP""#, 11),
        (r#""ALIAS":"0""#, r#""ALIAS":"4""#, 3),
    ] {
        match parse(&LOG.replace(from, to)) {
            Err(InputProblem::Line { line: found, .. }) => assert_eq!(found, line, "{to}"),
            other => panic!("{to}: {other:?}"),
        }
    }
}
