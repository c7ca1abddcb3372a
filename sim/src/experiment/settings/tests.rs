//! Every field of settings is in its table, and every range of a table is checked by its model.

use serde_json::json;

use super::*;

const MODELS: [Model; 4] = [Model::Coallocations, Model::Tasks, Model::Jobs, Model::Workflows];

/// Adds the paths of all fields that have no row of their own above them.
fn leaves(path: &str, value: &Value, table: &[Setting], found: &mut Vec<String>) {
    let allowed = table.iter().find(|row| row.path == path).map(|row| row.allowed);
    if !path.is_empty() {
        found.push(path.to_owned());
    }
    // The names in a map, and the two ends of a range, are no fields of settings.
    if matches!(allowed, Some(Allowed::Named(_) | Allowed::Between { .. })) {
        return;
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        leaves(&path, inner, table, found);
    }
}

#[test]
fn every_field_has_a_row_and_every_row_a_field() {
    for model in MODELS {
        let own = ModelSettings::of(model);
        let whole = (own.filled)((own.full)()).unwrap();
        let mut found = Vec::new();
        leaves("", &whole, own.table, &mut found);
        // A torus is a variant of the network, not a field.
        found.retain(|path| path != "topology.torus");
        let mut rows: Vec<&str> = own.table.iter().map(|row| row.path).collect();
        assert_eq!(found.len(), rows.len(), "{model:?}: {found:?}");
        rows.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, rows, "{model:?}");
    }
}

/// The check of a model for settings in which one value is replaced.
fn checked(model: Model, path: &str, value: &Value) -> Result<(), InvalidField> {
    let mut whole = (ModelSettings::of(model).full)();
    let steps: Vec<&str> = path.split('.').collect();
    let (last, outer) = steps.split_last().unwrap();
    let holder = outer.iter().fold(&mut whole, |inner, step| &mut inner[*step]);
    holder[*last] = value.clone();
    match model {
        Model::Tasks => read::<tasks::TasksSettings>(whole).check().map(|_| ()),
        Model::Coallocations => read::<coallocations::Settings>(whole).check(),
        Model::Jobs => read::<jobs::JobsSettings>(whole).check(),
        Model::Workflows => read::<workflows::WorkflowsSettings>(whole).check().map(|_| ()),
    }
}

fn read<T: DeserializeOwned>(whole: Value) -> T {
    serde_json::from_value(whole.clone()).unwrap_or_else(|error| panic!("{whole}: {error}"))
}

/// Values just outside of what is allowed, each with the end of the field that a refusal names.
fn outside(allowed: &Allowed) -> Vec<(Value, String)> {
    match allowed {
        Allowed::Whole { least, most, .. } => {
            let low = least.checked_sub(1);
            let high = most.checked_add(1).filter(|high| i64::try_from(*high).is_ok());
            let both = low.into_iter().chain(high);
            both.map(|value| (json!(value), String::new())).collect()
        }
        Allowed::Number { least, is_open, most, .. } => {
            let low = if *is_open { *least } else { least - 0.5 };
            [low, most * 1.5].map(|value| (json!(value), String::new())).to_vec()
        }
        Allowed::Between { least, most, .. } => {
            let of = |least: u64, most: u64| json!({"least": least, "most": most});
            let mut all = vec![(of(*most, most + 1), ".most".to_owned())];
            all.push((of(least + 1, *least), ".most".to_owned()));
            if *least > 0 {
                all.push((of(least - 1, *most), ".least".to_owned()));
            }
            all
        }
        Allowed::List { count, each } => {
            let entries = outside(each).into_iter();
            let mut all: Vec<_> =
                entries.map(|(value, end)| (json!([value]), format!("[0]{end}"))).collect();
            all.extend(count.map(|_| (json!([]), String::new())));
            all
        }
        Allowed::Named(each) => {
            let named =
                |(value, end): (Value, String)| (json!({"UserA": value}), format!(".UserA{end}"));
            outside(each).into_iter().map(named).collect()
        }
        Allowed::Optional(each) => outside(each),
        Allowed::Flag | Allowed::Words(_) | Allowed::Other(_) | Allowed::Fields => Vec::new(),
    }
}

#[test]
fn a_value_outside_its_range_is_refused_by_its_model() {
    let mut tried = 0;
    for model in MODELS {
        for row in ModelSettings::of(model).table {
            for (value, end) in outside(&row.allowed) {
                let refused = checked(model, row.path, &value).unwrap_err();
                assert_eq!(refused.field, format!("{}{end}", row.path), "{value}: {refused}");
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

#[test]
fn words_are_those_that_files_have() {
    for model in MODELS {
        for row in ModelSettings::of(model).table {
            if let Allowed::Words(words) = row.allowed {
                let words = words();
                assert!(!words.is_empty(), "{model:?}: {}", row.path);
                for word in words.iter().filter(|_| !row.path.contains('.')) {
                    // A word may not go with the other settings, and is known all the same.
                    let problem = checked(model, row.path, &json!(word)).err();
                    let problem = problem.map(|error| error.field);
                    assert_ne!(problem.as_deref(), Some(row.path), "{model:?}: {word}");
                }
            }
        }
    }
    assert_eq!(words::<tasks::OnConflict>(), ["queue", "replan", "drop"]);
    assert_eq!(words::<u64>(), [""; 0]);
}

#[test]
fn what_is_the_case_without_a_setting_is_found_by_leaving_it_out() {
    let unset = |model: Model, path: &str| {
        let described = ModelSettings::of(model).described();
        described.into_iter().find(|own| own.path == path).unwrap().unset
    };
    assert_eq!(unset(Model::Coallocations, "frames"), Unset::Default(json!(10)));
    assert_eq!(unset(Model::Coallocations, "compared"), Unset::NotGiven);
    assert_eq!(unset(Model::Coallocations, "compared.every"), Unset::Default(json!(1)));
    assert_eq!(unset(Model::Coallocations, "workload"), Unset::Fields);
    assert_eq!(unset(Model::Tasks, "workload.lambda"), Unset::Required);
    assert_eq!(unset(Model::Tasks, "topology.torus.side"), Unset::Required);
    assert_eq!(unset(Model::Tasks, "workload.rate_bps"), Unset::NotGiven);
    assert_eq!(unset(Model::Jobs, "trace"), Unset::Required);
    let cpus = Unset::Default(json!({"least": 1, "most": 15}));
    assert_eq!(unset(Model::Workflows, "workload.cpus"), cpus);
}
