//! `zico suspend` and `zico resume`.

use std::time::Duration;

use zico_core::{Activity, Begin, Bytes, JobConfig, Lifetime, Pace, Request, Ticks};
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

/// A broker that is killed and started anew knows who was told to stay on the host, and the paces.
#[test]
fn a_new_broker_knows_who_is_on_the_host_and_at_what_pace_a_job_goes() {
    let mut broker = Broker::host("4MiB", &[]);
    let device = HostDevice::new(HostConfig::new()).unwrap();
    let pool = Client::connect(device.clone(), &broker.socket).unwrap();
    let config = JobConfig::new("train").preemptible(Ticks::millis(1));
    let job = pool.join(config, device.add_stream()).unwrap();
    let slow = pool.join("slow", device.add_stream()).unwrap();
    assert!(pool.set_pace(slow.id(), Some(Pace::HALT)));
    let look = Duration::from_millis(1);
    let kept = job.alloc_blocking(Request::new(Bytes::mib(2), Lifetime::Persistent), look).unwrap();
    device.fill(kept.address(), kept.bytes(), 7).unwrap();
    let is_away = |broker: &Broker| {
        pool.poll().is_ok()
            && Observer::connect(&broker.socket).unwrap().snapshot().is_ok_and(|books| {
                let suspended = |job: &zico_core::JobSnapshot| job.activity == Activity::Suspended;
                books.jobs.len() == 2 && books.jobs.iter().any(suspended)
            })
    };
    broker.text(&["suspend", "train"]);
    until("that it is on the host", || is_away(&broker));
    for _ in 0..2 {
        broker.killed_and_started_anew("4MiB");
        until("that the new broker knows of both", || is_away(&broker));
        for _ in 0..20 {
            std::thread::sleep(look);
            assert!(matches!(job.begin(None), Ok(Begin::Wait(_))), "it does not come back");
            assert!(matches!(slow.begin(None), Ok(Begin::Wait(_))), "it is not to go on");
        }
        job.withdraw();
    }
    broker.text(&["resume", "train"]);
    job.begin_blocking(None, look).unwrap();
    assert!(device.verify(kept.address(), kept.bytes(), 7).unwrap());
    job.end().unwrap();
    assert!(pool.set_pace(slow.id(), None));
    slow.begin_blocking(None, look).unwrap();
    slow.end().unwrap();
    broker.killed_and_started_anew("4MiB");
    until("that the new broker knows of both", || {
        pool.poll().is_ok()
            && Observer::connect(&broker.socket)
                .unwrap()
                .snapshot()
                .is_ok_and(|books| books.jobs.len() == 2)
    });
    job.begin_blocking(None, look).unwrap();
    job.end().unwrap();
    slow.begin_blocking(None, look).unwrap();
    slow.end().unwrap();
    drop((job, slow, pool));
}
