//! Settings of experiments: the types that read them, with their comments, values and what is the case without them.
//!
//! The types are read as source text, because neither comments nor names of types are in a program. What is the case without a
//! setting of a model, and its range, are those that `coalloc sim settings` prints.

use std::collections::BTreeMap;

use coalloc_cli::experiments::clock::TIMES;
use coalloc_cli::experiments::models::metrics;
use coalloc_cli::experiments::settings::described;
use coalloc_sim::experiment::file::{Experiment, Model};
use coalloc_sim::experiment::settings::{DescribedSetting, ModelSettings, Unset};
use serde_json::{Value, json};
use syn::{Attribute, Expr, Fields, GenericArgument, Item, ItemEnum, ItemStruct, Lit, Meta, Type};

use super::plain;
use crate::root;

/// The types of some source files.
#[derive(Default)]
struct SourceTypes {
    structs: BTreeMap<String, ItemStruct>,
    enums: BTreeMap<String, ItemEnum>,
    /// What a model says of its settings, by their paths. A file says nothing of its own fields.
    described: Option<BTreeMap<&'static str, DescribedSetting>>,
}

impl SourceTypes {
    fn read(files: &[&str]) -> Self {
        let mut types = Self::default();
        for file in files {
            let text = std::fs::read_to_string(root().join("sim/src").join(file)).unwrap();
            for item in syn::parse_file(&text).unwrap().items {
                match item {
                    Item::Struct(one) => {
                        types.structs.insert(one.ident.to_string(), one);
                    }
                    Item::Enum(one) => {
                        types.enums.insert(one.ident.to_string(), one);
                    }
                    _ => {}
                }
            }
        }
        types
    }

    /// The rows of a type's fields. `unset` is what the whole is when its fields are not given.
    fn rows(&self, name: &str, path: &str, unset: Option<&Value>, rows: &mut String) {
        let item = &self.structs[name];
        let has_default = serde_words(&item.attrs).contains("default");
        for field in &item.fields {
            let field_name = field.ident.as_ref().unwrap().to_string();
            let place =
                if path.is_empty() { field_name.clone() } else { format!("{path}.{field_name}") };
            let words = serde_words(&field.attrs);
            let kind = FieldType::of(&field.ty);
            let may_be_left_out = has_default || words.contains("default") || kind.optional;
            let own = self.described.as_ref().and_then(|all| all.get(place.as_str()));
            let value = match own.map(|own| &own.unset) {
                Some(Unset::Default(value)) => Some(value),
                Some(_) => None,
                None => unset.and_then(|whole| whole.get(&field_name)),
            };
            let default = value.filter(|_| may_be_left_out);
            let inner = self.structs.contains_key(&kind.name);
            let shown = match (own.map(|own| &own.unset), default) {
                (Some(Unset::Fields), _) | (_, Some(Value::Object(_))) if inner => String::new(),
                (Some(Unset::NotGiven), _) | (_, Some(Value::Null)) => "not given".to_owned(),
                (_, Some(value)) => format!("`{value}`"),
                (Some(Unset::Required), _) => "required".to_owned(),
                (_, None) if may_be_left_out => "may be left out".to_owned(),
                (_, None) => "required".to_owned(),
            };
            let mut meaning = plain(&comment(&field.attrs));
            meaning += &self.choices(&kind.name);
            rows.push_str(&format!("| `{place}` | {} | {shown} |", kind.in_words(self)));
            if self.described.is_some() {
                rows.push_str(&format!(" {} |", own.map(allowed).unwrap_or_default()));
            }
            rows.push_str(&format!(" {meaning} |\n"));
            if inner {
                let place = if kind.repeated { format!("{place}[]") } else { place };
                self.rows(&kind.name, &place, value, rows);
            }
            self.rows_of_variants(&kind.name, &place_of(path, &field_name), rows);
        }
    }

    /// The values of an enumeration, behind the meaning of a field.
    fn choices(&self, name: &str) -> String {
        let Some(item) = self.enums.get(name) else { return String::new() };
        if serde_words(&item.attrs).contains("untagged") {
            let variants = item.variants.iter().map(|variant| {
                let inner = variant.fields.iter().next().map(|field| FieldType::of(&field.ty));
                let choices = inner.map_or(String::new(), |inner| self.choices(&inner.name));
                format!(" {}{choices}", plain(&comment(&variant.attrs)))
            });
            return variants.collect();
        }
        let variants = item.variants.iter().map(|variant| {
            let value =
                renamed(&variant.attrs).unwrap_or_else(|| kebab(&variant.ident.to_string()));
            format!(" `{value}`: {}", plain(&comment(&variant.attrs)))
        });
        variants.collect()
    }

    /// The rows of the fields that a choice brings along.
    fn rows_of_variants(&self, name: &str, path: &str, rows: &mut String) {
        for variant in self.enums.get(name).into_iter().flat_map(|item| &item.variants) {
            let Fields::Unnamed(fields) = &variant.fields else { continue };
            let inner = FieldType::of(&fields.unnamed[0].ty).name;
            if self.structs.contains_key(&inner) {
                let place = format!("{path}.{}", kebab(&variant.ident.to_string()));
                self.rows(&inner, &place, None, rows);
            }
        }
    }
}

/// What a setting may be, with its unit. Words are listed with their meanings.
fn allowed(own: &DescribedSetting) -> String {
    plain(format!("{} {}", own.range, own.unit).trim_end())
}

fn place_of(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The type of a field, as far as a reader of a file needs it.
#[derive(Debug, Default)]
struct FieldType {
    name: String,
    optional: bool,
    repeated: bool,
    by_name: bool,
}

impl FieldType {
    fn of(kind: &Type) -> Self {
        let Type::Path(path) = kind else { return Self::default() };
        let last = path.path.segments.last().unwrap();
        let inner = match &last.arguments {
            syn::PathArguments::AngleBracketed(arguments) => {
                arguments.args.iter().rev().find_map(|argument| match argument {
                    GenericArgument::Type(inner) => Some(Self::of(inner)),
                    _ => None,
                })
            }
            _ => None,
        };
        let name = last.ident.to_string();
        match (name.as_str(), inner) {
            ("Option", Some(inner)) => Self { optional: true, ..inner },
            ("Vec", Some(inner)) => Self { repeated: true, ..inner },
            ("BTreeMap" | "Map", Some(inner)) => Self { by_name: true, ..inner },
            (_, _) => Self { name, ..Self::default() },
        }
    }

    fn in_words(&self, types: &SourceTypes) -> String {
        let has_fields = |item: &ItemEnum| item.variants.iter().any(|one| !one.fields.is_empty());
        let one = match self.name.as_str() {
            "String" => "text",
            "bool" => "true or false",
            "f64" => "number",
            "u32" | "u64" | "i64" | "usize" => "whole number",
            "Value" => "any value",
            name if types.structs.contains_key(name) => "fields",
            name if types.enums.get(name).is_some_and(has_fields) => "a word, or fields",
            _ => "a word",
        };
        let list = if self.repeated { "list: " } else { "" };
        let by_name = if self.by_name { "by name: " } else { "" };
        format!("{by_name}{list}{one}")
    }
}

/// The comment of an item.
fn comment(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    let text = attributes.iter().filter_map(line).collect::<Vec<_>>().join(" ");
    without_links(&text)
}

/// A comment in which links to code are the code's names.
fn without_links(text: &str) -> String {
    // A link in brackets leads a reader of the source on, and says nothing else.
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once(" ([`") {
        let (_, after) = link.split_once("`])").unwrap();
        out += before;
        rest = after;
    }
    (out + rest).replace("[`", "`").replace("`]", "`")
}

/// The words of `#[serde(..)]`.
fn serde_words(attributes: &[Attribute]) -> std::collections::BTreeSet<String> {
    let mut words = std::collections::BTreeSet::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        let read = attribute.parse_nested_meta(|meta| {
            words.insert(meta.path.get_ident().unwrap().to_string());
            if meta.input.peek(syn::Token![=]) {
                meta.value()?.parse::<Lit>()?;
            }
            Ok(())
        });
        read.unwrap();
    }
    words
}

/// The name in `#[serde(rename = "..")]`.
fn renamed(attributes: &[Attribute]) -> Option<String> {
    let mut name = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        let read = attribute.parse_nested_meta(|meta| {
            if let Lit::Str(text) = meta.value()?.parse::<Lit>()?
                && meta.path.is_ident("rename")
            {
                name = Some(text.value());
            }
            Ok(())
        });
        read.unwrap();
    }
    name
}

/// `OneWayInTurn` as files have it: `one-way-in-turn`.
fn kebab(name: &str) -> String {
    let mut out = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(character.to_ascii_lowercase());
    }
    out
}

/// A model: the source and the type of its settings.
struct ModelText {
    name: &'static str,
    about: &'static str,
    source: &'static str,
    settings: &'static str,
    model: Model,
}

fn models() -> [ModelText; 4] {
    [
        ModelText {
            name: "coallocations",
            about: "Co-allocations, planned on frames and reserved in two phases (Takefusa 2010).",
            source: "coallocations/settings.rs",
            settings: "Settings",
            model: Model::Coallocations,
        },
        ModelText {
            name: "tasks",
            about: "Tasks whose data travel to a cluster (Christodoulopoulos 2008, Stevens 2009).",
            source: "tasks/settings.rs",
            settings: "TasksSettings",
            model: Model::Tasks,
        },
        ModelText {
            name: "jobs",
            about: "Jobs of a log on the servers of one machine (Castillo 2009).",
            source: "jobs/settings.rs",
            settings: "JobsSettings",
            model: Model::Jobs,
        },
        ModelText {
            name: "workflows",
            about: "Random or recorded workflows, planned and reserved whole (Decker 2007).",
            source: "workflows/settings.rs",
            settings: "WorkflowsSettings",
            model: Model::Workflows,
        },
    ]
}

pub(super) fn page() -> String {
    let mut text = String::from(
        "# Settings of experiments\n\nAn experiment is a YAML file; [Experiments](../guide/experiments.md) says how to run one, and `coalloc sim new` \
         writes one to begin with. First the file, then the settings and the metrics of each model. `a.b` is the field `b` in `a`; \
         `a[]` is each entry of a list. `unset` is what holds where the file says nothing. `coalloc sim settings` prints defaults, units and ranges.\n\n## The file\n\n",
    );
    let head = "| field | value | unset | meaning |\n|---|---|---|---|\n";
    let file = SourceTypes::read(&["experiment/file.rs", "experiment/file/shape.rs"]);
    let least = json!({
        "name": "a", "title": "a", "model": "tasks", "settings": {}, "seeds": {"count": 1}, "metrics": [],
    });
    let least: Experiment = serde_json::from_value(least).unwrap();
    text += head;
    file.rows("Experiment", "", Some(&serde_json::to_value(least).unwrap()), &mut text);
    let head = "| field | value | unset | allowed | meaning |\n|---|---|---|---|---|\n";
    for model in models() {
        let mut types = SourceTypes::read(&[model.source]);
        let own = described(&ModelSettings::of(model.model)).into_iter();
        types.described = Some(own.map(|one| (one.path, one)).collect());
        let (name, about) = (model.name, model.about);
        text +=
            &format!("\n## The model `{name}`\n\n{about}\n\n### Settings of `{name}`\n\n{head}");
        if model.model == Model::Coallocations {
            text += "| `federation` | fields | required | `{file: path}` | The federation file, relative to the experiment. |\n";
        }
        types.rows(model.settings, "", None, &mut text);
        text += &format!("\n### Metrics of `{name}`\n\n| metric | meaning |\n|---|---|\n");
        for (metric, meaning) in metrics(model.model) {
            text += &format!("| `{metric}` | {} |\n", plain(meaning));
        }
    }
    text += "\n## Metrics of time, of every model\n\n| metric | meaning |\n|---|---|\n";
    for (metric, meaning) in TIMES {
        text += &format!("| `{metric}` | {} |\n", plain(meaning));
    }
    text
}
