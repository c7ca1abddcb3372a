//! Each decoder as a function of bytes, with sound bytes to begin with.
//!
//! A target must not panic and must take bounded time and memory. If it accepts the bytes, it checks that
//! the value survives a round trip; if not, the error must name the field and the value. It returns whether
//! the bytes were accepted. The source of the bytes does not matter: the tests here, or libFuzzer
//! (`fuzz/`), which includes this module.

pub(crate) mod files;
pub(crate) mod messages;
pub(crate) mod records;
pub(crate) mod texts;
pub(crate) mod workflows;

use prost::Message as _;
use serde_json::Value;

/// One decoder.
pub(crate) struct Target {
    /// The name of its file in `fuzz/fuzz_targets`.
    pub(crate) name: &'static str,
    /// Inputs that it should accept, at least most of them.
    pub(crate) sound: fn() -> Vec<Vec<u8>>,
    /// Checks the bytes; returns whether they were accepted.
    pub(crate) check: fn(&[u8]) -> bool,
}

/// All targets.
pub(crate) static ALL: [Target; 21] = [
    Target {
        name: "holds",
        sound: || vec![messages::hold().encode_to_vec()],
        check: messages::holds,
    },
    Target {
        name: "refusals",
        sound: || vec![messages::refusal().encode_to_vec()],
        check: messages::refusals,
    },
    Target {
        name: "requests",
        sound: || vec![messages::request().encode_to_vec()],
        check: messages::requests,
    },
    Target {
        name: "workflows",
        sound: || vec![workflows::submission().encode_to_vec()],
        check: workflows::workflows,
    },
    Target {
        name: "reserves",
        sound: || vec![messages::reserve().encode_to_vec()],
        check: messages::reserves,
    },
    Target {
        name: "federations",
        sound: || vec![messages::federation().encode_to_vec()],
        check: messages::federations,
    },
    Target {
        name: "descriptions",
        sound: || vec![messages::description().encode_to_vec()],
        check: messages::descriptions,
    },
    Target {
        name: "updates",
        sound: || vec![messages::update().encode_to_vec()],
        check: messages::updates,
    },
    Target {
        name: "comparisons",
        sound: || vec![messages::comparison().encode_to_vec()],
        check: messages::comparisons,
    },
    Target {
        name: "compared",
        sound: || vec![messages::compared_answer().encode_to_vec()],
        check: messages::compared,
    },
    Target {
        name: "policies",
        sound: || vec![messages::policy().encode_to_vec()],
        check: messages::policies,
    },
    Target {
        name: "files",
        sound: || files::examples().into_iter().map(|(_, text)| text.into()).collect(),
        check: files::files,
    },
    Target {
        name: "configurations",
        sound: || files::daemons().map(String::into_bytes).into(),
        check: files::configurations,
    },
    Target {
        name: "records_of_resource_managers",
        sound: || beginnings(&records::of_participant()),
        check: records::records_of_resource_managers,
    },
    Target {
        name: "records_of_coordinators",
        sound: || beginnings(&records::of_coordinator()),
        check: records::records_of_coordinators,
    },
    Target {
        name: "ledgers",
        sound: || {
            // No change, and a change of one byte in some places of each file.
            let touched = |which| [0_u8, 16, 32, 100].map(|at| vec![which, at, 0, 0, 1, 0]);
            std::iter::once(Vec::new()).chain((0..3).flat_map(touched)).collect()
        },
        check: records::ledgers,
    },
    Target { name: "logs", sound: || vec![records::CRASHED[1].clone()], check: records::logs },
    Target {
        name: "tips",
        sound: || vec![records::CRASHED[2][..256].to_vec()],
        check: records::tips,
    },
    Target {
        name: "signed_tips",
        sound: || vec![messages::signed_tip().encode_to_vec()],
        check: messages::signed_tips,
    },
    Target { name: "times", sound: || of_texts(&texts::TIMES), check: texts::times },
    Target { name: "tokens", sound: || of_texts(&texts::TOKENS), check: texts::tokens },
];

fn of_texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The beginnings of a log: one that ends after each of its records.
fn beginnings(log: &[Value]) -> Vec<Vec<u8>> {
    let lines: Vec<String> = log.iter().map(|record| format!("{record}\n")).collect();
    (1..=lines.len()).map(|count| lines[..count].concat().into_bytes()).collect()
}
