//! Pages that stay backed between two blocks.

use super::*;

/// The blocks of a layout in its pages, moment by moment: what is kept is in use again soon, and
/// never more than the iteration holds at its peak.
pub(super) fn gaps_are_short(layout: &Layout) {
    let all = layout.entries.len();
    let life = |slot: usize| match layout.entries[slot].life {
        LiveRange::Until(until) => slot..until as usize,
        LiveRange::Always | LiveRange::Alternating => slot..all,
        LiveRange::Beyond => slot..slot,
    };
    let touches = |slot: usize, page: u64| {
        let Entry { start, size, .. } = layout.entries[slot];
        start < (page + 1) * PAGE_BYTES && page * PAGE_BYTES < start + size
    };
    let pages = layout.height.div_ceil(PAGE_BYTES);
    let in_use =
        |page, moment| (0..all).any(|slot| life(slot).contains(&moment) && touches(slot, page));
    let used: Vec<Vec<bool>> =
        (0..all).map(|moment| (0..pages).map(|page| in_use(page, moment)).collect()).collect();
    let count = |pages: &[bool]| pages.iter().filter(|used| **used).count();
    let most = used.iter().map(|pages| count(pages)).max().unwrap_or(0);
    let mut kept = used.clone();
    for slot in (0..all).filter(|&slot| layout.entries[slot].keeps) {
        let end = life(slot).end;
        for page in (0..pages).filter(|&page| touches(slot, page)) {
            let at = usize::try_from(page).unwrap();
            let next = (end..all).find(|&moment| used[moment][at]).expect("it is in use again");
            assert!(next - end <= (all / 32).max(8), "{slot}: {next}");
            kept[end..next].iter_mut().for_each(|kept| kept[at] = true);
        }
    }
    assert!(kept.iter().all(|pages| count(pages) <= most), "never more than at the peak");
    // What the iteration holds until each of its marks is known.
    let until = |moment: usize| kept[..moment].iter().map(|pages| count(pages)).max();
    for (power, &start) in layout.starts.iter().enumerate() {
        let known = until(1 << power).unwrap()..=most;
        assert!(known.contains(&(start as usize)), "{start} is not in {known:?} at 2^{power}");
    }
    assert_eq!(layout.starts.len(), all.checked_ilog2().map_or(0, |power| power as usize + 1));
}

#[test]
fn short_gaps_are_closed() {
    let mut job = Program::new();
    let ops = [Alloc(PAGE), Free(0), Alloc(2 * PAGE), Free(1), Alloc(PAGE), Free(2)];
    for _ in 0..3 {
        job.iteration(None, &ops);
    }
    let layout = job.planned.layout.as_ref().unwrap();
    let keeps: Vec<bool> = layout.entries.iter().map(|entry| entry.keeps).collect();
    assert_eq!(keeps, [true, false, false], "the second leaves a page that nobody needs again");
    gaps_are_short(layout);
}
