//! What differs between the kernel and what is wanted, and the commands that mend it. Pure.
//!
//! | when | what is on an interface |
//! |---|---|
//! | no booking is in its window | nothing of ours: the kernel's own qdisc, and no limit |
//! | some are | an HTB root, class 1, class 2 for unbooked traffic, a class for each group |
//!
//! **What is ours.** The major of our root qdiscs is made of the ledger's id ([`Names::of_rm`]), so a root that somebody
//! else has put there is not ours, whatever it looks like, and `nft flush ruleset` does not change whose it is. A class
//! is ours if an element of our table names it. So elements are added before their class, and deleted after it: at no
//! moment has a class of ours no name. Traffic whose class is not there is unbooked.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::kernel::{ClassId, ElementKey, Family, KernelState, Qdisc};

/// The class over all others of an interface.
const TOP: u16 = 1;
/// The class of unbooked traffic.
const UNBOOKED: u16 = 2;

/// How the driver names what is its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    /// The table of nft.
    pub(super) table: String,
    /// The major of the root qdiscs.
    pub(super) major: u16,
}

impl Names {
    /// The names of the RM with this prefix, `co-0123abcd`. The kernel numbers qdiscs from 0x8000 on by itself, and
    /// people number theirs from 1 on: the major is in between.
    pub(super) fn of_rm(prefix: &str) -> Self {
        let digits = prefix.rsplit('-').next().unwrap_or_default();
        let number = u32::from_str_radix(digits, 16).unwrap_or_default();
        let low = u16::try_from(number % 0x7000).unwrap_or_default();
        Self { table: prefix.into(), major: low + 0x1000 }
    }

    /// The class with this minor.
    pub(super) const fn class(&self, minor: u16) -> ClassId {
        ClassId { major: self.major, minor }
    }
}

/// Whose the root qdisc of an interface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root<'a> {
    /// The kernel has put it there: it counts as nothing.
    Kernels,
    /// This RM's.
    Own,
    /// Somebody else's.
    Foreign(&'a Qdisc),
}

impl KernelState {
    /// Whose the root qdisc of this interface is.
    pub(super) fn root(&self, interface: &str, names: &Names) -> Root<'_> {
        match self.roots.get(interface) {
            Some(root) if root.kind == "htb" && root.major == names.major => Root::Own,
            Some(root) if root.major != 0 => Root::Foreign(root),
            _ => Root::Kernels,
        }
    }

    /// The classes and their interfaces that elements of our tables name.
    pub(super) fn named(&self) -> BTreeSet<(String, ClassId)> {
        let elements = self.tables.values().flat_map(|table| &table.elements);
        elements.map(|(key, class)| (key.interface.clone(), *class)).collect()
    }
}

/// What one class is to be on one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// The interface.
    pub(super) interface: String,
    /// The minor of the class.
    pub(super) minor: u16,
    /// Its rate and its traffic; `None`: it is not to be there.
    pub(super) class: Option<TargetClass>,
}

/// A class as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TargetClass {
    /// Its rate in bit/s.
    pub(super) bps: u64,
    /// The capacity of the path in bit/s.
    pub(super) capacity_bps: u64,
    /// What unbooked traffic gets beside it, in bit/s.
    pub(super) unbooked_bps: u64,
    /// Source and destination of its traffic.
    pub(super) pairs: Vec<(IpAddr, IpAddr)>,
}

/// Commands, in the order in which they are run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Commands {
    /// For `nft -f`: what must be there before the classes.
    pub(super) first_nft: Vec<String>,
    /// For `tc -batch`.
    pub(super) tc: Vec<String>,
    /// For `nft -f`: what must go after the classes.
    pub(super) last_nft: Vec<String>,
    /// What differs, one sentence each.
    pub(super) differences: Vec<String>,
}

/// The commands that make these classes so.
pub(super) fn commands(kernel: &KernelState, names: &Names, targets: &[Target]) -> Commands {
    let (gone, kept) = (BTreeSet::new(), BTreeSet::new());
    let mut planner = Planner { kernel, names, commands: Commands::default(), gone, kept };
    for target in targets {
        match &target.class {
            Some(class) => planner.add(target, class),
            None => planner.remove(target),
        }
    }
    planner.finish(targets)
}

struct Planner<'a> {
    kernel: &'a KernelState,
    names: &'a Names,
    commands: Commands,
    /// The elements that go last, unless they are kept.
    gone: BTreeSet<(Family, ElementKey)>,
    /// The elements of the classes that are to be there.
    kept: BTreeSet<(Family, ElementKey)>,
}

impl Planner<'_> {
    fn differs(&mut self, sentence: String) {
        self.commands.differences.push(sentence);
    }

    fn add(&mut self, target: &Target, class: &TargetClass) {
        self.add_elements(target, class);
        let interface = target.interface.as_str();
        let has_root = self.kernel.root(interface, self.names) == Root::Own;
        if !has_root {
            self.differs(format!("{interface} has no qdisc of this RM"));
            let root = self.names.class(0).major;
            let add =
                format!("qdisc add dev {interface} root handle {root:x}: htb default {UNBOOKED:x}");
            self.commands.tc.push(add);
        }
        let top = class.capacity_bps.saturating_add(class.unbooked_bps);
        self.add_class(interface, 0, TOP, top, "the class over all others");
        self.add_class(
            interface,
            TOP,
            UNBOOKED,
            class.unbooked_bps,
            "the class of unbooked traffic",
        );
        let minor = target.minor;
        self.add_class(interface, TOP, minor, class.bps, "the class");
        let id = self.names.class(minor);
        let limit = leaf_bytes(class.bps);
        let leaf = self.kernel.leaves.get(&(target.interface.clone(), id));
        if leaf.is_none_or(|leaf| leaf.kind != "bfifo" || leaf.limit != Some(limit)) {
            self.differs(format!("the queue of class {id} on {interface} is not {limit} bytes"));
            // A queue of another kind has to go before this one can take its place.
            if leaf.is_some_and(|leaf| leaf.kind != "bfifo") {
                self.commands.tc.push(format!("qdisc del dev {interface} parent {id}"));
            }
            let replace = format!("qdisc replace dev {interface} parent {id} bfifo limit {limit}b");
            self.commands.tc.push(replace);
        }
    }

    fn add_class(&mut self, interface: &str, parent: u16, minor: u16, bps: u64, name: &str) {
        let id = self.names.class(minor);
        let classes = self.kernel.classes.get(interface);
        match classes.and_then(|classes| classes.get(&minor)) {
            Some(rates) if rates.are(bps) => return,
            Some(rates) => self.differs(format!(
                "{name} {id} on {interface} has {} bit/s, and not {bps}",
                if rates.rate == rates.ceil {
                    rates.rate.to_string()
                } else {
                    format!("{} to {}", rates.rate, rates.ceil)
                }
            )),
            None => self.differs(format!("{name} {id} is missing on {interface}")),
        }
        let parent = self.names.class(parent);
        let parent =
            if parent.minor == 0 { format!("{:x}:", parent.major) } else { parent.to_string() };
        let burst = burst_bytes(bps);
        self.commands.tc.push(format!(
            "class replace dev {interface} parent {parent} classid {id} htb rate {bps}bit ceil {bps}bit burst \
             {burst}b cburst {burst}b quantum 60000"
        ));
    }

    fn add_elements(&mut self, target: &Target, class: &TargetClass) {
        let interface = target.interface.as_str();
        let family = self.family(interface);
        let id = self.names.class(target.minor);
        let table = self.kernel.tables.get(&family);
        if table.is_none_or(|table| !table.is_complete) {
            self.differs(format!(
                "the table {} {} is not complete",
                family.word(),
                self.names.table
            ));
            let whole = whole_table(family, &self.names.table);
            if !self.commands.first_nft.starts_with(&whole) {
                self.commands.first_nft.splice(0..0, whole);
            }
        }
        let key = |(from, to): &(IpAddr, IpAddr)| ElementKey {
            interface: interface.into(),
            from: *from,
            to: *to,
        };
        let keys: BTreeSet<ElementKey> = class.pairs.iter().map(key).collect();
        let existing = table.map(|table| &table.elements);
        let stale = existing.into_iter().flatten().filter(|(key, class)| {
            let is_wanted = keys.contains(key);
            (is_wanted && **class != id)
                || (!is_wanted && **class == id && key.interface == interface)
        });
        let stale: Vec<&ElementKey> = stale.map(|(key, _)| key).collect();
        let missing = keys.iter().filter(|key| {
            existing.and_then(|elements| elements.get(key)).is_none_or(|class| *class != id)
        });
        let missing: Vec<&ElementKey> = missing.collect();
        if !stale.is_empty() {
            self.differs(format!(
                "traffic that is not of class {id} on {interface} is mapped to it"
            ));
        }
        if !missing.is_empty() {
            self.differs(format!("traffic of class {id} on {interface} is not mapped to it"));
        }
        let deletes = stale.iter().map(|key| delete_element(family, &self.names.table, key));
        let adds = missing.iter().map(|key| add_element(family, &self.names.table, key, id));
        self.commands.first_nft.extend(deletes.chain(adds));
        self.kept.extend(keys.into_iter().map(|key| (family, key)));
        // In another family they are left over from a time when the interface was in a bridge, or was not.
        self.remove_elements(target, |other| other != family);
    }

    fn remove(&mut self, target: &Target) {
        let interface = target.interface.as_str();
        let id = self.names.class(target.minor);
        let classes = self.kernel.classes.get(interface);
        if classes.is_some_and(|classes| classes.contains_key(&target.minor)) {
            self.differs(format!(
                "the class {id} is on {interface}, and no booking may use it now"
            ));
            self.commands.tc.push(format!("class del dev {interface} classid {id}"));
        }
        self.remove_elements(target, |_| true);
    }

    fn remove_elements(&mut self, target: &Target, is_of: impl Fn(Family) -> bool) {
        let id = self.names.class(target.minor);
        let elements = self.kernel.tables.iter().flat_map(|(family, table)| {
            table.elements.iter().map(move |(key, class)| (*family, key, *class))
        });
        let gone = elements.filter(|(family, key, class)| {
            is_of(*family) && *class == id && key.interface == target.interface
        });
        let gone: Vec<_> = gone.map(|(family, key, _)| (family, key.clone())).collect();
        if !gone.is_empty() {
            let on = &target.interface;
            self.differs(format!(
                "traffic on {on} is mapped to the class {id}, which is not there"
            ));
        }
        self.gone.extend(gone);
    }

    /// Takes the root qdisc off interfaces that have no class any more, and away with tables without elements.
    fn finish(mut self, targets: &[Target]) -> Commands {
        self.gone.retain(|element| !self.kept.contains(element));
        let mut removed: BTreeMap<&str, BTreeSet<u16>> = BTreeMap::new();
        for target in targets.iter().filter(|target| target.class.is_none()) {
            removed.entry(&target.interface).or_default().insert(target.minor);
        }
        for target in targets.iter().filter(|target| target.class.is_some()) {
            removed.remove(target.interface.as_str());
        }
        for (interface, minors) in removed {
            let classes = self.kernel.classes.get(interface);
            let mut left = classes.into_iter().flatten().map(|(minor, _)| *minor);
            let is_last = left.all(|minor| minor <= UNBOOKED || minors.contains(&minor));
            if is_last && self.kernel.root(interface, self.names) == Root::Own {
                // It takes the classes with it.
                let del = format!("class del dev {interface} ");
                self.commands.tc.retain(|command| !command.starts_with(&del));
                self.commands.tc.push(format!("qdisc del dev {interface} root"));
                self.differs(format!("{interface} has a qdisc of this RM without any booking"));
            }
        }
        let is_added = |family| {
            let of_family = format!("add table {} ", Family::word(family));
            let element = format!("add element {} ", Family::word(family));
            let first = self.commands.first_nft.iter();
            first.clone().any(|one| one.starts_with(&of_family) || one.starts_with(&element))
        };
        for (family, table) in &self.kernel.tables {
            let gone = self.gone.iter().filter(|(of, _)| of == family).map(|(_, key)| key);
            let gone: Vec<&ElementKey> = gone.collect();
            let is_removal = targets.iter().any(|target| target.class.is_none());
            if !is_added(*family)
                && table.elements.len() == gone.len()
                && (is_removal || !gone.is_empty())
            {
                let table = format!("delete table {} {}", family.word(), self.names.table);
                self.commands.last_nft.push(table);
            } else {
                let delete = |key: &&ElementKey| delete_element(*family, &self.names.table, key);
                self.commands.last_nft.extend(gone.iter().map(delete));
            }
        }
        self.commands
    }

    fn family(&self, interface: &str) -> Family {
        self.kernel.links.get(interface).map_or(Family::Inet, |link| link.family)
    }
}

/// The whole table; what is there of it stays. All of a script is done, or nothing.
fn whole_table(family: Family, table: &str) -> Vec<String> {
    let family = family.word();
    let mut lines = vec![format!("add table {family} {table}")];
    for (map, address) in [("cls", "ipv4_addr"), ("cls6", "ipv6_addr")] {
        lines.push(format!(
            "add map {family} {table} {map} {{ type ifname . {address} . {address} : classid; }}"
        ));
    }
    // -150 is what the family inet calls "mangle"; the family bridge has no word for it.
    lines.push(format!(
        "add chain {family} {table} post {{ type filter hook postrouting priority -150; }}"
    ));
    lines.push(format!("flush chain {family} {table} post"));
    for (map, ip) in [("cls", "ip"), ("cls6", "ip6")] {
        lines.push(format!(
            "add rule {family} {table} post meta priority set oifname . {ip} saddr . {ip} daddr map @{map}"
        ));
    }
    lines
}

fn map_of(key: &ElementKey) -> &'static str {
    if key.from.is_ipv4() { "cls" } else { "cls6" }
}

fn add_element(family: Family, table: &str, key: &ElementKey, class: ClassId) -> String {
    let ElementKey { interface, from, to } = key;
    let (family, map) = (family.word(), map_of(key));
    format!("add element {family} {table} {map} {{ \"{interface}\" . {from} . {to} : {class} }}")
}

fn delete_element(family: Family, table: &str, key: &ElementKey) -> String {
    let ElementKey { interface, from, to } = key;
    let (family, map) = (family.word(), map_of(key));
    format!("delete element {family} {table} {map} {{ \"{interface}\" . {from} . {to} }}")
}

/// What may be sent at once: 5 ms, at least 128 kB, because one packet of a sender with segmentation offload has 64 kB;
/// at most what fits into the kernel's fields.
fn burst_bytes(bps: u64) -> u64 {
    (bps / 8 / 200).clamp(128_000, 256_000_000)
}

/// What may wait: 20 ms, at least 256 kB; at most what fits into the kernel's field.
fn leaf_bytes(bps: u64) -> u64 {
    (bps / 8 / 50).clamp(256_000, 1_000_000_000)
}

#[cfg(test)]
mod tests;
