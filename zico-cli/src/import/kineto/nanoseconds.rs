//! Times in a profile, read exactly.

/// The nanoseconds in a JSON number of microseconds; decimals below that are cut off.
///
/// Profiles give moments as `4370943529511.422`, and as `1712345678901234.567` if they count from
/// 1970: more digits than a float holds. So the digits themselves are read. Nothing if `text` is
/// no number, or is beyond 292 years.
pub(super) fn parse(text: &str) -> Option<i64> {
    let (negative, number) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match number.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (number, 0),
    };
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(decimals.bytes());
    if whole.is_empty() || !digits().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    // How many digits stand before the point when the unit is nanoseconds, leading zeros aside.
    let zeros = digits().take_while(|&digit| digit == b'0').count();
    let before = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()?;
    let before = before.checked_add(exponent)?.checked_add(3)?;
    if zeros == digits().count() {
        return Some(0);
    }
    let mut digits = digits().skip(zeros);
    let mut value: i64 = 0;
    for _ in 0..before {
        let digit = i64::from(digits.next().unwrap_or(b'0') - b'0');
        value = value.checked_mul(10)?.checked_add(if negative { -digit } else { digit })?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn every_digit_counts() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("0.000", 0),
            ("0e999999999", 0),
            ("4370943529511.422", 4_370_943_529_511_422),
            ("1712345678901234.567", 1_712_345_678_901_234_567),
            ("28.4", 28_400),
            ("7", 7_000),
            ("-1.5", -1_500),
            ("0.0019", 1),
            ("0.05", 50),
            ("1.2e3", 1_200_000),
            ("12E-3", 12),
            ("1e-9", 0),
            ("9223372036854775.807", i64::MAX),
            ("-9223372036854775.808", i64::MIN),
        ] {
            assert_eq!(parse(text), Some(nanoseconds), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_or_too_large_is_refused() {
        for text in ["", "-", ".5", "\"1\"", "null", "1.x", "1e", "9223372036854775.808", "1e300"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("1e9223372036854775807"), None);
    }
}
