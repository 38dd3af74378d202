//! `zico compare`

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::{json, refused, stderr, stdout, zico};

fn compare<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["compare", "resnet50", "mobilenet_v2", "-n", "3"]
        .into_iter()
        .chain(more.iter().copied())
        .collect()
}

/// Removes the fields that vary from run to run.
fn without_costs(mut comparison: Value) -> Value {
    for budget in comparison["budgets"].as_array_mut().unwrap() {
        for policy in budget["policies"].as_array_mut().unwrap() {
            let cost = policy.as_object_mut().unwrap().remove("decision_cost").unwrap();
            let asked = policy["decisions"].as_u64().unwrap() > 0;
            assert_eq!(cost.is_object(), asked, "{policy}");
            if asked {
                let (median, late) = (&cost["median_seconds"], &cost["p99_seconds"]);
                assert!(median.as_f64().unwrap() <= late.as_f64().unwrap(), "{cost}");
            }
        }
    }
    comparison
}

#[test]
fn a_comparison_in_json_has_every_policy_under_every_budget() {
    let args = compare(&["--budget", "f=0.25,f=1.1", "--json"]);
    let comparison = json(&args);
    assert_eq!(comparison["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&comparison["iterations"], &comparison["hand_over"]),
        (&3.into(), &"fenced".into())
    );
    let budgets = comparison["budgets"].as_array().unwrap();
    assert_eq!(budgets.len(), 2);
    for (budget, runs_everything) in budgets.iter().zip([false, true]) {
        let policies = budget["policies"].as_array().unwrap();
        let names: Vec<&str> = policies.iter().map(|p| p["policy"].as_str().unwrap()).collect();
        let first = ["zico", "zico-throughput", "zico-fairness", "conservative", "model-based"];
        assert_eq!((&names[..5], names[12], names.len()), (&first[..], "unmanaged", 13));
        let most = policies.iter().filter_map(|p| p["figures"]["total_throughput"].as_f64());
        let most = most.fold(0.0, f64::max);
        assert!(policies.iter().any(|policy| policy["best"] == true));
        for policy in policies {
            assert_eq!((&policy["violations"], &policy["stuck"]), (&0.into(), &false.into()));
            let keeps_peaks = match policy["policy"].as_str() {
                Some("static") => Some("needs"),
                Some("unmanaged") => Some("the device refused: out of memory"),
                _ => None,
            };
            if let Some(reason) = keeps_peaks.filter(|_| !runs_everything) {
                assert!(policy["figures"].is_null() && policy["best"] == false, "{policy}");
                assert!(policy["reason"].as_str().unwrap().contains(reason), "{policy}");
                continue;
            }
            assert!(policy["reason"].is_null(), "{policy}");
            check_figures(&policy["figures"], budget["budget_bytes"].as_f64().unwrap());
            let throughput = policy["figures"]["total_throughput"].as_f64().unwrap();
            // Those that show the same three decimals as the most are all marked.
            let shows = |figure: f64| format!("{figure:.3}");
            assert_eq!(policy["best"] == true, shows(throughput) == shows(most), "{policy}");
        }
    }
    assert_eq!(without_costs(comparison), without_costs(json(&args)), "the same twice");
}

fn check_figures(figures: &Value, budget: f64) {
    let number = |key: &str| figures[key].as_f64().unwrap_or_else(|| panic!("no {key}"));
    let relative: Vec<f64> =
        figures["relative"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    let (sum, squares) = (relative[0] + relative[1], relative.iter().map(|x| x * x).sum::<f64>());
    assert!((number("total_throughput") - sum).abs() < 1e-9, "{figures}");
    assert!((number("fairness") - sum * sum / (2.0 * squares)).abs() < 1e-9, "{figures}");
    assert!(number("peak_held_bytes") > 0.0 && number("peak_held_bytes") <= budget, "{figures}");
    for share in ["start_delay_share", "stall_share"] {
        assert!((0.0..=1.0).contains(&number(share)), "{figures}");
    }
    assert!(number("iterations") >= 6.0 && number("makespan_seconds") > 0.0, "{figures}");
    assert!(number("memory_calls_per_iteration") > 0.0, "{figures}");
}

/// A policy gives the same figures in a comparison as in a replay of its own.
#[test]
fn a_comparison_agrees_with_a_replay() {
    let jobs =
        ["dlrm", "dlrm", "-n", "2", "--hand-over", "isolated", "--json", "--policy", "tick-tock"];
    let budget = ["--budget", "2850MiB"];
    let args = |command| [&[command], &jobs[..], &budget].concat();
    let (replay, comparison) = (json(&args("replay")), json(&args("compare")));
    let policies = comparison["budgets"][0]["policies"].as_array().unwrap();
    assert_eq!(policies.len(), 1);
    let figures = &policies[0]["figures"];
    for key in ["total_throughput", "peak_held_bytes", "makespan_seconds"] {
        assert_eq!(figures[key], replay[key], "{key}");
    }
    for key in ["region_bytes", "least_budget_bytes", "seed", "utilisation"] {
        assert_eq!(comparison[key], replay[key], "{key}");
    }
    assert_eq!(comparison["jobs"][1]["name"], "dlrm #2");
    assert_eq!(comparison["hand_over"], "isolated");
}

#[test]
fn people_get_a_table_for_each_budget() {
    let args = compare(&["--budget", "2.7GiB,f=0.5", "-p", "exclusive,zico,static"]);
    let output = zico(&args);
    let text = stdout(&output);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{text}");
    for words in
        ["Budget 2.70 GiB (f = 0.", "(f = 0.50)", "- static: ", "Jain", "asked", "| zico *"]
    {
        assert!(text.contains(words), "no {words:?} in\n{text}");
    }
    let rows = || text.lines().filter(|line| line.starts_with('|'));
    assert!(rows().all(|line| line.chars().count() <= 110), "{text}");
    let firsts: Vec<&str> = rows().filter_map(|row| row.split_whitespace().nth(1)).collect();
    let table = ["policy", "exclusive", "zico", "static"];
    assert_eq!((&firsts[3..7], &firsts[7..]), (&table[..], &table[..]));
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_reason() {
    refused(&["compare", "nobody", "--budget", "f=0.5"], &["nobody", "resnet50", "bert-base"]);
    refused(&["compare", "--budget", "f=0.5"], &["TRACE"]);
    refused(&["compare", "dlrm"], &["--budget"]);
    refused(&compare(&["--budget", "f=0.5", "--policy", "zico,best"]), &["best", "tick-tock"]);
    for (budgets, words) in [
        ("f=0.5,", "no number"),
        ("f=0.5,much", "no number"),
        ("f=0.5,f=-1", "too small for these jobs"),
        ("3GiB;4GiB", "no number"),
        ("f=0.5,0", "more than nothing"),
    ] {
        let argument = format!("--budget={budgets}");
        refused(&compare(&[&argument]), &[words]);
    }
    refused(&compare(&["--budget", "f=1,1GiB"]), &["a budget of 1 GiB", "too small", "resnet50: "]);
    let report = ["--budget", "f=1", "-p", "zico", "--report", "no/such/folder/r.html"];
    refused(&compare(&report), &["cannot write no/such/folder/r.html"]);
}

#[test]
fn the_report_of_a_comparison_is_well_formed() {
    let report = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("comparison.html");
    let path = report.to_str().unwrap();
    let budgets = ["--budget", "f=0.25,f=0.5", "-p", "zico,static"];
    let args = compare(&[&budgets[..], &["--report", path, "--force"]].concat());
    assert_eq!(zico(&args).status.code(), Some(0));
    let html = fs::read_to_string(report).unwrap();
    for words in ["<!doctype html>", "mobilenet_v2", "did not run", "beyond the job", "(f = 0.50)"]
    {
        assert!(html.contains(words), "no {words:?}");
    }
    for words in ["<script", "http://", "https://", "NaN", "inf", "{{", "{%"] {
        assert!(!html.contains(words), "{words:?} in the report");
    }
    assert_eq!((html.matches("<svg").count(), html.matches("class=\"budget\"").count()), (2, 2));
    balanced(&html);
}

/// A budget far above what is held is named at the upper edge; the waves have the picture for
/// themselves.
#[test]
fn a_picture_is_as_high_as_what_there_is_to_see() {
    let report = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("scale.html");
    let path = report.to_str().unwrap();
    // The highest point of the areas, from the upper edge.
    let highest = |html: &str| {
        let areas =
            html.split("<path class=\"c").skip(1).filter_map(|path| path.split("d=\"M").nth(1));
        let steps = areas.flat_map(|path| path.split('"').next().unwrap().split('V').skip(1));
        let figure = |step: &str| step.split(['H', 'Z']).next().unwrap().parse::<f64>().unwrap();
        steps.map(figure).fold(f64::INFINITY, f64::min)
    };
    let html = |args: &[&str]| {
        let output = zico(&[args, &["-n", "3", "--report", path, "--force"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", crate::stderr(&output));
        let html = fs::read_to_string(&report).unwrap();
        balanced(&html);
        html
    };
    for (budget, label, line) in [
        ("64GiB", "budget 64 GiB, ", false),
        ("4GiB", "budget 4 GiB, ", false),
        ("1.5GiB", "budget 1.50 GiB<", true),
    ] {
        let far = if line { "" } else { " times the peak" };
        let one = html(&["replay", "gcn", "--budget", budget]);
        let two = html(&["compare", "gcn", "--budget", budget, "-p", "zico,exclusive"]);
        // The whole height is 300 and 100; a budget that is near leaves half of it at least.
        let edges = if line { [16.0..166.0, 0.0..50.0] } else { [16.0..50.0, 0.0..15.0] };
        for (html, edges) in [one, two].into_iter().zip(edges) {
            assert!(html.contains(label) && html.contains(far), "no {label:?} with {far:?}");
            assert_eq!(html.contains("<line class=\"budget\""), line, "{budget}");
            assert_eq!(html.contains("class=\"beyond"), !line, "{budget}");
            assert!(edges.contains(&highest(&html)), "{budget}: {}", highest(&html));
        }
    }
}

/// Every element that is opened is closed, in order.
fn balanced(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in html.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("<{tag} has no end"));
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        let name = tag.split_whitespace().next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(closed) => assert_eq!(open.pop(), Some(closed)),
            None if tag.ends_with('/') || ["meta", "!doctype"].contains(&name) => {}
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

/// Opportunistic jobs are paced, where there are any.
#[test]
fn a_job_of_low_priority_is_paced() {
    let pair = ["dlrm", "dlrm", "-n", "4", "--budget", "f=1", "--utilisation", "1", "--json"];
    let low = ["--priority", "dlrm #2=opportunistic"];
    let run = |more: &[&str]| json(&[&["replay"], &pair[..], &low[..], more].concat());
    let share = |run: &Value| run["jobs"][1]["iterations"].as_u64().unwrap();
    let (free, paced) = (run(&[]), run(&["--policy", "tgs"]));
    assert_eq!((&free["policy"], &paced["policy"]), (&"zico".into(), &"tgs".into()));
    assert!(share(&free) >= 3, "{free}");
    assert_eq!(share(&paced), 0, "the first 25 seconds it profiles");
    let both = [&["compare"], &pair[..], &low[..], &["--policy", "estimating"]].concat();
    assert_eq!(json(&both)["budgets"][0]["policies"][0]["policy"], "estimating");
    let alone = |more: &[&'static str]| [&["replay"], &pair[..], more].concat();
    refused(&alone(&["--policy", "tgs"]), &["--priority", "dlrm #2=opportunistic"]);
    refused(&alone(&["--priority", "gnmt=production"]), &["gnmt", "dlrm #2"]);
    refused(&alone(&["--priority", "dlrm=high"]), &["NAME=production"]);
}

/// An opportunistic job has under AntMan what production leaves: the rest of it is on the host.
#[test]
fn antman_gives_production_its_memory_and_has_the_rest_on_the_host() {
    let pair = ["compare", "dlrm", "mobilenet_v2", "-n", "60", "--scale-time", "0.2", "--json"];
    let pair = [&pair[..], &["--policy", "antman,zico"]].concat();
    let low = ["--priority", "mobilenet_v2=opportunistic"];
    let comparison = json(&[&pair[..], &low[..], &["--budget", "f=0"]].concat());
    let [antman, zico] = [0, 1].map(|i| &comparison["budgets"][0]["policies"][i]);
    assert_eq!((&antman["policy"], &antman["violations"]), (&"antman".into(), &0.into()));
    let figure = |policy: &Value, name: &str| policy["figures"][name].clone();
    assert!(figure(antman, "moved_bytes").as_u64().unwrap() > 0, "{antman}");
    assert_eq!(figure(zico, "moved_bytes"), 0);
    let budget = comparison["budgets"][0]["budget_bytes"].as_u64().unwrap();
    assert!(figure(antman, "peak_held_bytes").as_u64().unwrap() <= budget);
    assert!(figure(antman, "relative")[0].as_f64().unwrap() > 0.9, "{antman}");
    // Less than what both keep: it runs nevertheless.
    let least = ["replay", "dlrm", "mobilenet_v2", "-n", "3", "--budget", "64MiB", "--json"];
    let replay = json(&[&least[..], &low[..], &["--policy", "antman"]].concat());
    assert!(replay["moved_out_bytes"].as_u64().unwrap() > 0, "{replay}");
    assert!(replay["jobs"][0]["iterations"].as_u64().unwrap() >= 3);
    refused(&[&least[..], &["--policy", "antman"]].concat(), &["--priority mobilenet_v2="]);
    let on_host = [&least[..], &low[..], &["--policy", "antman", "--device", "host"]].concat();
    refused(&on_host, &["antman", "leave out --device"]);
}

/// Gandiva's jobs take turns of a minute in a budget that has no room for what both keep: in so
/// short a replay that is one after the other. No other policy shares so little.
#[test]
fn gandiva_runs_by_turns_what_does_not_fit_side_by_side() {
    let least = ["compare", "gpt2-small", "bert-base", "-n", "3", "--budget", "3.6GiB", "--json"];
    let comparison = json(&[&least[..], &["--policy", "gandiva"]].concat());
    let policy = &comparison["budgets"][0]["policies"][0];
    assert_eq!((&policy["policy"], &policy["violations"]), (&"gandiva".into(), &0.into()));
    assert!(policy["figures"]["total_throughput"].as_f64().unwrap() > 0.5, "{policy}");
    let on_host = ["replay", "gpt2-small", "--budget", "4GiB", "--policy", "gandiva", "--device"];
    refused(&[&on_host[..], &["host"]].concat(), &["--policy gandiva", "leave out --device"]);
    refused(
        &[&least[..], &["--policy", "spatial"]].concat(),
        &["too small for these jobs", "--time-slice"],
    );
}
