//! Rates in bit/s (`10G`, `400 Mbit/s`) and amounts of storage (`1.5 TB`, `1 GiB`), read without rounding.
//!
//! Prefixes are decimal (M is 10^6), as rates are counted everywhere. Binary prefixes are read for storage only.

/// What a rate may look like.
const RATES: &str = "allowed: a rate with its unit, like 10G, 400M or 2.5 Gbit/s";
/// What an amount of storage may look like.
const STORAGE: &str = "allowed: an amount with its unit, like 500 GB, 1.5 TB or 1 GiB";
/// The decimal prefixes of rates. A small letter means the same: nobody reserves a thousandth of a bit.
const PREFIXES: [(&str, u64); 4] =
    [("k", 1_000), ("m", 1_000_000), ("g", 1_000_000_000), ("t", 1_000_000_000_000)];
/// The units of storage in bytes.
const BYTES: [(&str, u64); 11] = [
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("pb", 1_000_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
];

/// Reads a rate in bit/s.
///
/// # Errors
/// A sentence that says what is wrong, what it may have meant, and what is allowed.
pub fn rate(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text).ok_or(RATES)?;
    let folded = unit.to_ascii_lowercase();
    let prefix = PREFIXES.iter().find(|(letter, _)| folded.starts_with(letter));
    let (letters, factor) = prefix.map_or((0, 1), |(letter, factor)| (letter.len(), *factor));
    let (_, rest) = unit.split_at(letters);
    let bits = ["", "bit", "bits", "bit/s", "bits/s", "bps", "b/s", "b"].contains(&rest);
    let bytes = ["B", "B/s", "Bps", "byte/s", "bytes/s"].contains(&rest);
    let prefix: String = unit.chars().take(letters).collect::<String>().to_ascii_uppercase();
    if unit.is_empty() {
        return Err(without_unit(number));
    }
    if bits {
        return times(number, factor)
            .ok_or_else(|| format!("`{text}` is no whole number of bit/s; {RATES}"));
    }
    if bytes {
        let other = times(number, factor.saturating_mul(8)).map(short);
        let other = other.map_or_else(String::new, |rate| format!(", or `{rate}` for bytes"));
        return Err(format!(
            "`{unit}` counts bytes, but rates are in bit/s: write `{number}{prefix}bit/s` for bits{other}; {RATES}"
        ));
    }
    if rest.starts_with('i') {
        let unit = "a prefix of powers of two, but rates have decimal ones";
        return Err(format!("`{text}` has {unit}: `{number}{prefix}`; {RATES}"));
    }
    Err(format!("`{unit}` is no unit of a rate; {RATES}"))
}

/// Reads an amount of storage, in bytes.
///
/// # Errors
/// As [`rate`].
pub fn storage_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text).ok_or(STORAGE)?;
    let letter = unit.to_ascii_uppercase();
    if unit.is_empty() {
        return Err(format!(
            "`{number}` has no unit: write `{number}GB` or `{number}TB`; {STORAGE}"
        ));
    }
    if ["K", "M", "G", "T", "P"].contains(&letter.as_str()) {
        return Err(format!(
            "`{text}` may be decimal or binary: write `{number}{letter}B` or `{number}{letter}iB`; {STORAGE}"
        ));
    }
    // `Gb` and `Gbit` are bits to many; `gb` is only small.
    let bits =
        letter.ends_with("BIT") || (unit.ends_with('b') && unit != unit.to_ascii_lowercase());
    if bits {
        return Err(format!("`{unit}` counts bits, but storage is in bytes, B; {STORAGE}"));
    }
    let folded = unit.to_ascii_lowercase();
    let size = BYTES.iter().find(|(name, _)| *name == folded);
    let (_, size) = size.ok_or_else(|| format!("`{unit}` is no unit of storage; {STORAGE}"))?;
    times(number, *size).ok_or_else(|| format!("`{text}` is no whole number of bytes; {STORAGE}"))
}

/// The number in front, and the unit behind it.
fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    (!whole.is_empty() && !part.is_empty() && !part.contains('.')).then(|| (number, unit.trim()))
}

/// A decimal number times a factor; `None` if that is not a whole number, or too large.
fn times(number: &str, factor: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let part = part.trim_end_matches('0');
    let whole: u64 = whole.parse().ok()?;
    let shift = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let digits: u128 = if part.is_empty() { 0 } else { part.parse().ok()? };
    let small = digits.checked_mul(u128::from(factor))?;
    let small = small.is_multiple_of(shift).then_some(small / shift)?;
    whole.checked_mul(factor)?.checked_add(u64::try_from(small).ok()?)
}

/// What a rate without a unit most likely means.
fn without_unit(number: &str) -> String {
    let exact = times(number, 1).filter(|bps| *bps >= 1_000);
    let meant = match exact.map(short) {
        Some(rate) => format!("`{rate}` if it is in bit/s"),
        None => format!("`{number}M` for Mbit/s or `{number}G` for Gbit/s"),
    };
    format!("`{number}` has no unit: write {meant}; {RATES}")
}

/// The shortest exact notation of a rate.
#[must_use]
pub fn short(bps: u64) -> String {
    let prefix =
        PREFIXES.iter().rev().find(|(_, size)| bps >= *size && bps.is_multiple_of(size / 1_000));
    let Some((letter, size)) = prefix else { return format!("{bps}bit/s") };
    let (whole, part) = (bps / size, bps % size / (size / 1_000));
    let part = if part == 0 { String::new() } else { format!(".{part:03}") };
    format!("{whole}{}{}", part.trim_end_matches('0'), letter.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_exactly() {
        let cases = [
            ("10G", 10_000_000_000),
            ("10g", 10_000_000_000),
            ("400 Mbit/s", 400_000_000),
            ("400Mbit", 400_000_000),
            ("400 mbit", 400_000_000),
            ("400Mbps", 400_000_000),
            ("400 Mb/s", 400_000_000),
            ("2.5 Gbit/s", 2_500_000_000),
            ("2.500G", 2_500_000_000),
            ("0.1T", 100_000_000_000),
            ("1K", 1_000),
            ("1kbit/s", 1_000),
            ("1500000000bit/s", 1_500_000_000),
            ("7 bit/s", 7),
            (" 1T ", 1_000_000_000_000),
            ("0G", 0),
        ];
        for (text, bps) in cases {
            assert_eq!(rate(text), Ok(bps), "{text}");
        }
    }

    #[test]
    fn what_is_no_rate_is_refused_with_what_it_may_mean() {
        let cases = [
            ("", "allowed: a rate"),
            ("G", "allowed: a rate"),
            ("-1G", "allowed: a rate"),
            ("1.G", "allowed: a rate"),
            (".5G", "allowed: a rate"),
            ("1.2.3G", "allowed: a rate"),
            ("fast", "allowed: a rate"),
            ("10", "`10` has no unit: write `10M` for Mbit/s or `10G` for Gbit/s"),
            ("2.5", "write `2.5M` for Mbit/s or `2.5G`"),
            ("1000000000", "write `1G` if it is in bit/s"),
            ("1500", "write `1.5K` if it is in bit/s"),
            ("1234567", "write `1234.567K` if it is in bit/s"),
            ("400 MB/s", "write `400Mbit/s` for bits, or `3.2G` for bytes"),
            ("400MB", "`MB` counts bytes"),
            ("10 Gi", "decimal ones: `10G`"),
            ("10Gibit/s", "decimal ones: `10G`"),
            ("2,5G", "`,5G` is no unit of a rate"),
            ("10 furlongs", "`furlongs` is no unit"),
            ("1h", "`h` is no unit"),
            ("0.0001K", "is no whole number of bit/s"),
            ("99999999999T", "is no whole number of bit/s"),
        ];
        for (text, part) in cases {
            let said = rate(text).unwrap_err();
            assert!(said.contains(part) && said.contains("allowed: a rate"), "{text}: {said}");
        }
    }

    #[test]
    fn the_short_notation_of_a_rate_is_read_back() {
        for bps in [0, 1, 999, 1_000, 1_500, 1_234_567, 400_000_000, 2_500_000_000, u64::MAX] {
            assert_eq!(rate(&short(bps)), Ok(bps), "{}", short(bps));
        }
        assert_eq!(short(2_500_000_000), "2.5G");
    }

    #[test]
    fn storage_is_read_in_bytes() {
        let cases = [
            ("500 MB", 500_000_000),
            ("1.5 GB", 1_500_000_000),
            ("1.5gb", 1_500_000_000),
            ("2TB", 2_000_000_000_000),
            ("1 GiB", 1_073_741_824),
            ("0.5KiB", 512),
            ("3 B", 3),
        ];
        for (text, bytes) in cases {
            assert_eq!(storage_bytes(text), Ok(bytes), "{text}");
        }
        let cases = [
            ("", "allowed: an amount"),
            ("500", "write `500GB` or `500TB`"),
            ("2T", "write `2TB` or `2TiB`"),
            ("2 Gb", "counts bits"),
            ("2 Gbit", "counts bits"),
            ("2 boxes", "`boxes` is no unit"),
            ("0.5 B", "is no whole number of bytes"),
            ("100000 PB", "is no whole number of bytes"),
        ];
        for (text, part) in cases {
            let said = storage_bytes(text).unwrap_err();
            assert!(said.contains(part) && said.contains("allowed: an amount"), "{text}: {said}");
        }
    }
}
