//! Why a token is refused, in words that tell its bearer what to do.
//!
//! No text repeats the token, its signature or a digest. What a token says of itself (issuer, audience, key, subject)
//! is shown escaped and cut, because whoever wrote the token may be a stranger who wants to write into a log.

use coalloc_common::{InvalidField, Span, limits};
use thiserror::Error;

/// What to do with a token that no login service would issue.
const MANGLED: &str = "give the token exactly as the login service issued it";

/// Longest text out of a token or a file of keys that a message repeats, in characters.
const QUOTED_MAX: usize = 60;

/// A text from outside in quotes, escaped, and cut when it is long.
pub(super) fn quoted(text: &str) -> String {
    let mut cut: String = text.chars().take(QUOTED_MAX).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    InvalidField::quoted(&cut)
}

/// A part of a token that is JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenPart {
    /// The first part, which says how the token is signed.
    Header,
    /// The second part, which says who the bearer is.
    Payload,
}

impl std::fmt::Display for TokenPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Header => "header",
            Self::Payload => "payload",
        })
    }
}

/// Why a token does not prove who its bearer is. Texts out of the token are kept as they are shown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenError {
    /// The token is too long to be read.
    #[error(
        "the token has {bytes} bytes, and at most {} are read: ask the login service for a token with fewer claims",
        limits::TOKEN_BYTES_MAX
    )]
    TooLong {
        /// The length of the token.
        bytes: usize,
    },
    /// The token is not three parts with dots between them.
    #[error("the token is not HEADER.PAYLOAD.SIGNATURE: {MANGLED}")]
    NotThreeParts,
    /// A part of the token is not base64url without padding.
    #[error("the {part} of the token is not base64url without padding: {MANGLED}")]
    NotBase64 {
        /// "header", "payload" or "signature".
        part: &'static str,
    },
    /// The header or the payload is not a JSON object.
    #[error("the {part} of the token is not a JSON object: {MANGLED}")]
    NotAnObject {
        /// Which of the two.
        part: TokenPart,
    },
    /// A member of the header or of the payload is there twice.
    #[error("the {part} of the token has {name} twice: {MANGLED}")]
    Repeated {
        /// Which of the two.
        part: TokenPart,
        /// The member.
        name: String,
    },
    /// Something that every token needs is missing.
    #[error(
        "the {part} of the token has no `{name}`: the login service has to be set up to write it into its tokens"
    )]
    Missing {
        /// Header or payload.
        part: TokenPart,
        /// The member that is missing.
        name: &'static str,
    },
    /// A member of the header or of the payload has the wrong type.
    #[error(
        "`{name}` in the {part} of the token is not {wanted}: the login service has to write it as RFC 7519 says"
    )]
    WrongType {
        /// Header or payload.
        part: TokenPart,
        /// The member.
        name: &'static str,
        /// What it has to be.
        wanted: &'static str,
    },
    /// The header lists extensions that a verifier has to understand. None are.
    #[error(
        "the token asks for extensions (`crit`) that are not supported: ask the login service for a plain token"
    )]
    CriticalExtensions,
    /// The header says that the token is for something other than access.
    #[error(
        "the token is of type {typ}, and only JWT and at+jwt prove who somebody is: ask for an access token"
    )]
    OtherType {
        /// The type, as it is shown.
        typ: String,
    },
    /// Nobody of this name issues tokens for this coordinator.
    #[error(
        "the token is from {issuer}, and this coordinator does not believe that issuer: log in at one that it believes"
    )]
    UnknownIssuer {
        /// The issuer, as it is shown.
        issuer: String,
    },
    /// The issuer has no key of this name.
    #[error(
        "the token is signed by the key {key}, which its issuer does not have here: log in again; if that does not \
         help, the operator has to update the issuer's keys"
    )]
    UnknownKey {
        /// The name of the key, as it is shown.
        key: String,
    },
    /// The token does not say by which of several keys it is signed.
    #[error(
        "the token does not name its key (`kid`), and its issuer has several: the login service has to name it"
    )]
    KeyNotNamed,
    /// The token is not signed in the way that its key is for.
    #[error(
        "the token is signed by {algorithm}, and its key is for {wanted} only: log in again to get another token"
    )]
    WrongAlgorithm {
        /// What the token says, as it is shown.
        algorithm: String,
        /// The algorithm of the key.
        wanted: &'static str,
    },
    /// The signature is not of that key, or the token was changed after it was signed.
    #[error("the signature of the token is wrong: log in again, and {MANGLED}")]
    WrongSignature,
    /// The token is for somebody else.
    #[error(
        "the token is for {audience}, and not for this coordinator: ask the login service for one for {wanted}"
    )]
    WrongAudience {
        /// The audience of the token, as it is shown.
        audience: String,
        /// The audience that this coordinator is, as it is shown.
        wanted: String,
    },
    /// The token has ended.
    #[error("the token ended {ago} ago: log in again")]
    Expired {
        /// Time since it ended.
        ago: Span,
    },
    /// The token is not valid yet.
    #[error(
        "the token is valid only in {ahead} (`{name}`): wait, or have the clocks of login service and coordinator set"
    )]
    NotYet {
        /// The claim that says so: `nbf` or `iat`.
        name: &'static str,
        /// Time until then.
        ahead: Span,
    },
    /// The token lives longer than any token may.
    #[error(
        "the token lives for {lifetime}, and at most {} are allowed: the login service has to issue shorter ones",
        limits::TOKEN_LIFETIME_MAX
    )]
    LivesTooLong {
        /// Time from when the token was issued (or, if it does not say when, from now) to its end.
        lifetime: Span,
    },
    /// The subject of the token cannot be the name of a user.
    #[error("the token's subject {subject} cannot be a user's name here; allowed: {allowed}")]
    NotAName {
        /// The subject, as it is shown.
        subject: String,
        /// What a name may be.
        allowed: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_strangers_are_escaped_whether_cut_or_not() {
        assert_eq!(quoted("a\"b\n\u{200f}\u{1b}"), r#""a\"b\n\u{200f}\u{1b}""#);
        let long = "\u{202e}".repeat(1_000);
        let written = quoted(&long);
        assert_eq!(written, format!("\"{}…\"", r"\u{202e}".repeat(QUOTED_MAX)));
        assert_eq!(quoted(&"x".repeat(QUOTED_MAX)), format!("\"{}\"", "x".repeat(QUOTED_MAX)));
    }
}
