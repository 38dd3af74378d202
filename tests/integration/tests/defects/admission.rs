//! When iterations start, and what jobs do before their first mark (R1 to R3).

use zico_core::{AllocError, Begin, Block, Device, Ticks};
use zico_mock::policy::Exclusive;
use zico_tests::waves::Reckless;

use super::{Setup, busy, learned, out_of_memory, own};

/// R1: the leftover of a job that waits in `begin` is looked at anew when it goes there: who was
/// told to wait for it is not left waiting.
#[test]
fn a_denial_is_looked_at_again_when_the_job_it_rests_on_waits_to_start() {
    let setup = Setup::under(8, Reckless);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&a, 2, 2);
    assert_eq!(a.begin(None), Ok(Begin::Started));
    let left = a.alloc(own(2)).unwrap();
    a.end().unwrap();
    setup.settle();
    assert_eq!(b.begin(None), Ok(Begin::Started));
    b.alloc(own(6)).unwrap();
    busy(&b.alloc(own(1)));
    let generation = setup.pool.generation();
    if a.begin(None) != Ok(Begin::Started) {
        assert_ne!(setup.pool.generation(), generation, "the one that waits is woken");
        busy(&b.alloc(own(1)));
        assert_eq!(a.begin(None), Ok(Begin::Started), "nothing else can go on");
    }
    a.free(left).unwrap();
    setup.settle();
    a.end().unwrap();
    setup.settle();
    b.alloc(own(1)).unwrap();
}

/// The same where the policy would not let it start beside the one that is denied: no other job can
/// free the memory that it waits for.
#[test]
fn who_keeps_what_all_wait_for_starts_whatever_the_policy_says() {
    let setup = Setup::under(8, Exclusive);
    let (a, b) = (setup.join("a"), setup.join("b"));
    setup.learn(&a, 2, 2);
    let left = a.alloc(own(2)).unwrap();
    assert_eq!(b.begin(None), Ok(Begin::Started));
    b.alloc(own(6)).unwrap();
    busy(&b.alloc(own(1)));
    let generation = setup.pool.generation();
    assert_eq!(a.begin(None), Ok(Begin::Wait(None)));
    assert_ne!(
        setup.pool.generation(),
        generation,
        "the one that waits for memory is to ask again"
    );
    busy(&b.alloc(own(1)));
    assert_eq!(a.begin(None), Ok(Begin::Started));
    a.free(left).unwrap();
    setup.settle();
    a.end().unwrap();
    setup.settle();
    b.alloc(own(1)).unwrap();
}

/// R2: a job that begins before its model is built has parameters and optimizer state among the
/// blocks of its iterations, for ever. Its claims and what it keeps are right after a few
/// iterations, and no job hangs meanwhile.
#[test]
fn a_job_that_begins_before_its_model_is_built_ends_up_with_the_right_claims() {
    let setup = Setup::new(12);
    let (a, b) = (setup.join("a"), setup.join("b"));
    assert_eq!(a.begin(None), Ok(Begin::Started));
    a.alloc(learned(3)).unwrap();
    for round in 0..4 {
        if round > 0 {
            setup.settle();
            assert_eq!(a.begin(None), Ok(Begin::Started));
        }
        let wave = a.alloc(learned(4)).unwrap();
        a.free(wave).unwrap();
        a.end().unwrap();
        // The other one gets all that is not kept, each time.
        setup.settle();
        assert_eq!(b.begin(None), Ok(Begin::Started));
        let block = b.alloc(own(9)).unwrap();
        b.free(block).unwrap();
        b.end().unwrap();
    }
    setup.settle();
    // What it always begins with is kept for good: more than the rest is never available.
    assert_eq!(b.begin(None), Ok(Begin::Started));
    let text = out_of_memory(b.alloc(own(10)));
    assert!(text.contains("a holds 6 MiB") && text.contains("larger by 2 MiB"), "{text}");
}

/// R3: two jobs whose first step comes before their first mark, each with a peak of more than half
/// the budget: the second waits for the first, and none is refused.
#[test]
fn first_steps_before_the_first_mark_fit_below_the_sum_of_the_peaks() {
    let setup = Setup::new(10);
    let jobs = [setup.join("a"), setup.join("b")];
    // The models, and what building them has thrown away.
    let models = jobs.each_ref().map(|job| {
        let model = job.alloc(learned(1)).unwrap();
        job.free(job.alloc(learned(1)).unwrap()).unwrap();
        setup.settle();
        model
    });
    let mut waves: [Vec<Block>; 2] = Default::default();
    let mut done = [false; 2];
    for _ in 0..100 {
        for (i, job) in jobs.iter().enumerate() {
            if done[i] {
                continue;
            }
            if waves[i].len() < 6 {
                match job.alloc(learned(1)) {
                    Ok(block) => waves[i].push(block),
                    Err(AllocError::Busy(_)) => {}
                    Err(error) => panic!("{error}"),
                }
                continue;
            }
            waves[i].drain(..).for_each(|block| job.free(block).unwrap());
            setup.settle();
            // The first mark.
            if job.begin(None) == Ok(Begin::Started) {
                job.end().unwrap();
                done[i] = true;
            } else {
                panic!("{}", setup.pool.snapshot());
            }
        }
    }
    assert_eq!(done, [true; 2], "{}", setup.pool.snapshot());
    jobs.iter().zip(models).for_each(|(job, model)| job.free(model).unwrap());
}

/// R3: what a job has allocated before its first mark it may free yet: who needs it waits, and is
/// not refused.
#[test]
fn what_is_guessed_to_persist_is_waited_for() {
    let setup = Setup::new(10);
    let (a, b) = (setup.join("a"), setup.join("b"));
    let model = a.alloc(learned(6)).unwrap();
    assert_eq!(b.begin(None), Ok(Begin::Started));
    busy(&b.alloc(own(6)));
    a.free(model).unwrap();
    setup.settle();
    b.alloc(own(6)).unwrap();
}

/// R3: a job that never marks an iteration, or stops in its first step, does not block others for
/// ever.
#[test]
fn a_first_step_that_never_ends_is_waited_for_a_while() {
    let setup = Setup::new(10);
    let (a, b) = (setup.join("a"), setup.join("b"));
    for job in [&a, &b] {
        job.free(job.alloc(learned(1)).unwrap()).unwrap();
    }
    setup.settle();
    a.alloc(learned(2)).unwrap();
    busy(&b.alloc(learned(2)));
    let generation = setup.pool.generation();
    setup.pool.poll().unwrap();
    setup.device.advance_to(setup.device.now().saturating_add(Ticks::millis(60_000)));
    setup.pool.poll().unwrap();
    assert_ne!(setup.pool.generation(), generation, "who waits is told");
    b.alloc(learned(2)).unwrap();
}
