//! The user's guide is true: every command in the `console` blocks of its pages is run, in order, from the
//! root of the repository, and ends with the exit code that the page says.
//!
//! A shell ([`mod@shell`]) runs the commands of own-federation.md, from an empty folder ([`own_federation`]), those of
//! the chapter about the API ([`api`]), and those of tutorials ([`tutorials`]). What the program says to bad input is in a table ([`mistakes`]). What is made of the
//! source and of the program is compared with both: the reference ([`mod@reference`]) and pictures ([`pictures`]).
//!
//! Each page of `docs/guide/` stands alone: it starts the federation that it needs, in /tmp/elgl.

// clippy allows unwrap in test functions only; the helpers of this file are test code all through.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod api;
mod generated;
mod mistakes;
mod operating;
mod own_federation;
#[path = "../page.rs"]
mod page;
mod pictures;
mod reference;
mod shell;
mod site;
#[allow(dead_code, reason = "other tests take the rest")]
#[path = "../tmpfs.rs"]
mod tmpfs;
mod tutorials;
mod words;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use coalloc_common::ResourceKind;
use coalloc_plan::{Named, Solver, TaskPlannerName, WorkflowPlannerName};
use page::PageCommand;

struct Guide {
    root: PathBuf,
    folder: tempfile::TempDir,
    coordinator: Option<String>,
    /// Who calls: a folder in `identities/`.
    identity: String,
}

impl Drop for Guide {
    fn drop(&mut self) {
        // This stops the federation that `demo --keep` has left running.
        if let Ok(pids) = std::fs::read_to_string(self.folder.path().join("elgl/pids")) {
            let _ = Command::new("kill").args(pids.split_whitespace()).status();
        }
    }
}

impl Guide {
    fn run(&mut self, page_command: &PageCommand) {
        let PageCommand { line, command, exit } = page_command;
        // Anywhere else, the folder would stay and disturb the next run.
        assert!(
            !(command.contains("--dir") || command.contains("--out"))
                || command.contains("/tmp/elgl"),
            "$ {line}"
        );
        let folder = self.folder.path().join("elgl");
        let command = command.replace("/tmp/elgl", &folder.to_string_lossy());
        let mut words = words_of(&command).into_iter();
        match words.next().as_deref() {
            // The demo has printed the address of its coordinator; the guide only shows an example.
            Some("export") => {
                let variable = words.next().unwrap();
                if let Some(folder) = variable.strip_prefix("COALLOC_IDENTITY=") {
                    folder.rsplit('/').next().unwrap().clone_into(&mut self.identity);
                }
                return;
            }
            Some("coalloc") => {}
            other => panic!("the guide may only show `coalloc` and `export`: {other:?}"),
        }
        let mut process = Command::new(env!("CARGO_BIN_EXE_coalloc"));
        process.args(words).current_dir(&self.root);
        process.env_remove("COALLOC_GRC").env_remove("COALLOC_IDENTITY");
        if let Some(coordinator) = &self.coordinator {
            let identity = self.folder.path().join("elgl/identities").join(&self.identity);
            process.env("COALLOC_GRC", coordinator).env("COALLOC_IDENTITY", identity);
        }
        let output = process.output().unwrap();
        let shown = shown(&output);
        assert_eq!(output.status.code(), Some(*exit), "$ {line}\n{shown}");
        assert!(!shown.trim().is_empty(), "$ {line}: says nothing");
        if let Some((_, rest)) = shown.split_once("export COALLOC_GRC=") {
            self.coordinator = rest.split_whitespace().next().map(str::to_owned);
        }
    }
}

/// The words of a command; what stands between `"` is one word.
fn words_of(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, piece) in command.split('"').enumerate() {
        match index % 2 {
            0 => words.extend(piece.split_whitespace().map(str::to_owned)),
            _ => words.push(piece.to_owned()),
        }
    }
    words
}

fn shown(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The guide's pages: the first page, and the chapters.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("docs/guide.md")];
    let chapters = std::fs::read_dir(root().join("docs/guide")).unwrap();
    pages.extend(chapters.map(|entry| entry.unwrap().path()));
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages
}

#[test]
fn every_command_of_the_guide_does_what_it_says() {
    let commands: usize = pages().iter().map(|page| run_page(page)).sum();
    assert!(commands >= 20, "only {commands} commands were found");
}

fn run_page(page: &Path) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let identity = "operator".to_owned();
    let mut guide = Guide { root: root(), folder, coordinator: None, identity };
    let commands = page::commands(page, "console");
    for command in &commands {
        guide.run(command);
    }
    commands.len()
}

#[test]
fn every_example_file_is_mentioned_and_every_mentioned_file_is_there() {
    let root = root();
    let guide: String = pages().iter().map(|page| std::fs::read_to_string(page).unwrap()).collect();
    for entry in std::fs::read_dir(root.join("docs/examples")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(guide.contains(&name), "docs/examples/{name} is not in the guide");
    }
    let others = ["README.md", "ARCHITECTURE.md", "docs/PROTOCOL.md", "docs/FIGURES.md"];
    for page in others.iter().map(|page| root.join(page)).chain(pages()) {
        let text = std::fs::read_to_string(&page).unwrap();
        let folder = page.parent().unwrap().to_owned();
        let page = page.display();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") {
                assert!(folder.join(target).exists(), "{page} links to {target}");
            }
        }
    }
}

/// The texts between quotes in the comment of a field of the schema.
fn quoted_in_comment(file: &str, field: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("proto/coalloc/v1").join(file)).unwrap();
    let (before, _) = text.split_once(field).unwrap_or_else(|| panic!("{file} has no {field}"));
    let comment = before.lines().rev().skip_while(|line| line.trim().is_empty());
    let comment: Vec<&str> = comment.take_while(|line| line.trim().starts_with("//")).collect();
    let comment = comment.into_iter().rev().collect::<Vec<_>>().join("\n");
    comment.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Checks that the schema names exactly the planners of this registry, and that a chapter of the guide names
/// each of them.
fn planners_are_named<P: Named>(file: &str, field: &str, chapter: &str) {
    let registered = P::ALL.iter().map(|planner| planner.name().to_owned()).collect();
    assert_eq!(quoted_in_comment(file, field), registered, "comment of {field} in {file}");
    let guide = std::fs::read_to_string(root().join("docs/guide").join(chapter)).unwrap();
    for name in P::ALL.iter().map(|planner| planner.name()) {
        assert!(guide.contains(&format!("`{name}`")), "docs/guide/{chapter} does not name {name}");
    }
}

/// The words of kinds that a site may have besides CPUs are those of the schema and of the guide.
#[test]
fn the_schema_and_the_guide_name_every_kind() {
    let words: BTreeSet<String> =
        ResourceKind::others().map(|kind| kind.word().to_owned()).collect();
    for (file, message) in
        [("types.proto", "KindAmount"), ("resource_manager.proto", "SiteResource")]
    {
        let field = format!("message {message} {{");
        let text = std::fs::read_to_string(root().join("proto/coalloc/v1").join(file)).unwrap();
        let (_, body) = text.split_once(&field).unwrap_or_else(|| panic!("{file}: {message}"));
        let (comment, _) = body.split_once("string kind = 1").unwrap();
        let quoted: BTreeSet<String> =
            comment.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        assert_eq!(quoted, words, "comment of {message}.kind in {file}");
    }
    let guide = std::fs::read_to_string(root().join("docs/guide.md")).unwrap();
    let (_, section) = guide.split_once("### More than CPUs at a site").unwrap();
    let rows = section.lines().take_while(|line| !line.starts_with("## "));
    let rows = rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    assert_eq!(
        rows.map(str::to_owned).collect::<BTreeSet<String>>(),
        words,
        "table of docs/guide.md"
    );
}

#[test]
fn the_schema_and_the_guide_name_every_planner() {
    planners_are_named::<Solver>("types.proto", "optional string solver = 3", "baselines.md");
    planners_are_named::<TaskPlannerName>("tasks.proto", "optional string planner = 1", "tasks.md");
    let field = "optional string planner = 1";
    planners_are_named::<WorkflowPlannerName>("workflows.proto", field, "workflows.md");
}

/// Checks that the functions that ARCHITECTURE.md names are in the files that it links to.
#[test]
fn the_ten_hops_are_where_the_architecture_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut hops = 0;
    for row in text.lines().filter(|line| line.starts_with("| ") && line.contains(" in [")) {
        let cell = row.rsplit("| ").next().unwrap();
        let cell = if cell.trim().is_empty() { row.rsplit("| ").nth(1).unwrap() } else { cell };
        for (name, rest) in cell.split('`').skip(1).step_by(2).zip(cell.split("](").skip(1)) {
            let file = rest.split(')').next().unwrap();
            let function = name.rsplit("::").next().unwrap();
            let source = std::fs::read_to_string(root.join(file)).unwrap();
            assert!(source.contains(&format!("fn {function}")), "{name} is not in {file}");
            hops += 1;
        }
    }
    assert!(hops >= 10, "{hops} hops");
}
