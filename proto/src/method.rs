//! Every method of the schema, with its messages as JSON: for callers that speak HTTP and JSON instead of gRPC.
//!
//! The list is generated from the schema, so no method can be missing. The JSON is that of the files and of the command
//! line: canonical proto3 JSON, in which rates may have units.
//!
//! Left out: HTTP itself, which the crate `web` does.

use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::file::{SpellingMistake, from_json};

/// A method of a service.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Where it is called, `/coalloc.v1.Coordinator/Plan` for example.
    pub path: &'static str,
    /// Whether it answers with a stream of messages.
    pub streams: bool,
    read: fn(&str) -> Result<Vec<u8>, SpellingMistake>,
    show: fn(&[u8]) -> Result<String, ShowError>,
}

/// Why an answer has no JSON. A daemon of this release sends no such answer.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// The bytes are no message of the method.
    #[error("the answer is not a message of this method: {0}")]
    Bytes(#[from] prost::DecodeError),
    /// A value has no JSON.
    #[error("the answer has a value that JSON cannot say: {0}")]
    Value(#[from] serde_json::Error),
}

/// Every method of every service.
pub const METHODS: &[Method] = include!(concat!(env!("OUT_DIR"), "/methods.rs"));

impl Method {
    /// The method that is called at a path.
    #[must_use]
    pub fn at(path: &str) -> Option<&'static Self> {
        METHODS.iter().find(|method| method.path == path)
    }

    /// The message of a request that is written in JSON.
    ///
    /// # Errors
    /// When the text is no JSON, or not that of the request, with line and field.
    pub fn request(&self, json: &str) -> Result<Vec<u8>, SpellingMistake> {
        (self.read)(json)
    }

    /// The JSON of an answer, on one line.
    ///
    /// # Errors
    /// When the bytes are no answer of this method.
    pub fn answer(&self, message: &[u8]) -> Result<String, ShowError> {
        (self.show)(message)
    }
}

fn read<Request: Message + DeserializeOwned>(json: &str) -> Result<Vec<u8>, SpellingMistake> {
    from_json::<Request>(json).map(|request| request.encode_to_vec())
}

fn show<Answer: Message + Default + Serialize>(message: &[u8]) -> Result<String, ShowError> {
    Ok(serde_json::to_string(&Answer::decode(message)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_reads_an_empty_request_and_shows_an_empty_answer() {
        assert!(METHODS.len() > 30, "{}", METHODS.len());
        for method in METHODS {
            assert_eq!(method.request("{}").unwrap(), b"", "{}", method.path);
            assert_eq!(method.answer(b"").unwrap(), "{}", "{}", method.path);
            assert!(method.request("{\"no_such_field\":1}").is_err(), "{}", method.path);
        }
    }

    #[test]
    fn a_request_is_its_message() {
        let method = Method::at("/coalloc.v1.Coordinator/Get").unwrap();
        let message = crate::v1::GetRequest { id: "grc-1".to_owned() }.encode_to_vec();
        assert_eq!(method.request("{\"id\": \"grc-1\"}").unwrap(), message);
        assert!(!method.streams && Method::at("/coalloc.v1.Coordinator/Watch").unwrap().streams);
        assert!(Method::at("/coalloc.v1.Coordinator/Nothing").is_none());
    }
}
