//! A request made of flags alone: `--site a=4 --site b=8,storage=2TB@N0 --link a-b=2G --for 1h`.
//!
//! Names are the request's own. What a flag sets is blamed on that flag, in its own words.
//!
//! Left out: what only few requests need (places that are excluded, windows of parts); a file says it.

use std::collections::BTreeSet;
use std::str::FromStr;

use clap::Args;
use coalloc_common::ResourceKind;
use coalloc_net::convert::span_to_wire;
use coalloc_net::written::{kind_and_amount, span};
use coalloc_proto::v1;

use crate::kit::exit::Failure;
use crate::kit::text;
use crate::kit::when::{Length, Rate};

/// The parts of a request, by flags.
#[derive(Debug, Clone, Default, Args)]
pub struct RequestFlags {
    /// A site: the request's name for it, its CPUs, storage (`a=4,storage=2TB`), and where it must be (`a=4@N0`);
    /// may be given several times
    #[arg(long, value_name = "NAME=CPUS", requires = "length")]
    pub site: Vec<SiteFlag>,
    /// A link between two of the sites: its rate (`a-b=2G`), and its largest latency (`a-b=2G,latency=5ms`); may be
    /// given several times
    #[arg(long, value_name = "FROM-TO=RATE", requires = "site")]
    pub link: Vec<LinkFlag>,
    /// How long the whole is: 1h, 1h30, 90min. With a file it replaces the file's duration
    #[arg(long = "for", value_name = "LENGTH", allow_hyphen_values = true)]
    pub length: Option<Length>,
    /// Reserve, but let nobody in at the equipment before `coalloc provision`
    #[arg(long)]
    pub manual_provision: bool,
    /// The series to which the reservation belongs: reservations that share this name are changed and released together
    #[arg(long, value_name = "NAME")]
    pub series: Option<String>,
}

/// `NAME=CPUS[,KIND=AMOUNT..][@PLACE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteFlag {
    /// The request's name for the site.
    pub name: String,
    /// CPUs wanted.
    pub cpus: u64,
    /// Further kinds, each with its amount in the unit of the kind.
    pub others: Vec<(ResourceKind, u64)>,
    /// The site of the federation at which it must be.
    pub place: Option<String>,
    /// The flag's value as it was written.
    pub written: String,
}

impl FromStr for SiteFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: NAME=CPUS, like a=4, a=4,storage=2TB or a=4@N0";
        let (name, rest) = text.split_once('=').ok_or(allowed)?;
        let (amounts, place) = match rest.split_once('@') {
            Some((_, "")) => return Err(format!("no site follows `@`; {allowed}")),
            Some((amounts, place)) if place.contains(',') => {
                let (place, rest) = place.split_once(',').unwrap_or_default();
                let text = format!("the place is last: write `{name}={amounts},{rest}@{place}`");
                return Err(format!("{text}; {allowed}"));
            }
            Some((amounts, place)) => (amounts, Some(place.to_owned())),
            None => (rest, None),
        };
        let mut amounts = amounts.split(',');
        let cpus = amounts.next().unwrap_or_default();
        let cpus = cpus.trim().parse();
        let cpus = cpus.map_err(|_| format!("CPUs are a whole number; {allowed}"))?;
        let others: Vec<_> = amounts.map(kind_and_amount).collect::<Result<_, _>>()?;
        let kinds: BTreeSet<_> = others.iter().map(|(kind, _)| kind.word()).collect();
        if kinds.len() < others.len() {
            return Err(format!("a kind is there twice; {allowed}"));
        }
        if name.is_empty() {
            return Err(format!("it has no name; {allowed}"));
        }
        Ok(Self { name: name.to_owned(), cpus, others, place, written: text.to_owned() })
    }
}

impl SiteFlag {
    /// Sets what this flag says in a requested site; everything else stays.
    pub fn apply(&self, site: &mut v1::SiteRequest) {
        site.name.clone_from(&self.name);
        site.cpus = self.cpus;
        for (kind, amount) in &self.others {
            let word = kind.word();
            match site.others.iter_mut().find(|one| one.kind == word) {
                Some(one) => one.amount = *amount,
                None => site.others.push(v1::KindAmount {
                    kind: word.to_owned(),
                    amount: *amount,
                    ..v1::KindAmount::default()
                }),
            }
        }
        if let Some(place) = &self.place {
            site.pinned_to = Some(place.clone());
        }
    }
}

/// `FROM-TO=RATE[,latency=LENGTH]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFlag {
    /// The two sites, as they were written; a name may have a `-`, too.
    pub ends: String,
    /// The rate.
    pub rate: Rate,
    /// The largest latency.
    pub latency: Option<coalloc_common::Span>,
    /// The flag's value as it was written.
    pub written: String,
}

impl FromStr for LinkFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: FROM-TO=RATE, like a-b=2G or a-b=400M,latency=5ms";
        let (ends, rest) = text.split_once('=').ok_or(allowed)?;
        let (rate, latency) = match rest.split_once(",latency=") {
            Some((rate, latency)) => (rate, Some(span(latency)?)),
            None => (rest, None),
        };
        if !ends.contains('-') {
            return Err(format!("`{ends}` is not two names with `-` between them; {allowed}"));
        }
        let rate = rate.parse()?;
        Ok(Self { ends: ends.to_owned(), rate, latency, written: text.to_owned() })
    }
}

impl LinkFlag {
    /// Sets what this flag says in a requested link; everything else stays.
    pub fn apply(&self, link: &mut v1::LinkRequest) {
        link.bandwidth_bps = self.rate.0;
        if let Some(latency) = self.latency {
            link.max_latency = Some(span_to_wire(latency));
        }
    }

    /// The two sites of the link.
    fn ends(&self, names: &[String]) -> Result<(String, String), Failure> {
        let known = |name: &str| names.iter().any(|one| one == name);
        let cuts = self.ends.match_indices('-');
        let pairs = cuts.map(|(at, _)| (&self.ends[..at], &self.ends[at + 1..]));
        let pairs: Vec<(&str, &str)> = pairs.filter(|(a, b)| known(a) && known(b)).collect();
        match pairs[..] {
            [(from, to)] => Ok((from.to_owned(), to.to_owned())),
            [] => {
                let (written, ends) = (&self.written, &self.ends);
                let allowed = match names {
                    [only] => format!("links between sites, and {only} is the only one"),
                    names => format!("two of {}", text::enumerate(names)),
                };
                Err(Failure::bad_input(format!(
                    "--link {written}: `{ends}` is not two sites of the request; allowed: {allowed}"
                )))
            }
            [(a, b), (c, d), ..] => Err(Failure::bad_input(format!(
                "--link {}: it may be from {a} to {b} or from {c} to {d}; allowed: names that leave \
                 one reading",
                self.written
            ))),
        }
    }
}

/// A request that flags made: the message, and which flag each of its fields comes from.
#[derive(Debug)]
pub struct FlagRequest {
    /// The message; times and user are unset.
    pub request: v1::CoAllocationRequest,
    /// Fields, each with its flag.
    pub flags: Vec<(String, String)>,
}

impl RequestFlags {
    /// The request that the flags make.
    ///
    /// # Errors
    /// When a link is between sites that are not there.
    pub fn request(&self) -> Result<FlagRequest, Failure> {
        let mut request = v1::CoAllocationRequest::default();
        let mut flags = Vec::new();
        for (index, flag) in self.site.iter().enumerate() {
            let mut site = v1::SiteRequest::default();
            flag.apply(&mut site);
            request.sites.push(site);
            flags.push((format!("sites[{index}]"), format!("--site {}", flag.written)));
        }
        let names: Vec<String> = self.site.iter().map(|site| site.name.clone()).collect();
        for (index, flag) in self.link.iter().enumerate() {
            let (from, to) = flag.ends(&names)?;
            let mut link = v1::LinkRequest { from, to, ..v1::LinkRequest::default() };
            flag.apply(&mut link);
            request.links.push(link);
            flags.push((format!("links[{index}]"), format!("--link {}", flag.written)));
        }
        flags.push(("sites".to_owned(), "--site".to_owned()));
        flags.push(("links".to_owned(), "--link".to_owned()));
        Ok(FlagRequest { request, flags })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_its_name_its_amounts_and_its_place() {
        let site = |text: &str| {
            let mut site = v1::SiteRequest::default();
            text.parse::<SiteFlag>().unwrap().apply(&mut site);
            let others: Vec<String> =
                site.others.iter().map(|one| format!("{} {}", one.amount, one.kind)).collect();
            (site.name, site.cpus, others.join(","), site.pinned_to.unwrap_or_default())
        };
        let is = |name: &str, cpus, others: &str, place: &str| {
            (name.to_owned(), cpus, others.to_owned(), place.to_owned())
        };
        assert_eq!(site("a=4"), is("a", 4, "", ""));
        assert_eq!(site("a=4@N0"), is("a", 4, "", "N0"));
        assert_eq!(site("b=8,storage=2TB@N0"), is("b", 8, "2000 storage", "N0"));
        assert_eq!(site("b=8,storage=1.5 GB"), is("b", 8, "2 storage", ""));
        let cases = [
            ("a", "allowed: NAME=CPUS"),
            ("a=4@N0,storage=2TB", "write `a=4,storage=2TB@N0`"),
            ("a=4,storage=1TB,storage=2TB", "a kind is there twice"),
            ("=4", "it has no name"),
            ("a=", "CPUs are a whole number"),
            ("a=x", "CPUs are a whole number"),
            ("a=-1", "CPUs are a whole number"),
            ("a=4@", "no site follows `@`"),
            ("a=4,2TB", "the kind is storage"),
            ("a=4,gpu=1", "`gpu`: allowed: a further kind of resource: storage"),
            ("a=4,storage=500", "write `500GB` or `500TB`"),
            ("a=4,storage=2T", "write `2TB` or `2TiB`"),
        ];
        for (text, part) in cases {
            let said = text.parse::<SiteFlag>().unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn a_link_is_between_two_sites_whatever_their_names() {
        let ends = |text: &str, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            text.parse::<LinkFlag>().unwrap().ends(&names).map_err(|failure| failure.message)
        };
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(ends("a-b=2G", &["a", "b"]), pair("a", "b"));
        assert_eq!(ends("my-site-b=2G", &["my-site", "b"]), pair("my-site", "b"));
        let said = ends("a-c=2G", &["a", "b"]).unwrap_err();
        assert_eq!(
            said,
            "--link a-c=2G: `a-c` is not two sites of the request; allowed: two of a and b"
        );
        let said = ends("a-b-c=2G", &["a", "b-c", "a-b", "c"]).unwrap_err();
        assert!(said.contains("from a to b-c or from a-b to c"), "{said}");
        let link: LinkFlag = "a-b=400 Mbit/s,latency=5ms".parse().unwrap();
        let latency = Some(coalloc_common::Span::from_millis(5));
        assert_eq!((link.rate, link.latency), (Rate(400_000_000), latency));
        let cases = [
            ("a-b", "allowed: FROM-TO=RATE"),
            ("ab=2G", "is not two names"),
            ("a-b=2", "write `2M` for Mbit/s or `2G`"),
            ("a-b=2G,5ms", "is no unit"),
            ("a-b=2G,latency=5", "write `5min` or `5s`"),
        ];
        for (text, part) in cases {
            let said = text.parse::<LinkFlag>().unwrap_err();
            assert!(said.contains(part), "{text}: {said}");
        }
    }
}
