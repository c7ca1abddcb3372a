//! What a caller needs the receiver of a call to know.
//!
//! A call may say so in its metadata: `coalloc-needs` with words, separated by commas. A receiver whose release does not know one of
//! them answers UNIMPLEMENTED and carries out nothing, so that no field of a message is ignored which the caller relies on. Health and
//! reflection are not of our own, and answer in any case.
//!
//! Left out: which message needs what, which `coalloc_protocol::capability` says. Source: docs/adr/0050-versions.md.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context, Poll};

use coalloc_common::plain_text;
use coalloc_proto::v1;
use coalloc_protocol::capability::{Capability, PROTOCOL_VERSION, PeerVersion};
use http::{HeaderMap, Request, Response};
use tonic::body::Body;
use tonic::metadata::{MetadataMap, MetadataValue};
use tower_layer::Layer;
use tower_service::Service;

use crate::leadership::OWN;
use crate::status;

/// The name of the metadata.
const NEEDS: &str = "coalloc-needs";
/// Characters of a peer's text that are kept.
const TEXT_MAX: usize = 80;
/// Unknown words that a caller is told.
const UNKNOWN_SHOWN_MAX: usize = 8;
/// This program and its release, for people.
pub const PROGRAM: &str = concat!("coalloc ", env!("CARGO_PKG_VERSION"));

/// What this release says of itself, except for what the service that answers cannot do.
#[must_use]
pub fn own_version(cannot: &[Capability]) -> v1::Version {
    let capabilities = Capability::ALL.into_iter().filter(|known| !cannot.contains(known));
    v1::Version {
        protocol: PROTOCOL_VERSION,
        capabilities: capabilities.map(|known| known.word().to_owned()).collect(),
        program: PROGRAM.to_owned(),
    }
}

/// What a peer says of itself. Words that this release does not know are left out.
#[must_use]
pub fn version_from_wire(wire: Option<&v1::Version>) -> PeerVersion {
    let Some(said) = wire else { return PeerVersion::baseline() };
    let known = said.capabilities.iter().filter_map(|word| Capability::named(word));
    let program = short(&plain_text::one_line(&said.program));
    PeerVersion { protocol: said.protocol, capabilities: known.collect(), program }
}

/// The beginning of a peer's text, because it becomes a part of refusals, which are recorded, and of statuses.
fn short(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

/// Says in a call's metadata what its receiver must know.
pub fn say(needs: &BTreeSet<Capability>, metadata: &mut MetadataMap) {
    if needs.is_empty() {
        return;
    }
    let words: Vec<&str> = needs.iter().map(|needed| needed.word()).collect();
    // The words are letters and dashes, so this is a value.
    if let Ok(value) = MetadataValue::try_from(words.join(",")) {
        metadata.insert(NEEDS, value);
    }
}

/// What a caller needs and this release does not know, the first words of it.
fn unknown(headers: &HeaderMap) -> Vec<String> {
    let texts = headers.get_all(NEEDS).iter();
    let texts = texts.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let words = texts
        .flat_map(|text| text.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>());
    let unknown = words.filter(|word| !word.is_empty() && Capability::named(word).is_none());
    unknown.take(UNKNOWN_SHOWN_MAX).map(|word| short(&word)).collect()
}

/// Puts [`NeedsService`] around a server's routes.
#[derive(Debug, Clone, Copy)]
pub struct NeedsLayer;

impl<S> Layer<S> for NeedsLayer {
    type Service = NeedsService<S>;

    fn layer(&self, inner: S) -> NeedsService<S> {
        NeedsService { inner }
    }
}

/// A service around another one, which gets only calls that this release understands.
#[derive(Debug, Clone)]
pub struct NeedsService<S> {
    inner: S,
}

type BoxedCall<E> = Pin<Box<dyn Future<Output = Result<Response<Body>, E>> + Send>>;

impl<S, E> Service<Request<Body>> for NeedsService<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = E, Future = BoxedCall<E>>,
    E: Send + 'static,
{
    type Response = Response<Body>;
    type Error = E;
    type Future = BoxedCall<E>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), E>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> BoxedCall<E> {
        if request.headers().contains_key(NEEDS) && request.uri().path().starts_with(OWN) {
            let unknown = unknown(request.headers());
            if !unknown.is_empty() {
                let status = status::unsupported(&unknown, PROGRAM, PROTOCOL_VERSION);
                return Box::pin(std::future::ready(Ok(status.into_http())));
            }
        }
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_says_what_its_receiver_must_know() {
        let mut metadata = MetadataMap::new();
        say(&BTreeSet::new(), &mut metadata);
        assert!(metadata.is_empty());
        say(&[Capability::OneWay, Capability::Servers].into(), &mut metadata);
        assert_eq!(metadata.get(NEEDS).unwrap(), "one-way,servers");
        assert_eq!(unknown(&metadata.into_headers()), Vec::<String>::new());
    }

    #[test]
    fn words_of_a_later_release_are_unknown_wherever_they_stand() {
        let mut headers = HeaderMap::new();
        headers.append(NEEDS, "one-way, teleport".parse().unwrap());
        headers.append(NEEDS, ",,beam".parse().unwrap());
        assert_eq!(unknown(&headers), ["teleport", "beam"]);
        let many = vec!["x".repeat(500); 20].join(",");
        headers.insert(NEEDS, many.parse().unwrap());
        assert_eq!(unknown(&headers), vec!["x".repeat(TEXT_MAX); UNKNOWN_SHOWN_MAX]);
    }

    #[test]
    fn a_peer_is_read_as_it_describes_itself() {
        let without = own_version(&[Capability::OneWay]);
        let read = version_from_wire(Some(&without));
        assert_eq!((read.protocol, read.program.as_str()), (PROTOCOL_VERSION, PROGRAM));
        assert!(!read.knows(Capability::OneWay) && read.knows(Capability::Replaces));
        let later = v1::Version {
            protocol: 9,
            capabilities: vec!["teleport".to_owned(), "servers".to_owned()],
            program: "coalloc 9\n".to_owned(),
        };
        assert_eq!(version_from_wire(Some(&later)).capabilities, [Capability::Servers].into());
        let endless = v1::Version { program: "x".repeat(1_000_000), ..v1::Version::default() };
        assert_eq!(version_from_wire(Some(&endless)).program.len(), TEXT_MAX);
        assert_eq!(version_from_wire(None), PeerVersion::baseline());
    }
}
