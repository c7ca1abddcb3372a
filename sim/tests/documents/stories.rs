//! Every story in `tests/stories` must have the transcript that its file contains; see `coalloc_sim::story`.

use std::path::{Path, PathBuf};

use coalloc_sim::story;

/// The lines in which two transcripts differ, with some lines before and after.
fn difference(expected: &[&str], actual: &[&str]) -> String {
    let same = expected.iter().zip(actual).take_while(|(a, b)| a == b).count();
    let (left, right) = (&expected[same..], &actual[same..]);
    let tail = left.iter().rev().zip(right.iter().rev()).take_while(|(a, b)| a == b).count();
    let mut text = String::new();
    let mut add = |sign: char, lines: &[&str]| {
        lines.iter().for_each(|line| text.push_str(&format!("    {sign} {line}\n")));
    };
    add(' ', &expected[same.saturating_sub(3)..same]);
    add('-', &left[..left.len() - tail]);
    add('+', &right[..right.len() - tail]);
    add(' ', &left[left.len() - tail..(left.len() - tail + tail.min(3))]);
    text
}

fn stories() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/stories");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "txt")).collect();
    paths.sort();
    paths
}

#[allow(clippy::disallowed_methods)] // The environment says whether the test blesses.
fn blessing() -> bool {
    std::env::var("COALLOC_BLESS").is_ok_and(|value| value == "1")
}

#[test]
fn every_story_is_told_as_it_is_written() {
    let mut wrong = Vec::new();
    let paths = stories();
    assert!(paths.len() >= 14, "stories are missing: {paths:?}");
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let (script, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let lines = match story::tell(script) {
            Ok(lines) => lines,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let actual: Vec<&str> = lines.iter().map(String::as_str).collect();
        let expected: Vec<&str> = expected.lines().collect();
        if actual == expected {
            continue;
        }
        if blessing() {
            let told = format!("{script}----\n{}\n", actual.join("\n"));
            std::fs::write(&path, told).unwrap();
        } else {
            wrong.push(format!("{name}:\n{}", difference(&expected, &actual)));
        }
    }
    let hint = "COALLOC_BLESS=1 writes them anew: only if you understand the change";
    assert!(wrong.is_empty(), "{}\n{hint}", wrong.join("\n"));
}
