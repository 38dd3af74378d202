//! Numbers that look random and are the same each time.

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Debug)]
pub(in crate::relief) struct Random(u64);

impl Random {
    pub(in crate::relief) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(in crate::relief) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if that is 0.
    #[expect(clippy::cast_possible_truncation, reason = "below n")]
    pub(in crate::relief) const fn below(&mut self, n: usize) -> usize {
        ((self.next() as u128 * n as u128) >> 64) as usize
    }

    /// Whether something of so many in 256 happens.
    pub(in crate::relief) const fn chance(&mut self, of_256: u64) -> bool {
        self.next() >> 56 < of_256
    }

    /// About the negative binary logarithm of a number that is uniform in (0, 1): linear between
    /// powers of two, off by 0.09 at most.
    pub(in crate::relief) fn exponential(&mut self) -> f64 {
        let bits = self.next() | 1;
        let zeros = bits.leading_zeros();
        let mantissa = (bits << zeros) as f64 / (1_u64 << 63) as f64;
        f64::from(zeros) + 2.0 - mantissa
    }
}
