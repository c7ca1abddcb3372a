//! The words of the project: no type, module or file has a name that CONTRIBUTING.md bans.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folders without source code of ours.
const SKIPPED: [&str; 3] = ["target", ".git", "node_modules"];

/// A banned name: a whole name, or the beginning or the end of a name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Banned {
    Whole(String),
    Beginning(String),
    End(String),
}

impl Banned {
    fn read(text: &str) -> Self {
        match (text.strip_suffix('*'), text.strip_prefix('*')) {
            (Some(beginning), _) => Self::Beginning(beginning.to_owned()),
            (_, Some(end)) => Self::End(end.to_owned()),
            _ => Self::Whole(text.to_owned()),
        }
    }

    fn is(&self, name: &str) -> bool {
        match self {
            Self::Whole(whole) => name == whole,
            Self::Beginning(beginning) => name.starts_with(beginning.as_str()),
            Self::End(end) => name.ends_with(end.as_str()),
        }
    }
}

/// The names in the last column of the table of words.
fn banned(contributing: &str) -> BTreeSet<Banned> {
    let (_, words) = contributing.split_once("## Words").expect("a table of words");
    let rows = words.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(Banned::read).collect()
}

/// The names of types and modules that are declared in a source file.
fn declared(source: &str) -> impl Iterator<Item = &str> {
    let declaration = |line: &str| {
        let words = line.split_whitespace();
        let mut words = words.skip_while(|word| word.starts_with("pub") || word.starts_with("in "));
        let is_declaration =
            |word: &str| ["struct", "enum", "trait", "type", "mod"].contains(&word);
        words.next().is_some_and(is_declaration).then(|| words.next()).flatten().is_some()
    };
    source.lines().filter(move |line| declaration(line)).filter_map(|line| {
        let rest = line.split_once("struct ").or_else(|| line.split_once("enum "));
        let rest = rest.or_else(|| line.split_once("trait ")).or_else(|| line.split_once("type "));
        let (_, rest) = rest.or_else(|| line.split_once("mod "))?;
        rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
    })
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !SKIPPED.contains(&name.as_str()) {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
}

#[test]
fn no_type_module_or_file_has_a_name_that_is_not_used() {
    let root = crate::root();
    let banned = banned(&std::fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap());
    assert!(banned.len() > 20, "the table of words is read: {banned:?}");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 300, "{} files", files.len());
    let mut found = Vec::new();
    for file in files {
        let source = std::fs::read_to_string(&file).unwrap();
        let stem = file.file_stem().unwrap().to_string_lossy().into_owned();
        for name in declared(&source).chain([stem.as_str()]) {
            if banned.iter().any(|banned| banned.is(name)) {
                found.push(format!("{}: {name}", file.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(found.is_empty(), "see \"Words\" in CONTRIBUTING.md:\n{}", found.join("\n"));
}

#[test]
fn names_are_found_where_they_are_declared() {
    let source = "pub(crate) struct Room;\n    enum Way {\nlet way = Way::A;\npub mod shown;\ntype Told = u8;";
    let names: Vec<&str> = declared(source).collect();
    assert_eq!(names, ["Room", "Way", "shown", "Told"]);
    let banned = banned("## Words\n| a | b | `Upper*`, `*Way`, `Room` |\n");
    let is = |name: &str| banned.iter().any(|banned| banned.is(name));
    assert_eq!(["UpperEntry", "MakesWay", "Room", "Rooms"].map(is), [true, true, true, false]);
}
