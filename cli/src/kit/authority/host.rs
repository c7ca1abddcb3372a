//! Host names in the certificates of daemons, for clients that compare host names. Coalloc's own clients compare the
//! identity and nothing else.

use std::fmt;
use std::net::IpAddr;

use coalloc_common::{InvalidField, limits};

/// A host name or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostName {
    /// A DNS name.
    Dns(String),
    /// An IP address.
    Ip(IpAddr),
}

impl HostName {
    /// Reads a host name; `field` is the field that contained it.
    ///
    /// # Errors
    /// [`InvalidField`] when the text is neither an IP address nor spelled like a DNS name.
    pub fn parse(field: &str, text: &str) -> Result<Self, InvalidField> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Ip(address));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_label = |label: &str| (1..=63).contains(&label.len()) && label.chars().all(plain);
        if text.len() <= limits::HOST_NAME_LEN_MAX && text.split('.').all(is_label) {
            return Ok(Self::Dns(text.to_owned()));
        }
        let longest = limits::HOST_NAME_LEN_MAX;
        let allowed = format!(
            "an IP address, or a DNS name of up to {longest} characters a-z 0-9 - _ and dots"
        );
        Err(InvalidField::new(field, InvalidField::quoted(text), allowed))
    }

    /// Reads several host names.
    ///
    /// # Errors
    /// [`InvalidField`] for the first that is wrong, or when there are more than [`limits::HOSTS_MAX`].
    pub fn parse_all(field: &str, texts: &[String]) -> Result<Vec<Self>, InvalidField> {
        if texts.len() > limits::HOSTS_MAX {
            let allowed = format!("at most {} host names", limits::HOSTS_MAX);
            return Err(InvalidField::new(field, texts.len(), allowed));
        }
        texts.iter().map(|text| Self::parse(field, text)).collect()
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dns(name) => f.write_str(name),
            Self::Ip(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_and_addresses_are_read_and_nothing_else_is() {
        for text in ["localhost", "grc.grid.example", "127.0.0.1", "::1", "crm-N0", "gate_1"] {
            assert_eq!(HostName::parse("--host", text).unwrap().to_string(), text);
        }
        for text in ["", "a..b", "*.example", "a b", "a/b", "x\n", "\u{f6}", &"a.".repeat(200)] {
            let error = HostName::parse("--host", text).unwrap_err().to_string();
            assert!(error.starts_with("--host"), "{error}");
        }
        assert!(HostName::parse_all("--host", &vec!["a".to_owned(); 17]).is_err());
    }
}
