//! A token as it arrives, and what becomes of it: nothing of it is believed before its signature is verified.
//!
//! [`SignedToken`] is what anybody could have written. It says which issuer and which key it claims, and gives its
//! claims only for the key that verifies its signature. [`Claims`] come from exactly the bytes that were signed.
//!
//! Of the header, `alg`, `kid`, `typ` and `crit` are read. Keys in a header, and addresses of keys (`jwk`, `jku`,
//! `x5c`, `x5u`), are never looked at. The claims are checked here and not by `jsonwebtoken`, because that reads the
//! machine's own clock, and accepts issuers in lists and members that are there twice.
//!
//! Left out: encrypted tokens, and claims about what a user may do. Sources: RFC 7515 (signatures), RFC 7519 (claims),
//! RFC 8725 (best practices), RFC 9068 (the type `at+jwt`).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use coalloc_common::id::check_name;
use coalloc_common::{Span, Time, TrustDomain, UserName, Window, limits};
use serde_json::Value;

use super::error::{TokenError, TokenPart, quoted};
use super::json::{Members, instant};
use super::keys::{KeySet, PublicKey};

/// Types of tokens that prove who somebody is. Others, such as those of a logout (`logout+jwt`), do not.
const TYPES: [&str; 4] = ["JWT", "at+jwt", "application/jwt", "application/at+jwt"];

/// Audiences of a token that a message lists.
const AUDIENCES_LISTED: usize = 3;

/// A token that is taken apart, and not believed yet.
pub(super) struct SignedToken<'a> {
    header: Members,
    payload: Members,
    /// What the signature is of: header and payload as they arrived.
    message: &'a str,
    /// The signature as it arrived.
    signature: &'a str,
}

impl<'a> SignedToken<'a> {
    /// Takes a token apart.
    pub(super) fn parse(token: &'a str) -> Result<Self, TokenError> {
        let parts = || {
            let (message, signature) = token.rsplit_once('.')?;
            let (header, payload) = message.split_once('.')?;
            (!payload.contains('.')).then_some((message, header, payload, signature))
        };
        let (message, header, payload, signature) = parts().ok_or(TokenError::NotThreeParts)?;
        let header = object(TokenPart::Header, "header", header)?;
        let payload = object(TokenPart::Payload, "payload", payload)?;
        if header.get("crit").is_some() {
            return Err(TokenError::CriticalExtensions);
        }
        if let Some(typ) = optional_text(&header, TokenPart::Header, "typ")?
            && !TYPES.iter().any(|known| known.eq_ignore_ascii_case(typ))
        {
            return Err(TokenError::OtherType { typ: quoted(typ) });
        }
        Ok(Self { header, payload, message, signature })
    }

    /// The issuer that the token claims.
    pub(super) fn issuer(&self) -> Result<&str, TokenError> {
        text(&self.payload, TokenPart::Payload, "iss")
    }

    /// The claims, if the token is signed by the key of the set that it names, in the way that this key is for.
    pub(super) fn verified_by(self, keys: &KeySet) -> Result<Claims, TokenError> {
        let key = self.key(keys)?;
        let algorithm = text(&self.header, TokenPart::Header, "alg")?;
        if algorithm != key.algorithm_name {
            let algorithm = quoted(algorithm);
            return Err(TokenError::WrongAlgorithm { algorithm, wanted: key.algorithm_name });
        }
        let signature = decode("signature", self.signature)?;
        if !key.verifies(self.message.as_bytes(), &signature) {
            return Err(TokenError::WrongSignature);
        }
        Ok(Claims(self.payload))
    }

    fn key<'k>(&self, keys: &'k KeySet) -> Result<&'k PublicKey, TokenError> {
        match optional_text(&self.header, TokenPart::Header, "kid")? {
            Some(id) => keys.named(id).ok_or_else(|| TokenError::UnknownKey { key: quoted(id) }),
            None => keys.only().ok_or(TokenError::KeyNotNamed),
        }
    }
}

/// The payload of a token whose signature is verified.
pub(super) struct Claims(Members);

impl Claims {
    /// Checks that the token is of this issuer and for this audience.
    pub(super) fn check_parties(&self, issuer: &str, audience: &str) -> Result<(), TokenError> {
        let found = text(&self.0, TokenPart::Payload, "iss")?;
        if found != issuer {
            return Err(TokenError::UnknownIssuer { issuer: quoted(found) });
        }
        let found = self.audiences()?;
        if found.contains(&audience) {
            return Ok(());
        }
        let mut listed: Vec<String> =
            found.iter().take(AUDIENCES_LISTED).map(|text| quoted(text)).collect();
        match found.len() {
            0 => listed.push("nobody".to_owned()),
            count if count > AUDIENCES_LISTED => {
                listed.push(format!("{} more", count - AUDIENCES_LISTED));
            }
            _ => {}
        }
        Err(TokenError::WrongAudience { audience: listed.join(", "), wanted: quoted(audience) })
    }

    /// `aud`: one text or a list of texts.
    fn audiences(&self) -> Result<Vec<&str>, TokenError> {
        let (part, name) = (TokenPart::Payload, "aud");
        let wrong = || TokenError::WrongType { part, name, wanted: "a text or a list of texts" };
        match self.0.get(name) {
            None => Err(TokenError::Missing { part, name }),
            Some(Value::String(one)) => Ok(vec![one]),
            Some(Value::Array(several)) => {
                several.iter().map(|one| one.as_str().ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
        }
    }

    /// Checks that the token is valid now, and gives its times.
    pub(super) fn check_times(&self, now: Time) -> Result<TokenTimes, TokenError> {
        let part = TokenPart::Payload;
        let expires = self.time("exp")?.ok_or(TokenError::Missing { part, name: "exp" })?;
        let begins = self.time("nbf")?;
        let issued = self.time("iat")?;
        let leeway = limits::TOKEN_LEEWAY;
        if now >= expires.saturating_add(leeway) {
            return Err(TokenError::Expired { ago: rounded(now.since(expires)) });
        }
        let mut usable_from = Time::MIN;
        for (name, from) in [("nbf", begins), ("iat", issued)] {
            let Some(from) = from else { continue };
            if from > now.saturating_add(leeway) {
                return Err(TokenError::NotYet { name, ahead: rounded(from.since(now)) });
            }
            usable_from = usable_from.max(from.saturating_sub(leeway));
        }
        // Without `iat` the whole life of the token is not known, but the rest of it is. With `iat` the rest is no
        // longer than the whole and the leeway, because `iat` is past or within the leeway.
        let longest = limits::TOKEN_LIFETIME_MAX;
        let lifetime = expires.since(issued.unwrap_or(now));
        if lifetime > longest {
            return Err(TokenError::LivesTooLong { lifetime: rounded(lifetime) });
        }
        if issued.is_none() {
            usable_from = usable_from.max(expires.saturating_sub(longest));
        }
        Ok(TokenTimes { expires, usable: Window::new(usable_from, expires) })
    }

    fn time(&self, name: &'static str) -> Result<Option<Time>, TokenError> {
        let (part, wanted) = (TokenPart::Payload, "a number of seconds since 1970");
        let wrong = || TokenError::WrongType { part, name, wanted };
        self.0.get(name).map(|value| instant(value).ok_or_else(wrong)).transpose()
    }

    /// `sub`: the name that the issuer has for the user.
    pub(super) fn subject(&self) -> Result<&str, TokenError> {
        text(&self.0, TokenPart::Payload, "sub")
    }
}

/// The times of a token that is valid now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenTimes {
    /// When it ends.
    pub(super) expires: Time,
    /// All instants before its end at which its times allow it; none if it has ended and only the leeway is left.
    pub(super) usable: Option<Window>,
}

/// The user who is the subject of a token. A user of another domain is called `DOMAIN/SUBJECT`, so a subject must
/// have no slash: otherwise an issuer of the own domain could name the users of others.
pub(super) fn user_of(domain: Option<&TrustDomain>, subject: &str) -> Result<UserName, TokenError> {
    let prefix = domain.map(|domain| format!("{domain}/")).unwrap_or_default();
    let is_plain = !subject.contains('/') && check_name("sub", subject).is_ok();
    match UserName::parse("sub", &format!("{prefix}{subject}")) {
        Ok(user) if is_plain => Ok(user),
        _ => {
            let longest = limits::NAME_LEN_MAX.saturating_sub(prefix.len());
            let allowed = format!(
                "1 to {longest} characters of A-Z a-z 0-9 . _ - : beginning with a letter or digit"
            );
            Err(TokenError::NotAName { subject: quoted(subject), allowed })
        }
    }
}

/// Whether a user has the name that somebody of this domain may have here.
pub(super) fn is_user_of(domain: Option<&TrustDomain>, user: &UserName) -> bool {
    let subject = match domain {
        None => Some(user.as_str()),
        Some(domain) => {
            user.as_str().strip_prefix(domain.as_str()).and_then(|rest| rest.strip_prefix('/'))
        }
    };
    subject.is_some_and(|subject| user_of(domain, subject).is_ok_and(|own| own == *user))
}

/// A span for messages, in whole seconds up to an hour, then in minutes and from a day on in days. Parts of seconds and
/// of minutes count whole, so that what is too long never looks allowed.
fn rounded(span: Span) -> Span {
    let started = |unit: i64| span.as_us().saturating_add(unit - 1) / unit;
    match span.as_us() / 1_000_000 {
        ..3_600 => Span::from_secs(started(1_000_000)),
        3_600..86_400 => Span::from_secs(60 * started(60_000_000)),
        seconds => Span::from_secs(seconds / 86_400 * 86_400),
    }
}

/// The JSON object of a part.
fn object(part: TokenPart, name: &'static str, encoded: &str) -> Result<Members, TokenError> {
    let decoded = decode(name, encoded)?;
    let read = serde_json::from_slice::<Members>(&decoded);
    let members = read.map_err(|_| TokenError::NotAnObject { part })?;
    match members.repeated() {
        Some(name) => Err(TokenError::Repeated { part, name: quoted(name) }),
        None => Ok(members),
    }
}

fn decode(part: &'static str, encoded: &str) -> Result<Vec<u8>, TokenError> {
    URL_SAFE_NO_PAD.decode(encoded).map_err(|_| TokenError::NotBase64 { part })
}

fn optional_text<'m>(
    members: &'m Members,
    part: TokenPart,
    name: &'static str,
) -> Result<Option<&'m str>, TokenError> {
    let wrong = || TokenError::WrongType { part, name, wanted: "a text" };
    members.get(name).map(|value| value.as_str().ok_or_else(wrong)).transpose()
}

fn text<'m>(
    members: &'m Members,
    part: TokenPart,
    name: &'static str,
) -> Result<&'m str, TokenError> {
    optional_text(members, part, name)?.ok_or(TokenError::Missing { part, name })
}
