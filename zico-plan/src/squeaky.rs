//! Fast plans that learn from those before them.
//!
//! *Squeaky wheel optimization* (Joslin and Clements, JAIR 1999): a block that ended near the top
//! or above it counts more in the next plan, and so is placed earlier and lower. Every fourth plan
//! draws weights at random instead, which helps where the blame is misleading.

use alloc::vec::Vec;

use super::problem::Component;
use super::skyline::{self, Taste};
use super::work::Work;

#[derive(Debug)]
pub(super) struct Wheel {
    weight: Vec<u32>,
    turns: u32,
    random: u64,
}

impl Wheel {
    pub(super) fn new(blocks: usize) -> Self {
        Self { weight: alloc::vec![1; blocks], turns: 0, random: 0x2545_f491_4f6c_dd1d }
    }

    /// The next plan, if there is one within the work.
    pub(super) fn turn(&mut self, c: &Component, work: &mut Work) -> Option<Vec<u64>> {
        work.spend(c.len() as u64)?;
        self.turns += 1;
        if self.turns.is_multiple_of(4) {
            let weight: Vec<u32> = (0..c.len()).map(|_| 16 + self.chance()).collect();
            return skyline::plan(c, Taste::Area, &weight, work);
        }
        let offsets = skyline::plan(c, Taste::Largest, &self.weight, work)?;
        let top = c.bound - c.bound / 64;
        for (i, weight) in self.weight.iter_mut().enumerate() {
            *weight += u32::from(offsets[i] + c.size[i] > top);
        }
        Some(offsets)
    }

    /// 0 to 3, from an xorshift.
    fn chance(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 62) as u32
    }
}
