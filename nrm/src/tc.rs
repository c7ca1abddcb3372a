//! The driver of an NRM whose paths are interfaces of this Linux machine: tc shapes them.
//!
//! While a booking is in its window, the interfaces of its path have a class of HTB with the booked rate, and nft puts
//! the user's traffic into the class by its interface and its addresses. Outside of windows there is nothing of it in
//! the kernel. So a claim needs no change: the timetable guards the capacity, and the claim checks what could fail
//! later, which is that the interfaces exist and are up, that their root qdisc is nobody else's, that the programs are
//! there and permitted, and that the configuration has the user's addresses.
//!
//! ```text
//! interface to-b                          nft: table inet co-0123abcd
//!   5a3c:     htb, default 2                map cls { to-b . 10.77.1.2 . 10.77.2.2 : 5a3c:10 }
//!     5a3c:1  all                           chain post { meta priority set ... map @cls }
//!       5a3c:2   what nobody has booked
//!       5a3c:10  alice on N0-N1, bfifo
//! ```
//!
//! * [`settings`]: the configuration, checked.
//! * [`members`]: which bookings share a class. All of one user on one resource do, with the sum of their rates,
//!   because addresses are all that tells traffic apart.
//! * [`kernel`]: what the kernel has, read from what `ip`, `tc` and `nft` print.
//! * [`plan`]: what differs from what is wanted, and the commands that mend it. What is ours, and how it is known.
//! * [`programs`]: runs the programs.
//!
//! [`Driver::observe`] and [`Driver::make`] use the same plan: what differs is exactly what `make` would change.
//!
//! Limits. A class is made at the egress of this machine, so what an earlier hop sends too fast is dropped here. An
//! interface belongs to one path. When the last class of an interface goes, its root qdisc goes with it, and packets
//! that wait in it are lost. Ports of a bridge are found to be ones and have a table of the family `bridge`.
//!
//! Left out: the choice of a booking's traffic by anything but its user's addresses. Source: docs/adr/0052-equipment.md; figures in
//! docs/FIGURES.md, "Real equipment".

mod kernel;
mod members;
mod plan;
mod programs;
mod settings;

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{Reason, Refusal, ResourceId};
use coalloc_protocol::participant::equipment::{
    EquipmentKey, EquipmentTrouble, Observed, Presence, Stage, Unusable, Want,
};
use coalloc_rm::driver::{Driver, Naming};
use tokio::sync::Mutex;

use self::kernel::{ClassId, KernelState};
use self::members::{Group, Members, Reference};
use self::plan::{Names, Root, Target, TargetClass, commands};
use self::programs::Programs;
pub use self::settings::TcSettings;

/// The driver.
#[derive(Debug)]
pub struct TcDriver {
    settings: TcSettings,
    naming: Naming,
    names: Names,
    programs: Programs,
    /// The bookings, as the last calls have told them. One call at a time.
    members: Mutex<Members>,
}

impl TcDriver {
    /// The driver of the RM with these names.
    #[must_use]
    pub fn new(settings: TcSettings, naming: Naming) -> Self {
        let names = Names::of_rm(naming.of_rm());
        let programs = Programs::new(settings.netns.clone());
        Self { settings, naming, names, programs, members: Mutex::default() }
    }

    /// The group of a booking. A user who is not in the configuration has a group without addresses.
    fn group(&self, key: &EquipmentKey, want: &Want) -> Group {
        let owner = self.settings.owner(&want.user, &want.coordinator);
        let owner = owner.unwrap_or_else(|| (want.user.clone(), Some(want.coordinator.clone())));
        Group { owner, resource: key.resource.clone() }
    }

    fn interfaces(&self, group: &Group) -> &[String] {
        self.settings.interfaces.get(&group.resource).map_or(&[], Vec::as_slice)
    }

    /// What a group is to have on its interfaces.
    fn targets(
        &self,
        kernel: &KernelState,
        members: &Members,
        group: &Group,
        minor: u16,
    ) -> Vec<Target> {
        let mut targets = Vec::new();
        for interface in self.interfaces(group) {
            let class = members.rate(group).map(|bps| TargetClass {
                bps,
                capacity_bps: self.settings.capacities.get(interface).copied().unwrap_or_default(),
                unbooked_bps: self.settings.unbooked_bps,
                pairs: self.settings.pairs(&group.owner),
            });
            // The class that had this traffic before the configuration changed.
            let old =
                kernel.tables.values().flat_map(|table| &table.elements).filter(|(key, id)| {
                    let is_own = id.major == self.names.major && id.minor != minor;
                    let pairs = class.iter().flat_map(|class| &class.pairs);
                    is_own
                        && key.interface == *interface
                        && members.group(id.minor).is_none()
                        && pairs.into_iter().any(|pair| *pair == (key.from, key.to))
                });
            let old: BTreeSet<u16> = old.map(|(_, id)| id.minor).collect();
            let target = |minor, class| Target { interface: interface.clone(), minor, class };
            targets.extend(old.into_iter().map(|minor| target(minor, None)));
            targets.push(target(minor, class));
        }
        targets
    }

    /// Checks all that a booking needs beside its class.
    fn check(
        &self,
        kernel: &KernelState,
        key: &EquipmentKey,
        want: &Want,
    ) -> Result<(), EquipmentTrouble> {
        let resource = &key.resource;
        let interfaces = self.settings.interfaces.get(resource).ok_or_else(|| {
            refused(format!("`driver.tc.paths` of this NRM has no interfaces for {resource}"))
        })?;
        let (user, coordinator) = (&want.user, &want.coordinator);
        if self.settings.owner(user, coordinator).is_none() {
            return Err(refused(format!(
                "this NRM does not know the traffic of the user {user} of {coordinator}: its operator adds the user's \
                 addresses to `driver.tc.users`"
            )));
        }
        if let Some(sentence) = self.failure(kernel, resource) {
            return Err(refused(sentence));
        }
        for interface in interfaces {
            if let Some(sentence) = self.foreign_root(kernel, interface) {
                return Err(refused(sentence));
            }
        }
        Ok(())
    }

    /// Which interface of a resource cannot carry anything now, and what to do; `None`: all can.
    fn failure(&self, kernel: &KernelState, resource: &ResourceId) -> Option<String> {
        let at = self.place();
        let interfaces = self.settings.interfaces.get(resource).into_iter().flatten();
        let mut failures = interfaces.filter_map(|interface| match kernel.links.get(interface) {
            None => Some(format!(
                "the interface {interface} of {resource} is not {at}: make it, or correct `driver.tc.paths`"
            )),
            Some(link) if !link.is_up => Some(format!(
                "the interface {interface} of {resource} {at} is down: `ip link set {interface} up`"
            )),
            Some(_) => None,
        });
        failures.next()
    }

    fn foreign_root(&self, kernel: &KernelState, interface: &str) -> Option<String> {
        let Root::Foreign(root) = kernel.root(interface, &self.names) else { return None };
        let (kind, major) = (&root.kind, root.major);
        Some(format!(
            "the interface {interface} {} has a root qdisc that is not of this NRM, {kind} {major:x}:, which stays as it \
             is: if nobody needs it, `tc qdisc del dev {interface} root`",
            self.place()
        ))
    }

    fn place(&self) -> String {
        self.settings.netns.as_ref().map_or_else(
            || "on this machine".into(),
            |file| format!("in the network namespace {}", file.display()),
        )
    }

    /// The minors that must not be given to another group: those of classes and of elements.
    fn taken(&self, kernel: &KernelState) -> BTreeSet<u16> {
        let classes = kernel.classes.values().flat_map(|classes| classes.keys().copied());
        classes.chain(kernel.named().into_iter().map(|(_, class)| class.minor)).collect()
    }

    /// The reference of a class that no booking wants: like that of a booking, but its name has no key.
    fn orphan(&self, class: ClassId) -> String {
        Reference { name: format!("{}-{:016x}", self.names.table, 0), class }.to_string()
    }

    /// In what one booking is not as wanted.
    fn difference(
        &self,
        kernel: &KernelState,
        members: &Members,
        (key, want): (&EquipmentKey, &Want),
        (group, minor): (&Group, u16),
    ) -> Option<String> {
        if let Err(trouble) = self.check(kernel, key, want) {
            return Some(trouble.to_string());
        }
        let targets = self.targets(kernel, members, group, minor);
        commands(kernel, &self.names, &targets).differences.into_iter().next()
    }

    /// What is there that no booking wants, and what is there of others.
    fn rest(&self, kernel: &KernelState, members: &Members, observed: &mut Observed) {
        let active: BTreeSet<(&str, u16)> = members
            .iter()
            .filter(|(_, one)| members.rate(&one.group).is_some())
            .flat_map(|(_, one)| {
                let interfaces = self.interfaces(&one.group).iter();
                interfaces.map(|interface| (interface.as_str(), one.minor))
            })
            .collect();
        let named = kernel.named();
        for (interface, class) in &named {
            if class.major != self.names.major {
                let table = &self.names.table;
                observed.intruders.push(format!(
                    "the table {table} of this NRM has elements for the class {class} on {interface}, which is not of it: \
                     `nft list table inet {table}`"
                ));
            } else if !self.is_of_group(members, class.minor, interface) {
                observed.orphans.insert(self.orphan(*class));
            }
        }
        for (interface, classes) in &kernel.classes {
            let booked = classes.keys().filter(|minor| **minor > 2);
            for minor in booked.clone() {
                let class = self.names.class(*minor);
                let is_wanted = self.is_of_group(members, *minor, interface);
                if !is_wanted && !named.contains(&(interface.clone(), class)) {
                    observed.intruders.push(format!(
                        "the class {class} on the interface {interface} {} is under the root qdisc of this NRM, and not of \
                         it: `tc class del dev {interface} classid {class}`",
                        self.place()
                    ));
                }
            }
            let is_used = active.iter().any(|(of, _)| *of == interface.as_str());
            let is_named = named.iter().any(|(of, _)| of == interface);
            if booked.count() == 0 && !is_used && !is_named {
                observed.orphans.insert(self.orphan(self.names.class(0)));
            }
        }
        for interface in self.settings.capacities.keys() {
            observed.intruders.extend(self.foreign_root(kernel, interface));
        }
    }

    fn is_of_group(&self, members: &Members, minor: u16, interface: &str) -> bool {
        let group = members.group(minor);
        group.is_some_and(|group| self.interfaces(group).iter().any(|one| one == interface))
    }
}

/// Does a version that is only held take something that the booked one does not?
fn takes_new(want: &Want) -> bool {
    let booked = want.versions.iter().find(|version| version.is_booked);
    let mut held = want.versions.iter().filter(|version| !version.is_booked);
    booked.is_none_or(|booked| held.any(|version| version.shares != booked.shares))
}

#[tonic::async_trait]
impl Driver for TcDriver {
    async fn observe(
        &self,
        wanted: &BTreeMap<EquipmentKey, Want>,
    ) -> Result<Observed, EquipmentTrouble> {
        let mut members = self.members.lock().await;
        // Even if nobody can look now, the next call of `make` must know whose minors are whose.
        let name = |key: &EquipmentKey| self.naming.name(key);
        let of = |taken| members.of_wants(wanted, name, |key, want| self.group(key, want), taken);
        let kernel = match self.programs.call().look(&self.names).await {
            Ok(kernel) => kernel,
            Err(trouble) => {
                *members = of(&BTreeSet::new());
                return Err(trouble);
            }
        };
        *members = of(&self.taken(&kernel));
        let mut observed = Observed::default();
        for (key, one) in members.iter() {
            let Some(want) = wanted.get(key) else { continue };
            let class = self.names.class(one.minor);
            let reference = Reference { name: one.name.clone(), class }.to_string();
            let group = (&one.group, one.minor);
            let trouble = self.failure(&kernel, &key.resource);
            // While an interface has failed, what is there is as it was left, but nothing new is certain.
            let is_booked = want.versions.iter().all(|version| version.is_booked);
            let targets = self.targets(&kernel, &members, group.0, group.1);
            let is_made = || commands(&kernel, &self.names, &targets).differences.is_empty();
            let differs = match trouble.is_some() && is_booked && is_made() {
                true => None,
                false => self.difference(&kernel, &members, (key, want), group),
            };
            observed.present.insert(key.clone(), Presence { reference, differs, trouble });
        }
        for resource in self.settings.interfaces.keys() {
            let failure = self.failure(&kernel, resource);
            let reason = |sentence| (resource.clone(), Unusable { sentence, goes_on: false });
            observed.unusable.extend(failure.map(reason));
        }
        self.rest(&kernel, &members, &mut observed);
        Ok(observed)
    }

    async fn make(&self, key: &EquipmentKey, want: &Want) -> Result<String, EquipmentTrouble> {
        let mut members = self.members.lock().await;
        let call = self.programs.call();
        let kernel = call.look(&self.names).await?;
        let checked = self.check(&kernel, key, want);
        // What a window that is over has left goes, whatever is wrong with the next one. A version that takes nothing new, as in
        // Deprovision, is as certain as the booked one.
        let is_known = members.contains(key);
        let has_ended = !matches!(want.stage, Stage::Active(_)) && is_known;
        let is_certain = is_known && !takes_new(want);
        if !has_ended && !is_certain {
            checked.clone()?;
        }
        let (name, group, taken) =
            (self.naming.name(key), self.group(key, want), self.taken(&kernel));
        let (with, member) = members.with(key, want, name, group, &taken).ok_or_else(|| {
            refused("all classes that an interface can have are taken, more than 65,000".into())
        })?;
        let targets = self.targets(&kernel, &with, &member.group, member.minor);
        call.apply(&commands(&kernel, &self.names, &targets)).await?;
        *members = with;
        if !is_certain {
            checked?;
        }
        let class = self.names.class(member.minor);
        Ok(Reference { name: member.name, class }.to_string())
    }

    async fn remove(&self, reference: &str) -> Result<(), EquipmentTrouble> {
        let parsed = Reference::parse(reference).filter(|one| self.naming.is_own(&one.name));
        let Some(parsed) = parsed else {
            return Err(refused(format!("{reference:?} does not name anything of this NRM")));
        };
        let mut members = self.members.lock().await;
        let call = self.programs.call();
        let kernel = call.look(&self.names).await?;
        let (without, removed) = members.without(&parsed.name);
        let mut targets = Vec::new();
        let class = parsed.class;
        // After a restart nobody knows this booking, but perhaps others of its group.
        let group = removed.as_ref().map(|one| (&one.group, one.minor));
        let group = group.or_else(|| Some((without.group(class.minor)?, class.minor)));
        if let Some((group, minor)) = group {
            targets.extend(self.targets(&kernel, &without, group, minor));
        }
        // Where the class is named and belongs to nobody: on interfaces that the configuration has no more, too.
        let named = kernel.named().into_iter().filter(|(_, of)| *of == class);
        let bare = kernel.classes.keys().filter(|_| class.minor == 0).cloned();
        for interface in named.map(|(interface, _)| interface).chain(bare) {
            let is_target = targets.iter().any(|one| one.interface == interface);
            if !is_target && !self.is_of_group(&without, class.minor, &interface) {
                targets.push(Target { interface, minor: class.minor, class: None });
            }
        }
        call.apply(&commands(&kernel, &self.names, &targets)).await?;
        *members = without;
        Ok(())
    }
}

fn refused(sentence: String) -> EquipmentTrouble {
    EquipmentTrouble::Refused(Box::new(Refusal::new(Reason::Equipment, sentence)))
}
