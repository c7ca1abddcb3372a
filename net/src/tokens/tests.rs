//! Tokens that are verified whole: what is believed, and every reason to refuse.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use coalloc_common::{Span, TrustDomain};
use coalloc_proto::v1;
use proptest::prelude::*;

use super::test_keys::{
    ALL, BY_OPENSSL, ED, ED_OTHER, P256, P384, RSA, RSA_PSS, TestKey, key_set, signed_by_secret,
    unsigned,
};
use super::*;

const ISSUER: &str = "https://login.north.example";
/// Seconds since 1970: 2026-11-21.
const START: i64 = 1_795_219_200;
const NAMES: [&str; 5] = ["ed", "p256", "p384", "rsa", "pss"];

fn at(second: i64) -> Time {
    Time::from_us((START + second) * 1_000_000)
}

fn issuer(name: &str, keys: &str, domain: &str) -> v1::TokenIssuer {
    v1::TokenIssuer {
        issuer: name.to_owned(),
        audience: "coalloc".to_owned(),
        keys: keys.to_owned(),
        domain: domain.to_owned(),
    }
}

fn read(settings: &[v1::TokenIssuer], folder: &Path) -> TokenIssuers {
    let own = TrustDomain::parse("domain", "north.example").unwrap();
    TokenIssuers::read(&own, settings, folder).unwrap()
}

/// The own login service with a key for each algorithm, and one of the domain south.example with one key.
fn issuers() -> TokenIssuers {
    let folder = tempfile::tempdir().unwrap();
    let keys: Vec<String> = ALL.iter().zip(NAMES).map(|(key, id)| key.jwk(id)).collect();
    fs::write(folder.path().join("north.json"), key_set(&keys)).unwrap();
    fs::write(folder.path().join("south.json"), key_set(&[ED_OTHER.jwk("only")])).unwrap();
    let settings = [
        issuer(ISSUER, "north.json", ""),
        issuer("https://login.south.example", "south.json", "south.example"),
    ];
    read(&settings, folder.path())
}

fn verifier() -> TokenVerifier {
    TokenVerifier::new(issuers())
}

/// A payload in which these members are replaced, or left out (with the value "").
fn payload(changes: &[(&str, &str)]) -> String {
    let mut members = vec![
        ("iss", format!("{ISSUER:?}")),
        ("aud", r#""coalloc""#.to_owned()),
        ("sub", r#""alice""#.to_owned()),
        ("iat", START.to_string()),
        ("exp", (START + 3_600).to_string()),
    ];
    for (name, value) in changes {
        members.retain(|(other, _)| other != name);
        if !value.is_empty() {
            members.push((name, (*value).to_owned()));
        }
    }
    let members: Vec<String> =
        members.into_iter().map(|(name, value)| format!(r#""{name}": {value}"#)).collect();
    format!("{{{}}}", members.join(", "))
}

/// A token of the own login service with these changes.
fn token(changes: &[(&str, &str)]) -> String {
    ED.token(&ED.header("ed"), &payload(changes))
}

/// Verifies for all tests, so that it remembers other tokens than the one that a test has at hand.
static VERIFIER: LazyLock<TokenVerifier> = LazyLock::new(verifier);

fn verify_at(token: &str, second: i64) -> Result<VerifiedUser, TokenError> {
    let answer = VERIFIER.verify(token, at(second));
    assert_eq!(VERIFIER.verify(token, at(second)), answer, "the same from the cache");
    if let Err(error) = &answer {
        let text = error.to_string();
        let signature = token.rsplit('.').next().unwrap();
        assert!(signature.len() < 9 || !text.contains(signature), "{text}");
        assert!(text.len() < 700 && !text.contains(char::is_control), "{text}");
    }
    answer
}

fn error_of(token: &str) -> TokenError {
    verify_at(token, 60).unwrap_err()
}

#[track_caller]
fn assert_says(error: &TokenError, words: &[&str]) {
    let error = error.to_string();
    for word in words {
        assert!(error.contains(word), "{word:?} in {error}");
    }
}

#[test]
fn tokens_made_by_openssl_are_believed() {
    for token in BY_OPENSSL {
        let user = verify_at(token, 60).unwrap();
        assert_eq!(user.user.as_str(), "alice");
        assert_eq!(&*user.issuer, ISSUER);
        assert_eq!(user.expires, at(3_600));
    }
    for (key, id) in ALL.iter().zip(NAMES) {
        let token = key.token(&key.header(id), &payload(&[]));
        assert_eq!(verify_at(&token, 60), verify_at(BY_OPENSSL[0], 60));
    }
}

#[test]
fn what_else_a_token_may_have() {
    for changes in [
        [("aud", r#"["account", "coalloc"]"#)],
        [("iat", "")],
        [("iat", "1795219200.25")],
        [("exp", "1795222800.0")],
        [("exp", "1.7952228e9")],
        [("groups", r#"["a", {"a": 1, "b": [[null]]}]"#)],
    ] {
        assert_eq!(verify_at(&token(&changes), 60).unwrap().user.as_str(), "alice", "{changes:?}");
    }
    for header in [
        r#"{"alg": "EdDSA", "kid": "ed"}"#,
        r#"{"alg": "EdDSA", "kid": "ed", "typ": "jwt"}"#,
        r#"{"alg": "EdDSA", "kid": "ed", "typ": "at+JWT", "x5t": "x", "zip": 3}"#,
        r#"{"alg": "EdDSA", "kid": "ed", "typ": "application/at+jwt"}"#,
    ] {
        assert!(verify_at(&ED.token(header, &payload(&[])), 60).is_ok(), "{header}");
    }
}

#[test]
fn users_of_another_domain_have_its_name_in_front() {
    let of_south = [("iss", r#""https://login.south.example""#)];
    let bearer = |changes: &[(&str, &str)]| {
        let changes = [&of_south, changes].concat();
        // The issuer has one key, so the token need not name it.
        verify_at(&ED_OTHER.token(r#"{"alg": "EdDSA"}"#, &payload(&changes)), 60)
    };
    assert_eq!(bearer(&[]).unwrap().user.as_str(), "south.example/alice");
    let longest = "x".repeat(128 - "south.example/".len());
    let user = bearer(&[("sub", &format!("{longest:?}"))]).unwrap();
    assert_eq!(user.user.as_str(), format!("south.example/{longest}"));
    let error = bearer(&[("sub", &format!("\"{longest}x\""))]).unwrap_err();
    assert_says(&error, &["cannot be a user's name", "1 to 114 characters"]);
    // No issuer speaks for the users of another one.
    for sub in ["north.example/alice", "/alice", "alice/", "../alice"] {
        let error = bearer(&[("sub", &format!("{sub:?}"))]).unwrap_err();
        assert!(matches!(error, TokenError::NotAName { .. }), "{error}");
    }
    let error = error_of(&token(&[("sub", r#""south.example/alice""#)]));
    assert_says(&error, &["\"south.example/alice\" cannot be a user's name"]);
    // Signed by the other issuer's key.
    for id in ["ed", "only"] {
        let error = error_of(&ED_OTHER.token(&ED_OTHER.header(id), &payload(&[])));
        assert!(matches!(error, TokenError::WrongSignature | TokenError::UnknownKey { .. }));
    }
    let by_north = ED.token(r#"{"alg": "EdDSA", "kid": "only"}"#, &payload(&of_south));
    assert_eq!(error_of(&by_north), TokenError::WrongSignature);
}

#[test]
fn an_issuer_speaks_for_the_users_of_its_domain_while_it_is_configured() {
    let (verifier, south) = (verifier(), "https://login.south.example");
    let speaks = |issuer: &str, user: &str| {
        verifier.speaks_for(issuer, &UserName::composed(user.to_owned()))
    };
    assert!(speaks(ISSUER, "alice") && speaks(south, "south.example/alice"));
    for (issuer, user) in [
        (ISSUER, "south.example/alice"),
        (south, "alice"),
        (south, "south.example.evil/alice"),
        (south, "south.example"),
        ("https://login.elsewhere.example", "alice"),
    ] {
        assert!(!speaks(issuer, user), "{issuer} {user}");
    }
    verifier.replace(TokenIssuers::default());
    assert!(!speaks(ISSUER, "alice"));
}

#[test]
fn a_digest_stands_for_issuer_and_subject() {
    let digest = |changes: &[(&str, &str)]| verify_at(&token(changes), 60).unwrap().subject_digest;
    assert_eq!(digest(&[]), digest(&[("exp", "1795220000")]));
    assert_ne!(digest(&[]), digest(&[("sub", r#""alic""#)]));
    assert_ne!(subject_digest("ab", "c"), subject_digest("a", "bc"));
    let expected = Sha256::digest(b"\0\0\0\0\0\0\0\x02abc");
    assert_eq!(subject_digest("ab", "c")[..], expected[..]);
}

#[test]
fn subjects_are_spelled_like_names() {
    for sub in ["a", "0f3b8c1e-4c1f-4d8b-9d3e-1f2a3b4c5d6e", "A.b_c-d:e", &"x".repeat(128)] {
        let user = verify_at(&token(&[("sub", &format!("{sub:?}"))]), 60).unwrap();
        assert_eq!(user.user.as_str(), sub);
    }
    for sub in [
        "",
        " alice",
        "-alice",
        "al ice",
        "alice@north.example",
        "auth0|alice",
        "a/b",
        "/",
        "alice\\n",
        "alice\\u0000",
        "\\u202ealice",
        "alice\\u200f",
        "alíce",
        "аlice",
        &"x".repeat(129),
        &"/".repeat(2_000),
    ] {
        let error = error_of(&token(&[("sub", &format!("\"{sub}\""))]));
        assert!(matches!(error, TokenError::NotAName { .. }), "{sub}: {error}");
        let text = error.to_string();
        assert!(!text.contains(['\u{202e}', '\u{200f}', '\n', '\0']), "{text:?}");
    }
}

#[test]
fn times_hold_up_to_the_leeway() {
    let error = |changes: &[(&str, &str)], second| verify_at(&token(changes), second).unwrap_err();
    let ends = &[("exp", "1795222800")];
    for second in [0, 3_599, 3_600, 3_659] {
        assert!(verify_at(&token(ends), second).is_ok(), "{second}");
    }
    assert_eq!(error(ends, 3_660), TokenError::Expired { ago: Span::from_secs(60) });
    assert_says(&error(ends, 3_780), &["the token ended 3 min ago: log in again"]);
    let half = Time::from_us(at(3_665).as_us() + 500_001);
    let error_at_half = VERIFIER.verify(&token(ends), half).unwrap_err();
    assert_says(&error_at_half, &["ended 1 min 6 s ago"]);

    for name in ["nbf", "iat"] {
        let begins = &[(name, "1795219500")];
        assert!(verify_at(&token(begins), 240).is_ok());
        let ahead = Span::from_secs(61);
        assert_eq!(error(begins, 239), TokenError::NotYet { name, ahead });
    }
    assert_says(&error(&[("nbf", "1795219500")], 0), &["valid only in 5 min", "nbf", "clocks"]);
}

#[test]
fn no_token_lives_longer_than_allowed() {
    let error = |changes: &[(&str, &str)], second| verify_at(&token(changes), second).unwrap_err();
    let six_hours = (START + 6 * 3_600).to_string();
    let more = (START + 6 * 3_600 + 1).to_string();
    let lifetime = Span::from_secs(6 * 3_600 + 60);
    // By its own account.
    assert!(verify_at(&token(&[("exp", &six_hours)]), -60).is_ok());
    assert_eq!(error(&[("exp", &more)], 60), TokenError::LivesTooLong { lifetime });
    let early = &[("iat", "1795132800")];
    assert_says(&error(early, 60), &["lives for 1 d", "at most 6 h", "shorter"]);
    // What it does not say when it was issued has to end in six hours.
    assert!(verify_at(&token(&[("exp", &six_hours), ("iat", "")]), 0).is_ok());
    let without = &[("exp", &*more), ("iat", "")];
    assert_eq!(error(without, 0), TokenError::LivesTooLong { lifetime });
    assert!(verify_at(&token(without), 1).is_ok());
    // However late it says that it was issued, its end is near.
    let (late, far) = ((START + 60).to_string(), (START + 60 + 6 * 3_600).to_string());
    assert!(verify_at(&token(&[("exp", &far), ("iat", &late)]), 0).is_ok());
    let later = (START + 61).to_string();
    let ahead = error(&[("exp", &far), ("iat", &later)], 0);
    assert!(matches!(ahead, TokenError::NotYet { name: "iat", .. }), "{ahead}");
    assert!(matches!(error(&[("exp", "9007199254")], 0), TokenError::LivesTooLong { .. }));
}

#[test]
fn claims_are_there_and_have_their_types() {
    for name in ["iss", "aud", "exp", "sub"] {
        let error = error_of(&token(&[(name, "")]));
        let part = TokenPart::Payload;
        assert_eq!(error, TokenError::Missing { part, name });
        assert_says(&error, &["the payload of the token has no", name]);
    }
    let wrong: [(&str, &[&str]); 6] = [
        ("iss", &["1", "null", r#"["https://login.north.example"]"#, "{}"]),
        ("aud", &["1", "null", "true", "{}", r#"["coalloc", 1]"#, r#"[["coalloc"]]"#]),
        ("exp", &["null", r#""1795222800""#, "[1795222800]", "-1", "1e15", "true"]),
        ("nbf", &["null", r#""1795219200""#, "{}", "-0.5e3"]),
        ("iat", &["null", r#""1795219200""#, "false", "18446744073709551615"]),
        ("sub", &["1", "null", r#"["alice"]"#]),
    ];
    for (name, values) in wrong {
        for value in values {
            let error = error_of(&token(&[(name, value)]));
            assert_says(&error, &[&format!("`{name}` in the payload of the token is not")]);
            assert!(matches!(error, TokenError::WrongType { .. }), "{name} {value}: {error}");
        }
    }
}

#[test]
fn a_token_is_for_this_coordinator() {
    for aud in [r#""other""#, r#""Coalloc""#, r#""coalloc ""#, r#""""#, r#"["coallo", "c"]"#] {
        let error = error_of(&token(&[("aud", aud)]));
        assert_says(&error, &["and not for this coordinator", "one for \"coalloc\""]);
    }
    assert_says(&error_of(&token(&[("aud", "[]")])), &["the token is for nobody"]);
    let many = r#"["a\n\u202e", "b", "c", "d", "e"]"#;
    let error = error_of(&token(&[("aud", many)]));
    assert_says(&error, &[r#"for "a\n\u{202e}", "b", "c", 2 more, and"#]);
}

#[test]
fn a_token_is_from_an_issuer_that_is_believed() {
    for iss in [
        "https://login.north.example/",
        "https://login.north.exampl",
        "HTTPS://login.north.example",
        "",
        "https://eve.example/\\n\\u202e",
    ] {
        let error = error_of(&token(&[("iss", &format!("\"{iss}\""))]));
        assert!(matches!(error, TokenError::UnknownIssuer { .. }), "{error}");
    }
    let long = format!("\"{}\"", "\\u202e".repeat(700));
    assert_says(&error_of(&token(&[("iss", &long)])), &["…\"", "log in at one that it believes"]);
    let nobody = TokenVerifier::new(TokenIssuers::default());
    let error = nobody.verify(BY_OPENSSL[0], at(60)).unwrap_err();
    assert_says(&error, &["from \"https://login.north.example\""]);
}

#[test]
fn a_key_verifies_by_its_own_algorithm_only() {
    let payload = payload(&[]);
    for alg in ["none", "None", "HS256", "HS512", "ES256", "RS256", "eddsa", "EdDSA ", ""] {
        for id in NAMES {
            let header = format!(r#"{{"alg": "{alg}", "kid": "{id}"}}"#);
            for token in [format!("{}.", unsigned(&header, &payload)), ED.token(&header, &payload)]
            {
                let error = error_of(&token);
                let is_refused = match error {
                    TokenError::WrongAlgorithm { .. } => true,
                    TokenError::WrongSignature => {
                        (alg, id) == ("ES256", "p256") || (alg, id) == ("RS256", "rsa")
                    }
                    _ => false,
                };
                assert!(is_refused, "{alg} {id}: {error}");
            }
        }
    }
    assert_says(
        &error_of(&signed_by_key(&ED, "HS256", "ed")),
        &["signed by \"HS256\"", "EdDSA only"],
    );
    // One key pair, two keys of the set: each verifies by its own algorithm.
    for (key, other) in [(RSA, "pss"), (RSA_PSS, "rsa")] {
        let error = error_of(&key.token(&key.header(other), &payload));
        assert!(matches!(error, TokenError::WrongAlgorithm { .. }), "{error}");
        let header = if other == "rsa" { RSA.header("rsa") } else { RSA_PSS.header("pss") };
        assert_eq!(error_of(&key.token(&header, &payload)), TokenError::WrongSignature);
    }
    for (key, id) in [(P256, "p384"), (P384, "p256"), (P256, "ed"), (ED, "rsa")] {
        let error = error_of(&key.token(&key.header(id), &payload));
        assert!(matches!(error, TokenError::WrongAlgorithm { .. }), "{error}");
    }
}

/// A token that is signed by HMAC with what a stranger can know of a key.
fn signed_by_key(key: &TestKey, alg: &str, id: &str) -> String {
    let header = format!(r#"{{"alg": "{alg}", "typ": "JWT", "kid": "{id}"}}"#);
    signed_by_secret(&header, &payload(&[]), key.jwk(id).as_bytes())
}

#[test]
fn a_public_key_is_no_secret() {
    for (key, id) in ALL.iter().zip(NAMES) {
        let error = error_of(&signed_by_key(key, "HS256", id));
        assert!(matches!(error, TokenError::WrongAlgorithm { .. }), "{error}");
        assert_eq!(error_of(&signed_by_key(key, key.name, id)), TokenError::WrongSignature);
    }
}

#[test]
fn a_key_is_one_of_the_issuer() {
    let payload = payload(&[]);
    for id in ["ED", "only", "", "ed2"] {
        let error = error_of(&ED.token(&ED.header(id), &payload));
        assert_says(&error, &["signed by the key", &format!("{id:?}"), "log in again"]);
    }
    let nameless = r#"{"alg": "EdDSA"}"#;
    assert_eq!(error_of(&ED.token(nameless, &payload)), TokenError::KeyNotNamed);
    for id in ["1", "null", "[\"ed\"]"] {
        let error = error_of(&ED.token(&format!(r#"{{"alg": "EdDSA", "kid": {id}}}"#), &payload));
        let (part, name) = (TokenPart::Header, "kid");
        assert_eq!(error, TokenError::WrongType { part, name, wanted: "a text" });
    }
    // Signed by another key under the name of this one.
    assert_eq!(error_of(&ED_OTHER.token(&ED.header("ed"), &payload)), TokenError::WrongSignature);
    // A key without a name is not the key that a token names.
    let folder = tempfile::tempdir().unwrap();
    let jwk = ED.jwk("x").replace(r#""kid": "x", "#, "");
    fs::write(folder.path().join("k.json"), key_set(&[jwk])).unwrap();
    let verifier = TokenVerifier::new(read(&[issuer(ISSUER, "k.json", "")], folder.path()));
    assert!(verifier.verify(&ED.token(nameless, &payload), at(60)).is_ok());
    let error = verifier.verify(&ED.token(&ED.header("x"), &payload), at(60)).unwrap_err();
    assert!(matches!(error, TokenError::UnknownKey { .. }), "{error}");
}

#[test]
fn keys_in_a_token_are_not_used() {
    let payload = payload(&[]);
    let public = ED_OTHER.jwk("ed");
    for member in [
        format!(r#""jwk": {public}"#),
        r#""jku": "https://eve.example/keys.json""#.to_owned(),
        r#""x5u": "file:///etc/passwd""#.to_owned(),
        r#""x5c": ["AAAA"]"#.to_owned(),
    ] {
        let header = format!(r#"{{"alg": "EdDSA", "kid": "ed", {member}}}"#);
        assert_eq!(error_of(&ED_OTHER.token(&header, &payload)), TokenError::WrongSignature);
        assert!(verify_at(&ED.token(&header, &payload), 60).is_ok(), "{header}");
    }
    for crit in [r#"["b64"]"#, r#"["exp"]"#, "[]", "null", "1"] {
        let header = format!(r#"{{"alg": "EdDSA", "kid": "ed", "b64": true, "crit": {crit}}}"#);
        assert_eq!(error_of(&ED.token(&header, &payload)), TokenError::CriticalExtensions);
    }
    for typ in ["logout+jwt", "dpop+jwt", "JWE", "", "application/logout+jwt", "a\\n"] {
        let header = format!(r#"{{"alg": "EdDSA", "kid": "ed", "typ": "{typ}"}}"#);
        assert_says(&error_of(&ED.token(&header, &payload)), &["the token is of type \""]);
    }
}

#[test]
fn a_token_is_three_parts_of_a_few_kilobytes() {
    let good = token(&[]);
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, claims) = message.split_once('.').unwrap();
    for text in [
        "",
        ".",
        "alice",
        message,
        &format!("{good}."),
        &format!(".{good}"),
        &format!("{good}.{signature}"),
        &format!("{header}.{claims}.x.{signature}.y"),
    ] {
        assert_eq!(error_of(text), TokenError::NotThreeParts, "{text}");
    }
    let of = |header: &str, claims: &str, signature: &str| {
        error_of(&format!("{header}.{claims}.{signature}"))
    };
    for bad in ["=", "+", "/", " ", "\n", "é", "\u{202e}"] {
        let bad_header = format!("{header}{bad}");
        assert_eq!(of(&bad_header, claims, signature), TokenError::NotBase64 { part: "header" });
        let bad_claims = format!("{claims}{bad}");
        assert_eq!(of(header, &bad_claims, signature), TokenError::NotBase64 { part: "payload" });
        let bad_signature = format!("{bad}{signature}");
        let part = "signature";
        assert_eq!(of(header, claims, &bad_signature), TokenError::NotBase64 { part });
    }
    assert_eq!(of(header, claims, ""), TokenError::WrongSignature);
    assert_eq!(of(header, claims, &signature[..40]), TokenError::WrongSignature);
    assert!(verifier().verify(&format!(" {good}"), at(60)).is_err());

    let filled = |length: usize| token(&[("x", &format!("\"{}\"", "x".repeat(length)))]);
    let room = 8_192 - filled(0).len();
    let longest = filled(room * 3 / 4 - 2);
    assert!((8_180..=8_192).contains(&longest.len()), "{}", longest.len());
    assert!(verify_at(&longest, 60).is_ok());
    let error = error_of(&filled(room * 3 / 4 + 3));
    assert!(matches!(error, TokenError::TooLong { .. }), "{error}");
    assert_eq!(error_of(&"x".repeat(8_193)), TokenError::TooLong { bytes: 8_193 });
}

#[test]
fn header_and_payload_are_objects_with_each_name_once() {
    let (good_header, good_payload) = (ED.header("ed"), payload(&[]));
    let deep = "[".repeat(5_000);
    for bad in ["", "1", "null", "[]", "\"a\"", "{", "{}{}", "{'a': 1}", "\u{feff}{}", &deep] {
        let error = error_of(&ED.token(bad, &good_payload));
        assert_eq!(error, TokenError::NotAnObject { part: TokenPart::Header }, "{bad}");
        let error = error_of(&ED.token(&good_header, bad));
        assert_eq!(error, TokenError::NotAnObject { part: TokenPart::Payload }, "{bad}");
    }
    let error =
        error_of(&ED.token(r#"{"alg": "none", "alg": "EdDSA", "kid": "ed"}"#, &good_payload));
    assert_says(&error, &["the header of the token has \"alg\" twice"]);
    for (name, value) in [("s\\u0075b", "\"root\""), ("exp", "9"), ("x\\n", "1, \"x\\n\": 1")] {
        let bad = good_payload.replacen('{', &format!("{{\"{name}\": {value}, "), 1);
        let error = error_of(&ED.token(&good_header, &bad));
        assert_says(&error, &["the payload of the token has \"", "twice"]);
    }
    let header = r#"{"kid": "ed"}"#;
    let part = TokenPart::Header;
    assert_eq!(
        error_of(&ED.token(header, &good_payload)),
        TokenError::Missing { part, name: "alg" }
    );
}

#[test]
fn what_is_remembered_is_never_used_after_its_end_or_with_other_keys() {
    let verifier = verifier();
    let remembered = || verifier.state.read().unwrap().cache.lock().unwrap().len();
    let token = token(&[]);
    let user = verifier.verify(&token, at(0)).unwrap();
    assert_eq!(verifier.verify(&token, at(3_599)), Ok(user.clone()));
    assert_eq!(remembered(), 1);
    // In the leeway it is verified each time.
    assert_eq!(verifier.verify(&token, at(3_600)), Ok(user));
    assert_eq!(remembered(), 0, "verified again, and not remembered: it has ended");
    assert!(matches!(verifier.verify(&token, at(3_660)), Err(TokenError::Expired { .. })));
    assert!(verifier.verify(&token, at(0)).is_ok());
    assert!(verifier.verify(&token[..token.len() - 1], at(0)).is_err());
    assert_eq!(remembered(), 1, "what is refused is not remembered");
    // A clock that is set back does not make a token valid before its time.
    let early = verifier.verify(&token, at(-61));
    assert!(matches!(early, Err(TokenError::NotYet { .. })), "{early:?}");

    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("k.json"), key_set(&[ED_OTHER.jwk("ed")])).unwrap();
    verifier.replace(read(&[issuer(ISSUER, "k.json", "")], folder.path()));
    assert_eq!(remembered(), 0);
    assert_eq!(verifier.verify(&token, at(0)), Err(TokenError::WrongSignature));
    verifier.replace(issuers());
    assert!(verifier.verify(&token, at(0)).is_ok());
}

#[test]
fn threads_verify_while_keys_are_replaced() {
    let verifier = verifier();
    let token = token(&[]);
    let expected = verifier.verify(&token, at(0)).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for second in 0..200 {
                    assert_eq!(verifier.verify(&token, at(second)).unwrap(), expected);
                }
            });
        }
        for _ in 0..20 {
            verifier.replace(issuers());
        }
    });
    verifier.replace(TokenIssuers::default());
    assert!(matches!(verifier.verify(&token, at(0)), Err(TokenError::UnknownIssuer { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// One byte of a good token changes: it is refused, or it is still the token of the same user.
    #[test]
    fn no_changed_token_is_believed_for_somebody_else(
        which in 0..BY_OPENSSL.len(),
        place in any::<prop::sample::Index>(),
        byte in prop_oneof![
            prop::sample::select(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=".to_vec()),
            0_u8..128,
        ],
    ) {
        let good = BY_OPENSSL[which];
        let mut bytes = good.as_bytes().to_vec();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        let changed = String::from_utf8(bytes).unwrap();
        let user = VERIFIER.verify(good, at(60)).unwrap();
        match VERIFIER.verify(&changed, at(60)) {
            Ok(other) => prop_assert_eq!(other, user),
            Err(_) => prop_assert_ne!(&changed, good),
        }
        // Only signatures may have several spellings.
        if changed != good && place < good.rfind('.').unwrap() {
            prop_assert!(VERIFIER.verify(&changed, at(60)).is_err());
        }
    }

    /// What is remembered is what would be verified, at any time and in any order of times.
    #[test]
    fn what_is_remembered_is_what_would_be_verified(
        issued in prop::option::of(-30_000_i64..30_000),
        begins in prop::option::of(-30_000_i64..30_000),
        lives in 0_i64..22_000,
        nows in prop::collection::vec(-30_000_i64..60_000, 1..4),
        nears in prop::collection::vec((0_usize..4, -1_i64..=1), 1..12),
    ) {
        let exp = issued.unwrap_or(0) + lives;
        let text = |second: Option<i64>| second.map_or(String::new(), |second| (START + second).to_string());
        let (iat, nbf, exp_text) = (text(issued), text(begins), text(Some(exp)));
        let token = token(&[("iat", &iat), ("nbf", &nbf), ("exp", &exp_text)]);
        let remembering = TokenVerifier::new(issuers());
        let forgetful = issuers();
        let edges = [
            issued.unwrap_or(exp - 21_600) - 60,
            begins.unwrap_or(exp) - 60,
            exp,
            exp + 60,
        ];
        let nears = nears.into_iter().map(|(edge, by)| edges[edge] + by);
        for now in nows.into_iter().chain(nears) {
            let expected = forgetful.verify(&token, at(now)).map(|(user, _)| user);
            prop_assert_eq!(remembering.verify(&token, at(now)), expected);
        }
    }
}
