//! Fields of files, calls and messages, with their comments in `proto/`.
//!
//! What a file can have is on one page, and what is only sent on the other.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_cli::kit::schema::{FieldKind, FieldText, MessageText, Schema};
use prost::Message as _;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

use super::plain;

/// The files that people write, by what they are called.
const FILES: [(&str, &str); 7] = [
    ("CoAllocationRequest", "a request, for `coalloc plan`, `reserve` and `find-window`"),
    ("TaskRequest", "a task, for `coalloc task`"),
    ("Workflow", "a workflow, for `coalloc workflow`"),
    ("FederationFile", "a federation, for planning without daemons, `coalloc demo` and `topology`"),
    ("GrcFile", "the configuration of a coordinator"),
    ("CrmFile", "the configuration of a compute resource manager"),
    ("NrmFile", "the configuration of a network resource manager"),
];

/// Numbers of fields in descriptors, of which the paths of comments are made (descriptor.proto).
const SERVICES: i32 = 6;
const METHODS: i32 = 2;

/// The messages and enumerations that these messages consist of, themselves included, in the order in which they are met.
fn reachable<'a>(schema: &'a Schema, roots: &[&'a str]) -> Vec<&'a str> {
    let mut met: Vec<&str> = Vec::new();
    for root in roots {
        visit(schema, root, &mut met);
    }
    met
}

fn visit<'a>(schema: &'a Schema, name: &'a str, met: &mut Vec<&'a str>) {
    if met.contains(&name) {
        return;
    }
    met.push(name);
    for field in schema.message(name).map_or(&[][..], |message| &message.fields) {
        if let FieldKind::Fields(inner) | FieldKind::Choice(inner) = &field.kind {
            visit(schema, inner, met);
        }
    }
}

/// Writes messages and enumerations, with links to those of this page, and to those of the other one.
struct SchemaPage<'a> {
    schema: &'a Schema,
    own: Vec<&'a str>,
    other: Vec<&'a str>,
    other_page: &'static str,
}

impl SchemaPage<'_> {
    /// A link to a message or an enumeration.
    fn link(&self, name: &str) -> String {
        let anchor = name.to_lowercase();
        if self.own.contains(&name) {
            format!("[{name}](#{anchor})")
        } else if self.other.contains(&name) {
            format!("[{name}]({}#{anchor})", self.other_page)
        } else {
            // A message of somebody else, such as google.rpc.Status.
            format!("`{name}`")
        }
    }

    fn value(&self, field: &FieldText) -> String {
        match (&field.kind, field.repeated) {
            (FieldKind::Fields(name), false) => self.link(name),
            (FieldKind::Fields(name), true) => format!("list of {}", self.link(name)),
            (FieldKind::Choice(name), false) => format!("one of {}", self.link(name)),
            (FieldKind::Choice(name), true) => format!("list of {}", self.link(name)),
            _ => field.kind_in_words().to_owned(),
        }
    }

    fn message(&self, message: &MessageText) -> String {
        let mut text = format!("### {}\n\n{}\n\n", message.name, plain(&message.comment));
        if message.fields.is_empty() {
            return text + "It has no fields.\n\n";
        }
        text += "| field | value | meaning |\n|---|---|---|\n";
        for field in &message.fields {
            let value = self.value(field);
            text += &format!("| `{}` | {value} | {} |\n", field.name, plain(&field.comment));
        }
        text + "\n"
    }

    fn all(&self) -> String {
        let mut text = String::new();
        for name in &self.own {
            if let Some(message) = self.schema.message(name) {
                text += &self.message(message);
                continue;
            }
            let values = self.schema.values(name);
            if values.is_empty() {
                continue;
            }
            text += &format!("### {name}\n\n| value | meaning |\n|---|---|\n");
            for value in values {
                text += &format!("| `{}` | {} |\n", value.name, plain(&value.comment));
            }
            text.push('\n');
        }
        text
    }
}

pub(super) fn files() -> String {
    let schema = Schema::read().unwrap();
    let roots = FILES.map(|(name, _)| name);
    let own = reachable(&schema, &roots);
    assert!(own.len() > 50, "{own:?}");
    let page = SchemaPage { schema: &schema, own, other: Vec::new(), other_page: "calls.md" };
    let mut text = String::from(
        "# Fields of files\n\nFiles are YAML, or canonical proto3 JSON of the same shape; `hold_soft` and `holdSoft` are one name. \
         [Amounts and times](../guide.md#amounts-and-times) says how rates, lengths of time and instants are written. `coalloc config \
         explain FIELD` tells the same at a terminal, for configurations.\n\n| file | what it is |\n|---|---|\n",
    );
    for (name, about) in FILES {
        text += &format!("| [{name}](#{}) | {about} |\n", name.to_lowercase());
    }
    text + "\n## Messages of files\n\n" + &page.all()
}

/// A service as the page has it.
fn service(file: &FileDescriptorProto, index: usize, page: &SchemaPage<'_>) -> String {
    let service = &file.service[index];
    let comments: BTreeMap<&[i32], &str> = file
        .source_code_info
        .iter()
        .flat_map(|info| &info.location)
        .filter_map(|at| Some((&at.path[..], at.leading_comments.as_deref()?)))
        .collect();
    let comment = |path: &[i32]| plain(comments.get(path).copied().unwrap_or_default());
    let index = index as i32;
    let mut text = format!(
        "### {}\n\n{}\n\n| call | request | answer | what it does |\n|---|---|---|---|\n",
        service.name(),
        comment(&[SERVICES, index])
    );
    for (number, method) in (0..).zip(&service.method) {
        let last = |name: &str| page.link(name.rsplit('.').next().unwrap());
        let stream = if method.server_streaming() { "stream of " } else { "" };
        let about = comment(&[SERVICES, index, METHODS, number]);
        assert!(!about.is_empty(), "{} has a comment", method.name());
        text += &format!(
            "| `{}` | {} | {stream}{} | {about} |\n",
            method.name(),
            last(method.input_type()),
            last(method.output_type()),
        );
    }
    text + "\n"
}

pub(super) fn calls() -> String {
    let schema = Schema::read().unwrap();
    let descriptors = FileDescriptorSet::decode(coalloc_proto::DESCRIPTORS).unwrap();
    let ours = || descriptors.file.iter().filter(|file| file.package() == "coalloc.v1");
    let services = || ours().flat_map(|file| &file.service);
    let last = |name: &str| name.rsplit('.').next().unwrap().to_owned();
    let of_calls: Vec<String> = services()
        .flat_map(|service| &service.method)
        .flat_map(|method| [last(method.input_type()), last(method.output_type())])
        .collect();
    let roots: Vec<&str> = of_calls.iter().map(String::as_str).collect();
    let other = reachable(&schema, &FILES.map(|(name, _)| name));
    let in_files: BTreeSet<&str> = other.iter().copied().collect();
    let mut own = reachable(&schema, &roots);
    own.retain(|name| !in_files.contains(name));
    let page = SchemaPage { schema: &schema, own, other, other_page: "files.md" };
    let mut text = String::from(
        "# Calls and messages\n\nThe gRPC services of the package `coalloc.v1`. Users call `Coordinator` and `Workflows`; \
         [The API from Python and curl](../guide/api.md) shows how. Errors are in [Errors and exit codes](errors.md). gRPC reflection \
         is on.\n\n## Services\n\n",
    );
    for file in ours() {
        for index in 0..file.service.len() {
            text += &service(file, index, &page);
        }
    }
    assert!(services().count() >= 5);
    text + "## Messages of calls\n\n" + &page.all()
}
