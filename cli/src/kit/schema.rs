//! The schema for people: messages, fields and their comments, from the compiled schema in this program.
//!
//! So what explains a field is written once, in `proto/`. Left out: services, and messages that no file has.

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::source_code_info::Location;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

use crate::kit::exit::Failure;

/// Numbers of fields in descriptors, of which the paths of comments are made (descriptor.proto).
const MESSAGES: i32 = 4;
const ENUMS: i32 = 5;
const FIELDS: i32 = 2;
const VALUES: i32 = 2;

/// All messages and enumerations.
#[derive(Debug, Clone, Default)]
pub struct Schema {
    messages: BTreeMap<String, MessageText>,
    enums: BTreeMap<String, Vec<ValueText>>,
}

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageText {
    /// Its name.
    pub name: String,
    /// What it is.
    pub comment: String,
    /// Its fields, in the order of the schema.
    pub fields: Vec<FieldText>,
}

/// A field of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldText {
    /// Its name, as files have it.
    pub name: String,
    /// Its name in canonical JSON.
    pub json_name: String,
    /// What it is, which values it allows, and what is the case when it is unset.
    pub comment: String,
    /// What kind of value it has.
    pub kind: FieldKind,
    /// Whether it is a list.
    pub repeated: bool,
}

/// The kind of a field's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// True or false.
    Flag,
    /// A whole number.
    Number,
    /// A length of time.
    Length,
    /// An instant.
    Instant,
    /// One of the values of the enumeration with this name.
    Choice(String),
    /// The fields of the message with this name.
    Fields(String),
}

/// A value of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueText {
    /// Its name, as files have it.
    pub name: String,
    /// What it means.
    pub comment: String,
}

impl Schema {
    /// Reads the schema that this program was compiled with.
    ///
    /// # Errors
    /// None in a program that was built from its sources; a test makes sure.
    pub fn read() -> Result<Self, Failure> {
        let files = FileDescriptorSet::decode(coalloc_proto::DESCRIPTORS);
        let files = files.map_err(|error| Failure::internal(format!("the schema: {error}")))?;
        let mut schema = Self::default();
        for file in &files.file {
            schema.add(file);
        }
        Ok(schema)
    }

    /// A message by its name.
    #[must_use]
    pub fn message(&self, name: &str) -> Option<&MessageText> {
        self.messages.get(name)
    }

    /// The values of an enumeration, without the one that stands for "unset".
    #[must_use]
    pub fn values(&self, name: &str) -> &[ValueText] {
        self.enums.get(name).map_or(&[], |values| values.get(1..).unwrap_or_default())
    }

    fn add(&mut self, file: &FileDescriptorProto) {
        let comments: BTreeMap<&[i32], &Location> = file
            .source_code_info
            .iter()
            .flat_map(|info| &info.location)
            .map(|at| (&at.path[..], at))
            .collect();
        let comment = |path: &[i32]| {
            let text = comments.get(path).and_then(|at| at.leading_comments.as_deref());
            text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for (index, message) in (0..).zip(&file.message_type) {
            let fields = (0..).zip(&message.field).map(|(number, field)| {
                let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
                let kind = match (field.r#type(), field.type_name()) {
                    (Type::Bool, _) => FieldKind::Flag,
                    (Type::String | Type::Bytes, _) => FieldKind::Text,
                    (Type::Enum, name) => FieldKind::Choice(last(name)),
                    (Type::Message, ".google.protobuf.Duration") => FieldKind::Length,
                    (Type::Message, ".google.protobuf.Timestamp") => FieldKind::Instant,
                    (Type::Message | Type::Group, name) => FieldKind::Fields(last(name)),
                    _ => FieldKind::Number,
                };
                FieldText {
                    name: field.name().to_owned(),
                    json_name: field.json_name().to_owned(),
                    comment: comment(&[MESSAGES, index, FIELDS, number]),
                    kind,
                    repeated: field.label() == Label::Repeated,
                }
            });
            let (name, fields) = (message.name().to_owned(), fields.collect());
            let text =
                MessageText { name: name.clone(), comment: comment(&[MESSAGES, index]), fields };
            self.messages.insert(name, text);
        }
        for (index, one) in (0..).zip(&file.enum_type) {
            let values = (0..).zip(&one.value).map(|(number, value)| ValueText {
                name: value.name().to_owned(),
                comment: comment(&[ENUMS, index, VALUES, number]),
            });
            self.enums.insert(one.name().to_owned(), values.collect());
        }
    }
}

impl FieldText {
    /// The kind of value in words.
    #[must_use]
    pub fn kind_in_words(&self) -> &'static str {
        match (&self.kind, self.repeated) {
            (FieldKind::Text, false) => "text",
            (FieldKind::Text, true) => "list of texts",
            (FieldKind::Flag, _) => "true or false",
            (FieldKind::Number, false) if self.name.ends_with("_bps") => "rate, like 10G",
            (FieldKind::Number, false) => "whole number",
            (FieldKind::Number, true) => "list of whole numbers",
            (FieldKind::Length, _) => "length of time, like 120s or 1h30",
            (FieldKind::Instant, _) => "instant, like 2026-11-21T10:00:00Z",
            (FieldKind::Choice(_), false) => "one of several words",
            (FieldKind::Choice(_), true) => "list of words",
            (FieldKind::Fields(_), false) => "fields",
            (FieldKind::Fields(_), true) => "list of fields",
        }
    }

    /// A value as files have it: what an unset field means, where the comment says so in numbers, and otherwise an
    /// example of the right shape.
    #[must_use]
    pub fn example(&self, schema: &Schema) -> String {
        if self.repeated {
            return "[]".to_owned();
        }
        match &self.kind {
            FieldKind::Text => "\"\"".to_owned(),
            FieldKind::Flag => "false".to_owned(),
            FieldKind::Number => {
                self.default_number().map_or("0", |(number, _)| number).replace(',', "")
            }
            FieldKind::Length => self.default_length().unwrap_or_else(|| "60s".to_owned()),
            FieldKind::Instant => "2026-11-21T10:00:00Z".to_owned(),
            FieldKind::Choice(name) => {
                schema.values(name).first().map_or_else(String::new, |value| value.name.clone())
            }
            FieldKind::Fields(name) => {
                let fields = schema.message(name).map_or(&[][..], |message| &message.fields);
                // Of the others, an example would mean something else than an unset field.
                let all: Vec<String> = fields
                    .iter()
                    .filter(|field| field.default_number().is_some())
                    .map(|field| format!("{}: {}", field.name, field.example(schema)))
                    .collect();
                format!("{{{}}}", all.join(", "))
            }
        }
    }

    /// The number and its unit behind "Unset:" in the comment.
    fn default_number(&self) -> Option<(&str, &str)> {
        let (_, rest) = self.comment.split_once("Unset: ")?;
        let mut words = rest.split_whitespace().map(|word| word.trim_end_matches(['.', ',', ';']));
        let number = words.next()?;
        let is_number = number.starts_with(|c: char| c.is_ascii_digit())
            && number.chars().all(|c| c.is_ascii_digit() || c == ',');
        is_number.then(|| (number, words.next().unwrap_or_default()))
    }

    fn default_length(&self) -> Option<String> {
        let (number, unit) = self.default_number()?;
        let number: u64 = number.replace(',', "").parse().ok()?;
        match unit {
            "ms" => Some(format!("{}.{:03}s", number / 1_000, number % 1_000)),
            "s" => Some(format!("{number}s")),
            "h" => Some(format!("{}s", number.checked_mul(3_600)?)),
            "days" => Some(format!("{}s", number.checked_mul(86_400)?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_every_file_has_a_comment() {
        let schema = Schema::read().unwrap();
        let mut open = vec!["NrmFile", "CrmFile", "GrcFile", "FederationFile"];
        let mut seen = std::collections::BTreeSet::new();
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            let message = schema.message(name).unwrap();
            assert!(!message.comment.is_empty(), "{name}");
            for field in &message.fields {
                assert!(!field.comment.is_empty(), "{name}.{}", field.name);
                match &field.kind {
                    FieldKind::Fields(inner) => open.push(inner),
                    FieldKind::Choice(inner) => {
                        let values = schema.values(inner);
                        assert!(!values.is_empty(), "{inner}");
                        assert!(values.iter().all(|value| !value.comment.is_empty()), "{inner}");
                    }
                    _ => {}
                }
            }
        }
        assert!(seen.len() > 30, "{seen:?}");
    }

    #[test]
    fn examples_are_the_defaults_where_the_comment_has_them() {
        let schema = Schema::read().unwrap();
        let cases = [
            ("HoldPolicy", "hold_soft", "120s"),
            ("HoldPolicy", "horizon", "7776000s"),
            ("GrcFile", "retention", "7776000s"),
            ("TaskSettings", "lead", "0.050s"),
            ("InnerNetwork", "max_links_per_path", "16"),
            ("TcDriver", "unbooked_bps", "10000000"),
            ("UserQuota", "calls_per_second", "200"),
            ("UserQuota", "cpu_hours", "0"),
            ("Daemon", "metrics_listen", "\"\""),
            ("Daemon", "insecure_plaintext", "false"),
            ("GrcFile", "repair", "REPAIR_POLICY_NONE"),
            ("IdentitySettings", "operators", "[]"),
            ("GrcFile", "planning", "{}"),
            ("NrmFile", "policy", "{hold_soft: 120s, hold_hard: 900s, horizon: 7776000s}"),
        ];
        for (message, name, expected) in cases {
            let message = schema.message(message).unwrap();
            let field = message.fields.iter().find(|field| field.name == name).unwrap();
            assert_eq!(field.example(&schema), expected, "{name}");
        }
    }
}
