//! A configuration as YAML in which a comment explains every field, in the words of the schema.
//!
//! A field that is set has its value. A field that is not set stands in a comment, with what that means or an example.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::kit::exit::Failure;
use crate::kit::schema::{FieldKind, FieldText, MessageText, Schema};
use crate::kit::text::wrap;

/// Columns of a line.
const WIDTH: usize = 80;

/// The configuration `file`, whose message is called `name`. `head` is what stands first, as a comment.
pub(super) fn explained(
    schema: &Schema,
    name: &str,
    file: &impl Serialize,
    head: &str,
) -> Result<String, Failure> {
    let bad = |problem: &dyn std::fmt::Display| Failure::internal(format!("{name}: {problem}"));
    let message = schema.message(name).ok_or_else(|| bad(&"is not in the schema"))?;
    let value = serde_json::to_value(file).map_err(|error| bad(&error))?;
    let value = value.as_object().ok_or_else(|| bad(&"has no fields"))?;
    let mut yaml = Yaml { schema, text: String::new() };
    yaml.comment(head, 0, "");
    yaml.fields(message, value, 0);
    Ok(yaml.text)
}

struct Yaml<'a> {
    schema: &'a Schema,
    text: String,
}

impl Yaml<'_> {
    /// The fields of a message, each after its comment.
    fn fields(&mut self, message: &MessageText, value: &Map<String, Value>, indent: usize) {
        let margin = " ".repeat(indent);
        for field in &message.fields {
            let own = value.get(&field.json_name);
            self.text += "\n";
            self.comment(&field.comment, indent, "");
            let inner = match &field.kind {
                FieldKind::Fields(inner) => self.schema.message(inner),
                _ => None,
            };
            if let (Some(Value::Object(own)), Some(inner), false) = (own, inner, field.repeated) {
                self.text += &format!("{margin}{}:\n", field.name);
                // The line between a field and its first inner one would part what belongs together.
                let before = self.text.len();
                self.fields(inner, own, indent + 2);
                self.text.remove(before);
                continue;
            }
            if let Some(inner) = inner {
                for one in &inner.fields {
                    self.comment(&format!("{}: {}", one.name, one.comment), indent, "  ");
                }
            }
            let name = &field.name;
            self.text += &match own {
                Some(Value::Array(items)) => {
                    let items = items.iter().map(|item| self.item(field, item, &margin));
                    format!("{margin}{name}:\n{}", items.collect::<String>())
                }
                Some(own) => format!("{margin}{name}: {}\n", self.flow(field, own)),
                None => format!("{margin}#{name}: {}\n", field.example(self.schema)),
            };
        }
    }

    /// A comment; `hang` is the indentation within it, deeper from its second line on.
    fn comment(&mut self, text: &str, indent: usize, hang: &str) {
        for paragraph in text.lines() {
            let deeper = if hang.is_empty() { String::new() } else { format!("{hang}  ") };
            for (number, line) in
                wrap(paragraph, WIDTH - indent - "# ".len() - deeper.len()).iter().enumerate()
            {
                let hang = if number == 0 { hang } else { &deeper };
                let line = format!("{}# {hang}{line}", " ".repeat(indent));
                self.text += line.trim_end();
                self.text += "\n";
            }
        }
    }

    /// An item of a list: on one line if that is short enough, or else a line for each field.
    fn item(&self, field: &FieldText, item: &Value, margin: &str) -> String {
        let line = format!("{margin}  - {}\n", self.flow(field, item));
        if line.len() <= WIDTH {
            return line;
        }
        let fields = self.set_fields(field, item);
        if fields.is_empty() {
            return line;
        }
        let fields = fields.into_iter().map(|(inner, value)| {
            format!("{margin}    {}: {}\n", inner.name, self.flow(inner, value))
        });
        fields.collect::<String>().replacen("    ", "  - ", 1)
    }

    /// The fields that a message has, in the order of the schema.
    fn set_fields<'v>(&self, field: &FieldText, value: &'v Value) -> Vec<(&FieldText, &'v Value)> {
        let FieldKind::Fields(inner) = &field.kind else { return Vec::new() };
        let fields = self.schema.message(inner).map_or(&[][..], |inner| &inner.fields);
        fields.iter().filter_map(|field| Some((field, value.get(&field.json_name)?))).collect()
    }

    /// A value on one line.
    fn flow(&self, field: &FieldText, value: &Value) -> String {
        match (value, &field.kind) {
            (Value::Array(items), _) => {
                let items: Vec<String> = items.iter().map(|item| self.flow(field, item)).collect();
                format!("[{}]", items.join(", "))
            }
            (Value::Object(_), _) => {
                let fields = self.set_fields(field, value).into_iter();
                let fields = fields
                    .map(|(field, value)| format!("{}: {}", field.name, self.flow(field, value)));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            // Numbers of 64 bits are texts in JSON.
            (Value::String(text), FieldKind::Number | FieldKind::Length | FieldKind::Choice(_)) => {
                text.clone()
            }
            (Value::String(text), _) => word(text),
            (other, _) => other.to_string(),
        }
    }
}

/// A text as YAML has it: in quotes, unless everybody reads it as a text without them.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(plain);
    let others = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    match is_plain && !others.contains(&text.to_lowercase().as_str()) {
        true => text.to_owned(),
        // A text of JSON is one of YAML.
        false => Value::from(text).to_string(),
    }
}
