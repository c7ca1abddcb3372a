//! "Did you mean": the known names that are nearest to a wrong name. A misspelled name is the user's
//! mistake to correct, and is never reported as a lack of resources.

/// Most names that are suggested.
const SHOWN_MAX: usize = 3;
/// Longer names are not compared, because the cost of a comparison grows with the product of the
/// lengths.
const COMPARED_MAX: usize = 128;

/// Up to three known names nearest to `wrong`, the nearest first: those that differ from it in at
/// most a third of its letters, ignoring case.
#[must_use]
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let letters = |text: &str| text.to_lowercase().chars().collect::<Vec<char>>();
    let wrong = letters(wrong);
    // A single letter is not compared: if it is a different letter, nothing of the name is left.
    let most = if wrong.len() < 2 { 0 } else { (wrong.len() / 3).max(1) };
    let near = |name: &'a str| {
        let letters = letters(name);
        let comparable = wrong.len().abs_diff(letters.len()) <= most && wrong.len() <= COMPARED_MAX;
        let distance = comparable.then(|| distance(&wrong, &letters))?;
        (distance <= most).then_some((distance, name))
    };
    let mut found: Vec<(usize, &str)> = known.into_iter().filter_map(near).collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(SHOWN_MAX).map(|(_, name)| name).collect()
}

/// `; did you mean N0 or N1?`, or an empty string when no name is near.
#[must_use]
pub fn did_you_mean<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match &nearest(wrong, known)[..] {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [first @ .., last] => format!("; did you mean {} or {last}?", first.join(", ")),
    }
}

/// What could have been written instead of a wrong name: the first 20 known names, and the nearest of all.
#[must_use]
pub fn choices<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    const LISTED_MAX: usize = 20;
    let known: Vec<&str> = known.into_iter().collect();
    let more = if known.len() > LISTED_MAX { ", ..." } else { "" };
    let guess = did_you_mean(wrong, known.iter().copied());
    let listed = known.iter().take(LISTED_MAX).copied().collect::<Vec<_>>().join(", ");
    format!("{listed}{more}{guess}")
}

/// Number of letters to add, drop, replace, or swap with a neighbour (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, one) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(one != other);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i - 1] == *other && b[j - 1] == *one {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITES: [&str; 6] = ["KHN", "KMF", "OSA", "TKB", "TKB2", "Sapporo"];

    #[test]
    fn a_typo_finds_what_was_meant() {
        let cases: [(&str, &[&str]); 7] = [
            ("KNH", &["KHN"]),
            ("tkb", &["TKB", "TKB2"]),
            ("Saporo", &["Sapporo"]),
            ("Sappporo2", &["Sapporo"]),
            ("Atlantis", &[]),
            ("x", &[]),
            ("", &[]),
        ];
        for (wrong, expected) in cases {
            assert_eq!(nearest(wrong, SITES), expected, "{wrong:?}");
        }
        assert_eq!(did_you_mean("tkb", SITES), "; did you mean TKB or TKB2?");
        assert_eq!(did_you_mean("Atlantis", SITES), "");
    }

    #[test]
    fn distances_are_symmetric_and_count_a_swap_once() {
        let letters = |text: &str| text.chars().collect::<Vec<char>>();
        for (a, b, expected) in [("ab", "ba", 1), ("abc", "ca", 3), ("", "abc", 3), ("x", "x", 0)] {
            assert_eq!(distance(&letters(a), &letters(b)), expected, "{a} {b}");
            assert_eq!(distance(&letters(b), &letters(a)), expected, "{b} {a}");
        }
    }
}
