//! What the kernel has, as the programs `ip`, `tc` and `nft` print it. Pure parsing.
//!
//! `tc` prints rates rounded down to at least three digits, in JSON as well, and its classes of HTB as plain text even
//! if it is asked for JSON. So [`is_same_rate`] compares with a tolerance.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

/// The number of a class, MAJOR:MINOR, both hexadecimal. A qdisc has the minor 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClassId {
    /// The number of the qdisc.
    pub(super) major: u16,
    /// The number of the class within it.
    pub(super) minor: u16,
}

impl ClassId {
    /// Reads `1:1a`, or `1:` for a qdisc.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        let minor = if minor.is_empty() { "0" } else { minor };
        let hexadecimal = |digits| u16::from_str_radix(digits, 16).ok();
        Some(Self { major: hexadecimal(major)?, minor: hexadecimal(minor)? })
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:x}:{:x}", self.major, self.minor)
    }
}

/// A family of nftables: packets that are routed, or packets that a bridge forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    /// What this machine routes or sends.
    Inet,
    /// What leaves through a port of a bridge.
    Bridge,
}

impl Family {
    /// Both.
    pub(super) const ALL: [Self; 2] = [Self::Inet, Self::Bridge];

    /// The word for it in nft.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Bridge => "bridge",
        }
    }
}

/// An interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    /// Has somebody set it up?
    pub(super) is_up: bool,
    /// The family whose rules the packets pass that leave through it.
    pub(super) family: Family,
}

/// A qdisc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Qdisc {
    /// Its kind: `htb`, `bfifo`.
    pub(super) kind: String,
    /// Its number; 0 for those that the kernel has put there by itself.
    pub(super) major: u16,
    /// The most bytes that may wait in it, where it says so.
    pub(super) limit: Option<u64>,
}

/// The rates of a class of HTB in bit/s, as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClassRates {
    /// The rate that is certain.
    pub(super) rate: u64,
    /// The rate that it may borrow up to.
    pub(super) ceil: u64,
}

impl ClassRates {
    /// Are these, within the rounding of `tc`, the rates of a class with this rate that borrows nothing?
    pub(super) fn are(self, bps: u64) -> bool {
        is_same_rate(self.rate, bps) && is_same_rate(self.ceil, bps)
    }
}

/// What names packets in a map of nft: the interface through which they leave, their source and their destination.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ElementKey {
    /// The interface.
    pub(super) interface: String,
    /// The source.
    pub(super) from: IpAddr,
    /// The destination.
    pub(super) to: IpAddr,
}

/// A table of nft with the driver's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// Does it have both maps, and the chain with exactly one rule for each?
    pub(super) is_complete: bool,
    /// The elements of both maps.
    pub(super) elements: BTreeMap<ElementKey, ClassId>,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct KernelState {
    /// The interfaces.
    pub(super) links: BTreeMap<String, Link>,
    /// The root qdisc of each interface.
    pub(super) roots: BTreeMap<String, Qdisc>,
    /// The qdiscs of classes.
    pub(super) leaves: BTreeMap<(String, ClassId), Qdisc>,
    /// The classes of the interfaces whose root is the driver's, by their minor.
    pub(super) classes: BTreeMap<String, BTreeMap<u16, ClassRates>>,
    /// The tables with the driver's name.
    pub(super) tables: BTreeMap<Family, Table>,
}

impl KernelState {
    /// Reads what `tc -j qdisc show` prints.
    pub(super) fn read_qdiscs(&mut self, text: &str) -> Result<(), serde_json::Error> {
        #[derive(Deserialize)]
        struct Printed {
            kind: String,
            handle: String,
            dev: String,
            #[serde(default)]
            root: bool,
            parent: Option<String>,
            #[serde(default)]
            options: Value,
        }
        for one in serde_json::from_str::<Vec<Printed>>(text)? {
            let major = ClassId::parse(&one.handle).map_or(0, |id| id.major);
            let limit = one.options.get("limit").and_then(Value::as_u64);
            let qdisc = Qdisc { kind: one.kind, major, limit };
            if one.root {
                self.roots.insert(one.dev, qdisc);
            } else if let Some(parent) = one.parent.as_deref().and_then(ClassId::parse) {
                self.leaves.insert((one.dev, parent), qdisc);
            }
        }
        Ok(())
    }

    /// Reads the table with the driver's name out of what `nft -j list table` prints.
    pub(super) fn read_table(
        &mut self,
        family: Family,
        text: &str,
    ) -> Result<(), serde_json::Error> {
        let objects = nft_objects(text)?;
        let kind = |kind: &'static str| objects.iter().filter_map(move |one| one.get(kind));
        let mut table = Table::default();
        for map in kind("map") {
            let elements = map.get("elem").and_then(Value::as_array);
            table.elements.extend(elements.into_iter().flatten().filter_map(element));
        }
        let has_map = |name: &str, address: &str| {
            let kind = serde_json::json!(["ifname", address, address]);
            kind_is(&objects, name, &kind)
        };
        let chains = kind("chain").filter(|chain| {
            chain["name"] == "post" && chain["hook"] == "postrouting" && chain["type"] == "filter"
        });
        let rules: Vec<&Value> = kind("rule").filter(|rule| rule["chain"] == "post").collect();
        let sets_by = |map: &str| {
            let is = |rule: &&&Value| {
                let set = &rule["expr"][0]["mangle"];
                set["key"]["meta"]["key"] == "priority" && set["value"]["map"]["data"] == map
            };
            rules.iter().filter(is).count() == 1
        };
        table.is_complete = has_map("cls", "ipv4_addr")
            && has_map("cls6", "ipv6_addr")
            && chains.count() == 1
            && rules.len() == 2
            && sets_by("@cls")
            && sets_by("@cls6");
        self.tables.insert(family, table);
        Ok(())
    }

    /// Reads what a batch prints that shows, for each of these interfaces in turn, its qdiscs and its classes of HTB.
    /// The root qdisc's line begins the part of the next interface.
    pub(super) fn read_classes(&mut self, interfaces: &[String], text: &str) {
        let mut interfaces = interfaces.iter();
        let mut current = None;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["qdisc", _, _, "root", ..] => {
                    current = interfaces.next();
                    if let Some(interface) = current {
                        self.classes.entry(interface.clone()).or_default();
                    }
                }
                ["class", "htb", id, rest @ ..] => {
                    let after = |word: &str| {
                        let value = rest.iter().skip_while(|one| **one != word).nth(1);
                        value.and_then(|value| rate(value))
                    };
                    let rates = after("rate").zip(after("ceil"));
                    let known = current.zip(ClassId::parse(id)).zip(rates);
                    let Some(((interface, id), (rate, ceil))) = known else { continue };
                    let classes = self.classes.entry(interface.clone()).or_default();
                    classes.insert(id.minor, ClassRates { rate, ceil });
                }
                _ => {}
            }
        }
    }
}

/// Reads what `ip -d -j link show` prints.
pub(super) fn links(text: &str) -> Result<BTreeMap<String, Link>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Printed {
        ifname: String,
        flags: Vec<String>,
        #[serde(default)]
        linkinfo: Value,
    }
    let all: Vec<Printed> = serde_json::from_str(text)?;
    let link = |one: Printed| {
        let is_port = one.linkinfo.get("info_slave_kind").is_some_and(|kind| kind == "bridge");
        let family = if is_port { Family::Bridge } else { Family::Inet };
        (one.ifname, Link { is_up: one.flags.iter().any(|flag| flag == "UP"), family })
    };
    Ok(all.into_iter().map(link).collect())
}

/// The families in which `nft -j list tables` prints a table of this name.
pub(super) fn families(text: &str, table: &str) -> Result<Vec<Family>, serde_json::Error> {
    let objects = nft_objects(text)?;
    let has = |family: &Family| {
        let tables = objects.iter().filter_map(|one| one.get("table"));
        tables.into_iter().any(|one| one["name"] == table && one["family"] == family.word())
    };
    Ok(Family::ALL.into_iter().filter(has).collect())
}

fn nft_objects(text: &str) -> Result<Vec<Value>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Printed {
        nftables: Vec<Value>,
    }
    serde_json::from_str::<Printed>(text).map(|printed| printed.nftables)
}

fn kind_is(objects: &[Value], name: &str, kind: &Value) -> bool {
    let mut maps = objects.iter().filter_map(|one| one.get("map"));
    maps.any(|map| map["name"] == name && map["type"] == *kind && map["map"] == "classid")
}

/// One element of a map: `[{"concat": [INTERFACE, FROM, TO]}, CLASS]`. With a comment, the key is inside of `elem`.
fn element(pair: &Value) -> Option<(ElementKey, ClassId)> {
    let key = pair.get(0)?;
    let key = key.get("elem").and_then(|elem| elem.get("val")).unwrap_or(key);
    let words: Vec<&str> = key.get("concat")?.as_array()?.iter().flat_map(Value::as_str).collect();
    let [interface, from, to] = words.as_slice() else { return None };
    let key = ElementKey {
        interface: (*interface).into(),
        from: from.parse().ok()?,
        to: to.parse().ok()?,
    };
    Some((key, ClassId::parse(pair.get(1)?.as_str()?)?))
}

/// A rate as `tc` prints it, in bit/s: `300Mbit`.
fn rate(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "bit" => 1,
        "Kbit" => 1_000,
        "Mbit" => 1_000_000,
        "Gbit" => 1_000_000_000,
        "Tbit" => 1_000_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Is what is printed this rate, rounded down to at least three digits and to whole bytes?
fn is_same_rate(printed: u64, bps: u64) -> bool {
    printed <= bps && bps - printed <= bps / 1_000 + 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}}, {"table": {"family": "inet", "name": "co-12345678", "handle": 2}}, {"map": {"family": "inet", "name": "cls", "table": "co-12345678", "type": ["ifname", "ipv4_addr", "ipv4_addr"], "handle": 1, "map": "classid", "elem": [[{"concat": ["va", "10.0.0.1", "10.0.0.2"]}, "5a3c:1a"], [{"elem": {"val": {"concat": ["va", "10.0.0.2", "10.0.0.1"]}, "comment": "by hand"}}, "5a3c:1b"]]}}, {"map": {"family": "inet", "name": "cls6", "table": "co-12345678", "type": ["ifname", "ipv6_addr", "ipv6_addr"], "handle": 2, "map": "classid", "elem": [[{"concat": ["va", "fd00::2", "fd00::1"]}, "5a3c:1a"]]}}, {"chain": {"family": "inet", "table": "co-12345678", "name": "post", "handle": 3, "type": "filter", "hook": "postrouting", "prio": -150, "policy": "accept"}}, {"rule": {"family": "inet", "table": "co-12345678", "chain": "post", "handle": 4, "expr": [{"mangle": {"key": {"meta": {"key": "priority"}}, "value": {"map": {"key": {"concat": [{"meta": {"key": "oifname"}}, {"payload": {"protocol": "ip", "field": "saddr"}}, {"payload": {"protocol": "ip", "field": "daddr"}}]}, "data": "@cls"}}}}]}}, {"rule": {"family": "inet", "table": "co-12345678", "chain": "post", "handle": 5, "expr": [{"mangle": {"key": {"meta": {"key": "priority"}}, "value": {"map": {"key": {"concat": [{"meta": {"key": "oifname"}}, {"payload": {"protocol": "ip6", "field": "saddr"}}, {"payload": {"protocol": "ip6", "field": "daddr"}}]}, "data": "@cls6"}}}}]}}]}"#;

    #[test]
    fn a_table_is_read_with_its_elements() {
        let mut kernel = KernelState::default();
        kernel.read_table(Family::Inet, TABLE).unwrap();
        let table = &kernel.tables[&Family::Inet];
        assert!(table.is_complete);
        let text: Vec<String> = table
            .elements
            .iter()
            .map(|(key, id)| format!("{} {} {} {id}", key.interface, key.from, key.to))
            .collect();
        let expected = [
            "va 10.0.0.1 10.0.0.2 5a3c:1a",
            "va 10.0.0.2 10.0.0.1 5a3c:1b",
            "va fd00::2 fd00::1 5a3c:1a",
        ];
        assert_eq!(text, expected);
        // One rule is gone, or does something else; a map is of another kind.
        for (from, to) in [
            (r#""data": "@cls6""#, r#""data": "@cls""#),
            (r#""key": "priority""#, r#""key": "mark""#),
            (r#""hook": "postrouting""#, r#""hook": "output""#),
            (r#"["ifname", "ipv6_addr""#, r#"["ipv6_addr""#),
        ] {
            let text = TABLE.replacen(from, to, 1);
            kernel.read_table(Family::Inet, &text).unwrap();
            assert!(!kernel.tables[&Family::Inet].is_complete, "{to}");
        }
        assert!(kernel.read_table(Family::Inet, "").is_err());
    }

    #[test]
    fn qdiscs_are_roots_or_leaves() {
        let text = r#"[{"kind":"noqueue","handle":"0:","dev":"lo","root":true,"refcnt":2,"options":{}},{"kind":"htb","handle":"5a3c:","dev":"va","root":true,"refcnt":3,"options":{"r2q":10,"default":"0x2"}},{"kind":"bfifo","handle":"8001:","dev":"va","parent":"5a3c:10","options":{"limit":750000}},{"kind":"ingress","handle":"ffff:","dev":"va","parent":"ffff:fff1","options":{}}]"#;
        let mut kernel = KernelState::default();
        kernel.read_qdiscs(text).unwrap();
        assert_eq!(kernel.roots["lo"].major, 0);
        assert_eq!((kernel.roots["va"].kind.as_str(), kernel.roots["va"].major), ("htb", 0x5a3c));
        let leaf = &kernel.leaves[&("va".into(), ClassId { major: 0x5a3c, minor: 0x10 })];
        assert_eq!((leaf.kind.as_str(), leaf.limit), ("bfifo", Some(750_000)));
    }

    #[test]
    fn classes_belong_to_the_interface_whose_root_is_before_them() {
        let text = "\
qdisc htb 5a3c: root refcnt 3 r2q 10 default 0x2 direct_packets_stat 0 direct_qlen 1000
qdisc bfifo 8001: parent 5a3c:10 limit 750000b
class htb 5a3c:10 parent 5a3c:1 leaf 8001: prio 0 rate 300Mbit ceil 300Mbit burst 187500b cburst 187500b 
class htb 5a3c:1 root rate 1Gbit ceil 1Gbit burst 262000b cburst 262000b 
qdisc htb 5a3c: root refcnt 3 r2q 10 default 0x2 direct_packets_stat 0 direct_qlen 1000
class htb 5a3c:2 parent 5a3c:1 prio 0 rate 1234Kbit ceil 10Mbit burst 128Kb cburst 128Kb 
";
        let mut kernel = KernelState::default();
        kernel.read_classes(&["va".into(), "vb".into(), "vc".into()], text);
        let rates = |rate, ceil| ClassRates { rate, ceil };
        assert_eq!(kernel.classes["va"][&0x10], rates(300_000_000, 300_000_000));
        assert_eq!(kernel.classes["va"][&1].rate, 1_000_000_000);
        let of_vb: Vec<_> = kernel.classes["vb"].iter().collect();
        assert_eq!(of_vb, [(&2, &rates(1_234_000, 10_000_000))]);
        assert!(!kernel.classes.contains_key("vc"));
    }

    #[test]
    fn interfaces_say_whether_they_are_up_and_in_a_bridge() {
        let text = r#"[{"ifname":"lo","flags":["LOOPBACK"]},{"ifname":"va","flags":["UP"],"linkinfo":{"info_kind":"veth"}},{"ifname":"vb","flags":["UP"],"linkinfo":{"info_kind":"veth","info_slave_kind":"bridge"}}]"#;
        let links = links(text).unwrap();
        assert_eq!(links["lo"], Link { is_up: false, family: Family::Inet });
        assert_eq!(links["va"], Link { is_up: true, family: Family::Inet });
        assert_eq!(links["vb"], Link { is_up: true, family: Family::Bridge });
        let text = r#"{"nftables": [{"metainfo": {}}, {"table": {"family": "bridge", "name": "co-1", "handle": 2}}, {"table": {"family": "ip", "name": "co-1", "handle": 2}}]}"#;
        assert_eq!(families(text, "co-1").unwrap(), [Family::Bridge]);
        assert!(families(text, "co-2").unwrap().is_empty());
    }

    #[test]
    fn rates_are_compared_as_tc_rounds_them() {
        for (text, bps) in [
            ("300Mbit", 300_000_001),
            ("1234Kbit", 1_234_567),
            ("1Mbit", 1_000_900),
            ("9bit", 16),
            ("999999bit", 999_999),
        ] {
            assert!(is_same_rate(rate(text).unwrap(), bps), "{text}");
        }
        assert!(!is_same_rate(rate("299Mbit").unwrap(), 300_000_000));
        assert!(!is_same_rate(rate("301Mbit").unwrap(), 300_000_000));
        assert_eq!(rate("3furlong"), None);
        assert_eq!(rate("bit"), None);
        let id = |text| ClassId::parse(text).map(|id| id.to_string());
        assert_eq!(id("5A3c:1a").as_deref(), Some("5a3c:1a"));
        assert_eq!((id("5a3c:").as_deref(), id("x:1"), id("12")), (Some("5a3c:0"), None, None));
    }
}
