//! Pairing heaps of free pieces: the tightest on top, and the lowest of those.
//!
//! A heap is known by the slot on top of it; the links lie in the pieces, so nothing is allocated.
//! Adding is O(1), taking any piece out is O(log n) amortised. Most bins hold one or two pieces,
//! where both come to a few stores; the heap is for the bins that hold thousands.

use core::ops::ControlFlow;

use super::pieces::{Links, NONE, Pieces, Slot};

fn key(pieces: &Pieces, slot: Slot) -> (u64, u64) {
    pieces[slot].key()
}

/// Adds a piece. Returns the new top.
#[inline]
pub(super) fn push(pieces: &mut Pieces, top: Slot, slot: Slot) -> Slot {
    pieces[slot].links = Links::default();
    if top == NONE { slot } else { meld(pieces, top, slot) }
}

/// Takes a piece out. Returns the new top.
#[inline]
pub(super) fn remove(pieces: &mut Pieces, top: Slot, slot: Slot) -> Slot {
    if slot == top && pieces[slot].links.child == NONE {
        return NONE;
    }
    remove_among(pieces, top, slot)
}

/// The same where it is not alone.
fn remove_among(pieces: &mut Pieces, top: Slot, slot: Slot) -> Slot {
    let Links { child, sibling, back } = pieces[slot].links;
    let orphans = if child == NONE { NONE } else { meld_siblings(pieces, child) };
    if slot == top {
        return orphans;
    }
    if pieces[back].links.child == slot {
        pieces[back].links.child = sibling;
    } else {
        pieces[back].links.sibling = sibling;
    }
    if sibling != NONE {
        pieces[sibling].links.back = back;
    }
    if orphans == NONE { top } else { meld(pieces, top, orphans) }
}

/// The first piece in the heap's order that is `fit`. O(pieces before it).
pub(super) fn first(pieces: &Pieces, top: Slot, fit: impl Fn(Slot) -> bool) -> Slot {
    let mut best = NONE;
    let _ = visit(pieces, top, |slot| {
        let behind = best != NONE && key(pieces, best) < key(pieces, slot);
        if !behind && fit(slot) {
            best = slot;
        }
        // All below comes later in the order.
        ControlFlow::Continue(!behind && best != slot)
    });
    best
}

/// Shows every piece, parents before children, until the answer is to break; leaves out what is
/// below one for which it is no.
pub(super) fn visit(
    pieces: &Pieces,
    top: Slot,
    mut deeper: impl FnMut(Slot) -> ControlFlow<(), bool>,
) -> ControlFlow<()> {
    let mut at = top;
    while at != NONE {
        let links = pieces[at].links;
        if deeper(at)? && links.child != NONE {
            at = links.child;
            continue;
        }
        while at != top && pieces[at].links.sibling == NONE {
            at = parent(pieces, at);
        }
        if at == top {
            break;
        }
        at = pieces[at].links.sibling;
    }
    ControlFlow::Continue(())
}

fn parent(pieces: &Pieces, mut at: Slot) -> Slot {
    loop {
        let back = pieces[at].links.back;
        if pieces[back].links.child == at {
            return back;
        }
        at = back;
    }
}

/// Makes one heap of two: the later top becomes the first child of the other.
fn meld(pieces: &mut Pieces, one: Slot, two: Slot) -> Slot {
    let in_order = key(pieces, one) < key(pieces, two);
    let (top, below) = if in_order { (one, two) } else { (two, one) };
    let child = core::mem::replace(&mut pieces[top].links.child, below);
    let links = &mut pieces[below].links;
    (links.sibling, links.back) = (child, top);
    if child != NONE {
        pieces[child].links.back = below;
    }
    let links = &mut pieces[top].links;
    (links.sibling, links.back) = (NONE, NONE);
    top
}

/// Makes one heap of a list of siblings: in pairs from the first to the last, then those from the
/// last to the first. That is what makes it O(log n) amortised.
fn meld_siblings(pieces: &mut Pieces, first: Slot) -> Slot {
    let (mut rest, mut pairs) = (first, NONE);
    while rest != NONE {
        let one = rest;
        let two = pieces[one].links.sibling;
        let pair = if two == NONE {
            rest = NONE;
            one
        } else {
            rest = pieces[two].links.sibling;
            meld(pieces, one, two)
        };
        pieces[pair].links.sibling = pairs;
        pairs = pair;
    }
    let mut top = pairs;
    let mut rest = core::mem::replace(&mut pieces[top].links.sibling, NONE);
    while rest != NONE {
        let next = pieces[rest].links.sibling;
        top = meld(pieces, top, rest);
        rest = next;
    }
    pieces[top].links.back = NONE;
    top
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::pieces::Kind;
    use super::*;

    #[test]
    fn pieces_leave_in_order_and_any_can_be_taken_out() {
        let mut pieces = Pieces::new();
        let slots: Vec<Slot> = (0..500u64)
            .map(|n| pieces.push(Kind::Ready, n * 7_919 % 500 * 1_000, 1 + n % 3))
            .collect();
        let mut top = slots.iter().fold(NONE, |top, &slot| push(&mut pieces, top, slot));
        let mut left: Vec<(u64, u64)> = slots.iter().map(|&slot| key(&pieces, slot)).collect();
        for &slot in slots.iter().step_by(3) {
            left.retain(|&other| other != key(&pieces, slot));
            top = remove(&mut pieces, top, slot);
        }
        left.sort_unstable();
        for (place, &least) in left.iter().enumerate() {
            assert_eq!(key(&pieces, top), least);
            let mut count = 0;
            let _ = visit(&pieces, top, |_| {
                count += 1;
                ControlFlow::Continue(true)
            });
            assert_eq!(count, left.len() - place, "all are seen once");
            let even = |slot: Slot| pieces[slot].start.is_multiple_of(2_000);
            let expected = left[place..].iter().find(|(_, start)| start.is_multiple_of(2_000));
            let found = first(&pieces, top, even);
            assert_eq!((found != NONE).then(|| key(&pieces, found)), expected.copied());
            top = remove(&mut pieces, top, top);
        }
        assert_eq!(top, NONE);
    }
}
