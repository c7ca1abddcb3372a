//! The generated sections of `docs/PROTOCOL.md`, each between two comments that name it. A test makes the
//! text of a section and calls [`check`]; `COALLOC_BLESS=1` writes it. Left out: anything but text.

use std::path::Path;

/// Compares a section with the text that a test has made, or writes it. `same` decides whether two texts
/// count as equal.
pub(crate) fn check(section: &str, made: &str, same: impl Fn(&str, &str) -> bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/PROTOCOL.md");
    let (begin, end) =
        (format!("<!-- generated: {section} -->\n"), format!("<!-- end: {section} -->\n"));
    let page = std::fs::read_to_string(&path).expect("docs/PROTOCOL.md");
    let parts = page.split_once(&begin).and_then(|(before, rest)| {
        let (old, after) = rest.split_once(&end)?;
        Some((before, old, after))
    });
    let Some((before, old, after)) = parts else {
        panic!("docs/PROTOCOL.md has no section between {begin:?} and {end:?}");
    };
    if std::env::var("COALLOC_BLESS").is_ok_and(|value| value == "1") {
        std::fs::write(&path, [before, &begin, made, &end, after].concat()).expect("written");
    } else {
        let hint = "COALLOC_BLESS=1 writes it anew: only if you understand the change";
        assert!(same(old, made), "section {section:?} of docs/PROTOCOL.md differs; {hint}\n{made}");
    }
}
