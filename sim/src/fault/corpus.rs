//! The corpus: seeds that found something. They are kept in `sim/corpus.txt`, which is compiled in, and are
//! replayed before every run.
//!
//! Each line is one entry: generator, seed, and what the seed found. A seed means one world under one
//! generator ([`GENERATOR`]) and another under the next, so an entry is replayed only as long as its
//! generator is the present one. Older entries stay as a record and are counted as such: for what they found
//! there is a story in `tests/stories` or a test beside the code, which stays valid under every generator.

use super::GENERATOR;

/// The content of the file at compile time.
const TEXT: &str = include_str!("../../corpus.txt");

/// One seed that found something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusSeed {
    /// The generator that made the world.
    pub generator: u32,
    /// The seed of the world.
    pub seed: u64,
    /// What it found.
    pub what: String,
}

impl CorpusSeed {
    /// The entry as a line of the file, with its newline.
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
/// The number and text of a line that is not an entry.
pub fn read(text: &str) -> Result<Vec<CorpusSeed>, String> {
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let read = |(number, line): (u32, &str)| {
        let wrong = || format!("line {number}: {line:?}: expected GENERATOR SEED WHAT IT FOUND");
        CorpusSeed::of(line).ok_or_else(wrong)
    };
    lines.map(read).collect()
}

/// All entries of the corpus, of every generator.
///
/// # Panics
/// When the compiled-in file is not a corpus, which a test excludes.
#[must_use]
pub fn all() -> Vec<CorpusSeed> {
    read(TEXT).expect("a corpus")
}

/// The entries of the present generator, whose seeds still mean the same worlds.
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
