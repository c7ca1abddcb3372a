//! The words of the command line of `coalloc init`.
//!
//! Left out: whether they fit together ([`super::federation`]).

use std::str::FromStr;

use coalloc_common::limits;
use coalloc_proto::notation;

/// The name of a site, an exchange point or a domain: it is also part of names of files and identities.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SiteName(pub(super) String);

/// A site: `[DOMAIN:]NAME=CPUS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SiteFlag {
    pub(super) domain: Option<SiteName>,
    pub(super) name: SiteName,
    pub(super) cpus: u64,
}

/// A link: `[DOMAIN:]A-B=RATE`. Which `-` stands between the ends is known once the sites are: names may have one, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkFlag {
    pub(super) domain: Option<SiteName>,
    pub(super) ends: String,
    pub(super) bps: u64,
}

/// Where the daemons of a domain run: `DOMAIN=ADDR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostFlag {
    pub(super) domain: SiteName,
    pub(super) address: String,
}

/// The longest name: a name is also part of the names of daemons, and a label of a host name is not longer.
const NAME_MAX: usize = 50;

impl FromStr for SiteName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_name = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.chars().all(rest)
            && text.len() <= NAME_MAX;
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => Err(format!(
                "{text:?} is not a name; allowed: a letter or digit, then up to {} of A-Z a-z 0-9 . _ -",
                NAME_MAX - 1
            )),
        }
    }
}

/// Reads `DOMAIN:` before the rest, if it is there.
fn domain_of(text: &str) -> Result<(Option<SiteName>, &str), String> {
    match text.split_once(':') {
        Some((domain, rest)) => Ok((Some(domain.parse()?), rest)),
        None => Ok((None, text)),
    }
}

impl FromStr for SiteFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: NAME=CPUS or DOMAIN:NAME=CPUS, like tokyo=16 or japan:tokyo=16";
        let (domain, rest) = domain_of(text)?;
        let (name, cpus) = rest.split_once('=').ok_or(allowed)?;
        let range = format!("allowed: 1 to {} CPUs, like {name}=16", limits::CPUS_MAX);
        let cpus: u64 = cpus.parse().map_err(|_| range.clone())?;
        if !(1..=limits::CPUS_MAX).contains(&cpus) {
            return Err(range);
        }
        Ok(Self { domain, name: name.parse()?, cpus })
    }
}

impl FromStr for LinkFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed =
            "allowed: A-B=RATE or DOMAIN:A-B=RATE, like tokyo-osaka=10G or wan:tokyo-osaka=10G";
        let (domain, rest) = domain_of(text)?;
        let (ends, bps) = rest.split_once('=').ok_or(allowed)?;
        if !ends.contains('-') {
            return Err(allowed.to_owned());
        }
        Ok(Self { domain, ends: ends.to_owned(), bps: rate(bps)? })
    }
}

impl FromStr for HostFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: DOMAIN=ADDR, like east=10.0.1.5 or grid=grc.example.org";
        let (domain, address) = text.split_once('=').ok_or(allowed)?;
        Ok(Self { domain: domain.parse()?, address: address.to_owned() })
    }
}

/// The capacity of a path, in bit/s.
fn rate(text: &str) -> Result<u64, String> {
    let bps = notation::amount::rate(text)?;
    if !(1..=RATE_MAX).contains(&bps) {
        return Err(format!("{text:?} is not allowed; allowed: 1bit/s to 1000T, like 10G"));
    }
    Ok(bps)
}

/// The greatest capacity of a path.
const RATE_MAX: u64 = 1_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_what_they_mean() {
        let name = |text: &str| SiteName(text.to_owned());
        let site = SiteFlag { domain: Some(name("east")), name: name("a-b"), cpus: 16 };
        assert_eq!("east:a-b=16".parse(), Ok(site));
        let link = LinkFlag { domain: None, ends: "a-b".into(), bps: 400_000_000 };
        assert_eq!("a-b=400M".parse(), Ok(link));
        let host = HostFlag { domain: name("grid"), address: "::1".into() };
        assert_eq!("grid=::1".parse(), Ok(host));
    }

    #[test]
    fn what_is_wrong_is_answered_with_what_to_type() {
        let sites = ["tokyo", "tokyo=", "tokyo=0", "tokyo=many", "tokyo=10000001", "=4", "a/b=4"];
        for text in sites.into_iter().chain([":a=4", "a:=4", "-a=4", "a:b:c=4", "a b=4"]) {
            let error = text.parse::<SiteFlag>().unwrap_err();
            assert!(error.contains("allowed: "), "{text}: {error}");
        }
        let links = ["a-b", "ab=10G", "a-b=10", "a-b=G", "a-b=0G", "a-b=1001T", "a-b="];
        for text in links.into_iter().chain(["a-b=10GB", "a-b=99999999999999999999G", "a-b=-1G"]) {
            let error = text.parse::<LinkFlag>().unwrap_err();
            assert!(error.contains("allowed: ") && error.contains("10G"), "{text}: {error}");
        }
        for text in ["east", "=1.2.3.4", "e/w=h"] {
            let error = text.parse::<HostFlag>().unwrap_err();
            assert!(error.contains("allowed: "), "{text}: {error}");
        }
    }
}
