//! In which order blocks are tried: a few fixed orders in turn, disturbed at random and by what
//! went wrong.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::Ground;

/// All keys are in parts of this.
const WHOLE: u64 = 1024;
/// How far chance moves a block, at most.
const NOISE: u64 = WHOLE / 10;
/// How far blame moves the block that has the most, in turn.
const BLAME: [u64; 3] = [0, WHOLE * 3 / 10, WHOLE];

#[derive(Debug)]
pub(super) struct Orders {
    /// The fixed orders: the place of each block.
    places: Vec<Vec<u32>>,
    /// How much a block has been to blame, lately more than long ago.
    blame: Vec<u64>,
    turn: usize,
    random: u64,
}

impl Orders {
    /// The fixed orders are by length, area, size and the fullest section, each first in one of
    /// them.
    pub(super) fn new(ground: &Ground<'_>) -> Self {
        let c = ground.component;
        let n = c.len();
        let life = |i: usize| u128::from(c.life[i]);
        let size = |i: usize| u128::from(c.size[i]);
        let spans = |i: usize| u128::from(c.to[i] - c.from[i]);
        let fullest = |i: usize| u128::from(ground.conflicts.fullest(i));
        let area = |i: usize| life(i).saturating_mul(size(i));
        let places = [
            ranks(n, |i| [life(i), area(i), fullest(i)]),
            ranks(n, |i| [fullest(i), area(i), life(i)]),
            ranks(n, |i| [size(i), life(i), 0]),
            ranks(n, |i| [spans(i), area(i), fullest(i)]),
            ranks(n, |i| [fullest(i), life(i), area(i)]),
        ];
        let blame = alloc::vec![0; n];
        Self { places: places.into(), blame, turn: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }

    pub(super) fn accuse(&mut self, block: u32) {
        self.blame[block as usize] += 16;
    }

    /// How many rounds through the fixed orders are over.
    pub(super) fn rounds(&self) -> usize {
        self.turn / self.places.len()
    }

    /// The next order: the place of each block. The first round is the fixed orders themselves.
    pub(super) fn next(&mut self) -> Vec<u32> {
        let (round, fixed) = (self.rounds(), self.turn % self.places.len());
        let most = self.blame.iter().copied().max().unwrap_or(0).max(1);
        let weight = if round == 0 { 0 } else { BLAME[(self.turn + round) % BLAME.len()] };
        let n = self.blame.len();
        let mut keys: Vec<(u64, u32)> = Vec::with_capacity(n);
        for i in 0..n {
            let chance = if round == 0 { 0 } else { self.chance() };
            let place = u64::from(self.places[fixed][i]) * WHOLE / n as u64;
            let earlier =
                (u128::from(self.blame[i]) * u128::from(weight) / u128::from(most)) as u64;
            // Fractions of a place count too: the fixed order decides between equals.
            keys.push((place + chance + WHOLE - earlier, self.places[fixed][i]));
        }
        self.blame.iter_mut().for_each(|blame| *blame = *blame * 4 / 5);
        self.turn += 1;
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_by_key(|&i| keys[i as usize]);
        inverse(&order)
    }

    /// xorshift.
    fn chance(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) % (NOISE + 1)
    }
}

/// The place of each block if those with large keys come first.
fn ranks(n: usize, key: impl Fn(usize) -> [u128; 3]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.sort_by_cached_key(|&i| (Reverse(key(i as usize)), i));
    inverse(&order)
}

fn inverse(order: &[u32]) -> Vec<u32> {
    let mut places = alloc::vec![0; order.len()];
    for (place, &block) in (0..).zip(order) {
        places[block as usize] = place;
    }
    places
}
