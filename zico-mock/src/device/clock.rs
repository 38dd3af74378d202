//! How fast work advances when several launches share the device.
//!
//! The model is stated in the crate's documentation: while the utilisations of the running launches
//! sum to U <= 1 each runs as if alone, beyond that all run at 1/U of that speed.
//!
//! One *work clock* stands for all launches. It advances by one nanosecond of work per nanosecond
//! of time while U <= 1 and by 1/U otherwise; a launch is done when the clock has advanced by the
//! launch's work since it began. So a change of U touches one number and no launch, and the next
//! launch to finish is the one with the least finish point.
//!
//! The clock counts in units of 2^-32 ns of work and integers only. It is settled where U changes,
//! rounding up, so that rounding never makes a launch late: after n changes of U during a launch it
//! is at most n * 2^-32 ns ahead. Launches finish at whole nanoseconds, the first at which they are
//! done. Moments between two changes of U are never rounded into the clock, so the result does not
//! depend on the steps in which time is advanced.

use zico_core::Ticks;

/// The share of the device that a launch can keep busy, in permille: 1 to 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utilisation(u16);

impl Utilisation {
    /// The whole device.
    pub const FULL: Self = Self(1000);

    /// `permille` thousandths of the device, if that is one of 1 to 1000.
    #[must_use]
    pub const fn new(permille: u16) -> Option<Self> {
        match permille {
            1..=1000 => Some(Self(permille)),
            _ => None,
        }
    }

    /// Thousandths of the device.
    #[must_use]
    pub const fn permille(self) -> u16 {
        self.0
    }
}

/// A point of the work clock, in 2^-32 ns of work. `u128`, because 2^64 ns of them must fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkPoint(u128);

const FRACTION: u32 = 32;

/// Utilisation at which the device is full, in permille.
const FULL: u64 = 1000;

/// The work clock: time in, work done by each running launch out.
#[derive(Debug, Default)]
pub(crate) struct WorkClock {
    /// When U last changed, and the clock's reading at that moment.
    since: Ticks,
    reading: WorkPoint,
    /// U in permille.
    utilisation: u64,
}

impl WorkClock {
    /// Where a launch that begins now is done.
    pub(crate) fn finish_of(&self, now: Ticks, work: Ticks) -> WorkPoint {
        WorkPoint(self.read(now).0 + (u128::from(work.value()) << FRACTION))
    }

    /// A launch begins: what it can use is added to U.
    pub(crate) fn begin(&mut self, now: Ticks, launch: Utilisation) {
        self.settle(now);
        self.utilisation += u64::from(launch.0);
    }

    /// A launch has finished: what it could use leaves U.
    pub(crate) fn end(&mut self, now: Ticks, launch: Utilisation) {
        self.settle(now);
        self.utilisation = self.utilisation.saturating_sub(u64::from(launch.0));
    }

    /// The first whole nanosecond at which the clock reads `point` or more, if U stays as it is.
    pub(crate) fn moment_of(&self, point: WorkPoint) -> Ticks {
        let work = point.0.saturating_sub(self.reading.0);
        let time = match self.stretch() {
            FULL => work.div_ceil(1 << FRACTION),
            stretch => (work * u128::from(stretch)).div_ceil(u128::from(FULL) << FRACTION),
        };
        let time = Ticks::new(u64::try_from(time).unwrap_or(u64::MAX));
        self.since.saturating_add(time)
    }

    fn settle(&mut self, now: Ticks) {
        self.reading = self.read(now);
        self.since = now;
    }

    fn read(&self, now: Ticks) -> WorkPoint {
        let time = u128::from(now.saturating_sub(self.since).value()) << FRACTION;
        let work = match self.stretch() {
            FULL => time,
            _ if time == 0 => 0,
            stretch => (time * u128::from(FULL)).div_ceil(u128::from(stretch)),
        };
        WorkPoint(self.reading.0 + work)
    }

    /// By how much everything is slowed down, in permille: max(1, U).
    const fn stretch(&self) -> u64 {
        if self.utilisation < FULL { FULL } else { self.utilisation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permille(value: u16) -> Utilisation {
        Utilisation::new(value).unwrap()
    }

    #[test]
    fn utilisation_is_a_share_of_one_device() {
        assert_eq!(Utilisation::new(0), None);
        assert_eq!(Utilisation::new(1001), None);
        assert_eq!(Utilisation::new(1000), Some(Utilisation::FULL));
        assert_eq!(permille(1).permille(), 1);
    }

    #[test]
    fn the_clock_slows_down_only_beyond_a_full_device() {
        let mut clock = WorkClock::default();
        clock.begin(Ticks::ZERO, permille(600));
        let alone = clock.finish_of(Ticks::ZERO, Ticks::new(900));
        assert_eq!(clock.moment_of(alone), Ticks::new(900));
        clock.begin(Ticks::ZERO, permille(400));
        assert_eq!(clock.moment_of(alone), Ticks::new(900), "1.0 is not contention");
        clock.begin(Ticks::ZERO, permille(500));
        assert_eq!(clock.moment_of(alone), Ticks::new(1350), "900 at 1/1.5");
    }

    #[test]
    fn rounding_in_thirds_never_makes_a_launch_late() {
        let mut clock = WorkClock::default();
        clock.begin(Ticks::ZERO, Utilisation::FULL);
        let finish = clock.finish_of(Ticks::ZERO, Ticks::new(3));
        // Nine times 1 ns at a third of the speed: exactly 3 ns of work.
        clock.begin(Ticks::ZERO, Utilisation::FULL);
        for now in 0..9 {
            clock.begin(Ticks::new(now), Utilisation::FULL);
            assert_eq!(clock.moment_of(finish), Ticks::new(9));
            clock.end(Ticks::new(now), Utilisation::FULL);
            clock.begin(Ticks::new(now), Utilisation::FULL);
            clock.end(Ticks::new(now + 1), Utilisation::FULL);
        }
        assert!(clock.read(Ticks::new(9)) >= finish);
    }

    #[test]
    fn the_end_of_time_is_not_passed() {
        let mut clock = WorkClock::default();
        for _ in 0..3 {
            clock.begin(Ticks::MAX, Utilisation::FULL);
        }
        let finish = clock.finish_of(Ticks::MAX, Ticks::MAX);
        assert_eq!(clock.moment_of(finish), Ticks::MAX);
    }
}
