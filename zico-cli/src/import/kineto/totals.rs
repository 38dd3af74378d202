//! Memory in use before a profile, from `Total Allocated`.

use crate::import::before::Doubt;
use crate::import::recording::Memory;
use crate::size::MOST;

/// `Total Allocated` of a memory event: what was in use on its device after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Total {
    /// There is none.
    Missing,
    /// It is no number of bytes.
    Nonsense,
    Bytes(u64),
}

/// What was in use before the first of these events, which are those of one device in order of
/// time; and the reason for doubt, if there is one.
///
/// Of each event it is the total, less what the events up to it have allocated and not freed. That
/// is the same for all of them, unless the profile has lost some or they are out of order; so it is
/// what more than half of them say.
pub(super) fn before(events: &[(Memory, Total)]) -> Result<(u64, Option<Doubt>), Doubt> {
    if events.iter().all(|(_, total)| *total == Total::Missing) {
        return Err(Doubt::NoTotals);
    }
    let candidate = majority(unseen(events)).ok_or(Doubt::NoCommonTotals)?;
    let agree = unseen(events).filter(|&unseen| unseen == Some(candidate)).count();
    let of = events.len();
    if agree <= of / 2 {
        return Err(Doubt::NoCommonTotals);
    }
    let bytes = u64::try_from(candidate).map_err(|_| Doubt::TotalsTooLow)?;
    if bytes > MOST {
        return Err(Doubt::TotalsTooHigh);
    }
    let differ = Doubt::TotalsDiffer { events: of - agree, of };
    Ok((bytes, (agree < of).then_some(differ)))
}

/// For each event the bytes in use that no event has allocated, if it has a total.
fn unseen(events: &[(Memory, Total)]) -> impl Iterator<Item = Option<i128>> {
    let seen = events.iter().scan(0, |seen: &mut i128, (event, _)| {
        *seen += i128::from(event.bytes);
        Some(*seen)
    });
    events.iter().zip(seen).map(|((_, total), seen)| match *total {
        Total::Bytes(total) => Some(i128::from(total) - seen),
        Total::Missing | Total::Nonsense => None,
    })
}

/// The value that more than half of them have, if there is one; otherwise any of them. (Each two
/// that differ cancel each other out; what is left over is that value.)
fn majority(values: impl Iterator<Item = Option<i128>>) -> Option<i128> {
    let (mut candidate, mut left) = (None, 0_usize);
    for value in values {
        match left {
            0 => (candidate, left) = (value, 1),
            _ if candidate == value => left += 1,
            _ => left -= 1,
        }
    }
    candidate
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of events with these bytes and totals.
    fn of(events: &[(i64, Total)]) -> Result<(u64, Option<Doubt>), Doubt> {
        let memory = |bytes| Memory { at: 0, address: 0, bytes, record: 0 };
        before(&events.iter().map(|&(bytes, total)| (memory(bytes), total)).collect::<Vec<_>>())
    }

    fn all(events: &[(i64, u64)]) -> Result<(u64, Option<Doubt>), Doubt> {
        of(&events.iter().map(|&(bytes, total)| (bytes, Total::Bytes(total))).collect::<Vec<_>>())
    }

    #[test]
    fn totals_less_what_was_seen_is_what_was_there() {
        assert_eq!(all(&[(10, 110), (5, 115), (-10, 105), (-100, 5)]), Ok((100, None)));
        assert_eq!(all(&[(10, 10), (-10, 0)]), Ok((0, None)));
        assert_eq!(all(&[(-7, 0)]), Ok((7, None)));
        assert_eq!(all(&[(1, MOST + 1), (-1, MOST)]), Ok((MOST, None)));
    }

    #[test]
    fn what_most_events_say_counts() {
        let differ = |events, of| Some(Doubt::TotalsDiffer { events, of });
        // Two of one moment in the wrong order, at the beginning of all places.
        let swapped = [(5, 115), (10, 110), (1, 116), (1, 117), (1, 118)];
        assert_eq!(all(&swapped), Ok((100, differ(2, 5))));
        // Events are lost towards the end.
        assert_eq!(all(&[(5, 105), (10, 115), (1, 116), (1, 997)]), Ok((100, differ(1, 4))));
        let mut events =
            vec![(1, Total::Bytes(101)), (1, Total::Bytes(102)), (1, Total::Bytes(103))];
        events.extend([(1, Total::Missing), (1, Total::Nonsense)]);
        assert_eq!(of(&events), Ok((100, differ(2, 5))));
        events.push((1, Total::Missing));
        assert_eq!(of(&events), Err(Doubt::NoCommonTotals));
    }

    #[test]
    fn totals_that_say_nothing_are_named() {
        assert_eq!(of(&[]), Err(Doubt::NoTotals));
        assert_eq!(of(&[(1, Total::Missing), (2, Total::Missing)]), Err(Doubt::NoTotals));
        assert_eq!(of(&[(1, Total::Nonsense), (2, Total::Nonsense)]), Err(Doubt::NoCommonTotals));
        assert_eq!(all(&[(5, 9), (5, 70), (5, 3), (5, 1000)]), Err(Doubt::NoCommonTotals));
        assert_eq!(all(&[(100, 50), (-50, 0)]), Err(Doubt::TotalsTooLow));
        assert_eq!(all(&[(1, MOST + 2), (-1, MOST + 1)]), Err(Doubt::TotalsTooHigh));
        let (huge, most) = (i64::MAX, u64::MAX);
        assert_eq!(all(&[(huge, most), (huge, most), (huge, most)]), Err(Doubt::NoCommonTotals));
        assert_eq!(
            all(&[(huge, most), (-huge, most - huge.unsigned_abs())]),
            Err(Doubt::TotalsTooHigh)
        );
    }
}
