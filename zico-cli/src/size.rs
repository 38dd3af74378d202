//! Parsing of sizes, budgets and durations.

use std::num::NonZeroU64;

use bytesize::ByteSize;
use zico_core::{Bytes, Ticks};

/// No device has more than a PiB.
pub(crate) const MOST: u64 = 1 << 50;

/// A budget: a size, or a share of what jobs need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// A size in bytes.
    Size(Bytes),
    /// L + f (S - L), L being the least budget under which the jobs can share and S the sum of
    /// their peaks.
    Share(f64),
}

/// Reads a size: a number and a unit (`8GiB`, `3.2 G`, `512MiB`), or plain bytes. `K`, `M`, `G`,
/// `T` and their `iB` forms count in 1024s, `KB`, `MB`, `GB`, `TB` in 1000s.
///
/// # Errors
/// A message that says what is wrong.
pub fn size(text: &str) -> Result<Bytes, String> {
    match amount(text)? {
        Bytes::ZERO => Err(format!("a size has to be more than nothing; {EXAMPLE}")),
        bytes => Ok(bytes),
    }
}

const EXAMPLE: &str = "a size is a number and a unit, such as 8GiB, 3.2G, 512MiB or 1500MB";

/// Reads a size, as [`size`] does; it may be nothing as well.
///
/// # Errors
/// A message that says what is wrong.
pub fn amount(text: &str) -> Result<Bytes, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(format!("a size cannot be negative; {EXAMPLE}"));
    }
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = text[number.len()..].trim();
    let binary = match unit.to_ascii_lowercase().as_str() {
        // A bare letter is what allocators and schedulers mean by it: 1024s.
        "k" | "m" | "g" | "t" | "p" => format!("{number}{unit}iB"),
        _ => format!("{number}{unit}"),
    };
    if !number.trim().parse::<f64>().is_ok_and(f64::is_finite) {
        return Err(format!("{text:?} is no number with a unit; {EXAMPLE}"));
    }
    let size: ByteSize = binary.parse().map_err(|_| format!("unknown unit {unit:?}; {EXAMPLE}"))?;
    match size.as_u64() {
        bytes if bytes > MOST => Err(format!("{text:?} is more than any device has; {EXAMPLE}")),
        bytes => Ok(Bytes::new(bytes)),
    }
}

/// Reads a budget: a size, or `f=` and a number.
///
/// # Errors
/// A message that says what is wrong.
pub fn budget(text: &str) -> Result<Budget, String> {
    let Some(share) = text.trim().strip_prefix("f=") else {
        let hint =
            "; or f=0.25 for a quarter of the way from the least budget to the sum of the peaks";
        return size(text).map(Budget::Size).map_err(|error| error + hint);
    };
    match share.trim().parse::<f64>() {
        Ok(f) if f.is_finite() && (-100.0..=100.0).contains(&f) => Ok(Budget::Share(f)),
        Ok(_) => Err("f has to be between -100 and 100, where 0 is the least budget".to_owned()),
        Err(_) => Err(format!("{share:?} is no number; write f=0.25, say")),
    }
}

/// Reads a bandwidth: a number of GB/s. The result is in bytes a second.
///
/// # Errors
/// A message that says what is wrong.
pub(crate) fn bandwidth(text: &str) -> Result<NonZeroU64, String> {
    let range = |_| format!("{text:?} is no bandwidth: GB/s from 0.001 to 100000");
    let gigabytes = between(text, 1e-3, 1e5).map_err(range)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    let bytes = (gigabytes * 1e9) as u64;
    Ok(NonZeroU64::new(bytes).unwrap_or(NonZeroU64::MIN))
}

/// Reads a duration: a number and `ns`, `us`, `ms` or `s`.
///
/// # Errors
/// A message that says what is wrong.
pub fn duration(text: &str) -> Result<Ticks, String> {
    let text = text.trim();
    let example = "a duration is a number and a unit, such as 5us, 800ns or 1.5ms";
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text[number.len()..].trim() {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        unit => return Err(format!("unknown unit {unit:?}; {example}")),
    };
    match number.trim().parse::<f64>() {
        Ok(value) if (0.0..1e9).contains(&value) => Ok(ticks(value * unit / 1e9)),
        _ => Err(format!("{text:?} is no duration; {example}")),
    }
}

/// A number of seconds, to the nanosecond.
pub(crate) fn ticks(seconds: f64) -> Ticks {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    Ticks::new((seconds * 1e9).round() as u64)
}

/// Reads a number within bounds.
///
/// # Errors
/// A message that says what is wrong.
pub fn between(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => Err(format!("{text:?} is no number from {least} to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("8GiB", 8 << 30),
            ("8G", 8 << 30),
            ("8 g", 8 << 30),
            ("1.5 GiB", 3 << 29),
            ("512MiB", 512 << 20),
            ("1500MB", 1_500_000_000),
            ("4096", 4096),
            (" 2 k ", 2048),
        ] {
            assert_eq!(size(text), Ok(Bytes::new(bytes)), "{text}");
            assert_eq!(amount(text), size(text), "{text}");
        }
        for nothing in ["0", "0 GiB", " 0B"] {
            assert_eq!(amount(nothing), Ok(Bytes::ZERO), "{nothing}");
        }
    }

    #[test]
    fn what_is_no_size_is_said_to_be_none() {
        for (text, word) in [
            ("", "no number"),
            ("GiB", "no number"),
            ("-1GiB", "negative"),
            ("0", "more than nothing"),
            ("8 parsecs", "unit"),
            ("1e400", "no number"),
            ("NaN", "no number"),
            ("inf", "no number"),
            ("99999999999 TiB", "more than any device has"),
            ("15EiB", "more than any device has"),
            ("8GiB8", "no number"),
            ("\u{1f600}", "no number"),
        ] {
            let error = size(text).unwrap_err();
            assert!(error.contains(word) && error.contains("such as 8GiB"), "{text}: {error}");
        }
    }

    #[test]
    fn budgets_durations_and_numbers() {
        assert_eq!(budget("f=0.25"), Ok(Budget::Share(0.25)));
        assert_eq!(budget("1GiB"), Ok(Budget::Size(Bytes::gib(1))));
        assert_eq!(budget("f=-0.5"), Ok(Budget::Share(-0.5)));
        for text in ["f=", "f=-101", "f=nan", "f=1e9", "lots"] {
            assert!(budget(text).is_err(), "{text}");
        }
        assert_eq!(duration("1.5ms"), Ok(Ticks::micros(1500)));
        for text in ["", "5", "-5us", "5 years", "1e30s"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(between("0.5", 0.0, 1.0), Ok(0.5));
        assert!(between("2", 0.0, 1.0).is_err() && between("x", 0.0, 1.0).is_err());
    }
}
