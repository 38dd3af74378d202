//! What is in memory, as versions: each byte that a test has written has the version of that write
//! and its place in it, so that bytes which come back elsewhere, or shifted, are seen.

use std::collections::BTreeMap;

/// What a piece of bytes has in it: the bytes of a write from `from` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) value: u64,
    pub(crate) from: u64,
}

/// The versions of a space of bytes. What has none was never written, or is undefined.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// By the first byte: the end, and what is in it. Disjoint.
    pieces: BTreeMap<u64, (u64, Version)>,
}

impl Contents {
    /// The bytes from `start` to `end` have no version any more.
    pub(crate) fn clear(&mut self, start: u64, end: u64) {
        // The last piece that begins before the end may reach beyond it, the first before the
        // start.
        let before = self.pieces.range(..end).next_back().map(|(&at, &piece)| (at, piece));
        if let Some((at, (stop, version))) = before
            && stop > end
        {
            let from = version.from + (end - at);
            self.pieces.insert(end, (stop, Version { from, ..version }));
            self.pieces.insert(at, (end, version));
        }
        if let Some((_, piece)) = self.pieces.range_mut(..start).next_back()
            && piece.0 > start
        {
            piece.0 = start;
        }
        let gone: Vec<u64> = self.pieces.range(start..end).map(|(&at, _)| at).collect();
        for at in gone {
            self.pieces.remove(&at);
        }
    }

    /// The bytes from `start` to `end` are those of a version.
    pub(crate) fn write(&mut self, start: u64, end: u64, version: Version) {
        self.clear(start, end);
        if start < end {
            self.pieces.insert(start, (end, version));
        }
    }

    /// What is in the bytes from `start` to `end`: the offset from `start` of each piece, its
    /// length and its version.
    pub(crate) fn read(&self, start: u64, end: u64) -> Vec<(u64, u64, Version)> {
        let before = self.pieces.range(..start).next_back();
        let pieces = before.into_iter().chain(self.pieces.range(start..end));
        let piece = |(&at, &(stop, version)): (&u64, &(u64, Version))| {
            let (first, last) = (at.max(start), stop.min(end));
            let from = version.from + (first - at);
            (first < last).then(|| (first - start, last - first, Version { from, ..version }))
        };
        pieces.filter_map(piece).collect()
    }

    /// Where the bytes from `start` to `end` are first not those of a version, if so, and what is
    /// there.
    pub(crate) fn differs(
        &self,
        start: u64,
        end: u64,
        version: Version,
    ) -> Option<(u64, Option<u64>)> {
        let mut at = 0;
        for (offset, len, found) in self.read(start, end) {
            if offset > at {
                break;
            }
            if found != (Version { from: version.from + offset, ..version }) {
                return Some((at, Some(found.value)));
            }
            at = offset + len;
        }
        (at < end - start).then_some((at, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn version(value: u64, from: u64) -> Version {
        Version { value, from }
    }

    #[test]
    fn writes_cut_what_was_there() {
        let mut contents = Contents::default();
        contents.write(10, 30, version(1, 0));
        contents.write(15, 20, version(2, 100));
        let found = contents.read(12, 40);
        let expected =
            vec![(0, 3, version(1, 2)), (3, 5, version(2, 100)), (8, 10, version(1, 10))];
        assert_eq!(found, expected);
        contents.clear(0, 16);
        assert_eq!(contents.read(0, 40), [(16, 4, version(2, 101)), (20, 10, version(1, 10))]);
    }

    #[test]
    fn what_differs_is_found() {
        let mut contents = Contents::default();
        contents.write(0, 10, version(1, 0));
        assert_eq!(contents.differs(2, 8, version(1, 2)), None);
        assert_eq!(contents.differs(2, 8, version(1, 3)), Some((0, Some(1))), "shifted");
        assert_eq!(contents.differs(2, 12, version(1, 2)), Some((8, None)), "not all of it");
        contents.write(4, 5, version(2, 0));
        assert_eq!(contents.differs(0, 10, version(1, 0)), Some((4, Some(2))));
        contents.clear(0, 1);
        assert_eq!(contents.differs(0, 4, version(1, 0)), Some((0, None)));
    }

    #[test]
    fn agrees_with_a_list_of_bytes() {
        let (mut contents, mut bytes) = (Contents::default(), [None; 64]);
        let mut random = 1_u64;
        for value in 0..3000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (one, other) = (random >> 33 & 63, random >> 40 & 63);
            let (start, end) = (one.min(other), one.max(other));
            let from = random >> 50 & 7;
            let write = random >> 60 != 0;
            if write {
                contents.write(start, end, version(value, from));
            } else {
                contents.clear(start, end);
            }
            for at in start..end {
                bytes[usize::try_from(at).unwrap()] =
                    write.then(|| version(value, from + (at - start)));
            }
            let mut found = [None; 64];
            for (offset, len, version) in contents.read(0, 64) {
                for i in 0..len {
                    found[usize::try_from(offset + i).unwrap()] =
                        Some(Version { from: version.from + i, ..version });
                }
            }
            assert_eq!(found, bytes);
        }
    }
}
