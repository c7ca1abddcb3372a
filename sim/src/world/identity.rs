//! Identities in a world: every message carries the identity of its sender, and the node that gets it judges it before
//! its core does, by the code of the daemons ([`coalloc_protocol::authorization`]): the row of the method, then the
//! caller's check for the fields of the message.
//!
//! Coordinators, users and operators are of one domain, RMs of another. A child coordinator asks its parent by its
//! identity as a coordinator. An RM whose configuration leaves a coordinator out (F12) denies whatever that one sends,
//! because its roster is made of the configuration.
//!
//! In a world without identities all messages come in plain text, and nothing is judged.
//!
//! Left out: certificates and connections, which `tests/federation/identity` has; whoever steals a key
//! ([`rogue`](super::rogue)). Source: docs/adr/0042-identity.md.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::planted::{self, Bug};
use coalloc_common::{
    CoordinatorName, Identity, ReservationId, RmName, Role, TrustDomain, UserName,
};
use coalloc_protocol::authorization::{CallerFacts, Denial, Roster};
use coalloc_protocol::coordinator::MessageKind;

use super::meddling::MEDDLER;
use super::{Address, Fault, World};

/// The domain of coordinators, users and operators.
const GRID: &str = "grid";
/// The domain of RMs.
const SITES: &str = "sites";

/// Who sends a message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sender<'a> {
    /// A node.
    Node(Address),
    /// Whoever has the key of this coordinator.
    Coordinator(&'a CoordinatorName),
    /// A user.
    User(&'a UserName),
    /// An operator of the coordinators' domain.
    Operator,
}

/// A message as far as it is judged: its method, and the field that names somebody.
#[derive(Debug, Clone, Copy)]
pub(super) enum JudgedCall<'a> {
    /// A message to an RM, in the name of this coordinator.
    ToRm(MessageKind, &'a CoordinatorName),
    /// A question about an outcome, in the name of this RM.
    Resolve(&'a str),
    /// A request, for this user.
    Reserve(&'a UserName),
    /// A change, for this user.
    Modify(&'a UserName),
    /// A report about a workflow, by this user.
    Report(&'a UserName),
    /// The release of a reservation.
    Release(&'a ReservationId),
    /// An operator's end of waiting for an RM.
    GiveUp,
}

impl JudgedCall<'_> {
    /// The path of the method, by which its row is found.
    const fn path(self) -> &'static str {
        match self {
            Self::ToRm(MessageKind::Hold, _) => "/coalloc.v1.ResourceManager/Hold",
            Self::ToRm(MessageKind::Commit, _) => "/coalloc.v1.ResourceManager/Commit",
            Self::ToRm(MessageKind::Abort, _) => "/coalloc.v1.ResourceManager/Abort",
            Self::ToRm(MessageKind::Release, _) => "/coalloc.v1.ResourceManager/Release",
            Self::Resolve(_) => "/coalloc.v1.Resolver/Resolve",
            Self::Reserve(_) => "/coalloc.v1.Coordinator/Reserve",
            Self::Modify(_) => "/coalloc.v1.Coordinator/Modify",
            Self::Report(_) => "/coalloc.v1.Workflows/ReportActivity",
            Self::Release(_) => "/coalloc.v1.Coordinator/Release",
            Self::GiveUp => "/coalloc.v1.Coordinator/GiveUp",
        }
    }
}

/// The identities of a world, and who is who at each node.
#[derive(Debug)]
pub struct Identities {
    grid: TrustDomain,
    nodes: BTreeMap<Address, Identity>,
    rosters: BTreeMap<Address, Roster>,
}

impl Identities {
    fn in_grid(&self, role: Role, name: &str) -> Identity {
        Identity::new("name", self.grid.clone(), role, name).expect("names of worlds are names")
    }

    fn of(&self, sender: Sender<'_>) -> Identity {
        match sender {
            Sender::Node(node) => self.nodes[&node].clone(),
            Sender::Coordinator(name) => self.in_grid(Role::Coordinator, name.as_str()),
            Sender::User(user) => self.in_grid(Role::User, user.as_str()),
            Sender::Operator => self.in_grid(Role::Operator, "operator"),
        }
    }
}

impl World {
    /// The names of all coordinators, by their index.
    pub fn coordinators(&self) -> &[CoordinatorName] {
        &self.grc_names
    }

    /// Gives every node an identity, and a roster of those whom its configuration names. All nodes exist by now.
    pub fn identify(&mut self) {
        let domain = |name: &str| TrustDomain::parse("domain", name).expect("a domain");
        let (grid, sites) = (domain(GRID), domain(SITES));
        let known = |domain: &TrustDomain, role, name: &str| {
            Identity::new("name", domain.clone(), role, name).expect("names of worlds are names")
        };
        let mut nodes = BTreeMap::new();
        for (index, name) in self.grc_names.iter().enumerate() {
            nodes.insert(Address::Grc(index), known(&grid, Role::Coordinator, name.as_str()));
        }
        for (index, rm) in self.rms.iter().enumerate() {
            nodes.insert(Address::Rm(index), known(&sites, Role::ResourceManager, &rm.name));
        }
        let roster = |domain: &TrustDomain, above: Vec<CoordinatorName>, below: &[RmName]| {
            let one =
                |name: CoordinatorName| (known(&grid, Role::Coordinator, name.as_str()), name);
            let rm = |name: &RmName| {
                let node = self.find(name.as_str()).expect("a member is a node");
                (nodes[&node].clone(), name.clone())
            };
            Roster {
                domain: domain.clone(),
                operators: BTreeSet::new(),
                auditors: BTreeSet::new(),
                coordinators: above.into_iter().map(one).collect(),
                rms: below.iter().map(rm).collect(),
            }
        };
        let all: Vec<RmName> = self.rms.iter().map(|rm| RmName::composed(&*rm.name)).collect();
        let mut rosters = BTreeMap::new();
        for (index, grc) in self.grcs.iter().enumerate() {
            let served = |name: &&CoordinatorName| grc.shadow.serves(name);
            let meddler = CoordinatorName::composed(MEDDLER);
            let above = self.grc_names.iter().chain([&meddler]).filter(served).cloned().collect();
            let below = self.served.get(&index).unwrap_or(&all);
            rosters.insert(Address::Grc(index), roster(&grid, above, below));
        }
        for (index, rm) in self.rms.iter().enumerate() {
            let above = rm.shadow.config().coordinators.iter().cloned().collect();
            rosters.insert(Address::Rm(index), roster(&sites, above, &[]));
        }
        self.identities = Some(Identities { grid, nodes, rosters });
    }

    /// Judges a message as the node that gets it does. The sender is somebody here only by what the node's running
    /// process has read of its configuration.
    pub(super) fn judge(
        &mut self,
        at: Address,
        sender: Sender<'_>,
        call: JudgedCall<'_>,
    ) -> Result<(), Denial> {
        let facts = match &self.identities {
            None => CallerFacts::plain_text(),
            Some(identities) => {
                self.counts.judged += 1;
                self.facts(identities, at, &identities.of(sender))
            }
        };
        facts.check_calls(call.path())?;
        match call {
            JudgedCall::ToRm(kind, by) => facts.check_sends(kind, "coordinator", by),
            JudgedCall::Resolve(rm) => facts.check_is_rm("resource_manager", rm),
            JudgedCall::Reserve(user) | JudgedCall::Modify(user) => {
                facts.check_acts_for("request.user", user.as_str())
            }
            JudgedCall::Report(user) => facts.check_acts_for("user", user.as_str()),
            JudgedCall::Release(id) => match self.owner(at, id) {
                Some(owner) if !facts.sees(owner.as_str()) => Err(Denial::NoUser),
                // To whom nothing belongs, the core says that there is nothing of this id.
                _ => Ok(()),
            },
            JudgedCall::GiveUp => Ok(()),
        }
    }

    fn facts(&self, identities: &Identities, at: Address, sender: &Identity) -> CallerFacts {
        let roster = &identities.rosters[&at];
        if let Address::Rm(rm) = at
            && let Some(core) = &self.rms[rm].core
            && core.config().coordinators.len() < roster.coordinators.len()
        {
            let mut left = roster.clone();
            left.coordinators.retain(|_, name| core.config().coordinators.contains(name));
            return left.facts(sender);
        }
        roster.facts(sender)
    }

    /// The user of a reservation at this coordinator. Nobody is the user of what is reserved for a parent.
    fn owner(&self, at: Address, id: &ReservationId) -> Option<UserName> {
        let Address::Grc(grc) = at else { return None };
        let known = self.grcs[grc].core.as_ref()?.find(id.as_str())?;
        known.parent_transaction.is_none().then(|| known.ticket.user.clone())
    }

    /// Does the core take a message that was judged like this?
    pub(super) fn takes(judgement: &Result<(), Denial>) -> bool {
        judgement.is_ok() || planted::is(Bug::CheckAfterEffect)
    }

    /// A node has denied an honest coordinator's message. It may do so only while its configuration leaves that
    /// coordinator out (F12).
    pub(super) fn check_denied(
        &mut self,
        at: Address,
        by: &CoordinatorName,
        denial: &Denial,
    ) -> Result<(), String> {
        if let Address::Rm(rm) = at
            && self.rms[rm]
                .core
                .as_ref()
                .is_some_and(|core| !core.config().coordinators.contains(by))
        {
            self.counts.denied += 1;
            self.counts.fault(Fault::F12);
            self.say_at(at, || format!("denies {by}: {denial}"));
            return Ok(());
        }
        Err(format!("I21: {} denies {by} what is its own: {denial}", self.name(at)))
    }

    /// An honest user or operator calls a coordinator, which must not deny it.
    pub(super) fn check_admitted(
        &mut self,
        grc: usize,
        sender: Sender<'_>,
        call: JudgedCall<'_>,
    ) -> Result<(), String> {
        self.judge(Address::Grc(grc), sender, call).map_err(|denial| {
            format!("I21: {} denies {sender:?} what is its own: {denial}", self.grcs[grc].name)
        })
    }

    /// Is an RM or child coordinator a member of this coordinator?
    pub(super) fn is_member(&self, grc: usize, rm: &str) -> bool {
        let named = |served: &Vec<RmName>| served.iter().any(|member| member.as_str() == rm);
        let is_rm = || self.rms.iter().any(|known| known.name == rm);
        self.served.get(&grc).map_or_else(is_rm, named)
    }
}
