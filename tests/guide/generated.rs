//! Files of the documentation that a test writes: compared with what they should be, and written anew by `COALLOC_BLESS=1`.

use std::path::Path;

use crate::root;

/// Checks that a file has this content; with `COALLOC_BLESS=1`, writes it.
pub(crate) fn is_current(file: &Path, content: &str) {
    if std::env::var("COALLOC_BLESS").is_ok_and(|bless| bless == "1") {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
        return;
    }
    let has = std::fs::read_to_string(file).unwrap_or_default();
    let name = file.strip_prefix(root()).unwrap().display();
    let differs = has.lines().zip(content.lines()).find(|(has, wanted)| has != wanted);
    assert!(
        has == content,
        "{name} is not what the program makes today; look at the change that \
         `COALLOC_BLESS=1 cargo test -p coalloc --test guide` makes; first difference: {differs:?}"
    );
}
