//! The words of the command line that end up in manifests: what Kubernetes allows for each of them. None of them needs
//! quotes in YAML, or can end a line.

use std::fmt;
use std::str::FromStr;

/// Longest label of a host name.
const LABEL_LEN_MAX: usize = 63;
/// Longest name of an image.
const IMAGE_LEN_MAX: usize = 255;

/// The name of a namespace: 1 to 63 characters `a-z 0-9 -`, the first a letter, and the last no `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Namespace(String);

/// The name of an image, with or without registry, tag and digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImageName(String);

/// The size of a volume as Kubernetes writes it: `1Gi`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VolumeSize(String);

impl FromStr for Namespace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_label = text.len() <= LABEL_LEN_MAX
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && !text.ends_with('-')
            && text.chars().all(plain);
        if is_label {
            return Ok(Self(text.to_owned()));
        }
        Err("allowed: up to 63 characters a-z 0-9 - that begin with a letter and do not end in -"
            .to_owned())
    }
}

impl FromStr for ImageName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        let is_name = text.len() <= IMAGE_LEN_MAX
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(plain)
            // Kubernetes would read a number, or a list of pairs.
            && text.contains(|c: char| c.is_ascii_alphabetic());
        if is_name {
            return Ok(Self(text.to_owned()));
        }
        Err("allowed: the name of an image like registry.example/coalloc:0.1.0".to_owned())
    }
}

impl FromStr for VolumeSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = ["Mi", "Gi", "Ti", "M", "G", "T"];
        let number = units.iter().find_map(|unit| text.strip_suffix(unit));
        // A leading + or 0 is a number for Rust, too.
        let is_number = |text: &str| text.starts_with(|c: char| ('1'..='9').contains(&c));
        if number.is_some_and(|text| is_number(text) && text.parse::<u32>().is_ok()) {
            return Ok(Self(text.to_owned()));
        }
        Err("allowed: a whole number from 1 on and a unit, M, G, T, Mi, Gi or Ti: 10Gi".to_owned())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for VolumeSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_what_kubernetes_or_yaml_would_not_read_is_refused() {
        let namespace = |text: &str| text.parse::<Namespace>().is_ok();
        for text in ["coalloc", "a", "grid-2", &"n".repeat(63)] {
            assert!(namespace(text), "{text}");
        }
        for text in ["", "Coalloc", "2grid", "a-", "-a", "a.b", "a\nb: c", &"n".repeat(64)] {
            assert!(!namespace(text), "{text}");
        }
        let image = |text: &str| text.parse::<ImageName>().is_ok();
        for text in ["coalloc:local", "a.example:5000/b/coalloc@sha256:00ff", "coalloc"] {
            assert!(image(text), "{text}");
        }
        for text in ["", ":x", "a b", "a: b", "a #b", "a\n", "17", "1:2", "&a", "coalloc:"] {
            assert!(!image(text), "{text:?}");
        }
        let size = |text: &str| text.parse::<VolumeSize>().is_ok();
        for text in ["1Gi", "500M", "20Ti"] {
            assert!(size(text), "{text}");
        }
        for text in ["", "1", "Gi", "0Gi", "01Gi", "+1Gi", "1.5Gi", "1Ki", "1 Gi", "1Gi\n", "-1Gi"]
        {
            assert!(!size(text), "{text:?}");
        }
    }
}
