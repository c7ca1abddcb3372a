//! Experiments on the coordinator's page: reports with their plots, to whoever may see the topology, and no other file.

use crate::harness::{Federation, Setup};
use crate::web_pages::{add_pages, page, status, with_pages};

/// An experiment whose report is part of the documentation.
const SHIPPED: &str = "coalloc-competing";
const PLOT: &str = "competing-refused.svg";

/// Puts the experiment below a folder, beside what is to stay where it is.
pub(crate) fn put_experiment(folder: &std::path::Path) {
    let shipped =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/experiments").join(SHIPPED);
    let own = folder.join(SHIPPED);
    std::fs::create_dir_all(&own).unwrap();
    for file in ["report.md", PLOT] {
        std::fs::copy(shipped.join(file), own.join(file)).unwrap();
    }
    std::fs::write(own.join("runs.csv"), "not for everybody\n").unwrap();
    std::fs::write(folder.join("notes.svg"), "not for everybody\n").unwrap();
}

#[tokio::test]
async fn experiments_are_shown_with_their_plots_and_nothing_else_is() {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    put_experiment(&federation.dir.path().join("shown"));
    // From the folder of the configuration.
    let port = add_pages(&federation, "web_experiments: shown\n");
    federation.start_all().await;

    let list = page(port, "/experiments").await;
    let link = "<a href=\"/experiments/coalloc%2Dcompeting\">Coordinators that compete for the same resources</a>";
    assert!(status(&list) == "200" && list.contains(link), "{list}");
    assert!(list.contains("aria-current=\"page\">Experiments</a>"), "{list}");
    assert!(page(port, "/map").await.contains("<a href=\"/experiments\">Experiments</a>"));
    let report = page(port, "/experiments/coalloc%2Dcompeting").await;
    let plot = "/experiments/coalloc%2Dcompeting/competing%2Drefused%2Esvg";
    for part in ["<h1>Coordinators that compete", "<h2>Means</h2>", &format!("<img src=\"{plot}\"")]
    {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert!(
        report.contains("content-security-policy: default-src 'none'; style-src 'self'"),
        "{report}"
    );

    let drawn = page(port, plot).await;
    assert!(
        drawn.contains("content-type: image/svg+xml\r\n") && drawn.contains("<svg "),
        "{drawn}"
    );
    let policies: Vec<&str> =
        drawn.lines().filter(|line| line.starts_with("content-security-policy")).collect();
    assert!(policies.len() == 1 && policies[0].contains("default-src 'none'"), "{policies:?}");
    assert!(policies[0].ends_with("sandbox") && !policies[0].contains("self"), "{policies:?}");
    assert!(drawn.contains("x-content-type-options: nosniff\r\n"), "{drawn}");

    for nowhere in [
        "/experiments/no-such",
        "/experiments/..",
        "/experiments/%2e%2e",
        "/experiments/%2E%2E/notes.svg",
        "/experiments/..%2Fshown%2Fcoalloc-competing",
        "/experiments/coalloc-competing/runs.csv",
        "/experiments/coalloc-competing/report.md",
        "/experiments/coalloc-competing/..%2Fnotes.svg",
        "/experiments/coalloc-competing/..%2f..%2fgrc.yaml",
        "/experiments/coalloc-competing/%2Fetc%2Fpasswd",
        "/experiments/coalloc-competing/../../grc.yaml",
        "/experiments/./notes.svg",
    ] {
        let answer = page(port, nowhere).await;
        assert_eq!(status(&answer), "404", "{nowhere}: {answer}");
        assert!(
            !answer.contains("not for everybody") && !answer.contains("web_listen"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn without_the_setting_there_is_no_page_of_experiments() {
    let (_federation, port) = with_pages().await;
    let answer = page(port, "/experiments").await;
    assert!(status(&answer) == "404" && answer.contains("shows no experiments"), "{answer}");
    assert!(!page(port, "/").await.contains("/experiments"));
}
