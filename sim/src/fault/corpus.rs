//! Seeds that found something, replayed before every run: `sim/corpus.txt`, compiled in.
//!
//! One line an entry: generator, seed, what it found. A seed means one world under one generator
//! ([`GENERATOR`]) and another under the next, so an entry is replayed as long as its
//! generator is the present one. Older ones stay as a record, and are counted as such: what they
//! found has a story in `tests/stories` or a test beside the code, which does not age.

use super::GENERATOR;

/// The file, as it was when this was compiled.
const TEXT: &str = include_str!("../../corpus.txt");

/// One seed that found something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusSeed {
    /// The generator that it found it with,
    pub generator: u32,
    /// the seed,
    pub seed: u64,
    /// and what it was.
    pub what: String,
}

impl CorpusSeed {
    /// The line of the file.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} {} {}\n", self.generator, self.seed, self.what)
    }

    fn of(line: &str) -> Option<Self> {
        let mut words = line.splitn(3, ' ');
        let generator = words.next()?.parse().ok()?;
        let seed = words.next()?.parse().ok()?;
        Some(Self { generator, seed, what: words.next()?.trim().to_owned() })
    }
}

/// Reads a corpus.
///
/// # Errors
/// The line that is none.
pub fn read(text: &str) -> Result<Vec<CorpusSeed>, String> {
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let read = |(number, line): (u32, &str)| {
        let wrong = || format!("line {number}: {line:?}: expected GENERATOR SEED WHAT IT FOUND");
        CorpusSeed::of(line).ok_or_else(wrong)
    };
    lines.map(read).collect()
}

/// All that was ever found.
///
/// # Panics
/// When the file is no corpus, which a test excludes.
#[must_use]
pub fn all() -> Vec<CorpusSeed> {
    read(TEXT).expect("a corpus")
}

/// Those that still mean the world that they meant.
#[must_use]
pub fn present() -> Vec<CorpusSeed> {
    all().into_iter().filter(|found| found.generator == GENERATOR).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_a_corpus_and_lines_are_read_back() {
        for found in all() {
            assert_eq!(read(&found.line()).unwrap(), [found]);
        }
        let error = read("# a comment\n2 x what\n").unwrap_err();
        assert!(error.starts_with("line 2: \"2 x what\""), "{error}");
    }
}
