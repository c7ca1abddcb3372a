//! The settings of the models as tables: the path of each setting and what it may be.
//!
//! A model has one table beside its settings. Its check reads the ranges from the table ([`check`]), and
//! `coalloc sim settings` and the guide's reference print the table ([`ModelSettings::described`]). So a range
//! stands in one place. What is the case without a setting is not in the table: it is found by leaving the setting
//! out. A model itself checks only what depends on several settings, on the federation or on a file.

use coalloc_common::InvalidField;
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::{Serialize, forward_to_deserialize_any};
use serde_json::Value;

use super::file::Model;
use crate::{coallocations, jobs, tasks, workflows};

/// One setting of a model.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The dotted path of the setting, below `settings`.
    pub path: &'static str,
    /// The values that the setting may have.
    pub allowed: Allowed,
}

impl Setting {
    /// A setting with whole numbers, both ends included.
    #[must_use]
    pub const fn whole(path: &'static str, least: u64, most: u64, unit: &'static str) -> Self {
        Self { path, allowed: Allowed::Whole { least, most, unit } }
    }

    /// A setting with a number above 0.
    #[must_use]
    pub const fn above_zero(path: &'static str, most: f64, unit: &'static str) -> Self {
        let allowed = Allowed::Number { least: 0.0, is_open: true, most, unit };
        Self { path, allowed }
    }

    /// A setting with two whole numbers, `least` and `most`.
    #[must_use]
    pub const fn between(path: &'static str, least: u64, most: u64, unit: &'static str) -> Self {
        Self { path, allowed: Allowed::Between { least, most, unit } }
    }

    /// A setting that is one of some words.
    #[must_use]
    pub const fn words(path: &'static str, words: fn() -> Vec<&'static str>) -> Self {
        Self { path, allowed: Allowed::Words(words) }
    }

    /// A setting that is true or false.
    #[must_use]
    pub const fn flag(path: &'static str) -> Self {
        Self { path, allowed: Allowed::Flag }
    }

    /// A setting whose fields have rows of their own.
    #[must_use]
    pub const fn fields(path: &'static str) -> Self {
        Self { path, allowed: Allowed::Fields }
    }

    /// Any other setting, with what it may be in words.
    #[must_use]
    pub const fn other(path: &'static str, words: &'static str) -> Self {
        Self { path, allowed: Allowed::Other(words) }
    }
}

/// The values that a setting may have.
#[derive(Debug, Clone, Copy)]
pub enum Allowed {
    /// Whole numbers, both ends included.
    Whole {
        /// The smallest one.
        least: u64,
        /// The largest one.
        most: u64,
        /// The unit.
        unit: &'static str,
    },
    /// Numbers.
    Number {
        /// The lower end.
        least: f64,
        /// Is the lower end itself left out?
        is_open: bool,
        /// The largest number.
        most: f64,
        /// The unit.
        unit: &'static str,
    },
    /// Two whole numbers, `least` and `most`, which are not reversed.
    Between {
        /// The smallest `least`.
        least: u64,
        /// The largest `most`.
        most: u64,
        /// The unit.
        unit: &'static str,
    },
    /// True or false.
    Flag,
    /// One of these words. The type of the setting or the model checks them.
    Words(fn() -> Vec<&'static str>),
    /// What these words say. The type of the setting or the model checks it.
    Other(&'static str),
    /// Fields, which have rows of their own.
    Fields,
    /// A list.
    List {
        /// The smallest and the largest number of entries, if they are bounded.
        count: Option<(u64, u64)>,
        /// The values that each entry may have.
        each: &'static Self,
    },
    /// Values by name.
    Named(&'static Self),
    /// A setting that is missing unless it is given.
    Optional(&'static Self),
}

impl Allowed {
    /// The unit, if the setting has one.
    #[must_use]
    pub const fn unit(&self) -> &'static str {
        match self {
            Self::Whole { unit, .. } | Self::Number { unit, .. } | Self::Between { unit, .. } => {
                unit
            }
            Self::List { each, .. } | Self::Named(each) | Self::Optional(each) => each.unit(),
            Self::Flag | Self::Words(_) | Self::Other(_) | Self::Fields => "",
        }
    }

    /// The allowed values, without the unit.
    #[must_use]
    pub fn range(&self) -> String {
        match self {
            Self::Whole { least, most, .. } => format!("{least} to {most}"),
            Self::Number { least, is_open, most, .. } => {
                format!("{}{least} to {most}", if *is_open { "above " } else { "" })
            }
            Self::Between { least, most, .. } => format!("least and most, {least} to {most}"),
            Self::Flag => "true, false".to_owned(),
            Self::Words(words) => words().join(", "),
            Self::Other(words) => (*words).to_owned(),
            Self::Fields => String::new(),
            Self::List { count: Some((least, most)), each } => {
                format!("{least} to {most} entries, each {}", each.range())
            }
            Self::List { count: None, each } => format!("list, each {}", each.range()),
            Self::Named(each) => format!("by name, each {}", each.range()),
            Self::Optional(each) => each.range(),
        }
    }

    /// The smallest and the largest number, for programs.
    #[must_use]
    pub fn ends(&self) -> Option<(Value, Value)> {
        match self {
            Self::Whole { least, most, .. } | Self::Between { least, most, .. } => {
                Some(((*least).into(), (*most).into()))
            }
            Self::Number { least, most, .. } => Some(((*least).into(), (*most).into())),
            Self::List { each, .. } | Self::Named(each) | Self::Optional(each) => each.ends(),
            Self::Flag | Self::Words(_) | Self::Other(_) | Self::Fields => None,
        }
    }

    fn check(&self, field: &str, value: &Value) -> Result<(), InvalidField> {
        match self {
            Self::Whole { least, most, unit } => check_whole(field, value, (*least, *most), unit),
            Self::Number { least, is_open, most, unit } => {
                // JSON has no NaN: such a number has become null.
                let number = value.as_f64().unwrap_or(f64::NAN);
                let is_low = if *is_open { number <= *least } else { number < *least };
                if !number.is_nan() && !is_low && number <= *most {
                    return Ok(());
                }
                let allowed = with_unit(&format!("a number from {}", self.range()), unit);
                Err(InvalidField::new(field, number, allowed))
            }
            Self::Between { least, most, unit } => {
                let end = |name: &str| value.get(name).unwrap_or(&Value::Null);
                let (low, high) = (end("least"), end("most"));
                check_whole(&format!("{field}.least"), low, (*least, *most), unit)?;
                let least = low.as_u64().unwrap_or(*least);
                check_whole(&format!("{field}.most"), high, (least, *most), unit)
            }
            Self::List { count, each } => {
                let entries = value.as_array().map(Vec::as_slice).unwrap_or_default();
                if let Some(count) = count {
                    check_whole(field, &entries.len().into(), *count, "of them")?;
                }
                (entries.iter().enumerate())
                    .try_for_each(|(at, entry)| each.check(&format!("{field}[{at}]"), entry))
            }
            Self::Named(each) => (value.as_object().into_iter().flatten())
                .try_for_each(|(name, entry)| each.check(&format!("{field}.{name}"), entry)),
            Self::Optional(_) if value.is_null() => Ok(()),
            Self::Optional(each) => each.check(field, value),
            Self::Flag | Self::Words(_) | Self::Other(_) | Self::Fields => Ok(()),
        }
    }
}

fn check_whole(
    field: &str,
    value: &Value,
    (least, most): (u64, u64),
    unit: &str,
) -> Result<(), InvalidField> {
    if value.as_u64().is_some_and(|number| (least..=most).contains(&number)) {
        return Ok(());
    }
    Err(InvalidField::new(field, value, with_unit(&format!("{least} to {most}"), unit)))
}

fn with_unit(range: &str, unit: &str) -> String {
    format!("{range} {unit}").trim_end().to_owned()
}

/// Checks every range of a table.
///
/// # Errors
/// The first setting that is out of its range.
pub fn check(table: &[Setting], settings: &impl Serialize) -> Result<(), InvalidField> {
    let whole = serde_json::to_value(settings)
        .map_err(|error| InvalidField::new("settings", error, "settings that JSON can express"))?;
    for setting in table {
        // The fields of something that is not given are not there.
        if let Some(value) = at(&whole, setting.path) {
            setting.allowed.check(setting.path, value)?;
        }
    }
    Ok(())
}

/// The value at a dotted path.
fn at<'a>(whole: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(whole, |inner, step| inner.get(step))
}

/// The words of an enumeration whose variants have no fields, as files have them.
#[must_use]
pub fn words<T: DeserializeOwned>() -> Vec<&'static str> {
    let mut words: &'static [&'static str] = &[];
    // It never makes a value: it ends when it knows the words.
    let _ = T::deserialize(WordsReader(&mut words));
    words.to_vec()
}

/// Keeps the names of variants that a type expects.
struct WordsReader<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for WordsReader<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("not an enumeration"))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = variants;
        Err(Error::custom("only the words are wanted"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// The settings of one model.
#[derive(Debug, Clone, Copy)]
pub struct ModelSettings {
    /// The model.
    pub model: Model,
    /// One line that says what the model is.
    pub about: &'static str,
    table: &'static [Setting],
    /// Settings in which every setting is given.
    full: fn() -> Value,
    /// Reads settings and fills in what is not given.
    filled: fn(Value) -> Result<Value, serde_json::Error>,
}

/// A setting with what is the case without it.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribedSetting {
    /// The dotted path of the setting.
    pub path: &'static str,
    /// What is the case without it.
    pub unset: Unset,
    /// The unit, if it has one.
    pub unit: &'static str,
    /// The allowed values, without the unit.
    pub range: String,
    /// The smallest and the largest number, if it is a number.
    pub ends: Option<(Value, Value)>,
}

/// What is the case when a setting is not given.
#[derive(Debug, Clone, PartialEq)]
pub enum Unset {
    /// It must be given.
    Required,
    /// It stays missing.
    NotGiven,
    /// It has this value.
    Default(Value),
    /// Each of its fields has a default or must be given.
    Fields,
}

impl ModelSettings {
    /// The settings of a model.
    #[must_use]
    pub fn of(model: Model) -> Self {
        match model {
            Model::Tasks => Self {
                model,
                about: "tasks whose data travel to a cluster (Christodoulopoulos 2008, Stevens 2009)",
                table: tasks::settings::table::TABLE,
                full: tasks::settings::table::full,
                filled: filled::<tasks::TasksSettings>,
            },
            Model::Coallocations => Self {
                model,
                about: "co-allocations, planned on frames, reserved in two phases (Takefusa 2010)",
                table: coallocations::settings::table::TABLE,
                full: coallocations::settings::table::full,
                filled: filled::<coallocations::Settings>,
            },
            Model::Jobs => Self {
                model,
                about: "jobs of a log on the servers of one machine (Castillo 2009)",
                table: jobs::settings::table::TABLE,
                full: jobs::settings::table::full,
                filled: filled::<jobs::JobsSettings>,
            },
            Model::Workflows => Self {
                model,
                about: "random or recorded workflows, planned and reserved whole (Decker 2007)",
                table: workflows::settings::table::TABLE,
                full: workflows::settings::table::full,
                filled: filled::<workflows::WorkflowsSettings>,
            },
        }
    }

    /// Every setting of the model, in the order of its table.
    #[must_use]
    pub fn described(&self) -> Vec<DescribedSetting> {
        let one = |setting: &Setting| DescribedSetting {
            path: setting.path,
            unset: self.unset(setting),
            unit: setting.allowed.unit(),
            range: setting.allowed.range(),
            ends: setting.allowed.ends(),
        };
        self.table.iter().map(one).collect()
    }

    /// What is the case without a setting: all other settings are given, and this one is not.
    fn unset(&self, setting: &Setting) -> Unset {
        let mut others = (self.full)();
        remove(&mut others, setting.path);
        let Ok(whole) = (self.filled)(others) else { return Unset::Required };
        match (at(&whole, setting.path), setting.allowed) {
            (None | Some(Value::Null), _) => Unset::NotGiven,
            (Some(_), Allowed::Fields) => Unset::Fields,
            (Some(value), _) => Unset::Default(value.clone()),
        }
    }
}

/// Settings with everything that was not given.
fn filled<T: DeserializeOwned + Serialize>(given: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(given)?)
}

/// Removes the value at a dotted path.
fn remove(whole: &mut Value, path: &str) {
    let (outer, last) = path.rsplit_once('.').map_or((None, path), |(o, last)| (Some(o), last));
    let mut steps = outer.into_iter().flat_map(|outer| outer.split('.'));
    let holder = steps.try_fold(whole, |inner, step| inner.get_mut(step));
    if let Some(Value::Object(fields)) = holder {
        fields.remove(last);
    }
}

#[cfg(test)]
mod tests;
