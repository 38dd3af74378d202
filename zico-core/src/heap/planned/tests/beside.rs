//! What earlier iterations have left, beside a plan's slots.

use super::*;

/// A loop that keeps the loss of each iteration: what the first ones have left stays where it is,
/// beside the plan, and the next ones have no place in it.
#[test]
fn what_is_kept_for_good_does_not_keep_the_plan_away() {
    let mut job = Program::new();
    let mut kept = Vec::new();
    let mut least = usize::MAX;
    for round in 0..12 {
        job.begin(None);
        kept.push(job.alloc(1));
        let blocks = [5000, 512, 9000].map(|units| job.alloc(units));
        blocks.into_iter().for_each(|block| job.free(block));
        job.end();
        let places = job.places.iter().flatten();
        let beyond = places.clone().filter(|&&start| start >= super::program::BEYOND).count();
        if round >= 7 {
            assert_eq!((job.planned(), beyond, job.planned.in_slots()), (4, 1, true), "{round}");
        }
        least = if round == 4 { job.most } else { least };
        assert!(round < 4 || job.most <= least, "{round}: {} of {least} pages", job.most);
    }
    kept.into_iter().rev().for_each(|block| job.free(block));
    assert!(job.backed.is_empty() && job.arena.is_empty());
}

/// What lies in the arena when a plan is made may lie beside it, and is a part of what it tells.
#[test]
fn a_plan_tells_what_may_lie_beside_it() {
    let mut job = Program::new();
    let left = job.iteration(None, &[Alloc(2 * PAGE + 1)]);
    for _ in 0..2 {
        job.iteration(None, &FORWARD);
    }
    let layout = &job.planned.plans.iter().next().unwrap().layout;
    assert_eq!((layout.beside, layout.own_pages), (3, 0));
    for (shared, within) in [(0, 3), (1, 2), (9, 0)] {
        let most = layout.most(shared);
        let told = (most.pages, most.within, most.starts.clone());
        let starts = layout.starts.iter().map(|start| start + 3).collect();
        assert_eq!(told, (layout.peak + 3, layout.peak + within, starts), "{shared}");
    }
    left.into_iter().for_each(|block| job.free(block));
}

/// A plan that is made anew has room for what is left, too.
#[test]
fn a_plan_that_is_made_anew_is_followed_beside_what_is_left() {
    let mut job = Program::new();
    let left = job.iteration(None, &[Alloc(700)]);
    let late =
        [Alloc(5000), Alloc(512), Free(1), Alloc(9000), Alloc(5000), Free(0), Free(2), Free(3)];
    for (ops, planned) in [(FORWARD, [0, 0, 4, 4]), (late, [3, 3, 4, 4])] {
        let ops: Vec<usize> = (0..4)
            .map(|_| {
                job.iteration(None, &ops);
                job.planned()
            })
            .collect();
        assert_eq!(ops, planned);
    }
    left.into_iter().for_each(|block| job.free(block));
}

/// What is foreseen to stay for good, and does not any more, comes to have a place.
#[test]
fn what_is_kept_for_good_no_longer_is_learned() {
    let mut job = Program::new();
    let mut kept = Vec::new();
    let beyond: Vec<usize> = (0..20)
        .map(|round| {
            job.begin(None);
            let first = job.alloc(700);
            let blocks = [5000, 512, 9000].map(|units| job.alloc(units));
            if round < 8 {
                kept.push(first);
            } else {
                job.free(first);
            }
            blocks.into_iter().for_each(|block| job.free(block));
            job.end();
            job.places.iter().flatten().filter(|&&start| start >= super::program::BEYOND).count()
        })
        .collect();
    assert_eq!((beyond[7], beyond[19], job.planned()), (1, 0, 4), "{beyond:?}");
    kept.into_iter().for_each(|block| job.free(block));
}

/// What one iteration has left lies in the way of the plan, and stays: the slots move.
#[test]
fn the_slots_move_where_something_is_in_the_way() {
    let mut job = Program::new();
    for _ in 0..3 {
        job.iteration(None, &FORWARD);
    }
    // With room for it beside the plan.
    let left = job.iteration(None, &[Alloc(5000)]);
    job.planned.layout = None;
    let plan = job.planned.plans.iter_mut().next().unwrap();
    Arc::get_mut(&mut plan.layout).unwrap().beside = 2;
    let planned: Vec<usize> = (0..4)
        .map(|_| {
            job.iteration(None, &FORWARD);
            job.planned()
        })
        .collect();
    assert_eq!(planned, [4; 4]);
    let page = left[0].2 / PAGE_BYTES;
    assert!(job.places.iter().flatten().all(|start| start / PAGE_BYTES > page + 1), "elsewhere");
    // It is freed while the plan is followed, and so is one that lies beside it.
    job.free(left[0]);
    job.iteration(None, &FORWARD);
    assert_eq!(job.planned(), 4);
}
