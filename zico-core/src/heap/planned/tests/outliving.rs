//! Blocks that outlive their iteration.

use super::*;

#[test]
fn what_outlives_its_iteration_takes_turns() {
    let mut job = Program::new();
    let ops = [Alloc(512), Alloc(5000), Free(0), Alloc(700), Free(2)];
    let mut kept: Option<Handle> = None;
    let mut places = Vec::new();
    for round in 0..8 {
        // Of the iteration before it is freed when the new one has been made.
        job.begin(None);
        for &op in &ops {
            match op {
                Alloc(size) => _ = job.alloc(size),
                Free(which) => {
                    let handle = job.live[which].take().unwrap();
                    job.free(handle);
                }
            }
            if matches!(op, Alloc(5000))
                && let Some(old) = kept.take()
            {
                job.free(old);
            }
        }
        kept = job.live[1].take();
        job.end();
        places.push(job.places[1]);
        assert!(round < 3 || job.planned() == 3 && job.planned.in_slots(), "{round}");
    }
    assert_eq!(places[4], places[6]);
    assert_eq!(places[5], places[7]);
    assert_ne!(places[4], places[5]);
    assert_eq!(job.planned.planning().height, Bytes::new(10_700 * UNIT));
}

#[test]
fn what_is_gone_before_its_successor_has_one_place() {
    for (free_at, height) in [(0, 5700), (1, 5700 + 512)] {
        let mut job = Program::new();
        let mut kept: Option<Handle> = None;
        for round in 0..6 {
            if free_at == 0
                && let Some(old) = kept.take()
            {
                job.free(old);
            }
            job.begin(None);
            let first = job.alloc(512);
            if let Some(old) = kept.take() {
                job.free(old);
            }
            let block = job.alloc(700);
            job.free(first);
            job.free(block);
            kept = Some(job.alloc(5000));
            let third = job.alloc(700);
            job.free(third);
            job.end();
            // What outlives the first iteration is known to be freed when the second has ended.
            assert_eq!(job.planned(), if round < 2 { 0 } else { 4 }, "{free_at} {round}");
        }
        let planned = job.planned.planning().height;
        assert!(planned <= Bytes::new((height + 700) * UNIT), "{free_at}: {planned:?}");
    }
}

/// An iteration that is not as planned leaves such a block in its slot: it is in nobody's way, and
/// the slots stay where they are.
#[test]
fn what_lies_in_its_slot_does_not_keep_the_plan_away() {
    let mut job = Program::new();
    let mut kept: Option<Handle> = None;
    let mut places: Vec<Vec<Option<u64>>> = Vec::new();
    for round in 0..7 {
        job.begin(None);
        let first = job.alloc(700);
        if let Some(kept) = kept.take() {
            job.free(kept);
        }
        kept = Some(job.alloc(5000));
        // Another size in one of them.
        let last = job.alloc(if round == 4 { 900 } else { 512 });
        [first, last].into_iter().for_each(|block| job.free(block));
        job.end();
        let planned = [0, 0, 0, 3, 2, 3, 3][round];
        assert_eq!(job.planned(), planned, "{round}");
        places.push(job.places.clone());
    }
    assert_eq!((&places[5], &places[6]), (&places[3], &places[3]));
}
