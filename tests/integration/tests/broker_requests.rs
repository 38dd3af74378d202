//! Random requests to a broker: [`zico_tests::requests`] says what is checked.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failure fails the test")]

use std::sync::Arc;

use fastrand::Rng;
use zico_core::broker::{Lease, Offered, Reply, Request, Seen, Store, Told, Usage, Violation};
use zico_core::{Bytes, Caps, JobConfig, JobId, Lifetime, PoolConfig, Ticks};
use zico_node::wire::{Assembler, Up, packets};
use zico_tests::requests::{self, Sent};

fn lifetime(rng: &mut Rng) -> Lifetime {
    Lifetime::ALL[rng.usize(..Lifetime::ALL.len())]
}

fn pages(rng: &mut Rng) -> Vec<u64> {
    match rng.u8(..10) {
        0 => vec![rng.u64(..)],
        1 => vec![3, 3],
        _ => {
            let first = rng.u64(..12);
            (first..first + rng.u64(1..5)).collect()
        }
    }
}

fn seen(rng: &mut Rng) -> Seen {
    Seen { allocations: rng.u32(..4), hash: rng.u64(..4) }
}

fn request(rng: &mut Rng) -> Request {
    let mebibytes = Bytes::mib(rng.u64(..40));
    match rng.u8(..40) {
        0 => {
            let config = JobConfig::new("x".repeat(rng.usize(..140))).priority(rng.i32(..));
            let config = if rng.bool() { config.preemptible(Ticks::ZERO) } else { config };
            Request::Join(if rng.bool() { config.floor(mebibytes) } else { config.cap(mebibytes) })
        }
        1 => Request::Begin(rng.bool().then(|| rng.u64(..3))),
        2 => Request::Withdraw,
        3 => Request::End { seen: seen(rng), is_followed: rng.bool() },
        4 => Request::Recognise { power: rng.u32(..34), hash: rng.u64(..3) },
        5 => Request::Lose,
        6 => Request::Reached,
        7 => Request::Freed,
        8 => {
            let (regions, within) = (rng.u32(..20), rng.u32(..20));
            let starts = (0..rng.usize(0..4)).map(|_| rng.u32(..)).collect();
            Request::Replan { shape: None, seen: seen(rng), regions, within, starts }
        }
        9..16 => {
            let told =
                [Told::ByTheJob, Told::Learned, Told::Guessed { wave: true }][rng.usize(..3)];
            let (lifetime, pages) = (lifetime(rng), pages(rng));
            let (planned, last) = (rng.bool(), rng.bool());
            Request::Lease(Lease { lifetime, pages, planned, asked: mebibytes, told, last })
        }
        16..20 => Request::Settle { unmapped: rng.u32(..3), mapped: rng.u32(..5) },
        20 => Request::GiveBack(lifetime(rng), pages(rng)),
        21 => Request::Fence(rng.u64(..50)),
        22 if rng.bool() => {
            Request::Hold { job: JobId::from_number(rng.u64(..6)), held: rng.u8(..3) > 0 }
        }
        22 => Request::Completed(rng.u64(..50)),
        23 => [Request::Leave, Request::Departed, Request::Job, Request::Profile][rng.usize(..4)]
            .clone(),
        24 => Request::Released(rng.u32(..14)),
        25 => Request::Rejoin(JobId::from_number(rng.u64(..)), JobConfig::new("again")),
        26 => {
            let at = Some((lifetime(rng), rng.u64(..12)));
            Request::Offer(vec![Offered { region: rng.u32(..14), at, usage: Usage::Leased }])
        }
        27 => Request::Resume { runs: rng.bool(), claim: Some(rng.u32(..20)) },
        28..31 => Request::Suspend,
        31 => [Request::Gone, Request::Spare][rng.usize(..2)].clone(),
        32..34 => Request::Send(lifetime(rng), pages(rng)),
        34 => Request::Back,
        35 => Request::Away { regions: vec![(lifetime(rng), rng.u32(..))], goes: rng.bool() },
        36..38 => Request::Return,
        _ => Request::LeaseBack(lifetime(rng), pages(rng)),
    }
}

#[test]
fn whatever_clients_send_the_broker_keeps_its_promises() {
    for seed in 0..3000 {
        let result = std::panic::catch_unwind(|| {
            let mut rng = Rng::with_seed(seed);
            let mut sent = Sent::new();
            for _ in 0..300 {
                let request = if rng.u8(..40) == 0 { None } else { Some(request(&mut rng)) };
                sent.step(rng.u8(..), rng.u8(..), request);
            }
            sent.finish();
        });
        assert!(result.is_ok(), "with seed {seed}");
    }
}

/// The same as bytes, some of them wrong.
#[test]
fn whatever_bytes_come_the_broker_keeps_its_promises() {
    let mut rng = Rng::with_seed(7);
    for _ in 0..500 {
        let mut bytes = Vec::new();
        for _ in 0..100 {
            let packet = packets(&Up::Request(None, request(&mut rng))).remove(0);
            if let Ok(len) = u8::try_from(packet.len()) {
                bytes.extend([rng.u8(..), rng.u8(..), len]);
                bytes.extend(packet);
            }
        }
        for _ in 0..rng.u8(..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        requests::bytes(&bytes);
    }
}

/// A client that takes its job to be where it is not is cut off: it could come back with more than
/// it has taken away.
#[test]
fn a_job_that_is_away_gets_no_more_than_it_has_left() {
    let persistent = |pages: &[u64]| (Lifetime::Persistent, pages.to_vec());
    let send = |(lifetime, pages)| Request::Send(lifetime, pages);
    let back = |(lifetime, pages)| Request::LeaseBack(lifetime, pages);
    let lease = || {
        let (lifetime, pages) = persistent(&[7]);
        let (planned, asked, told, last) = (false, Bytes::ZERO, Told::ByTheJob, false);
        Request::Lease(Lease { lifetime, pages, planned, asked, told, last })
    };
    let gone = || vec![Request::Suspend, send(persistent(&[0, 1])), Request::Gone];
    let bad_way = Err(Violation::BadWay);
    // What has been done before, and what comes of a further request.
    for (done, request, expected) in [
        (vec![], Request::Suspend, Ok(Some(Reply::Suspended(Ok(()))))),
        (vec![], send(persistent(&[1])), Ok(None)),
        (vec![], back(persistent(&[1])), Err(Violation::BadPage)),
        (vec![], back(persistent(&[5])), Ok(Some(Reply::Whether(false)))),
        (
            vec![],
            Request::Away { regions: vec![(Lifetime::Persistent, 1)], goes: false },
            bad_way.clone(),
        ),
        (vec![Request::Begin(None)], send(persistent(&[1])), bad_way.clone()),
        (vec![Request::Suspend], Request::Suspend, bad_way.clone()),
        (vec![Request::Suspend], lease(), bad_way.clone()),
        (vec![Request::Suspend], send(persistent(&[0])), Ok(None)),
        (vec![Request::Suspend], send(persistent(&[1 << 40])), bad_way.clone()),
        (gone(), lease(), bad_way.clone()),
        (gone(), back(persistent(&[0])), Ok(Some(Reply::Whether(false)))),
        ([gone(), vec![Request::Return]].concat(), back(persistent(&[0, 1, 2])), bad_way.clone()),
        ([gone(), vec![Request::Return]].concat(), back((Lifetime::Iteration, vec![0])), bad_way),
    ] {
        let caps = Caps::new(Bytes::mib(2), Bytes::gib(1));
        let config = PoolConfig::new(Bytes::mib(16)).region_size(Bytes::mib(2));
        let mut broker = config.broker::<_, ()>(caps, Nothing).unwrap();
        let client = broker.connect(0);
        let mut handle = |job, request| broker.handle(client, job, request, Ticks::ZERO);
        let Ok(Some(Reply::Joined(job))) = handle(None, Request::Join("job".into())) else {
            panic!("it joins");
        };
        let two = Lease { pages: vec![0, 1], ..leased(lease()) };
        assert!(matches!(handle(Some(job), Request::Lease(two)), Ok(Some(Reply::Granted(_)))));
        handle(Some(job), Request::Settle { unmapped: 0, mapped: 2 }).unwrap();
        for request in &done {
            handle(Some(job), request.clone()).unwrap();
        }
        assert_eq!(handle(Some(job), request.clone()), expected, "{request:?} after {done:?}");
    }
}

fn leased(request: Request) -> Lease {
    let Request::Lease(lease) = request else { panic!("a lease") };
    lease
}

/// Memory of which there is always some.
struct Nothing;

impl Store for Nothing {
    fn create(&mut self, _: u32) -> Result<(), Arc<str>> {
        Ok(())
    }

    fn destroy(&mut self, _: u32) -> Result<(), Arc<str>> {
        Ok(())
    }
}

/// What a job says of itself arrives.
#[test]
fn the_terms_of_a_job_arrive_as_they_are() {
    let config = JobConfig::new("job").priority(3).floor(Bytes::mib(2)).cap(Bytes::mib(8));
    let config = config.preemptible(Ticks::millis(250));
    let up = Up::Request(None, Request::Join(config));
    let mut assembler = Assembler::new(1 << 16);
    let arrived = packets(&up).iter().find_map(|packet| assembler.push(packet).unwrap());
    assert_eq!(arrived, Some(up));
}
