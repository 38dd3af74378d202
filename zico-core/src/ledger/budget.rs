//! Changing the budget of a pool that jobs run in.
//!
//! The *target* is what the budget is to be; the *limit* is what may be leased now. Raising moves
//! both at once. Lowering moves the target at once, which gates new iterations, and the limit as
//! far as the iterations that run can still finish within it (the banker's test says how far that
//! is); it follows as they end. Regions beyond the limit are *closed* as they become free: their
//! memory goes back to the device and nobody gets them. So lowering takes at most one iteration of
//! each running job, and what the device has yet to pass.

use super::account::Account;
use super::banker::least_free;
use super::{AT_A_TIME, Ledger};
use crate::types::error::BudgetError;
use crate::types::tuning::MOST_REGIONS;
use crate::types::units::Bytes;

/// How many regions of a size a budget is divided into.
pub(crate) fn regions_of(asked: Bytes, region: Bytes, capacity: Bytes) -> Result<u32, BudgetError> {
    if asked > capacity {
        return Err(BudgetError::BeyondDevice { asked, capacity });
    }
    let count = asked.value() / region.value().max(1);
    match u32::try_from(count) {
        Ok(0) => Err(BudgetError::TooSmall { asked, region }),
        Ok(regions) if count <= MOST_REGIONS => Ok(regions),
        _ => Err(BudgetError::TooManyRegions { count, region, most: MOST_REGIONS }),
    }
}

impl Ledger {
    /// Changes the budget. Other jobs may start since, or have to be looked at again.
    pub(crate) fn set_target(&mut self, asked: Bytes, capacity: Bytes) -> Result<(), BudgetError> {
        let target = regions_of(asked, Bytes::new(self.page_bytes), capacity)?;
        let kept_by = |account: &Account| match account.away.is_empty() {
            _ if account.is_preemptible() => account.terms.floor,
            true => account.persistent().max(account.kept_for_good()),
            false => account.kept_in_any_case(),
        };
        let kept = self.accounts.values().map(kept_by).fold(0, u32::saturating_add);
        let kept = kept.saturating_add(self.largest_turn(None));
        // What is expected to be kept may be more in all than there is. A budget that is no lower than
        // before is never refused.
        if target < kept.min(self.target) {
            let kept = self.bytes(kept.into());
            return Err(BudgetError::BelowPersistent { asked, kept });
        }
        self.target = target;
        self.limit = self.limit.max(target);
        self.tighten();
        self.notify();
        self.admit();
        Ok(())
    }

    /// Moves the limit towards a lowered target, as far as what runs can still finish.
    pub(super) fn tighten(&mut self) {
        if self.limit > self.target {
            let reserved = self.lay_claims(None, 0);
            let needed = least_free(&mut self.claims);
            self.limit = self.limit.min(reserved.saturating_add(needed)).max(self.target);
        }
        self.close_absent();
    }

    /// Whether more regions are open than may be.
    pub(crate) fn is_shrinking(&self) -> bool {
        self.open > self.limit
    }

    /// Closes regions that are free and have no memory, as long as there are more open than may be:
    /// some at a time.
    pub(super) fn close_absent(&mut self) {
        for _ in 0..AT_A_TIME {
            if self.open <= self.limit || !self.regions.close_last() {
                return;
            }
            self.open -= 1;
        }
    }

    /// Closes more of them. Whether that made a difference.
    pub(crate) fn close_more(&mut self) -> bool {
        let open = self.open;
        self.close_absent();
        self.open < open
    }

    /// Opens regions up to the limit, some at a time. Whether there are more to open.
    pub(crate) fn open_up(&mut self) -> bool {
        for _ in 0..AT_A_TIME {
            if self.open >= self.limit {
                return false;
            }
            self.regions.open_one();
            self.open += 1;
        }
        self.open < self.limit
    }
}
