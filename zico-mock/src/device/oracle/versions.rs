//! What is in memory: the oracle's second half. It follows writes and copies byte by byte, in
//! device order, and says where bytes are not those that were written.

use zico_core::{Addr, Bytes, Ticks};

use super::contents::Version;
use super::{Access, LINK, Oracle};
use crate::device::memory::{Piece, Space};
use crate::device::timeline::Way;
use crate::device::violation::ViolationKind;

impl Oracle {
    /// A copy of a piece of the host's memory is about to be enqueued.
    pub(crate) fn expect_copy(&mut self, host: u64) {
        self.host.entry(host).or_default().0 += 1;
    }

    /// How many copies of a piece of the host's memory are enqueued.
    pub(crate) fn copies(&self, host: u64) -> u64 {
        self.host.get(&host).map_or(0, |(uses, _)| *uses)
    }

    /// A piece of the host's memory is gone.
    pub(crate) fn freed(&mut self, host: u64) {
        self.host.remove(&host);
    }

    /// Bytes get a version. That they are mapped and their owner's is seen as for any launch.
    pub(super) fn write(&mut self, now: Ticks, access: Access, value: u64, space: &Space) {
        self.touch(now, access, space);
        let mut from = 0;
        for piece in Self::translated(access, space) {
            self.contents.write(piece.start, piece.end, Version { value, from });
            from += piece.end - piece.start;
        }
    }

    /// Bytes have no version from here on.
    pub(super) fn undefine(&mut self, now: Ticks, access: Access, space: &Space) {
        self.touch(now, access, space);
        for piece in Self::translated(access, space) {
            self.contents.clear(piece.start, piece.end);
        }
    }

    pub(super) fn expect(&mut self, now: Ticks, access: Access, value: u64, space: &Space) {
        self.touch(now, access, space);
        let mut from = 0;
        for piece in Self::translated(access, space) {
            let differs = self.contents.differs(piece.start, piece.end, Version { value, from });
            if let Some((offset, found)) = differs {
                let Access { owner, addr, len } = access;
                let offset = Bytes::new(from + offset);
                let kind = ViolationKind::Changed { owner, addr, len, offset, found };
                return self.report(now, kind);
            }
            from += piece.end - piece.start;
        }
    }

    /// The contents of addresses are in the host's memory now, or the other way round. The copy has
    /// had its claim on them.
    pub(super) fn copied(&mut self, way: Way, place: Piece, host: u64, space: &Space) {
        let (owner, addr) = (LINK, Addr::new(place.start));
        let len = Bytes::new(place.end - place.start);
        let pieces = Self::translated(Access { owner, addr, len }, space);
        let Some((_, there)) = self.host.get_mut(&host) else { return };
        let mut at = 0;
        for piece in pieces {
            let end = at + (piece.end - piece.start);
            let (from, to) = match way {
                Way::Out => (self.contents.read(piece.start, piece.end), &mut *there),
                Way::In => (there.read(at, end), &mut self.contents),
            };
            let start = if way == Way::Out { at } else { piece.start };
            to.clear(start, start + (end - at));
            for (offset, len, version) in from {
                to.write(start + offset, start + offset + len, version);
            }
            at = end;
        }
    }

    /// The physical bytes of an access, as far as they are mapped.
    fn translated(access: Access, space: &Space) -> Vec<Piece> {
        let mut pieces = Vec::new();
        // What is mapped nowhere has been reported.
        let _ = space.translate(access.addr, access.len, &mut pieces);
        pieces
    }
}
