//! Progress bars.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar, or a spinner if the length is unknown; hidden if standard error is no terminal.
pub(crate) fn progress(what: &'static str, of: u64) -> ProgressBar {
    if !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target((of > 0).then_some(of), ProgressDrawTarget::stderr());
    let template = if of > 0 {
        "replaying {msg} {wide_bar} {pos}/{len} iterations, {eta} left"
    } else {
        "replaying each {msg} {spinner} {elapsed}"
    };
    // A template that cannot be read leaves the default look.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
