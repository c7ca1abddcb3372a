//! `coalloc config`: what the fields of the daemons' configurations mean, in the words of the schema.
//!
//! Left out: requests and federation files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::{Args, Subcommand};
use coalloc_common::suggest::nearest;

use crate::kit::exit::{Answer, Failure};
use crate::kit::schema::{FieldKind, FieldText, Schema};
use crate::kit::text;
use crate::user::serve::Kind;

/// The kinds of daemons, and the messages of their files.
const FILES: [(Kind, &str); 3] =
    [(Kind::Grc, "GrcFile"), (Kind::Crm, "CrmFile"), (Kind::Nrm, "NrmFile")];
/// Columns of an explanation.
const WIDTH: usize = 80;

/// What the fields of the daemons' configurations mean
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum ConfigCommand {
    Explain(ExplainArgs),
}

/// Explain a field of a configuration; without FIELD, list all fields
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc config explain                          all fields\n  \
    coalloc config explain hold_soft                every field of that name\n  \
    coalloc config explain inventory.sites.cpus     one field")]
struct ExplainArgs {
    /// The field: its name, or its path as in error messages
    #[arg(value_name = "FIELD")]
    field: Option<String>,
    /// Only in configurations of this kind of daemon
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
}

/// Runs `coalloc config`.
///
/// # Errors
/// When there is no such field, with the nearest ones.
pub fn run(args: &ConfigArgs) -> Result<Answer, Failure> {
    let ConfigCommand::Explain(args) = &args.command;
    let schema = Schema::read()?;
    let places = places(&schema, args.kind);
    let text = match &args.field {
        None => list(&places),
        Some(field) => explain(&schema, &places, field)?,
    };
    Ok(Answer::done(text))
}

/// What `coalloc config explain` knows: every field of every kind of configuration, by its name and by its path.
#[must_use]
pub fn fields() -> BTreeSet<String> {
    // A schema that cannot be read fails the tests of this command.
    let Ok(schema) = Schema::read() else { return BTreeSet::new() };
    let places = places(&schema, None).into_iter();
    places.flat_map(|place| [place.field.name.clone(), place.path]).collect()
}

/// A field at its place in configurations.
#[derive(Debug)]
struct Place<'a> {
    path: String,
    kinds: Vec<&'static str>,
    field: &'a FieldText,
}

/// All fields, in the order of the files. A path that means the same in several kinds of files is there once.
fn places(schema: &Schema, only: Option<Kind>) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    let mut index: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for (kind, message) in FILES.iter().filter(|(kind, _)| only.is_none_or(|only| only == *kind)) {
        let mut found = Vec::new();
        below(schema, message, "", &mut Vec::new(), &mut found);
        for (path, field) in found {
            let known = index.entry((path.clone(), field.comment.as_str())).or_insert(places.len());
            match places.get_mut(*known) {
                Some(place) => place.kinds.push(kind.name()),
                None => places.push(Place { path, kinds: vec![kind.name()], field }),
            }
        }
    }
    places
}

/// The fields of a message and of the messages in it. `above` are the messages around it.
fn below<'a>(
    schema: &'a Schema,
    message: &'a str,
    path: &str,
    above: &mut Vec<&'a str>,
    found: &mut Vec<(String, &'a FieldText)>,
) {
    let Some(text) = schema.message(message) else { return };
    above.push(message);
    for field in &text.fields {
        let path =
            if path.is_empty() { field.name.clone() } else { format!("{path}.{}", field.name) };
        found.push((path.clone(), field));
        if let FieldKind::Fields(inner) = &field.kind
            && !above.contains(&inner.as_str())
        {
            below(schema, inner, &path, above, found);
        }
    }
    above.pop();
}

fn list(places: &[Place<'_>]) -> String {
    let mut text = format!(
        "{}; `coalloc config explain FIELD` says what one means.\n",
        text::count(places.len(), "field")
    );
    let mut table = text::table(&["field", "in files of", "value"]);
    for place in places {
        let kinds = place.kinds.join(" ");
        table.add_row([place.path.as_str(), kinds.as_str(), place.field.kind_in_words()]);
    }
    text += &text::finish(&table);
    text
}

/// A path without the indices of lists.
pub(super) fn without_indices(path: &str) -> String {
    let mut inside = false;
    let kept = path.chars().filter(|c| {
        inside = (inside || *c == '[') && *c != ']';
        !(inside || *c == ']')
    });
    kept.collect()
}

/// A path as it is compared: without indices, and in one spelling for both forms of names.
fn folded(path: &str) -> String {
    without_indices(path).replace('_', "").to_lowercase()
}

fn explain(schema: &Schema, places: &[Place<'_>], field: &str) -> Result<String, Failure> {
    let wanted = folded(field);
    let exact = |place: &&Place<'_>| folded(&place.path) == wanted;
    let ending = |place: &&Place<'_>| folded(&place.path).ends_with(&format!(".{wanted}"));
    let mut fitting: Vec<&Place<'_>> = places.iter().filter(exact).collect();
    fitting.extend(places.iter().filter(ending));
    if fitting.is_empty() {
        return Err(unknown(places, field));
    }
    // The same message is at several places; what its fields mean is said once.
    let mut meanings: Vec<(Vec<&Place<'_>>, &FieldText)> = Vec::new();
    for place in fitting {
        match meanings.iter_mut().find(|(_, known)| *known == place.field) {
            Some((all, _)) => all.push(place),
            None => meanings.push((vec![place], place.field)),
        }
    }
    let text: Vec<String> =
        meanings.iter().map(|(places, field)| meaning(schema, places, field)).collect();
    Ok(text.join("\n"))
}

fn meaning(schema: &Schema, places: &[&Place<'_>], field: &FieldText) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail, here and below.
    for place in places {
        let _ = writeln!(text, "{}  ({})", place.path, place.kinds.join(", "));
    }
    let _ = writeln!(text, "  {}", field.kind_in_words());
    paragraph(&mut text, 2, &field.comment);
    match &field.kind {
        FieldKind::Fields(inner) => {
            let Some(message) = schema.message(inner) else { return text };
            paragraph(&mut text, 2, &message.comment);
            for inner in &message.fields {
                let _ = writeln!(text, "\n  {}: {}", inner.name, inner.kind_in_words());
                paragraph(&mut text, 4, &inner.comment);
            }
        }
        FieldKind::Choice(inner) => {
            for value in schema.values(inner) {
                let _ = writeln!(text, "\n  {}", value.name);
                paragraph(&mut text, 4, &value.comment);
            }
        }
        _ => {}
    }
    text
}

fn paragraph(text: &mut String, indent: usize, paragraph: &str) {
    for line in text::wrap(paragraph, WIDTH - indent) {
        *text += &format!("{}{line}\n", " ".repeat(indent));
    }
}

fn unknown(places: &[Place<'_>], field: &str) -> Failure {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let names: Vec<String> = places.iter().map(|place| last(&place.path)).collect();
    let paths = places.iter().map(|place| place.path.as_str());
    let mut near = nearest(field, paths);
    let name = last(field);
    for one in nearest(&name, names.iter().map(String::as_str)) {
        if !near.contains(&one) {
            near.push(one);
        }
    }
    // A part of a name finds the names that it is part of.
    let part = folded(&name);
    for one in names.iter().filter(|one| part.len() > 2 && folded(one).contains(&part)) {
        if !near.contains(&one.as_str()) && near.len() < 5 {
            near.push(one);
        }
    }
    let hint = match near.is_empty() {
        true => "all fields: coalloc config explain".to_owned(),
        false => {
            let near: Vec<String> = near.into_iter().map(str::to_owned).collect();
            format!("did you mean {}? All fields: coalloc config explain", near.join(", "))
        }
    };
    Failure::bad_input(format!(
        "FIELD: {field:?} is not allowed; allowed: a field of a daemon's configuration\n{hint}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(field: &str) -> Result<String, String> {
        let command = ConfigCommand::Explain(ExplainArgs { field: Some(field.into()), kind: None });
        run(&ConfigArgs { command }).map(|answer| answer.text).map_err(|failure| failure.message)
    }

    #[test]
    fn a_field_is_found_by_its_name_or_its_path_in_both_spellings() {
        for field in ["policy.hold_soft", "policy.holdSoft", "hold_soft", "upward.policy.hold_soft"]
        {
            let text = explained(field).unwrap();
            assert!(text.contains("Unset: 120 s."), "{text}");
        }
        let text = explained("hold_soft").unwrap();
        let expected = "upward.policy.hold_soft  (grc)\npolicy.hold_soft  (crm, nrm)\n  length of time, like 120s or 1h30\n";
        assert!(text.starts_with(expected), "{text}");
        let text = explained("inventory.sites[3].cpus").unwrap();
        assert!(
            text.starts_with("inventory.sites.cpus  (crm)\n  whole number\n  Capacity"),
            "{text}"
        );
        let text = explained("repair").unwrap();
        assert!(text.contains("REPAIR_POLICY_AUTOMATIC\n    The coordinator, once"), "{text}");
        let text = explained("quotas").unwrap();
        assert!(text.contains("(grc)") && text.contains("(crm, nrm)"), "two meanings: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn an_unknown_field_is_answered_with_the_nearest() {
        for (wrong, near) in [
            ("hold_sotf", "hold_soft? All"),
            ("daemon.listne", "daemon.listen"),
            ("metrics", "metrics_listen"),
            ("zzz", "all fields: coalloc config explain"),
        ] {
            let error = explained(wrong).unwrap_err();
            assert!(error.contains(near), "{error}");
        }
    }

    #[test]
    fn the_list_has_every_field_of_every_kind() {
        let schema = Schema::read().unwrap();
        let text = list(&places(&schema, None));
        for field in ["daemon.listen ", "inventory.sites.cpus ", "resource_managers.owns "] {
            assert!(text.lines().any(|line| line.starts_with(field)), "{field}: {text}");
        }
        let only = list(&places(&schema, Some(Kind::Nrm)));
        assert!(
            !only.contains("resource_managers") && only.contains("inventory.paths.a "),
            "{only}"
        );
    }
}
