//! The pictures of the guide are what the program draws today: the map by `coalloc topology --svg`, timetables by
//! `coalloc sim gantt` from the traces beside them, and messages from the stories of the protocol ([`messages`]).
//!
//! `COALLOC_BLESS=1` writes them anew.

mod messages;

use std::path::PathBuf;
use std::process::Command;

use crate::generated::is_current;
use crate::{root, shown};

/// The width of a timetable on a page of the guide, in pixels.
const WIDTH: &str = "560";

fn folder() -> PathBuf {
    root().join("docs/guide/pictures")
}

/// What a command draws into the file behind `--svg`.
fn drawn(words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("drawn.svg");
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    let output = command.args(words).arg("--svg").arg(&svg).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{words:?}\n{}", shown(&output));
    std::fs::read_to_string(svg).unwrap()
}

#[test]
fn maps_and_timetables_are_what_the_program_draws() {
    for (name, federation) in [
        ("map", "docs/examples/small-federation.yaml"),
        ("map-elgl", "deploy/federations/elgl.yaml"),
    ] {
        let drawing = drawn(&["topology", "--federation", federation]);
        is_current(&folder().join(format!("{name}.svg")), &drawing);
    }
    for name in ["timetable", "co-allocation", "outdated-picture"] {
        let trace = format!("docs/guide/pictures/{name}.jsonl");
        let drawing = drawn(&["sim", "gantt", &trace, "--width", WIDTH]);
        is_current(&folder().join(format!("{name}.svg")), &drawing);
    }
}

#[test]
fn messages_are_those_of_the_stories() {
    for (name, story, first, last) in [
        ("two-phase", "happy", "UserA -> grc", "Confirmed"),
        ("two-phase-refused", "refused-next-plan", "UserB -> grc", "D6 finished grc-1-2/2"),
    ] {
        let story = root().join(format!("tests/stories/{story}.txt"));
        let story = std::fs::read_to_string(story).unwrap();
        let drawing = messages::drawing(&story, first, last);
        is_current(&folder().join(format!("{name}.svg")), &drawing);
    }
}

#[test]
fn every_picture_is_on_a_page() {
    let pages: String =
        crate::pages().iter().map(|page| std::fs::read_to_string(page).unwrap()).collect();
    let mut pictures = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".svg") || name.ends_with(".png") {
            assert!(pages.contains(&format!("](pictures/{name})")), "{name} is on no page");
            let bytes = std::fs::metadata(folder().join(&name)).unwrap().len();
            assert!(bytes < 120_000, "{name} has {bytes} bytes");
            pictures += 1;
        }
    }
    assert_eq!(pictures, 9);
}
