//! `coalloc sim settings`: what it prints is what a run accepts.

use serde_json::Value;

use super::{MINE, coalloc, shown, written};

fn json(words: &[&str]) -> Value {
    let ran = coalloc(&[&["sim", "settings", "--json"], words].concat());
    assert!(ran.status.success(), "{}", shown(&ran));
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[test]
fn every_model_has_its_settings_and_one_can_be_chosen() {
    let all = json(&[]);
    let names: Vec<&str> =
        all.as_array().unwrap().iter().map(|own| own["model"].as_str().unwrap()).collect();
    assert_eq!(names, ["tasks", "coallocations", "jobs", "workflows"]);
    assert_eq!(json(&["jobs"])[0], all[2]);
    let text = coalloc(&["sim", "settings", "tasks"]);
    let line = "workload.cpus                1             1 to 10000000 CPUs\n";
    assert!(shown(&text).contains(line), "{}", shown(&text));
    let wrong = coalloc(&["sim", "settings", "task"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", shown(&wrong));
    assert!(shown(&wrong).contains("a similar value exists: 'tasks'"), "{}", shown(&wrong));
}

#[test]
fn the_largest_value_that_is_printed_is_accepted_and_the_next_is_not() {
    let settings = json(&["coallocations"])[0]["settings"].clone();
    let of = |path: &str| {
        let all = settings.as_array().unwrap();
        all.iter().find(|own| own["path"] == path).unwrap().clone()
    };
    let own = of("frames");
    assert_eq!((&own["default"], &own["unit"]), (&10.into(), &"frames".into()), "{own}");
    let most = own["most"].as_u64().unwrap();
    for (value, code) in [(most, 0), (most + 1, 2)] {
        let text = MINE.replace("values: [1, 2]", &format!("values: [{value}]"));
        let (_folder, file) = written(&text);
        let shows = coalloc(&["sim", "show", &file]);
        assert_eq!(shows.status.code(), Some(code), "{}", shown(&shows));
    }
    assert_eq!(of("federation")["required"], true);
}

#[test]
fn a_blank_file_of_each_model_runs_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    for model in ["coallocations", "tasks", "jobs", "workflows"] {
        let (file, out) = (folder.path().join(format!("{model}.yaml")), folder.path().join(model));
        let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
        let made = coalloc(&["sim", "new", file, "--blank", model]);
        assert!(made.status.success(), "{}", shown(&made));
        let ran = coalloc(&["sim", "run", file, "--out", out]);
        assert!(ran.status.success(), "{}", shown(&ran));
        assert!(!shown(&ran).contains("no run has measured"), "{}", shown(&ran));
        let report = std::fs::read_to_string(format!("{out}/report.md")).unwrap();
        assert!(report.contains("!["), "no plot: {report}");
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains(&format!("coalloc sim settings {model}\nname: {model}\n")), "{text}");
        let again = coalloc(&["sim", "new", file, "--blank", model]);
        assert_eq!(again.status.code(), Some(2), "{}", shown(&again));
    }
    let both = coalloc(&["sim", "new", "x.yaml", "--blank", "jobs", "--from", "takefusa-fig7"]);
    assert_eq!(both.status.code(), Some(2), "{}", shown(&both));
}
