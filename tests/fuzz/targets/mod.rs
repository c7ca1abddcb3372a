//! Each decoder as a function of bytes, with sound bytes to begin with.
//!
//! A target must not panic, takes bounded time and memory, gives back what it took when it took it, and says
//! which field was wrong with which value when it did not; it returns whether the bytes were taken. Who makes
//! the bytes is no matter of the targets: the tests here, or libFuzzer (`fuzz/`), which includes this module.

pub(crate) mod files;
pub(crate) mod messages;
pub(crate) mod records;
pub(crate) mod texts;

use prost::Message as _;
use serde_json::Value;

/// One decoder.
pub(crate) struct Target {
    /// The file in `fuzz/fuzz_targets`.
    pub(crate) name: &'static str,
    /// What it should take, most of it.
    pub(crate) sound: fn() -> Vec<Vec<u8>>,
    /// Whether it takes these.
    pub(crate) check: fn(&[u8]) -> bool,
}

/// All of them.
pub(crate) static ALL: [Target; 19] = [
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
            // Nothing, and one byte of each file in some places.
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
    Target { name: "times", sound: || of_texts(&texts::TIMES), check: texts::times },
    Target { name: "tokens", sound: || of_texts(&texts::TOKENS), check: texts::tokens },
];

fn of_texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// A log after each of its records.
fn beginnings(log: &[Value]) -> Vec<Vec<u8>> {
    let lines: Vec<String> = log.iter().map(|record| format!("{record}\n")).collect();
    (1..=lines.len()).map(|count| lines[..count].concat().into_bytes()).collect()
}
