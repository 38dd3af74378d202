//! `zico suspend` and `zico resume`.

use std::time::Duration;

use zico_core::{Activity, Begin, Bytes, JobConfig, Lifetime, Request, Ticks};
use zico_node::host::{HostConfig, HostDevice};
use zico_node::{Client, Observer};

use crate::{Broker, refused, stdout, until};

#[test]
fn a_job_is_on_the_host_until_somebody_says_otherwise() {
    let broker = Broker::host("4MiB", &[]);
    let device = HostDevice::new(HostConfig::new()).unwrap();
    let pool = Client::connect(device.clone(), &broker.socket).unwrap();
    let config = JobConfig::new("train").cooperative(Ticks::millis(1));
    let job = pool.join(config, device.add_stream()).unwrap();
    let firm = pool.join("firm", device.add_stream()).unwrap();
    let look = Duration::from_millis(1);
    let kept = job.alloc_blocking(Request::new(Bytes::mib(2), Lifetime::Persistent), look).unwrap();
    device.fill(kept.address(), kept.bytes(), 7).unwrap();
    let ask = |words: &[&str]| {
        let output = broker.ask(words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        stdout(&output)
    };
    assert_eq!(ask(&["suspend", "train"]), "train goes to the host when its iteration has ended\n");
    let observer = Observer::connect(&broker.socket).unwrap();
    until("that it is on the host", || {
        assert!(matches!(job.begin(None), Ok(Begin::Wait(_))), "it does not come back");
        pool.poll().unwrap();
        let books = observer.snapshot().unwrap();
        books.jobs.iter().any(|job| job.activity == Activity::Suspended)
    });
    assert!(ask(&["status"]).contains("suspended"));
    // Another one has its room.
    firm.begin_blocking(None, look).unwrap();
    let all = Request::new(Bytes::mib(3), Lifetime::Iteration);
    let block = firm.alloc_blocking(all, look).unwrap();
    firm.free(block).unwrap();
    firm.end().unwrap();
    assert_eq!(ask(&["resume", "train"]), "train comes back as soon as there is room\n");
    job.begin_blocking(None, look).unwrap();
    assert!(device.verify(kept.address(), kept.bytes(), 7).unwrap());
    job.end().unwrap();
    refused(
        &mut broker.ask(&["suspend", "firm"]),
        &["firm: the job takes no turns", "--time-slice"],
    );
    refused(&mut broker.ask(&["suspend", "other"]), &["no job is called \"other\"", "train, firm"]);
    refused(&mut broker.ask(&["resume"]), &["<JOB>"]);
    drop((job, firm, pool));
}
