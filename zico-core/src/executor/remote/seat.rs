//! What a process knows of one of its jobs in the broker's books.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::number;
use crate::broker::{Offered, Usage};
use crate::types::config::JobConfig;
use crate::types::lifetime::Lifetime;
use crate::types::pace::Pace;
use crate::types::zone::Zone;

/// What this process knows of one of its jobs in the books.
#[derive(Default)]
pub(super) struct Seat {
    pub(super) config: JobConfig,
    /// The connection over which a lease was granted that is not settled, and its pages.
    pub(super) granted: Option<(u32, Vec<u64>)>,
    /// The pages that are leased.
    pub(super) leased: BTreeSet<(Zone, u64)>,
    /// Those of them that it has not asked for yet.
    pub(super) ahead: BTreeSet<(Zone, u64)>,
    /// Pages that it has given back and the broker has yet to be told of.
    pub(super) untold: [Vec<u64>; Zone::COUNT],
    /// Regions that it has given back, the page they were at, and the batch whose completion they
    /// wait for.
    pub(super) draining: Vec<(u64, (Zone, u64), u32)>,
    /// The pages given back since the last batch was closed.
    pub(super) given: usize,
    /// The number of the last batch that was closed.
    pub(super) batch: u64,
    /// No event could be recorded for it yet.
    pub(super) is_owed: bool,
    pub(super) is_running: bool,
    /// The rate that it is held to, if this process has set one.
    pub(super) pace: Option<Pace>,
    /// What its iteration is expected to take, in regions, if that was known when it asked to
    /// start.
    pub(super) claim: Option<u32>,
    pub(super) has_left: bool,
    /// A thread takes away what it has mapped, after it has left.
    pub(super) is_cleared_up: bool,
    /// What is mapped at each page.
    pub(super) mapped: BTreeMap<(Zone, u64), u32>,
    /// The pages whose contents are on the host, or on their way there.
    pub(super) away: BTreeSet<(Zone, u64)>,
    /// It is on its way to the host: what it has leased is still to be sent.
    pub(super) goes_to_host: bool,
}

impl Seat {
    pub(super) fn is_open(&self) -> bool {
        self.given > 0 || self.is_owed
    }

    /// How much of each zone is on the host or on its way there.
    pub(super) fn away_of(&self) -> Vec<(Lifetime, u32)> {
        let counts = by_zone(&self.away)
            .into_iter()
            .map(|(zone, pages)| (zone.lifetime(), number(pages.len())));
        counts.filter(|&(_, regions)| regions > 0).collect()
    }

    /// A thread asks for pages, of which these are missing: the others are leased already. They are
    /// its own from here on, and no other thread gives them back.
    pub(super) fn ask(&mut self, zone: Zone, pages: &[u64]) -> Vec<u64> {
        pages.iter().copied().filter(|&page| !self.ahead.remove(&(zone, page))).collect()
    }

    /// It has been refused. What it had of them is as it was.
    pub(super) fn refused(&mut self, zone: Zone, pages: &[u64]) {
        for &page in pages {
            let place = (zone, page);
            if self.leased.contains(&place) {
                self.ahead.insert(place);
            }
        }
    }

    /// It has been granted them, and what the device had to do for them is done.
    pub(super) fn has_leased(&mut self, zone: Zone, pages: &[u64]) {
        for &page in pages {
            self.away.remove(&(zone, page));
            self.leased.insert((zone, page));
        }
    }

    /// Pages have been leased that no thread has asked for.
    pub(super) fn has_leased_ahead(&mut self, zone: Zone, pages: &[u64]) {
        for &page in pages {
            self.leased.insert((zone, page));
            self.ahead.insert((zone, page));
        }
    }

    /// What it has not asked for is given back.
    pub(super) fn give_ahead(&mut self) {
        for (zone, pages) in by_zone(&core::mem::take(&mut self.ahead)) {
            self.give(zone, &pages);
            self.untold[zone.index()].extend(pages);
        }
    }

    /// All that it has leased is given back.
    pub(super) fn give_all(&mut self) {
        for (zone, pages) in by_zone(&self.leased) {
            self.give(zone, &pages);
        }
    }

    /// Pages are given back, to the batch that is open.
    pub(super) fn give(&mut self, zone: Zone, pages: &[u64]) {
        self.given += pages.len();
        for &page in pages {
            let place = (zone, page);
            if self.leased.remove(&place)
                && let Some(&region) = self.mapped.get(&place)
            {
                self.draining.push((self.batch + 1, place, region));
            }
        }
    }

    /// All regions that it has, for a new broker. Those that drain do so in the batch that is open
    /// from now on, and so does what has used a region where it is in use no more.
    pub(super) fn offer(&mut self) -> Vec<Offered> {
        self.untold = Default::default();
        let leased: BTreeSet<u32> =
            self.leased.iter().filter_map(|place| self.mapped.get(place)).copied().collect();
        let next = self.batch + 1;
        // One that is leased again where it was given back is in use there.
        let (held, mapped) = (&self.leased, &self.mapped);
        self.draining.retain(|(_, place, region)| {
            !(held.contains(place) && mapped.get(place) == Some(region))
        });
        // A region drains where it was given back last, unless it is in use elsewhere.
        let (mut draining, mut passing) = (BTreeMap::new(), BTreeSet::new());
        for (batch, place, region) in &mut self.draining {
            *batch = next;
            passing.insert((*place, *region));
            if !leased.contains(region) {
                draining.insert(*region, *place);
            }
        }
        self.given = self.given.max(self.draining.len());
        let mut offered = Vec::new();
        for (&place, &region) in &self.mapped {
            let usage = if self.leased.contains(&place) {
                Usage::Leased
            } else if draining.get(&region) == Some(&place) {
                draining.remove(&region);
                Usage::Draining
            } else if passing.contains(&(place, region)) {
                Usage::Passing
            } else {
                Usage::Idle
            };
            offered.push(Offered { region, at: Some((place.0.lifetime(), place.1)), usage });
        }
        // Those whose page has another region by now.
        let unmapped = draining.into_keys();
        offered.extend(unmapped.map(|region| Offered { region, at: None, usage: Usage::Draining }));
        offered
    }
}

/// The pages of each zone.
pub(super) fn by_zone<'a>(
    places: impl IntoIterator<Item = &'a (Zone, u64)>,
) -> [(Zone, Vec<u64>); Zone::COUNT] {
    let mut pages = Zone::ALL.map(|zone| (zone, Vec::new()));
    for &(zone, page) in places {
        pages[zone.index()].1.push(page);
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat() -> Seat {
        let mut seat = Seat::default();
        for (page, region) in [(0, 4), (1, 5), (7, 6)] {
            seat.mapped.insert((Zone::Persistent, page), region);
        }
        seat.has_leased(Zone::Persistent, &[0, 1, 7]);
        seat
    }

    /// Else the next broker would have something else mapped at a page that the device still uses.
    #[test]
    fn a_page_that_was_given_back_drains_though_its_region_is_used_elsewhere() {
        let mut seat = seat();
        let zone = Zone::Persistent;
        seat.give(zone, &[0, 1]);
        seat.batch += 1;
        // The same job may have both back at once: one at another page, one there once more.
        seat.mapped.insert((zone, 2), 4);
        seat.has_leased(zone, &[2]);
        seat.mapped.insert((zone, 3), 5);
        seat.has_leased(zone, &[3]);
        seat.give(zone, &[3]);
        let usage = |seat: &mut Seat| {
            seat.offer().iter().map(|offered| (offered.region, offered.usage)).collect::<Vec<_>>()
        };
        let (four, five, six) = (
            [(4, Usage::Passing), (4, Usage::Leased)],
            [(5, Usage::Passing), (5, Usage::Draining)],
            (6, Usage::Leased),
        );
        assert_eq!(usage(&mut seat), [four[0], five[0], four[1], five[1], six]);
        assert_eq!((seat.is_open(), seat.given), (true, 3));
        // Where it was: there it is in use.
        seat.has_leased(zone, &[0]);
        assert_eq!(usage(&mut seat)[0], (4, Usage::Leased));
    }
}
