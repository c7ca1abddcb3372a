//! `coalloc sim settings`: every setting of the models, with what is the case without it and its range.
//!
//! The settings come from the tables that the models check them by (`coalloc_sim::experiment::settings`).

use std::fmt::Write as _;

use clap::Args;
use clap::builder::PossibleValuesParser;
use coalloc_sim::experiment::file::Model;
use coalloc_sim::experiment::settings::{DescribedSetting, ModelSettings, Unset, words};
use serde_json::{Value, json};

use crate::kit::exit::{Answer, Failure};
use crate::kit::text;

/// Every setting of the models: default, range and unit
///
/// A setting is named by its dotted path below `settings` of an experiment file, as the `path` of an axis names
/// it. What each setting means is in the guide's reference, "Settings of experiments".
#[derive(Debug, Clone, Args)]
pub struct SettingsArgs {
    /// Only this model
    #[arg(value_name = "MODEL", value_parser = PossibleValuesParser::new(words::<Model>()))]
    model: Option<String>,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Columns of a line.
const WIDTH: usize = 80;
/// Columns of a path; a longer one has a line of its own.
const PATH_WIDTH: usize = 30;

/// The setting of co-allocations that is read apart from the others.
pub const FEDERATION: DescribedSetting = DescribedSetting {
    path: "federation",
    unset: Unset::Required,
    unit: "",
    range: String::new(),
    ends: None,
};

/// Lists the settings.
///
/// # Errors
/// Never in practice: numbers and texts can be written as JSON.
pub fn run(args: &SettingsArgs) -> Result<Answer, Failure> {
    let is_wanted = |name: &&str| args.model.as_deref().is_none_or(|model| model == *name);
    let models = words::<Model>().into_iter().filter(is_wanted).filter_map(named);
    let models: Vec<(&str, ModelSettings)> = models.collect();
    if args.json {
        let all: Vec<Value> = models.iter().map(|(name, own)| as_json(name, own)).collect();
        return text::json(&all).map(Answer::done);
    }
    let texts: Vec<String> = models.iter().map(|(name, own)| as_text(name, own)).collect();
    Ok(Answer::done(texts.join("\n")))
}

/// The settings of the model with this name.
fn named(name: &str) -> Option<(&str, ModelSettings)> {
    let model: Model = serde_json::from_value(name.into()).ok()?;
    Some((name, ModelSettings::of(model)))
}

/// Every setting of a model; of co-allocations the federation, too.
#[must_use]
pub fn described(own: &ModelSettings) -> Vec<DescribedSetting> {
    let federation = DescribedSetting { range: "{file: path}".to_owned(), ..FEDERATION };
    let first = (own.model == Model::Coallocations).then_some(federation);
    first.into_iter().chain(own.described()).collect()
}

fn as_json(name: &str, own: &ModelSettings) -> Value {
    let setting = |own: DescribedSetting| {
        let default = match &own.unset {
            Unset::Default(value) => value.clone(),
            Unset::Required | Unset::NotGiven | Unset::Fields => Value::Null,
        };
        let (least, most) = own.ends.unzip();
        json!({
            "path": own.path,
            "required": own.unset == Unset::Required,
            "default": default,
            "unit": own.unit,
            "allowed": own.range,
            "least": least,
            "most": most,
        })
    };
    let settings: Vec<Value> = described(own).into_iter().map(setting).collect();
    json!({"model": name, "about": own.about, "settings": settings})
}

fn as_text(name: &str, own: &ModelSettings) -> String {
    let all = described(own);
    let defaults: Vec<String> = all.iter().map(|one| default_of(&one.unset)).collect();
    let longest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or_default();
    let path_width = longest(&mut all.iter().map(|one| one.path.len())).min(PATH_WIDTH);
    let default_width = longest(&mut defaults.iter().map(String::len)).max("DEFAULT".len());
    let mut out = wrapped(&format!("{name}: {}", own.about), WIDTH).join("\n") + "\n\n";
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "{:<path_width$}  {:<default_width$}  ALLOWED", "SETTING", "DEFAULT");
    let margin = path_width + default_width + 4;
    for (setting, default) in all.iter().zip(&defaults) {
        let allowed = format!("{} {}", setting.range, setting.unit);
        let lines = wrapped(&allowed, WIDTH - margin);
        let mut path = setting.path;
        if path.len() > path_width {
            let _ = writeln!(out, "{path}");
            path = "";
        }
        let first = lines.first().map(String::as_str).unwrap_or_default();
        let line = format!("{path:<path_width$}  {default:<default_width$}  {first}");
        let _ = writeln!(out, "{}", line.trim_end());
        for line in lines.iter().skip(1) {
            let _ = writeln!(out, "{:margin$}{line}", "");
        }
    }
    out
}

/// What is the case without a setting, in a few characters.
fn default_of(unset: &Unset) -> String {
    match unset {
        Unset::Required => "required".to_owned(),
        Unset::NotGiven => "not given".to_owned(),
        Unset::Fields => String::new(),
        Unset::Default(value) => value_of(value),
    }
}

fn value_of(value: &Value) -> String {
    let both = value.get("least").zip(value.get("most"));
    match (value, both) {
        (_, Some((least, most))) => format!("{least} to {most}"),
        (Value::Array(entries), _) => entries.iter().map(value_of).collect::<Vec<_>>().join(", "),
        (Value::Object(fields), _) if fields.is_empty() => "none".to_owned(),
        (Value::String(text), _) => text.clone(),
        (other, _) => other.to_string(),
    }
}

/// The words of a text on lines of at most so many columns; a longer word has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_a_terminal_and_no_setting_is_missing() {
        for name in words::<Model>() {
            let (_, own) = named(name).unwrap();
            let text = as_text(name, &own);
            for line in text.lines() {
                assert!(line.chars().count() <= WIDTH, "{line}");
            }
            for setting in described(&own) {
                let begins = |line: &str| line.split_whitespace().next() == Some(setting.path);
                assert!(text.lines().any(begins), "{}", setting.path);
            }
        }
    }

    #[test]
    fn words_are_wrapped_between_words_only() {
        assert_eq!(wrapped("a bc def", 4), ["a bc", "def"]);
        assert_eq!(wrapped("longer a", 4), ["longer", "a"]);
        assert_eq!(wrapped(" ", 4), [""; 0]);
    }
}
