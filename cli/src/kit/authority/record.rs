//! What an authority remembers of the certificates that it has issued: the file `issued.json`.
//!
//! It contains nothing secret. Whoever loses it can still revoke a certificate that is at hand.

use std::path::Path;

use coalloc_common::{Identity, Time, TrustDomain, limits};
use serde::{Deserialize, Serialize};

use super::error::AuthorityError;

/// One certificate that was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedRecord {
    /// Its serial number: hexadecimal digits in lower case.
    pub serial: String,
    /// Whom it is for.
    pub identity: Identity,
    /// From when on it is valid.
    pub not_before: Time,
    /// Until when it is valid.
    pub not_after: Time,
    /// When it was revoked, if it was.
    pub revoked: Option<Time>,
}

/// `issued.json` as it is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordFile {
    domain: String,
    issued: Vec<RecordLine>,
}

/// One certificate in `issued.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordLine {
    serial: String,
    identity: String,
    not_before: String,
    not_after: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
}

/// The text of `issued.json`.
pub(super) fn write(domain: &TrustDomain, records: &[IssuedRecord]) -> String {
    let line = |record: &IssuedRecord| RecordLine {
        serial: record.serial.clone(),
        identity: record.identity.to_string(),
        not_before: record.not_before.to_string(),
        not_after: record.not_after.to_string(),
        revoked: record.revoked.map(|time| time.to_string()),
    };
    let file =
        RecordFile { domain: domain.to_string(), issued: records.iter().map(line).collect() };
    // Texts alone are always expressible.
    serde_json::to_string_pretty(&file).unwrap_or_default() + "\n"
}

/// Reads `issued.json`.
pub(super) fn read(
    path: &Path,
    text: &str,
) -> Result<(TrustDomain, Vec<IssuedRecord>), AuthorityError> {
    let bad = |problem: String| AuthorityError::content(path, problem);
    let file: RecordFile = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
    let domain =
        TrustDomain::parse("domain", &file.domain).map_err(|error| bad(error.to_string()))?;
    if file.issued.len() > limits::AUTHORITY_RECORDS_MAX {
        let (length, most) = (file.issued.len(), limits::AUTHORITY_RECORDS_MAX);
        return Err(bad(format!(
            "issued: {length} certificates is not allowed; allowed: up to {most}"
        )));
    }
    let records = file.issued.iter().enumerate();
    let records: Result<Vec<IssuedRecord>, AuthorityError> = records
        .map(|(index, line)| line.read().map_err(|error| bad(format!("issued[{index}].{error}"))))
        .collect();
    Ok((domain, records?))
}

impl RecordLine {
    fn read(&self) -> Result<IssuedRecord, String> {
        let serial = parse_serial("serial", &self.serial).map_err(|error| error.to_string())?;
        let identity =
            Identity::parse("identity", &self.identity).map_err(|error| error.to_string())?;
        let revoked = self.revoked.as_deref().map(|text| instant("revoked", text)).transpose()?;
        Ok(IssuedRecord {
            serial,
            identity,
            not_before: instant("not_before", &self.not_before)?,
            not_after: instant("not_after", &self.not_after)?,
            revoked,
        })
    }
}

fn instant(field: &str, text: &str) -> Result<Time, String> {
    let time: jiff::Timestamp = text.parse().map_err(|_| {
        format!("{field}: {text:?} is not allowed; allowed: an instant like 2026-11-21T10:00:00Z")
    })?;
    Ok(Time::from_us(time.as_microsecond()))
}

/// Reads a serial number: hexadecimal digits, with or without colons between them, as other programs print them.
///
/// # Errors
/// [`InvalidField`](coalloc_common::InvalidField) when the text is no serial number of a certificate.
pub fn parse_serial(field: &str, text: &str) -> Result<String, coalloc_common::InvalidField> {
    let digits: String = text.chars().filter(|c| *c != ':').collect::<String>().to_lowercase();
    let digits = digits.trim_start_matches('0');
    // RFC 5280: at most 20 bytes.
    if (1..=40).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(digits.to_owned());
    }
    Err(coalloc_common::InvalidField::new(
        field,
        coalloc_common::InvalidField::quoted(text),
        "1 to 40 hexadecimal digits, with or without colons between them",
    ))
}

/// The text for a serial number, as [`parse_serial`] has it.
pub(super) fn serial_text(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    }
}

/// The bytes of a serial number.
pub(super) fn serial_bytes(serial: &str) -> Vec<u8> {
    let digits =
        if serial.len().is_multiple_of(2) { serial.to_owned() } else { format!("0{serial}") };
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.filter_map(byte).collect()
}
