//! The guide as a site: `docs/site/build` makes it with mdBook, every page of docs/ is in it, no link in it is dead, and it asks
//! nobody else for anything.
//!
//! Skipped where mdBook is not installed, unless `COALLOC_SITE=1` says that it is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{root, shown};

/// Files with this ending below a folder, which is not part of their paths.
fn files_below(folder: &Path, ending: &str) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == ending) {
                found.insert(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found
}

#[test]
fn the_site_has_every_page_once_under_its_own_head() {
    let docs = root().join("docs");
    let summary = std::fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut pages = files_below(&docs, "md");
    pages.remove(Path::new("SUMMARY.md"));
    let mut entries = BTreeSet::new();
    for line in summary.lines().filter(|line| line.contains("](")) {
        let (title, rest) = line.split_once('[').unwrap().1.split_once("](").unwrap();
        let page = PathBuf::from(rest.trim_end_matches(')'));
        let text = std::fs::read_to_string(docs.join(&page)).unwrap_or_default();
        let head = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or_default();
        // The list may leave out what a head adds, and how a decision is called.
        let is_head = head.trim_start_matches("ADR ").replacen(": ", ". ", 1).starts_with(title)
            || head.starts_with(title);
        assert!(is_head, "SUMMARY.md has {title:?} for {}: {head:?}", page.display());
        assert!(entries.insert(page.clone()), "{} is there twice", page.display());
    }
    assert_eq!(entries, pages, "the pages in SUMMARY.md, and those in docs/");
}

/// The values of an attribute in the source of a page. In texts, mdBook writes quotes in another way.
fn attributes<'a>(page: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let begin = format!(" {name}=\"");
    let starts: Vec<usize> = page.match_indices(&begin).map(|(at, _)| at + begin.len()).collect();
    starts.into_iter().map(|start| page[start..].split('"').next().unwrap())
}

/// The path from the root of the site to which a link of a page leads; `None` if it leaves the site.
fn target(page: &Path, link: &str) -> Option<PathBuf> {
    if link.is_empty() {
        return Some(page.to_owned());
    }
    let mut parts: Vec<Component<'_>> = page.parent().unwrap().components().collect();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::Normal(_) => parts.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(parts.into_iter().collect())
}

/// What is wrong with the links of a page.
fn dead_links(
    site: &Path,
    page: &Path,
    text: &str,
    anchors: &BTreeMap<PathBuf, BTreeSet<&str>>,
) -> Vec<String> {
    let mut dead = Vec::new();
    for link in attributes(text, "href").chain(attributes(text, "src")) {
        if link.starts_with("https://") || link.starts_with("http://") {
            continue;
        }
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = target(page, path).filter(|target| site.join(target).is_file());
        let has_anchor = |target: &PathBuf| {
            anchor.is_empty() || anchors.get(target).is_some_and(|known| known.contains(anchor))
        };
        if !target.as_ref().is_some_and(has_anchor) {
            dead.push(format!("{}: {link}", page.display()));
        }
    }
    dead
}

/// What a page or a style loads from another host.
fn loaded_from_elsewhere(text: &str) -> Vec<&str> {
    let tags = text.split('<').filter(|tag| {
        let loads = ["link ", "script ", "img ", "iframe ", "object ", "source ", "video "];
        loads.iter().any(|name| tag.starts_with(name))
    });
    let tags = tags.map(|tag| tag.split('>').next().unwrap()).filter(|tag| tag.contains("//"));
    let styles = text.match_indices("url(").chain(text.match_indices("@import"));
    let styles = styles.map(|(at, _)| text[at..].split([')', ';']).next().unwrap());
    let is_data = |style: &&str| {
        style.trim_start_matches(['u', 'r', 'l', '(', '\'', '"']).starts_with("data:")
    };
    tags.chain(styles.filter(|style| style.contains("//") && !is_data(style))).collect()
}

#[test]
fn no_link_of_the_site_is_dead_and_nothing_is_loaded_from_elsewhere() {
    let mut mdbook = Command::new("mdbook");
    let mdbook = mdbook.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !mdbook.is_ok_and(|status| status.success()) {
        let must = std::env::var("COALLOC_SITE").is_ok_and(|value| value == "1");
        assert!(!must, "there is no mdbook here, but COALLOC_SITE=1 says that there is");
        println!("skipped: there is no mdbook here; docs/site/build says how to install it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    let output = Command::new(root().join("docs/site/build")).arg(&site).output().unwrap();
    let said = shown(&output);
    assert!(output.status.success() && !said.contains("WARN"), "{said}");
    let mut pages = BTreeMap::new();
    for page in files_below(&site, "html") {
        let text = std::fs::read_to_string(site.join(&page)).unwrap();
        pages.insert(page, text);
    }
    // A server shows this page under every address, so its links begin at the root of the server.
    pages.remove(Path::new("404.html")).unwrap();
    assert!(pages.len() > 120, "{} pages", pages.len());
    let anchors: BTreeMap<PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(page, text)| (page.clone(), attributes(text, "id").collect())).collect();
    let dead: Vec<String> =
        pages.iter().flat_map(|(page, text)| dead_links(&site, page, text, &anchors)).collect();
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
    for (page, text) in &pages {
        assert_eq!(loaded_from_elsewhere(text), Vec::<&str>::new(), "{}", page.display());
        assert!(!text.contains("class=\"playground\""), "{}", page.display());
    }
    for style in files_below(&site, "css") {
        let text = std::fs::read_to_string(site.join(&style)).unwrap();
        assert_eq!(loaded_from_elsewhere(&text), Vec::<&str>::new(), "{}", style.display());
    }
    // What leaves the site is named by the repository, so what it names is there.
    let repository = format!("{}/blob/main/", env!("CARGO_PKG_REPOSITORY"));
    let left = pages.values().flat_map(|text| attributes(text, "href"));
    let left: BTreeSet<&str> = left.filter_map(|link| link.strip_prefix(&repository)).collect();
    assert!(left.len() > 20, "{left:?}");
    for path in left {
        let path = path.split('#').next().unwrap();
        assert!(root().join(path).exists(), "{path} is not in the repository");
    }
}

#[test]
fn dead_links_and_foreign_hosts_are_found() {
    let page = Path::new("guide/a.html");
    assert_eq!(target(page, "../b.html"), Some(PathBuf::from("b.html")));
    assert_eq!(target(page, "../../b.html"), None);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("guide")).unwrap();
    let text = r##"<h1 id="head"> <a href="#head"> <a href="#foot"> <a href="b.html">"##;
    std::fs::write(folder.path().join(page), text).unwrap();
    let anchors = BTreeMap::from([(page.to_owned(), attributes(text, "id").collect())]);
    let dead = dead_links(folder.path(), page, text, &anchors);
    assert_eq!(dead, ["guide/a.html: #foot", "guide/a.html: b.html"]);
    let loads =
        r#"<img src="a.svg"> <script src="//cdn.example/a.js"></script> <a href="https://b">"#;
    assert_eq!(loaded_from_elsewhere(loads), [r#"script src="//cdn.example/a.js""#]);
    assert_eq!(loaded_from_elsewhere("a { src: url(http://c/d)"), ["url(http://c/d"]);
}
