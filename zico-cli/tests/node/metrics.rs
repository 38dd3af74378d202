//! `zico serve --metrics`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use zico_core::{Bytes, Lifetime, Request};

use crate::{Broker, LOOK, iteration};

/// The address in the line that the broker prints.
fn address(broker: &Broker) -> String {
    let (_, rest) = broker.line.split_once("metrics at http://").unwrap();
    rest.trim().strip_suffix("/metrics").unwrap().to_owned()
}

/// Sends bytes, and returns the head and the body of the answer.
fn send(address: &str, bytes: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.to_owned(), body.to_owned())
}

fn get(address: &str, path: &str) -> (String, String) {
    send(address, format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())
}

/// The values of the text format, by name and labels in order; fails where it is not as documented.
fn parse(text: &str) -> BTreeMap<(String, Vec<(String, String)>), f64> {
    assert!(text.ends_with('\n'), "the last line has no end");
    let mut values = BTreeMap::new();
    let (mut helped, mut typed) = (None, None);
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split(' ').next();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(helped == Some(name) && ["gauge", "counter"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            typed = Some(name);
        } else {
            let ((name, labels), value) = sample(line);
            assert_eq!(typed, Some(name.as_str()), "{line}");
            assert!(values.insert((name, labels), value).is_none(), "twice: {line}");
        }
    }
    values
}

/// `name{label="value",...} value`
fn sample(line: &str) -> ((String, Vec<(String, String)>), f64) {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let (name, mut rest) = line.split_once('{').unwrap();
    assert!(is_name(name), "{line}");
    let mut labels = Vec::new();
    while !rest.starts_with('}') {
        rest = rest.trim_start_matches(',');
        let (label, value) = rest.split_once("=\"").unwrap();
        assert!(is_name(label), "{line}");
        let (mut text, mut chars) = (String::new(), value.char_indices());
        rest = loop {
            match chars.next().unwrap() {
                (at, '"') => break &value[at + 1..],
                (_, '\\') => text.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    c if c == '\\' || c == '"' => c,
                    c => panic!("\\{c} in {line}"),
                }),
                (_, c) => text.push(c),
            }
        };
        labels.push((label.to_owned(), text));
    }
    ((name.to_owned(), labels), rest.strip_prefix("} ").unwrap().parse().unwrap())
}

#[test]
fn metrics_say_what_status_says() {
    let broker = Broker::host("4MiB", &["--metrics", "0"]);
    let (_device, _pool, job) = broker.job("a \"job\" \\ of\nmine");
    iteration(&job, Bytes::mib(2), Duration::ZERO);
    let block =
        job.alloc_blocking(Request::new(Bytes::mib(1), Lifetime::Persistent), LOOK).unwrap();
    let (head, body) = get(&address(&broker), "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {}", body.len())), "{head}");
    let values = parse(&body);
    let books = broker.json(&["status"]);
    let device = ("device", "host");
    let of = |name: &str, labels: &[(&str, &str)]| {
        let own = |(label, value): &(&str, &str)| ((*label).to_owned(), (*value).to_owned());
        values[&(name.to_owned(), labels.iter().map(own).collect())]
    };
    for (name, key) in [
        ("zico_budget_bytes", "budget_bytes"),
        ("zico_budget_pending_bytes", "pending_bytes"),
        ("zico_held_bytes", "held_bytes"),
        ("zico_free_bytes", "free_bytes"),
        ("zico_region_bytes", "region_bytes"),
        ("zico_leases_total", "leases"),
    ] {
        assert_eq!(Some(of(name, &[device])), books[key].as_f64(), "{name}");
    }
    assert!(of("zico_leased_regions_total", &[device]) >= 48.0);
    let creates = of("zico_device_calls_total", &[device, ("call", "create")]);
    assert_eq!(creates * 65_536.0, of("zico_held_bytes", &[device]));
    assert_eq!(of("zico_jobs", &[device, ("activity", "idle")]), 1.0);
    for what in ["start", "memory", "pace"] {
        assert_eq!(of("zico_waiting_jobs", &[device, ("for", what)]), 0.0, "{what}");
    }
    let id = books["jobs"][0]["id"].as_str().unwrap();
    let job_labels = [device, ("job", "a \"job\" \\ of\nmine"), ("id", id)];
    assert_eq!(of("zico_job_iterations_total", &job_labels), 1.0);
    assert_eq!(
        Some(of("zico_job_peak_bytes", &job_labels)),
        books["jobs"][0]["peak_bytes"].as_f64()
    );
    let persistent = [&job_labels[..], &[("kind", "persistent")]].concat();
    assert_eq!(of("zico_job_held_bytes", &persistent), f64::from(1 << 20));
    job.free(block).unwrap();
}

#[test]
fn nobody_who_asks_keeps_the_broker_or_others_from_anything() {
    let broker = Broker::host("4MiB", &["--metrics", "127.0.0.1:0"]);
    let address = address(&broker);
    let status = |(head, _): (String, String)| head.lines().next().unwrap().to_owned();
    assert_eq!(status(get(&address, "/")), "HTTP/1.1 200 OK");
    assert_eq!(status(get(&address, "/else")), "HTTP/1.1 404 Not Found");
    assert_eq!(
        status(send(&address, b"POST /metrics HTTP/1.1\r\n\r\n")),
        "HTTP/1.1 405 Method Not Allowed"
    );
    assert_eq!(status(send(&address, b"\x16\x03\x01\r\n\r\n")), "HTTP/1.1 400 Bad Request");
    assert_eq!(get(&address, "/metrics?x").0.lines().next(), Some("HTTP/1.1 200 OK"));
    let (head, body) = send(&address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.contains("200 OK") && body.is_empty());
    // Some who connect and say nothing: whoever comes after them waits for two seconds each.
    let (started, silent) =
        (Instant::now(), [(); 2].map(|()| TcpStream::connect(&address).unwrap()));
    assert_eq!(status(get(&address, "/metrics")), "HTTP/1.1 200 OK");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    drop(silent);
    // The broker itself did not wait, and has no descriptor left of them.
    let descriptors =
        || std::fs::read_dir(format!("/proc/{}/fd", broker.child.id())).unwrap().count();
    let before = descriptors();
    for _ in 0..50 {
        drop(TcpStream::connect(&address).unwrap());
    }
    assert_eq!(status(get(&address, "/metrics")), "HTTP/1.1 200 OK");
    assert!(descriptors() <= before + 1, "{} and then {}", before, descriptors());
}
