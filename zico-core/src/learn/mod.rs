//! What the iterations of a job are like: which kinds there are, what each takes, what to expect of
//! the next.

pub(crate) mod detector;
pub(crate) mod footprint;
pub(crate) mod kinds;
pub(crate) mod leftovers;
pub(crate) mod margin;
pub(crate) mod phases;
pub(crate) mod predictor;
pub(crate) mod profile;
pub(crate) mod recent;
pub(crate) mod signature;
pub(crate) mod steadiness;
