//! Output that is safe for a terminal: control characters are escaped.
//!
//! Names come from files that others made. All output goes through [`Terminal`], which passes no
//! character that could clear the screen, set its title or reverse the text; a lint forbids
//! `std::io::stdout` and `println!` in this crate. Such characters are printed as JSON escapes
//! (`\u001b`), so JSON output stays equivalent.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, StderrLock, StdoutLock, Write};

/// Standard output.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn stdout() -> Terminal<StdoutLock<'static>> {
    Terminal(io::stdout().lock())
}

/// Standard error.
pub(crate) fn stderr() -> Terminal<StderrLock<'static>> {
    Terminal(io::stderr().lock())
}

/// Writes text, with all control characters escaped but line ends.
#[derive(Debug)]
pub(crate) struct Terminal<W>(W);

impl<W: Write> Write for Terminal<W> {
    /// Takes all bytes. Invalid UTF-8 is replaced; format strings and JSON are valid.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.write_all(escaped(&text, |c| c != '\n' && is_acted_on(c)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A name or another text of one line, for one line or a cell of a table: without line ends as
/// well.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_acted_on)
}

/// Control characters, other ends of lines, and what sets the direction of text.
fn is_acted_on(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, which: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&which) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if which(c) => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            // All of them have four digits. A string takes everything.
            c if which(c) => _ = write!(escaped, "\\u{:04x}", u32::from(c)),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> String {
        let mut out = Vec::new();
        write!(Terminal(&mut out), "{text}").unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn nothing_that_a_terminal_acts_on_comes_through() {
        for (text, expected) in [
            ("bert-base\n▁█ 北京 é", "bert-base\n▁█ 北京 é"),
            ("\u{1b}[2J\u{1b}]0;x\u{7}", "\\u001b[2J\\u001b]0;x\\u0007"),
            ("a\tb\r\nc\0\u{7f}\u{9b}31m", "a\\tb\\r\nc\\u0000\\u007f\\u009b31m"),
            ("\u{202e}abc\u{2069}\u{200f}\u{2028}", "\\u202eabc\\u2069\\u200f\\u2028"),
        ] {
            assert_eq!(printed(text), expected);
        }
        for c in (0..0x3000).filter_map(char::from_u32).filter(|&c| c != '\n') {
            assert_eq!(printed(&c.to_string()).chars().count() > 1, is_acted_on(c), "{c:?}");
        }
        assert_eq!(line("a\nb\u{1b}"), "a\\nb\\u001b");
        assert_eq!(line("plain"), "plain");
    }

    #[test]
    fn json_says_the_same() {
        let name = "\u{1b}[2J\n\t\u{7f}\u{9b}\u{202e}\"\\x";
        let json = serde_json::to_string_pretty(&[name]).unwrap();
        let shown = printed(&json);
        assert!(shown.chars().all(|c| c == '\n' || !is_acted_on(c)), "{shown}");
        assert_eq!(serde_json::from_str::<[String; 1]>(&shown).unwrap(), [name]);
    }
}
