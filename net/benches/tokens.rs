//! What it costs to verify a user's token: by its signature, for each algorithm, and when it is remembered.
//! `cargo bench -p coalloc-net --bench tokens`.
//!
//! A token has 300 to 700 characters. What is not remembered is measured with a fresh verifier each time, so it
//! includes an insertion into an empty cache; `full_cache` has insertions into a cache that is full.

// clippy allows unwrap in test functions only; a bench is test code all through.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../src/tokens/test_keys.rs"]
mod test_keys;

use coalloc_common::{Time, TrustDomain, limits};
use coalloc_net::tokens::{TokenIssuers, TokenVerifier};
use coalloc_proto::v1;
use divan::Bencher;
use test_keys::{ALL, ED, TestKey, key_set};

fn main() {
    divan::main();
}

/// 1,795,219,200 seconds after 1970: 2026-11-21.
const NOW: Time = Time::from_us(1_795_219_200_000_000);

fn issuers(key: TestKey) -> TokenIssuers {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("keys.json"), key_set(&[key.jwk("k")])).unwrap();
    let settings = v1::TokenIssuer {
        issuer: "https://login.north.example".to_owned(),
        audience: "coalloc".to_owned(),
        keys: "keys.json".to_owned(),
        domain: String::new(),
    };
    let own = TrustDomain::parse("domain", "north.example").unwrap();
    TokenIssuers::read(&own, &[settings], folder.path()).unwrap()
}

fn token(key: TestKey, user: usize) -> String {
    let payload = format!(
        r#"{{"iss": "https://login.north.example", "aud": ["account", "coalloc"], "sub": "user-{user}",
            "iat": 1795219200, "exp": {}, "jti": "0a4f3c52-9b1d-4f0e-8d57-1f6f3a1b2c3d"}}"#,
        1_795_222_800 + user % 3_600
    );
    key.token(&key.header("k"), &payload)
}

#[divan::bench(args = ALL.map(|key| key.name))]
fn not_remembered(bencher: Bencher, name: &str) {
    let key = ALL.into_iter().find(|key| key.name == name).unwrap();
    let token = token(key, 0);
    bencher
        .with_inputs(|| TokenVerifier::new(issuers(key)))
        .bench_refs(|verifier| verifier.verify(&token, NOW).unwrap());
}

#[divan::bench(args = ALL.map(|key| key.name))]
fn remembered(bencher: Bencher, name: &str) {
    let key = ALL.into_iter().find(|key| key.name == name).unwrap();
    let token = token(key, 0);
    let verifier = TokenVerifier::new(issuers(key));
    verifier.verify(&token, NOW).unwrap();
    bencher.bench(|| verifier.verify(&token, NOW).unwrap());
}

/// The same token out of a full cache, by two threads at a time.
#[divan::bench(threads = [1, 2])]
fn remembered_among_many(bencher: Bencher) {
    let verifier = TokenVerifier::new(issuers(ED));
    let tokens: Vec<String> = (0..limits::TOKEN_CACHE_MAX).map(|user| token(ED, user)).collect();
    for token in &tokens {
        verifier.verify(token, NOW).unwrap();
    }
    bencher.bench(|| verifier.verify(&tokens[0], NOW).unwrap());
}

/// Each token makes another one forgotten.
#[divan::bench(sample_count = 20, sample_size = 200)]
fn full_cache(bencher: Bencher) {
    let verifier = TokenVerifier::new(issuers(ED));
    let tokens: Vec<String> =
        (0..limits::TOKEN_CACHE_MAX + 4_000).map(|user| token(ED, user)).collect();
    let (first, rest) = tokens.split_at(limits::TOKEN_CACHE_MAX);
    for token in first {
        verifier.verify(token, NOW).unwrap();
    }
    let mut next = rest.iter().cycle();
    bencher
        .with_inputs(|| next.next().unwrap())
        .bench_local_refs(|token| verifier.verify(token, NOW).unwrap());
}

/// What a stranger can make a coordinator do: a long token with a wrong signature.
#[divan::bench(args = ALL.map(|key| key.name))]
fn refused(bencher: Bencher, name: &str) {
    let key = ALL.into_iter().find(|key| key.name == name).unwrap();
    let payload =
        format!(r#"{{"iss": "https://login.north.example", "sub": "{}"}}"#, "x".repeat(5_000));
    let mut token = key.token(&key.header("k"), &payload);
    let last = token.rfind('.').unwrap() + 10;
    let other = if token.as_bytes()[last] == b'A' { "B" } else { "A" };
    token.replace_range(last..=last, other);
    let verifier = TokenVerifier::new(issuers(key));
    bencher.bench(|| verifier.verify(&token, NOW).unwrap_err());
}
