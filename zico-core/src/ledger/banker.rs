//! The banker's test: is there an order in which every running iteration can finish?
//!
//! Dijkstra's banker's algorithm on one resource (EWD 623). Safety is what makes I4 hold: as long
//! as every grant leads to a safe state, some iteration can always get all it still needs, finish
//! and give back what it holds.
//!
//! An iteration of which nothing is known may need more than there is for it as things stand: what
//! others keep just now they may free, and take again. So other iterations may depend on its
//! finishing only if it could have all that there can ever be for it. Otherwise all whose needs are
//! known must be able to finish without it.

use crate::types::JobKey;

/// One running iteration, or what a job does before its first one, in regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// Whose it is.
    pub(crate) job: JobKey,
    /// What it may still take, as things stand.
    pub(super) need: u32,
    /// The same if others are to depend on its finishing: more only if nothing is known of it.
    pub(super) before_others: u32,
    /// What it gives back when it ends.
    pub(super) returns: u32,
    /// Whether that is learned of iterations before it, and not all there is for it.
    pub(super) is_known: bool,
}

/// Whether all can finish in some order when `free` regions are nobody's. O(n log n).
pub(super) fn is_safe(free: u32, claims: &mut [Claim]) -> bool {
    finish(free, claims) == claims.len()
}

/// The least number of free regions with which all can finish in some order. O(n log n), 32 times.
pub(super) fn least_free(claims: &mut [Claim]) -> u32 {
    let needs = claims.iter().map(|claim| claim.before_others);
    let (mut least, mut enough) = (0, needs.fold(0, u32::saturating_add));
    while least < enough {
        let middle = least + (enough - least) / 2;
        if is_safe(middle, claims) { enough = middle } else { least = middle + 1 }
    }
    least
}

/// The jobs that can finish in some order when `free` regions are nobody's. O(n log n).
pub(super) fn can_finish(free: u32, claims: &mut [Claim]) -> impl Iterator<Item = JobKey> {
    let count = finish(free, claims);
    claims[..count].iter().map(|claim| claim.job)
}

/// Puts those first that can finish, in their order. How many these are.
///
/// Trying the smallest need first is enough, since what is free never shrinks from one to the next.
fn finish(mut free: u32, claims: &mut [Claim]) -> usize {
    claims.sort_unstable_by_key(|claim| claim.before_others);
    let before = as_far_as_it_goes(&mut free, claims, |claim| claim.before_others);
    let rest = &mut claims[before..];
    if rest.iter().any(|claim| claim.is_known) {
        return before;
    }
    // Nobody else depends on these.
    rest.sort_unstable_by_key(|claim| claim.need);
    before + as_far_as_it_goes(&mut free, rest, |claim| claim.need)
}

fn as_far_as_it_goes(free: &mut u32, claims: &[Claim], need: impl Fn(&Claim) -> u32) -> usize {
    let finishes = claims.iter().take_while(|claim| {
        let can = need(claim) <= *free;
        *free = free.saturating_add(if can { claim.returns } else { 0 });
        can
    });
    finishes.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim((need, returns): (u32, u32)) -> Claim {
        Claim { job: 0, need, before_others: need, returns, is_known: true }
    }

    fn safe(free: u32, claims: &[(u32, u32)]) -> bool {
        let mut claims: alloc::vec::Vec<_> = claims.iter().copied().map(claim).collect();
        is_safe(free, &mut claims)
    }

    #[test]
    fn two_jobs_that_each_need_more_than_half_must_not_both_be_let_halfway() {
        // Budget 10, each job needs 7. One holds 4, the other 2: the first can still finish.
        assert!(safe(4, &[(3, 4), (5, 2)]));
        // Each holds 4: neither can.
        assert!(!safe(2, &[(3, 4), (3, 4)]));
    }

    #[test]
    fn nobodys_finishing_is_built_on_one_of_which_nothing_is_known() {
        let unknown = Claim { is_known: false, before_others: 9, ..claim((1, 9)) };
        assert!(!is_safe(2, &mut [unknown, claim((3, 1))]), "it may need more than that");
        assert!(is_safe(3, &mut [unknown, claim((3, 1))]));
        assert!(is_safe(3, &mut [Claim { need: 4, ..unknown }, claim((3, 1))]), "the last");
        assert!(!is_safe(3, &mut [Claim { need: 5, ..unknown }, claim((3, 1))]));
        assert_eq!(least_free(&mut [unknown, claim((3, 1))]), 3);
        let all_there_is = Claim { before_others: 2, ..unknown };
        assert!(is_safe(2, &mut [all_there_is, claim((3, 1))]), "it needs no more in any case");
        assert!(!is_safe(1, &mut [all_there_is, claim((3, 1))]));
        assert_eq!(least_free(&mut [all_there_is, claim((3, 1))]), 2);
    }

    #[test]
    fn those_that_can_finish_are_found_where_not_all_can() {
        let of = |(job, needs)| Claim { job, ..claim(needs) };
        let mut claims = [(1, (3, 4)), (2, (5, 2)), (3, (10, 9))].map(of);
        let mut finish = |free| can_finish(free, &mut claims).collect::<alloc::vec::Vec<_>>();
        assert_eq!(finish(2), []);
        assert_eq!(finish(3), [1, 2]);
        assert_eq!(finish(4), [1, 2, 3]);
    }

    #[test]
    fn agrees_with_trying_every_order() {
        fn by_hand(free: u32, claims: &[(u32, u32)]) -> bool {
            claims.is_empty()
                || (0..claims.len()).any(|i| {
                    let mut rest = claims.to_vec();
                    let (need, returns) = rest.remove(i);
                    need <= free && by_hand(free + returns, &rest)
                })
        }
        for code in 0..4u32.pow(7) {
            let digit = |i: u32| code / 4u32.pow(i) % 4;
            let claims = [(digit(0), digit(1)), (digit(2), digit(3)), (digit(4), digit(5))];
            assert_eq!(safe(digit(6), &claims), by_hand(digit(6), &claims), "{code}");
        }
    }
}
