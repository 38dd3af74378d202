//! The pool against a small model, whatever jobs do and whatever the device refuses.
//!
//! What is checked after every call stands in `zico_tests::world`. A failing case prints as the
//! shrunk list of calls that leads to it.

use proptest::prelude::*;
use zico_core::{HandOver, Lifetime};
use zico_mock::Operations;
use zico_tests::world::{Call, JOBS, World};

fn call() -> impl Strategy<Value = Call> {
    let job = 0..JOBS;
    let kib = prop_oneof![Just(0), 1..64u64, 1024..3000u64, 3000..20_000u64];
    let lifetime = prop::option::weighted(0.75, prop::sample::select(Lifetime::ALL.as_slice()));
    let operations = prop_oneof![
        Just(Operations::empty()),
        Just(Operations::CREATE),
        Just(Operations::MAP),
        Just(Operations::RECORD),
        Just(Operations::QUERY),
        Just(Operations::ALLOCATE),
        Just(Operations::COPY_OUT),
        Just(Operations::COPY_IN),
        Just(Operations::all()),
    ];
    let one = prop_oneof![
        2 => job.clone().prop_map(Call::JoinOrLeave),
        6 => job.clone().prop_map(Call::BeginOrEnd),
        6 => job.clone().prop_map(Call::SuspendOrResume),
        24 => (job.clone(), kib, 9..22u32, lifetime)
            .prop_map(|(job, kib, align, lifetime)| Call::Alloc { job, kib, align, lifetime }),
        16 => (job.clone(), any::<usize>()).prop_map(|(job, which)| Call::Free { job, which }),
        6 => (job.clone(), any::<usize>(), 0..500u64)
            .prop_map(|(job, which, micros)| Call::UseElsewhere { job, which, micros }),
        12 => (job.clone(), 0..500u64).prop_map(|(job, micros)| Call::Launch { job, micros }),
        16 => (job.clone(), 1..40usize).prop_map(|(job, steps)| Call::Routine { job, steps }),
        1 => (job.clone(), any::<u8>()).prop_map(|(job, what)| Call::Absurd { job, what }),
        2 => (job.clone(), any::<bool>()).prop_map(|(job, side)| Call::Mute { job, side }),
        1 => (job, any::<u8>()).prop_map(|(job, calls)| Call::Idle { job, calls }),
        6 => (0..1000u64).prop_map(|micros| Call::Advance { micros }),
        4 => Just(Call::Poll),
        2 => (0..32u64).prop_map(|mib| Call::Trim { mib }),
        2 => (0..50u64).prop_map(|mib| Call::SetBudget { mib }),
        3 => (0..JOBS, 0..50u32, 0..2000u64, 0..30u32).prop_map(
            |(job, operations, micros, burst)| Call::SetPace { job, operations, micros, burst }
        ),
        2 => (operations, 0..1000u16).prop_map(|(operations, permille)| Call::Fail { operations, permille }),
    ];
    let during = (0..12u8, any::<bool>(), one.clone())
        .prop_map(|(skip, before, call)| Call::During { skip, before, call: Box::new(call) });
    prop_oneof![8 => one, 1 => during]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(zico_tests::cases(2000)) })]

    #[test]
    fn whatever_jobs_do_the_promises_hold(
        hand_over in prop::sample::select(vec![HandOver::Fenced, HandOver::Isolated]),
        fewest_calls: bool,
        jobs in 2..=JOBS,
        calls in prop::collection::vec(call(), 1..300),
    ) {
        let mut world = World::new(hand_over, fewest_calls, jobs);
        for call in &calls {
            world.call(call);
            world.check();
        }
        world.end();
    }
}

/// The routine of the world is one that the pool plans, so that what stands above is true of plans
/// too.
#[test]
fn routines_are_planned() {
    let mut world = World::new(HandOver::Fenced, false, 3);
    for _ in 0..4 {
        world.call(&Call::Routine { job: 0, steps: 16 });
        world.call(&Call::Advance { micros: 100 });
        world.check();
    }
    let planning = world.planning(0);
    assert_eq!((planning.plans, planning.placed, planning.departed), (1, 14, 0));
    world.end();
}

/// A job whose iterations begin with a leftover learns that one of its blocks persists, while
/// another job has all of the budget to come back for.
#[test]
fn nothing_that_stays_hides_behind_what_iterations_begin_with() {
    let mut world = World::new(HandOver::Fenced, false, 2);
    let iteration = Some(Lifetime::Iteration);
    let calls = [
        Call::Routine { job: 1, steps: 29 },
        Call::Free { job: 1, which: 0 },
        Call::Alloc { job: 1, kib: 0, align: 21, lifetime: None },
        Call::Alloc { job: 1, kib: 18_433, align: 9, lifetime: None },
        Call::Free { job: 1, which: 2 },
        Call::BeginOrEnd(1),
        Call::SetBudget { mib: 24 },
        Call::SuspendOrResume(1),
        Call::Advance { micros: 800 },
        Call::Alloc { job: 0, kib: 0, align: 9, lifetime: iteration },
        Call::Routine { job: 0, steps: 28 },
    ];
    for call in &calls {
        world.call(call);
        world.check();
    }
    world.end();
}

/// D71: within a call that lowers the budget a job begins to go to the host, and while its copies
/// are made another one leases memory that stays.
#[test]
fn what_stays_leaves_room_for_one_that_has_just_begun_to_go() {
    let mut world = World::new(HandOver::Fenced, false, 6);
    let persistent = Some(Lifetime::Persistent);
    let alloc = |job, kib, align, lifetime| Call::Alloc { job, kib, align, lifetime };
    let during = |skip, before, call| Call::During { skip, before, call: Box::new(call) };
    let calls = [
        Call::BeginOrEnd(4),
        Call::SuspendOrResume(0),
        Call::Routine { job: 2, steps: 1 },
        alloc(4, 11, 9, persistent),
        alloc(4, 2561, 9, None),
        Call::BeginOrEnd(0),
        alloc(4, 0, 19, None),
        Call::JoinOrLeave(3),
        alloc(1, 0, 9, None),
        alloc(4, 11263, 11, None),
        Call::Free { job: 1, which: 0 },
        Call::Routine { job: 0, steps: 1 },
        Call::JoinOrLeave(3),
        Call::BeginOrEnd(0),
        Call::BeginOrEnd(0),
        Call::Mute { job: 1, side: false },
        alloc(4, 0, 9, None),
        Call::BeginOrEnd(0),
        Call::SuspendOrResume(0),
        Call::BeginOrEnd(0),
        Call::BeginOrEnd(0),
        Call::JoinOrLeave(3),
        Call::JoinOrLeave(0),
        Call::JoinOrLeave(3),
        Call::Free { job: 4, which: 5740458924269347546 },
        Call::JoinOrLeave(3),
        Call::JoinOrLeave(3),
        Call::BeginOrEnd(4),
        Call::BeginOrEnd(0),
        Call::JoinOrLeave(3),
        Call::BeginOrEnd(0),
        Call::BeginOrEnd(0),
        during(5, false, alloc(2, 0, 9, None)),
        alloc(1, 8193, 9, persistent),
        during(1, true, Call::SuspendOrResume(4)),
        alloc(4, 2045, 12, None),
        Call::SetBudget { mib: 28 },
    ];
    for call in &calls {
        world.call(call);
        world.check();
    }
    world.end();
}
