//! Random requests to a broker: [`zico_tests::requests`] says what is checked.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use fastrand::Rng;
use zico_core::broker::{Lease, Offered, Request, Seen, Told, Usage};
use zico_core::{Bytes, JobConfig, JobId, Lifetime};
use zico_node::wire::{Up, packets};
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
            Request::Join(if rng.bool() { config.floor(mebibytes) } else { config.cap(mebibytes) })
        }
        1 => Request::Begin(rng.bool().then(|| rng.u64(..3))),
        2 => Request::Withdraw,
        3 => Request::End(seen(rng)),
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
        31 => Request::Gone,
        32 => Request::Stay(lifetime(rng), pages(rng)),
        33 => Request::SendAgain(lifetime(rng), pages(rng)),
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
