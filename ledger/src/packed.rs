//! The bytes of a record in the ledger: Packed CBOR.
//!
//! CBOR (RFC 8949) has the same shapes as JSON, so the types of the records need no second description, and a field
//! may be added later as before. Two things make it small:
//!
//! * **Words.** The names of fields and of variants stand in a table ([`words`]), and the record has their numbers. How a
//!   number is written is that of Packed CBOR (draft-ietf-cbor-packed): the simple values 0 to 15 for the first
//!   sixteen words, and tag 6 with an integer for the others. A word that is not in the table stays text, so a record
//!   can always be written.
//! * **Digits.** A text of at least [`DIGITS_MIN`] hexadecimal digits (lower case, an even number) is a byte string of half
//!   the length. No record has byte strings of its own, because it could not be JSON then.
//!
//! Left out: who caused the record, and in which form it is stored; see [`crate::body`].

mod words;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use minicbor::data::{Tag, Token};
use minicbor::decode::Tokenizer;
use minicbor::{Encoder, decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::words::WORDS;

/// The shortest text of digits that is written as bytes. Shorter ones would gain nothing, and they are seldom digests.
const DIGITS_MIN: usize = 16;
/// How deep arrays and maps may be nested, as in `serde_json`. No record comes near.
const DEPTH_MAX: usize = 128;
/// Words that are one byte each: Packed CBOR has so many simple values for them.
const SHORT_WORDS: u64 = 16;
/// The tag of all other words.
const WORD_TAG: u64 = 6;

/// The number of each word.
static NUMBERS: LazyLock<BTreeMap<&'static str, u64>> =
    LazyLock::new(|| WORDS.iter().copied().zip(0..).collect());

/// Why a record cannot be written as Packed CBOR, or cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum PackedError {
    /// A value that CBOR or its bridge to serde cannot write.
    #[error("{0}")]
    Unencodable(String),
    /// The bytes are not the CBOR of such a record.
    #[error("{0}")]
    Undecodable(#[from] decode::Error),
    /// The record's type does not fit what was read.
    #[error("{0}")]
    Unfit(#[from] minicbor_serde::error::DecodeError),
    /// A number for which this release has no word.
    #[error("word {0} is not known to this release")]
    UnknownWord(u64),
    /// CBOR that no release writes.
    #[error("{0} has no place in a record")]
    Misplaced(&'static str),
}

/// The packed form of a record.
///
/// # Errors
/// [`PackedError`] when the value has byte strings, or cannot be written by serde.
pub fn pack<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, PackedError> {
    let unencodable = |error: &dyn std::fmt::Display| PackedError::Unencodable(error.to_string());
    let mut writer = minicbor_serde::Serializer::new(Vec::new());
    // By itself it writes an empty array, which JSON could not tell from a list.
    writer.serialize_unit_as_null(true);
    value.serialize(&mut writer).map_err(|error| unencodable(&error))?;
    let plain = writer.into_encoder().into_writer();
    let mut out = Encoder::new(Vec::with_capacity(plain.len()));
    for token in Tokenizer::new(&plain) {
        let written = match token? {
            Token::String(text) => put_text(&mut out, text),
            Token::Bytes(_) | Token::BeginBytes => return Err(PackedError::Misplaced("bytes")),
            Token::Tag(_) | Token::Simple(_) => return Err(PackedError::Misplaced("a tag")),
            token => out.tokens([&token]),
        };
        written.map_err(|error| unencodable(&error))?;
    }
    Ok(out.into_writer())
}

/// Reads a record from its packed form.
///
/// # Errors
/// [`PackedError`] when the bytes are not the packed form of such a record.
pub fn unpack<T: DeserializeOwned>(packed: &[u8]) -> Result<T, PackedError> {
    Ok(minicbor_serde::from_slice(&plain(packed)?)?)
}

/// The JSON of a packed record.
///
/// # Errors
/// [`PackedError`] when the bytes are not a packed record.
pub(crate) fn to_json(packed: &[u8]) -> Result<String, PackedError> {
    let plain = plain(packed)?;
    let mut json = Vec::with_capacity(plain.len() * 2);
    let mut reader = minicbor_serde::Deserializer::new(&plain);
    let mut writer = serde_json::Serializer::new(&mut json);
    let written = serde_transcode::transcode(&mut reader, &mut writer);
    let unencodable = |error: &dyn std::fmt::Display| PackedError::Unencodable(error.to_string());
    written.map_err(|error| unencodable(&error))?;
    String::from_utf8(json).map_err(|error| unencodable(&error))
}

type Written = Result<(), encode::Error<std::convert::Infallible>>;

/// Writes a text: the number of a word, the bytes of digits, or itself.
fn put_text(out: &mut Encoder<Vec<u8>>, text: &str) -> Written {
    if let Some(&number) = NUMBERS.get(text) {
        return put_word(out, number);
    }
    match from_digits(text) {
        Some(bytes) => out.bytes(&bytes).map(drop),
        None => out.str(text).map(drop),
    }
}

/// Writes the number of a word: as simple value, or with tag 6, where `n >= 0` stands for 16 + 2n and `n < 0` for
/// 16 - 2n - 1.
fn put_word(out: &mut Encoder<Vec<u8>>, number: u64) -> Written {
    let Some(beyond) = number.checked_sub(SHORT_WORDS) else {
        // Below 16, so it fits a byte.
        return out.simple(number as u8).map(drop);
    };
    let half = i64::try_from(beyond / 2).unwrap_or(i64::MAX);
    out.tag(Tag::new(WORD_TAG))?.i64(if beyond % 2 == 0 { half } else { -half - 1 }).map(drop)
}

/// The word that a number stands for.
fn word(number: u64) -> Result<&'static str, PackedError> {
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    WORDS.get(index).copied().ok_or(PackedError::UnknownWord(number))
}

/// The number of the word whose tag holds this integer.
fn number_of(integer: &Token<'_>) -> Option<u64> {
    let integer = match *integer {
        Token::U8(n) => i64::from(n),
        Token::U16(n) => i64::from(n),
        Token::U32(n) => i64::from(n),
        Token::I8(n) => i64::from(n),
        Token::I16(n) => i64::from(n),
        Token::I32(n) => i64::from(n),
        _ => return None,
    };
    let beyond = if integer < 0 { -2 * integer - 1 } else { 2 * integer };
    Some(SHORT_WORDS + beyond.unsigned_abs())
}

/// Writes all words and digits out: plain CBOR, as serde reads it. Checks that it is one whole value.
fn plain(packed: &[u8]) -> Result<Vec<u8>, PackedError> {
    let mut out = Encoder::new(Vec::with_capacity(packed.len() * 3));
    // How many values are still to come, in each array and map that is open.
    let mut open = vec![1_u64];
    let mut tokens = Tokenizer::new(packed);
    while let Some(token) = tokens.next() {
        let token = token?;
        let Some(left) = open.last_mut() else {
            return Err(PackedError::Misplaced("a second value"));
        };
        *left -= 1;
        let (inside, written) = match token {
            Token::Simple(number) => (0, out.str(word(number.into())?).map(drop)),
            Token::Tag(tag) if tag.as_u64() == WORD_TAG => {
                let integer = tokens.next().transpose()?.as_ref().and_then(number_of);
                let number = integer.ok_or(PackedError::Misplaced("a word without its number"))?;
                (0, out.str(word(number)?).map(drop))
            }
            Token::Bytes(bytes) => (0, out.str(&crate::tip::hex(bytes)).map(drop)),
            Token::Array(length) => (length, out.array(length).map(drop)),
            Token::Map(length) => (length.saturating_mul(2), out.map(length).map(drop)),
            Token::Tag(_) | Token::Break | Token::Undefined => {
                return Err(PackedError::Misplaced("a tag or a break"));
            }
            Token::BeginBytes | Token::BeginString | Token::BeginArray | Token::BeginMap => {
                return Err(PackedError::Misplaced("a value without length"));
            }
            token => (0, out.tokens([&token])),
        };
        written.map_err(|error| PackedError::Unencodable(error.to_string()))?;
        if inside > 0 {
            open.push(inside);
        }
        while open.last() == Some(&0) {
            open.pop();
        }
        if open.len() > DEPTH_MAX {
            return Err(PackedError::Misplaced("a value that is nested so deep"));
        }
    }
    match open.is_empty() {
        true => Ok(out.into_writer()),
        false => Err(PackedError::Misplaced("an end")),
    }
}

/// The bytes of a text of hexadecimal digits, if the text is what [`crate::tip::hex`] makes of them.
fn from_digits(text: &str) -> Option<Vec<u8>> {
    if text.len() < DIGITS_MIN || text.len() % 2 == 1 {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    text.as_bytes().chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests;
