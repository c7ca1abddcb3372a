//! Public keys of issuers: how a JSON Web Key Set is checked, and how a signature is verified by one of its keys.
//!
//! A key verifies by one algorithm only, which the set states. What a token says of its algorithm is compared with
//! that and never obeyed. So a public key is never used as the secret of HS256, and nothing is ever unsigned. A file
//! that has a private or a secret key in it is refused.
//!
//! The sets are read here and not by `jsonwebtoken`, which drops the members that it does not know, private ones
//! among them, and looks at the length of a key only when it verifies. Left out: sets that are fetched from the issuer,
//! and certificates within a set (`x5c`), which are ignored. Sources: RFC 7517 (key sets), RFC 7518, section 6 (RSA and
//! EC keys), RFC 8037 (Ed25519), RFC 8725 (best practices).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use coalloc_common::limits;
use jsonwebtoken::crypto::rust_crypto::DEFAULT_PROVIDER;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::error::quoted;
use super::json::Members;

/// What a key is for and what it consists of.
struct Scheme {
    /// `alg`: the algorithm.
    name: &'static str,
    /// The same for the library.
    algorithm: Algorithm,
    /// `kty`: the type of its keys.
    key_type: &'static str,
    /// `crv` and the bytes of a coordinate, if the keys are on a curve.
    curve: Option<(&'static str, usize)>,
}

/// All algorithms by which a token may be signed.
const SCHEMES: [Scheme; 5] = [
    Scheme {
        name: "EdDSA",
        algorithm: Algorithm::EdDSA,
        key_type: "OKP",
        curve: Some(("Ed25519", 32)),
    },
    Scheme {
        name: "ES256",
        algorithm: Algorithm::ES256,
        key_type: "EC",
        curve: Some(("P-256", 32)),
    },
    Scheme {
        name: "ES384",
        algorithm: Algorithm::ES384,
        key_type: "EC",
        curve: Some(("P-384", 48)),
    },
    Scheme { name: "RS256", algorithm: Algorithm::RS256, key_type: "RSA", curve: None },
    Scheme { name: "PS256", algorithm: Algorithm::PS256, key_type: "RSA", curve: None },
];

/// The names of all algorithms, for messages.
const NAMES: &str = "EdDSA, ES256, ES384, RS256, PS256";

/// Members that only a private key has (RFC 7518, sections 6.2.2 and 6.3.2; RFC 8037).
const PRIVATE: [&str; 7] = ["d", "p", "q", "dp", "dq", "qi", "oth"];

/// What is wrong with a set of keys: what was found, and what is allowed instead.
#[derive(Debug)]
pub(super) struct KeyFault {
    /// The key and its member.
    pub(super) value: String,
    /// What the file may have there.
    pub(super) allowed: String,
}

impl KeyFault {
    fn new(value: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { value: value.into(), allowed: allowed.into() }
    }
}

/// A public key that verifies by one algorithm.
#[derive(Debug)]
pub(super) struct PublicKey {
    /// `kid`: its name, if it has one.
    id: Option<String>,
    /// `alg`: the name of its algorithm.
    pub(super) algorithm_name: &'static str,
    algorithm: Algorithm,
    key: DecodingKey,
}

impl PublicKey {
    /// Is this the signature of the message by this key?
    pub(super) fn verifies(&self, message: &[u8], signature: &Vec<u8>) -> bool {
        // Not the library's provider of the process, which another crate could choose.
        let verifier = (DEFAULT_PROVIDER.verifier_factory)(&self.algorithm, &self.key);
        verifier.is_ok_and(|verifier| verifier.verify(message, signature).is_ok())
    }
}

/// The public keys of one issuer, at least one.
#[derive(Debug)]
pub(super) struct KeySet(Vec<PublicKey>);

impl KeySet {
    /// Reads a set of keys.
    pub(super) fn parse(text: &[u8]) -> Result<Self, KeyFault> {
        /// Of the members of a set, `keys` alone means anything.
        #[derive(Deserialize)]
        struct Written {
            keys: Vec<Members>,
        }

        let Written { keys } = serde_json::from_slice(text).map_err(|error| {
            let value = format!("what is at line {}, column {}", error.line(), error.column());
            KeyFault::new(
                value,
                "a JSON Web Key Set: an object whose one member `keys` is a list of objects",
            )
        })?;
        if !(1..=limits::TOKEN_KEYS_MAX).contains(&keys.len()) {
            let allowed = format!("1 to {} keys", limits::TOKEN_KEYS_MAX);
            return Err(KeyFault::new(format!("a set of {} keys", keys.len()), allowed));
        }
        let is_only = keys.len() == 1;
        let mut set = Self(Vec::with_capacity(keys.len()));
        for (index, members) in keys.iter().enumerate() {
            let key = parse_key(&WrittenKey { index, members })?;
            match &key.id {
                None if !is_only => {
                    let allowed = "a name in every key of a set of several";
                    return Err(KeyFault::new(format!("keys[{index}] without `kid`"), allowed));
                }
                Some(id) if set.named(id).is_some() => {
                    let value = format!("keys[{index}] with the `kid` {}", quoted(id));
                    return Err(KeyFault::new(value, "each `kid` once"));
                }
                _ => set.0.push(key),
            }
        }
        Ok(set)
    }

    /// The key of this name.
    pub(super) fn named(&self, id: &str) -> Option<&PublicKey> {
        self.0.iter().find(|key| key.id.as_deref() == Some(id))
    }

    /// The key, if there is only one.
    pub(super) fn only(&self) -> Option<&PublicKey> {
        match &*self.0 {
            [key] => Some(key),
            _ => None,
        }
    }
}

/// A key as it is written in a set.
struct WrittenKey<'a> {
    /// Its place in the set.
    index: usize,
    members: &'a Members,
}

impl WrittenKey<'_> {
    /// A fault of this key; `found` says of what.
    fn fault(&self, found: &str, allowed: impl Into<String>) -> KeyFault {
        KeyFault::new(format!("keys[{}] {found}", self.index), allowed)
    }

    /// The text of a member, if the member is there.
    fn optional_text(&self, name: &str, wanted: &str) -> Result<Option<&str>, KeyFault> {
        match self.members.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => {
                Err(self
                    .fault(&format!("whose `{name}` is not a text"), format!("`{name}` {wanted}")))
            }
        }
    }

    /// The text of a member that has to be there.
    fn text(&self, name: &str, wanted: &str) -> Result<&str, KeyFault> {
        let missing = || self.fault(&format!("without `{name}`"), format!("`{name}` {wanted}"));
        self.optional_text(name, wanted)?.ok_or_else(missing)
    }

    /// The bytes of a member that has to be there in base64url.
    fn bytes(&self, name: &str) -> Result<Vec<u8>, KeyFault> {
        let wanted = "in base64url without padding";
        let decoded = URL_SAFE_NO_PAD.decode(self.text(name, wanted)?);
        decoded.map_err(|_| {
            self.fault(&format!("whose `{name}` is not base64url"), format!("`{name}` {wanted}"))
        })
    }

    /// A coordinate of a point on a curve.
    fn coordinate(&self, name: &str, length: usize) -> Result<Vec<u8>, KeyFault> {
        let bytes = self.bytes(name)?;
        if bytes.len() != length {
            let found = format!("whose `{name}` has {} bytes", bytes.len());
            return Err(self.fault(&found, format!("{length} bytes on this curve")));
        }
        Ok(bytes)
    }
}

/// Checks one key of a set.
fn parse_key(written: &WrittenKey<'_>) -> Result<PublicKey, KeyFault> {
    if let Some(name) = written.members.repeated() {
        return Err(written.fault(&format!("with {} twice", quoted(name)), "each member once"));
    }
    check_purpose(written)?;
    let wanted = format!("out of {NAMES}");
    let name = written.text("alg", &wanted)?;
    let Some(scheme) = SCHEMES.iter().find(|scheme| scheme.name == name) else {
        return Err(written.fault(&format!("with the `alg` {}", quoted(name)), wanted));
    };
    let key_type = written.text("kty", "of the key's algorithm")?;
    if key_type != scheme.key_type {
        let found = format!("with the `kty` {} and the `alg` {name}", quoted(key_type));
        return Err(written.fault(&found, format!("the `kty` {} for {name}", scheme.key_type)));
    }
    let key = match scheme.curve {
        None => rsa_key(written)?,
        Some((curve, length)) => {
            let found = written.text("crv", "of the key's algorithm")?;
            if found != curve {
                let found = format!("with the `crv` {} and the `alg` {name}", quoted(found));
                return Err(written.fault(&found, format!("the `crv` {curve} for {name}")));
            }
            curve_key(written, scheme, length)?
        }
    };
    let id = written.optional_text("kid", "as a text")?.map(str::to_owned);
    Ok(PublicKey { id, algorithm_name: scheme.name, algorithm: scheme.algorithm, key })
}

/// Checks that the key is a public one, and meant for signatures.
fn check_purpose(written: &WrittenKey<'_>) -> Result<(), KeyFault> {
    let members = written.members;
    // A secret is found by its type and by its value: neither may be here.
    if members.get("kty").is_some_and(|kind| kind == "oct") || members.get("k").is_some() {
        let allowed = "public keys only; whoever has a secret key (`kty` oct) can issue tokens, so take it out";
        return Err(written.fault("that is a secret", allowed));
    }
    if let Some(name) = PRIVATE.into_iter().find(|name| members.get(name).is_some()) {
        let allowed = "public keys only; replace this key at the issuer, because others may have read it here";
        return Err(written.fault(&format!("that is a private key (it has `{name}`)"), allowed));
    }
    if let Some(purpose) = written.optional_text("use", "sig, or none")?
        && purpose != "sig"
    {
        let found = format!("with the `use` {}", quoted(purpose));
        return Err(
            written.fault(&found, "keys for signatures: `use` sig, or none; take others out")
        );
    }
    let is_verify = |operation: &Value| operation == "verify";
    match members.get("key_ops") {
        None => Ok(()),
        Some(Value::Array(operations)) if operations.iter().any(is_verify) => Ok(()),
        Some(_) => {
            Err(written.fault("whose `key_ops` lack verify", "`key_ops` with verify, or none"))
        }
    }
}

/// Checks an RSA key (RFC 7518, section 6.3.1).
fn rsa_key(written: &WrittenKey<'_>) -> Result<DecodingKey, KeyFault> {
    let number = |name| -> Result<Vec<u8>, KeyFault> {
        Ok(written.bytes(name)?.into_iter().skip_while(|byte| *byte == 0).collect())
    };
    let (modulus, exponent) = (number("n")?, number("e")?);
    let (low, high) = (limits::TOKEN_RSA_BITS_MIN, limits::TOKEN_RSA_BITS_MAX);
    let unused = modulus.first().map_or(0, |first| first.leading_zeros() as usize);
    let bits = 8 * modulus.len() - unused;
    if !(low..=high).contains(&bits) {
        let allowed = format!("RSA keys of {low} to {high} bits");
        return Err(written.fault(&format!("whose `n` has {bits} bits"), allowed));
    }
    if modulus.last().is_none_or(|last| last % 2 == 0) {
        return Err(written.fault("whose `n` is even", "a product of two odd primes"));
    }
    let (low, high) = (limits::TOKEN_RSA_EXPONENT_MIN, limits::TOKEN_RSA_EXPONENT_MAX);
    let value = (exponent.len() <= 8)
        .then(|| exponent.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte)));
    if value.is_none_or(|value| !(low..=high).contains(&value) || value % 2 == 0) {
        let found = value.map_or("a longer one".to_owned(), |value| value.to_string());
        let allowed = format!("an odd `e` from {low} to {high}");
        return Err(written.fault(&format!("whose `e` is {found}"), allowed));
    }
    Ok(DecodingKey::from_rsa_raw_components(&modulus, &exponent))
}

/// Checks a key on a curve (RFC 7518, section 6.2.1; RFC 8037, section 2).
fn curve_key(
    written: &WrittenKey<'_>,
    scheme: &Scheme,
    length: usize,
) -> Result<DecodingKey, KeyFault> {
    let mut point = written.coordinate("x", length)?;
    let key = if scheme.algorithm == Algorithm::EdDSA {
        // Anybody can sign by a key of small order. One of them is all zeros, as a placeholder is.
        let bytes = <&[u8; 32]>::try_from(&*point).ok();
        let parsed = bytes.and_then(|bytes| ed25519_dalek::VerifyingKey::from_bytes(bytes).ok());
        if parsed.is_some_and(|key| key.is_weak()) {
            return Err(written.fault("that is no key (a point of small order)", "an Ed25519 key"));
        }
        DecodingKey::from_ed_der(&point)
    } else {
        point.insert(0, 4);
        point.extend(written.coordinate("y", length)?);
        DecodingKey::from_ec_der(&point)
    };
    // Makes the point of its coordinates, and fails if there is none.
    if (DEFAULT_PROVIDER.verifier_factory)(&scheme.algorithm, &key).is_err() {
        return Err(written.fault("that is no point of its curve", "coordinates of a point"));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::super::test_keys::{ALL, ED, ED_OTHER, P256, RSA, RSA_1024, RSA_4104, key_set};
    use super::*;

    fn parse(text: &str) -> Result<KeySet, String> {
        KeySet::parse(text.as_bytes())
            .map_err(|fault| format!("{} | {}", fault.value, fault.allowed))
    }

    /// What is wrong with a set whose only key is this one, in which something was replaced.
    fn fault_of(jwk: &str, old: &str, new: &str) -> String {
        assert!(jwk.contains(old), "{old} in {jwk}");
        parse(&key_set(&[jwk.replacen(old, new, 1)])).unwrap_err()
    }

    #[track_caller]
    fn assert_says(error: &str, words: &[&str]) {
        for word in words {
            assert!(error.contains(word), "{word:?} in {error}");
        }
    }

    #[test]
    fn a_set_has_each_key_under_its_name() {
        let keys = ALL.map(|key| key.jwk(key.name));
        let set = parse(&key_set(&keys)).unwrap();
        for key in ALL {
            assert_eq!(set.named(key.name).unwrap().algorithm_name, key.name);
        }
        assert!(set.named("").is_none() && set.named("eddsa").is_none() && set.only().is_none());
        let nameless = ED.jwk("x").replace(r#""kid": "x", "#, "");
        let set = parse(&key_set(std::slice::from_ref(&nameless))).unwrap();
        assert!(set.only().is_some() && set.named("x").is_none() && set.named("").is_none());
        for members in [r#""use": "sig""#, r#""key_ops": ["verify"]"#, r#""x5c": ["AA"], "x": 1"#] {
            let written = nameless.replace(r#""use": "sig""#, members).replace(r#", "x": 1"#, "");
            assert!(parse(&key_set(&[written])).is_ok(), "{members}");
        }
    }

    #[test]
    fn no_key_verifies_what_is_no_signature() {
        let set = parse(&key_set(&ALL.map(|key| key.jwk(key.name)))).unwrap();
        for key in ALL {
            let key = set.named(key.name).unwrap();
            for length in [0, 1, 32, 63, 64, 65, 96, 97, 255, 256, 257, 600] {
                for byte in [0, 1, 0x7f, 0xff] {
                    assert!(
                        !key.verifies(b"message", &vec![byte; length]),
                        "{key:?} {length} {byte}"
                    );
                }
            }
        }
    }

    #[test]
    fn secrets_and_private_keys_are_refused_and_say_so() {
        let secret = r#"{"kty": "oct", "alg": "HS256", "k": "c2VjcmV0", "kid": "shared"}"#;
        assert_says(
            &parse(&key_set(&[secret.into()])).unwrap_err(),
            &["keys[0]", "a secret", "oct"],
        );
        let error = fault_of(&ED.jwk("a"), r#""x""#, r#""k": "AAAA", "x""#);
        assert_says(&error, &["keys[0] that is a secret"]);
        for (key, name) in
            [(ED, "d"), (P256, "d"), (RSA, "d"), (RSA, "p"), (RSA, "qi"), (RSA, "oth")]
        {
            let added = format!(r#""{name}": "c2VjcmV0LXNlY3JldA", "kty""#);
            let error = fault_of(&key.jwk("a"), r#""kty""#, &added);
            assert_says(&error, &["a private key", &format!("`{name}`"), "public keys only"]);
            assert!(!error.contains("c2VjcmV0"), "{error}");
        }
    }

    #[test]
    fn a_key_says_its_algorithm_and_fits_it() {
        let ed = ED.jwk("a");
        let alg = r#""alg": "EdDSA""#;
        for other in ["none", "HS256", "RS512", "ES512", "ES256K", "eddsa", "", "RSA-OAEP"] {
            let error = fault_of(&ed, alg, &format!(r#""alg": "{other}""#));
            assert_says(&error, &["keys[0]", "`alg`", &format!("{other:?}"), "EdDSA, ES256"]);
        }
        assert_says(&fault_of(&ed, &format!("{alg}, "), ""), &["keys[0] without `alg`", NAMES]);
        assert_says(&fault_of(&ed, alg, r#""alg": 1"#), &["`alg` is not a text"]);
        assert_says(&fault_of(&ed, alg, r#""alg": "RS256""#), &["\"OKP\"", "RSA for RS256"]);
        assert_says(&fault_of(&ed, alg, r#""alg": "ES256""#), &["\"OKP\"", "EC for ES256"]);
        let p256 = P256.jwk("a");
        assert_says(&fault_of(&p256, "ES256", "ES384"), &["`crv` \"P-256\"", "P-384 for ES384"]);
        assert_says(&fault_of(&p256, r#""crv": "P-256""#, r#""crv": "secp256k1""#), &["secp256k1"]);
        assert_says(&fault_of(&p256, r#""crv": "P-256", "#, ""), &["without `crv`"]);
        assert_says(&fault_of(&RSA.jwk("a"), r#""kty": "RSA", "#, ""), &["without `kty`"]);
        assert_says(
            &fault_of(&ed, r#""use": "sig""#, r#""use": "enc""#),
            &["\"enc\"", "sig, or none"],
        );
        assert_says(
            &fault_of(&ed, r#""use": "sig""#, r#""use": ["sig"]"#),
            &["`use` is not a text"],
        );
        for operations in [r#"["encrypt"]"#, "[]", r#""verify""#] {
            let members = format!(r#""key_ops": {operations}"#);
            assert_says(&fault_of(&ed, r#""use": "sig""#, &members), &["`key_ops`"]);
        }
    }

    #[test]
    fn a_key_is_a_number_that_can_be_a_key() {
        let ed = ED.jwk("a");
        let set_x = |x: &str| {
            let x = URL_SAFE_NO_PAD.encode(x.bytes().map(|byte| byte - b'0').collect::<Vec<u8>>());
            let (before, _) = ed.split_once(r#""x": ""#).unwrap();
            parse(&key_set(&[format!(r#"{before}"x": "{x}"}}"#)]))
        };
        // Too short a key would make the library panic when a token arrives.
        for length in [0, 1, 31, 33, 64] {
            let error = set_x(&"1".repeat(length)).unwrap_err();
            assert_says(&error, &["keys[0]", &format!("`x` has {length} bytes"), "32 bytes"]);
        }
        assert_says(&set_x(&"0".repeat(32)).unwrap_err(), &["small order"]);
        assert_says(&set_x(&format!("1{}", "0".repeat(31))).unwrap_err(), &["small order"]);
        assert_says(&set_x(&format!("2{}", "0".repeat(31))).unwrap_err(), &["no point"]);
        assert_says(&fault_of(&ed, r#""x": ""#, r#""x": "+"#), &["`x` is not base64url"]);
        assert_says(&fault_of(&ed, r#""x": "#, r#""y": "#), &["without `x`"]);

        let p256 = P256.jwk("a");
        let at = p256.find(r#""y": ""#).unwrap() + 6;
        let other = if p256[at..].starts_with('A') { "B" } else { "A" };
        assert_says(&parse(&key_set(&[replaced(&p256, at, other)])).unwrap_err(), &["no point"]);
        assert_says(&fault_of(&p256, r#""y": "#, r#""z": "#), &["without `y`"]);

        let rsa = RSA.jwk("a");
        let with = |public: &str| {
            let (before, _) = rsa.split_once(RSA.public).unwrap();
            parse(&key_set(&[format!("{before}{public}}}")]))
        };
        assert!(with(RSA.public).is_ok());
        assert_says(&with(RSA_1024).unwrap_err(), &["`n` has 1024 bits", "2048 to 4096"]);
        assert_says(&with(RSA_4104).unwrap_err(), &["`n` has 4104 bits", "2048 to 4096"]);
        assert_says(&fault_of(&rsa, "AQAB", "Aw"), &["`e` is 3", "65537"]);
        assert_says(&fault_of(&rsa, "AQAB", "AQAC"), &["`e` is 65538", "odd"]);
        assert_says(&fault_of(&rsa, "AQAB", "AQAAAAAAAAAAAQ"), &["`e` is a longer one"]);
        assert_says(&fault_of(&rsa, "AQAB", ""), &["`e` is 0"]);
        assert_says(&fault_of(&rsa, r#""n": ""#, r#""n": "", "m": ""#), &["`n` has 0 bits"]);
        // Zeros in front of a short number make it no longer.
        let padded = URL_SAFE_NO_PAD.encode([0; 126]);
        let short = RSA_1024.replacen(r#""n": ""#, &format!(r#""n": "{padded}"#), 1);
        assert_says(&with(&short).unwrap_err(), &["`n` has 1024 bits"]);
        assert_says(&fault_of(&rsa, r#"", "e""#, r#"AA", "e""#), &["`n` is even"]);
    }

    fn replaced(text: &str, at: usize, with: &str) -> String {
        let mut text = text.to_owned();
        text.replace_range(at..=at, with);
        text
    }

    #[test]
    fn keys_of_a_set_are_told_apart() {
        let (one, two) = (ED.jwk("a"), ED_OTHER.jwk("a"));
        let error = parse(&key_set(&[one.clone(), two.clone()])).unwrap_err();
        assert_says(&error, &["keys[1]", "\"a\"", "each `kid` once"]);
        let nameless = two.replace(r#""kid": "a", "#, "");
        for set in [[one.clone(), nameless.clone()], [nameless.clone(), one.clone()]] {
            assert_says(&parse(&key_set(&set)).unwrap_err(), &["without `kid`", "in every key"]);
        }
        assert_says(&fault_of(&one, r#""a""#, "1"), &["`kid` is not a text"]);
        let error = fault_of(&one, r#""kid""#, r#""\u006bid": "b\n\u202e", "kid""#);
        assert_says(&error, &["keys[0] with \"kid\" twice"]);
        let odd = "\\u202e".repeat(100);
        let error = parse(&key_set(&[ED.jwk(&odd), ED.jwk(&odd)])).unwrap_err();
        assert!(!error.contains('\u{202e}') && error.len() < 1_000, "{error}");
    }

    #[test]
    fn a_set_is_an_object_with_a_list_of_a_few_keys() {
        let key = ED.jwk("a");
        for text in [
            String::new(),
            "[]".to_owned(),
            "null".to_owned(),
            "{}".to_owned(),
            key.clone(),
            format!("[{key}]"),
            r#"{"keys": {}}"#.to_owned(),
            r#"{"keys": [1]}"#.to_owned(),
            r#"{"keys": [[]]}"#.to_owned(),
            format!(r#"{{"keys": [{key}], "keys": [{key}]}}"#),
            format!(r#"{{"keys": [{key}]}} x"#),
            format!(r#"{{"keys": [{key}]"#),
            "[".repeat(100_000),
            format!(r#"{{"keys": [{{"x": {}"#, "[".repeat(100_000)),
        ] {
            let error = parse(&text).unwrap_err();
            assert_says(&error, &["line 1, column", "JSON Web Key Set"]);
        }
        assert_says(&parse(r#"{"keys": []}"#).unwrap_err(), &["0 keys", "1 to 64"]);
        let many: Vec<String> = (0..65).map(|number| ED.jwk(&number.to_string())).collect();
        assert!(parse(&key_set(&many[..64])).is_ok());
        assert_says(&parse(&key_set(&many)).unwrap_err(), &["65 keys", "1 to 64"]);
    }
}
