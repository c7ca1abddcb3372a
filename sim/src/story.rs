//! Stories: scripted runs of the protocol with a transcript of every message, in `tests/stories/*.txt`.
//!
//! A story file consists of prose in lines that begin with `#`, a script, a line `----`, and the transcript
//! of the script. `COALLOC_BLESS=1 cargo test -p coalloc-sim --test documents stories` writes the transcripts anew;
//! commit a new transcript only if you understand the change. Modelled on etcd/raft's test scripts.
//!
//! ```text
//! grc NAME TAG [hold_for=5s]               starts a coordinator; TAG is the tag of its ledger
//! lower NAME TAG TOP RM,RM [soft=120s] [hard=900s]        starts a child coordinator of TOP, with RMs of its own
//! rm NAME RESOURCE=CAPACITY.. [soft=120s] [hard=900s] [holds=10000] [user_holds=2000]
//!                                          starts an RM; each coordinator, and each of its users, may have so many
//!                                          holds there
//! demand NAME USER GRC [request=ID] [content=TEXT]        a request; its id is NAME unless given
//!   plan RM RESOURCE AMOUNT [START,END) ; RM ..           its candidates, best first; times in seconds
//!   turns RM RESOURCE AMOUNT [START,END) ; RM .. | RM ..  the same, held at one RM after the other; the RMs
//!                                                         behind `|` come last, all at once
//!   one-way RM RESOURCE AMOUNT [START,END) ; RM ..        the same, booked one-way: the message that would
//!                                                         hold books
//! change NAME DEMAND                       a change of the demand; `plan` lines after it are its candidates
//! modify DEMAND NAME                       the demand's user sends that change
//! follow DEMAND                            `plan` lines after it are what the coordinator's shell plans when
//!                                          something is reported about the demand
//! report DEMAND NAME                       the demand's user sends a report of that name
//! reserve DEMAND | release DEMAND          the demand's user sends the request, or the release
//! lose WORD A -> B [N]                     loses the next N (default 1) packets of that word from A to B
//! twice WORD A -> B [N]                    delivers them twice
//! delay WORD A -> B TIME                   delays the next such packet
//! cut A -> B | mend A -> B                 stops all packets from A to B, or lets them pass again
//! crash NODE                               the node dies at once
//! crash NODE before-sync                   dies at its next sync that writes: nothing is written or sent
//! crash NODE torn-sync                     likewise: a part is written, without its end
//! crash NODE after-sync N                  likewise: all is durable, and the first N effects are sent
//! restart NODE [reboot]                    starts the process again, or reboots the machine first
//! restore NODE N                           the node dies, and an older copy of its disk is put back, which
//!                                          lacks at least the last N records
//! low NODE | full NODE | room NODE         its disk takes only ends of what has begun; nothing; all again
//! clock NODE TIME                          sets its wall clock, this far ahead of the world's; `-30s` is behind
//! freeze NODE TIME [in-sync]               freezes its process for so long; at once, or at its next sync
//!                                          that writes, between its step and the end of that sync
//! vanish DEMAND                            the demand's user goes away and gets no more answers
//! give-up DEMAND RM                        an operator of the demand's coordinator gives up on that RM
//! wait TIME                                10ms, 7s
//! settle                                   runs until all is at rest, then checks what must hold at rest
//! show                                     prints reservations and what the RMs have of them
//! ```
//!
//! A packet takes 10 ms; a sync and planning take no time. Words: Hold, Commit, Abort, Release, Held, Done,
//! Refused, Resolve, Resolution.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{
    Amount, CoordinatorName, RequestId, ResourceId, ResourceKind, RmName, Segment, ServiceLevels,
    Span, Window, limits,
};
use coalloc_protocol::coordinator::{Candidate, CoordinatorConfig, ParentConfig};
use coalloc_protocol::participant::{HoldPolicy, HoldQuotas, ParticipantConfig, Phase};

use crate::world::clients::{Demand, Visit, WantedChange};
use crate::world::network::{PacketFate, Rule};
use crate::world::node::{CrashPoint, DiskSurvival, WALL_START};
use crate::world::trouble::Trouble;
use crate::world::{Address, Event, Trace, World, print};

/// A story may take at most this long to settle, in microseconds.
const SETTLE_US: i64 = 1_200 * 1_000_000;

type LineResult = Result<(), String>;

/// Runs a script and returns its transcript, line by line.
///
/// # Errors
/// The line that is no command, or the check that failed after a line.
pub fn tell(script: &str) -> Result<Vec<String>, String> {
    ScriptRunner::tell(script)
}

/// A world with the nodes, demands and changes of a script, and the index of each demand by its name.
pub(crate) fn set_up(
    script: &str,
    world: World,
) -> Result<(World, BTreeMap<String, usize>), String> {
    let mut teller = ScriptRunner::new(script, world);
    teller.commands(script)?;
    Ok((teller.world, teller.demands))
}

/// What `plan` lines belong to.
#[derive(Debug, Clone, Copy)]
enum PlannedPart {
    /// The last demand.
    Demand,
    /// The last change of the last demand.
    Change,
    /// What follows from reports about the last demand.
    Follow,
}

/// Runs the commands of a script on a world, and keeps the names of its demands.
struct ScriptRunner {
    world: World,
    demands: BTreeMap<String, usize>,
    last: Option<usize>,
    /// What `plan` lines belong to.
    planned: PlannedPart,
    /// Every coordinator of the script. RMs accept all of them from the beginning.
    coordinators: Vec<CoordinatorName>,
}

impl ScriptRunner {
    fn tell(script: &str) -> Result<Vec<String>, String> {
        let mut teller = Self::new(script, World::new(0, Trace::Keep(Vec::new())));
        teller.commands(script)?;
        match teller.world.trace {
            Trace::Keep(lines) => Ok(lines),
            Trace::Off | Trace::Print | Trace::Share(_) => Ok(Vec::new()),
        }
    }

    fn new(script: &str, world: World) -> Self {
        let kinds = ["grc ", "lower "];
        let of = |line: &'_ str| {
            kinds.iter().find_map(|kind| line.strip_prefix(kind).map(str::to_owned))
        };
        let grcs: Vec<String> = script.lines().filter_map(of).collect();
        let grcs = grcs.iter();
        let names = grcs.filter_map(|line| line.split_whitespace().next());
        Self {
            world,
            demands: BTreeMap::new(),
            last: None,
            planned: PlannedPart::Demand,
            coordinators: names.map(CoordinatorName::composed).collect(),
        }
    }

    fn commands(&mut self, script: &str) -> LineResult {
        for (number, line) in (1..).zip(script.lines()) {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            self.command(line).map_err(|error| format!("line {number}: {line:?}: {error}"))?;
        }
        Ok(())
    }

    fn command(&mut self, line: &str) -> LineResult {
        let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let told = ["grc", "lower", "rm", "demand", "change", "follow", "plan", "turns", "one-way"];
        if !told.contains(&word) {
            self.print(format!("> {}", line.trim()));
        }
        match word {
            "grc" => self.grc(&words).and_then(|()| self.wait(Span::ZERO))?,
            "lower" => self.lower(&words).and_then(|()| self.wait(Span::ZERO))?,
            "rm" => self.rm(&words).and_then(|()| self.wait(Span::ZERO))?,
            "demand" => self.demand(&words)?,
            "plan" => self.plan(rest, false, false)?,
            "turns" => self.plan(rest, true, false)?,
            "one-way" => self.plan(rest, true, true)?,
            "change" => self.change(&words)?,
            "modify" => {
                let demand = self.known(&words)?;
                let name = words.get(1).ok_or("which change?")?;
                let changes = &self.world.clients.demands[demand].changes;
                let wish = changes.iter().position(|wish| wish.id.as_str() == *name);
                let wish = wish.ok_or_else(|| format!("there is no change {name}"))?;
                self.world.visit(Visit::Change { demand, wish })?;
            }
            "follow" => {
                self.last = Some(self.known(&words)?);
                self.planned = PlannedPart::Follow;
            }
            "report" => {
                let demand = self.known(&words)?;
                let name = words.get(1).ok_or("which report?")?;
                let report = self.world.add_report(demand, name);
                self.world.visit(Visit::Report { demand, report })?;
            }
            "reserve" => self.world.visit(Visit::Open(self.known(&words)?))?,
            "release" => self.world.visit(Visit::Release(self.known(&words)?))?,
            "lose" => self.rule(&words, PacketFate::Lose)?,
            "twice" => self.rule(&words, PacketFate::Twice)?,
            "delay" => {
                let time = time(words.get(4).ok_or("a time is missing")?)?;
                self.rule(&words[..4], PacketFate::Delay(time))?;
            }
            "cut" | "mend" => {
                let (from, to) = self.way(&words)?;
                if word == "cut" { self.world.cut(from, to) } else { self.world.mend(from, to) }
            }
            "crash" => self.crash(&words)?,
            "restart" => {
                let node = self.node(words.first())?;
                self.world.restart(node, words.get(1) == Some(&"reboot"))?;
            }
            "restore" => self.restore(&words)?,
            "low" | "full" | "room" | "freeze" | "clock" => self.trouble(word, &words)?,
            "vanish" => self.world.visit(Visit::Vanish(self.known(&words)?))?,
            "give-up" => {
                let rm = words.get(1).ok_or("which RM?")?;
                self.world.give_up(self.known(&words)?, RmName::composed(*rm))?;
            }
            "wait" => self.wait(time(words.first().ok_or("how long?")?)?)?,
            "settle" => self.settle()?,
            "show" => self.show(),
            _ => return Err("not a command".to_owned()),
        }
        Ok(())
    }

    fn print(&mut self, line: String) {
        if let Trace::Keep(lines) = &mut self.world.trace {
            lines.push(line);
        }
    }

    fn node(&self, name: Option<&&str>) -> Result<Address, String> {
        let name = name.ok_or("a node's name is missing")?;
        self.world.find(name).ok_or_else(|| format!("there is no node {name}"))
    }

    fn way(&self, words: &[&str]) -> Result<(Address, Address), String> {
        match words {
            [from, "->", to, ..] => Ok((self.node(Some(from))?, self.node(Some(to))?)),
            _ => Err("A -> B is missing".to_owned()),
        }
    }

    fn known(&self, words: &[&str]) -> Result<usize, String> {
        let name = words.first().ok_or("which demand?")?;
        self.demands.get(*name).copied().ok_or_else(|| format!("there is no demand {name}"))
    }

    fn grc(&mut self, words: &[&str]) -> LineResult {
        let [name, tag, options @ ..] = words else { return Err("NAME TAG".to_owned()) };
        let name = CoordinatorName::composed(*name);
        let hold_for = option(options, "hold_for").map(time).transpose()?;
        self.world.add_grc(CoordinatorConfig {
            name,
            tag: (*tag).to_owned(),
            hold_for,
            forgets: None,
        })
    }

    fn lower(&mut self, words: &[&str]) -> LineResult {
        let [name, tag, top, own, options @ ..] = words else {
            return Err("NAME TAG TOP RM,RM".to_owned());
        };
        let span = |key, or| option(options, key).map_or(Ok(or), time);
        let name = CoordinatorName::composed(*name);
        let above = ParentConfig {
            coordinators: [CoordinatorName::composed(*top)].into(),
            soft: span("soft", limits::HOLD_SOFT_DEFAULT)?,
            hard: span("hard", limits::HOLD_HARD_DEFAULT)?,
            boot: String::new(),
        };
        let own = own.split(',').map(RmName::composed).collect();
        let config =
            CoordinatorConfig { name, tag: (*tag).to_owned(), hold_for: None, forgets: None };
        self.world.add_lower(config, above, own)
    }

    fn rm(&mut self, words: &[&str]) -> LineResult {
        let [name, options @ ..] = words else { return Err("NAME".to_owned()) };
        let span = |key, or| option(options, key).map_or(Ok(or), time);
        let policy = HoldPolicy {
            soft: span("soft", limits::HOLD_SOFT_DEFAULT)?,
            hard: span("hard", limits::HOLD_HARD_DEFAULT)?,
            horizon: limits::HORIZON_DEFAULT,
            ..HoldPolicy::default()
        };
        let quota = |key, most: &mut u32| match option(options, key) {
            Some(holds) => holds.parse().map(|holds| *most = holds).map_err(|_| "not a number"),
            None => Ok(()),
        };
        let mut quotas = HoldQuotas::default();
        quota("holds", &mut quotas.each.all.holds)?;
        quota("user_holds", &mut quotas.each.each_user.holds)?;
        let mut resources = Vec::new();
        for (resource, capacity) in options.iter().filter_map(|word| word.split_once('=')) {
            if !["soft", "hard", "holds", "user_holds"].contains(&resource) {
                let capacity = capacity.parse().map_err(|_| "capacity is not a number")?;
                resources.push((ResourceId::composed(resource), Amount(capacity)));
            }
        }
        self.world.add_rm(ParticipantConfig {
            name: RmName::composed(*name),
            kinds: match name.starts_with("nrm") {
                true => ResourceKind::Bandwidth.into(),
                false => ResourceKind::Cpus.into(),
            },
            resources,
            coordinators: self.coordinators.iter().cloned().collect(),
            policy,
            levels: ServiceLevels::default(),
            quotas,
            inside: None,
            servers: BTreeMap::new(),
        })
    }

    fn demand(&mut self, words: &[&str]) -> LineResult {
        let [name, user, grc, options @ ..] = words else {
            return Err("NAME USER GRC".to_owned());
        };
        let Address::Grc(grc) = self.node(Some(grc))? else {
            return Err("not a coordinator".to_owned());
        };
        let request = option(options, "request").unwrap_or(name);
        let mut demand = Demand::new(grc, request, user, Vec::new());
        if let Some(content) = option(options, "content") {
            demand.ticket.content = content.to_owned();
            demand.impostor = true;
        }
        let index = self.world.add_demand(demand);
        self.demands.insert((*name).to_owned(), index);
        self.last = Some(index);
        self.planned = PlannedPart::Demand;
        Ok(())
    }

    fn change(&mut self, words: &[&str]) -> LineResult {
        let [name, rest @ ..] = words else { return Err("NAME DEMAND".to_owned()) };
        let demand = self.known(rest)?;
        let id = RequestId::composed(*name);
        let wish =
            WantedChange { id, candidates: Vec::new(), avoid: BTreeSet::new(), outcome: None };
        self.world.clients.demands[demand].changes.push(wish);
        self.last = Some(demand);
        self.planned = PlannedPart::Change;
        Ok(())
    }

    fn plan(&mut self, rest: &str, in_turns: bool, one_way: bool) -> LineResult {
        let demand = self.last.ok_or("a plan belongs to a demand")?;
        let mut segments: BTreeMap<RmName, Vec<Segment>> = BTreeMap::new();
        let mut order = Vec::new();
        let (turns, together) = rest.split_once('|').unwrap_or((rest, ""));
        let parts = turns.split(';').map(|part| (part, in_turns));
        let together = together.split(';').filter(|part| !part.trim().is_empty());
        for (part, in_turns) in parts.chain(together.map(|part| (part, false))) {
            let words: Vec<&str> = part.split_whitespace().collect();
            let [rm, resource, amount, window] = words[..] else {
                return Err("RM RESOURCE AMOUNT [START,END)".to_owned());
            };
            let inner = window.trim_start_matches('[').trim_end_matches(')');
            let (start, end) = inner.split_once(',').ok_or("[START,END)")?;
            let second = |text: &str| {
                let s: i64 = text.parse().map_err(|_| format!("{text} is not a number"))?;
                Ok::<_, String>(WALL_START.saturating_add(Span::from_secs(s)))
            };
            let window = Window::new(second(start)?, second(end)?).ok_or("an empty window")?;
            let amount = Amount(amount.parse().map_err(|_| "amount is not a number")?);
            let segment = Segment { resource: ResourceId::composed(resource), amount, window };
            let rm = RmName::composed(rm);
            if in_turns && !order.contains(&rm) {
                order.push(rm.clone());
            }
            segments.entry(rm).or_default().push(segment);
        }
        let candidate = Candidate { segments, order, one_way, ..Candidate::default() };
        let demand = &mut self.world.clients.demands[demand];
        match self.planned {
            PlannedPart::Change => {
                let wish = demand.changes.last_mut().ok_or("there is no change")?;
                wish.candidates.push(candidate);
            }
            PlannedPart::Follow => demand.follow.push(candidate),
            PlannedPart::Demand => demand.candidates.push(candidate),
        }
        Ok(())
    }

    fn rule(&mut self, words: &[&str], fate: PacketFate) -> LineResult {
        let (word, way) = words.split_first().ok_or("WORD A -> B")?;
        let (from, to) = self.way(way)?;
        let times = way.get(3).map_or(Ok(1), |n| n.parse()).map_err(|_| "how often?")?;
        self.world.rules.push(Rule { word: (*word).to_owned(), from, to, fate, times });
        Ok(())
    }

    fn crash(&mut self, words: &[&str]) -> LineResult {
        let node = self.node(words.first())?;
        match words.get(1..) {
            None | Some([]) => self.world.crash(node, -1, false),
            Some(["before-sync"]) => {
                self.world.crash_next.insert(node, CrashPoint::BeforeWrite);
            }
            Some(["torn-sync"]) => {
                let point = CrashPoint::BeforeFsync(DiskSurvival::Part);
                self.world.crash_next.insert(node, point);
            }
            Some(["after-sync", count]) => {
                let count = count.parse().map_err(|_| "how many effects?")?;
                self.world.crash_next.insert(node, CrashPoint::AfterEffects(count));
            }
            Some(_) => return Err("before-sync, torn-sync or after-sync N".to_owned()),
        }
        Ok(())
    }

    fn restore(&mut self, words: &[&str]) -> LineResult {
        let node = self.node(words.first())?;
        let lost = words.get(1).ok_or("how many records?")?;
        let lost: usize = lost.parse().map_err(|_| "how many records?")?;
        self.world.crash(node, -1, false);
        self.world.restore_without(node, lost)
    }

    fn trouble(&mut self, word: &str, words: &[&str]) -> LineResult {
        let node = self.node(words.first())?;
        let us = words.get(1).map_or(Ok(Span::ZERO), |text| time(text))?.as_us();
        if word == "freeze" && words.get(2) == Some(&"in-sync") {
            self.world.freeze_next.insert(node, us);
            return Ok(());
        }
        let event = match word {
            "low" => Event::Trouble(Trouble::Low(node)),
            "full" => Event::Trouble(Trouble::Full(node)),
            "room" => Event::Trouble(Trouble::Room(node)),
            "freeze" => Event::Trouble(Trouble::Freeze(node, us)),
            _ => Event::WallJump(node, us),
        };
        self.world.at(self.world.now_us, event);
        self.wait(Span::ZERO)
    }

    fn wait(&mut self, span: Span) -> LineResult {
        let until_us = self.world.now_us + span.as_us();
        while self.world.next_at().is_some_and(|at| at <= until_us) {
            self.world.step()?;
        }
        self.world.now_us = until_us;
        Ok(())
    }

    fn settle(&mut self) -> LineResult {
        let until_us = self.world.now_us + SETTLE_US;
        while !(self.world.is_idle() && self.world.are_nodes_quiet()) {
            if self.world.next_at().is_none_or(|at| at > until_us) {
                return Err(format!("it does not settle: {}", self.world.why_not_quiet()));
            }
            self.world.step()?;
        }
        self.world.check_rest()
    }

    fn show(&mut self) {
        let mut lines = Vec::new();
        for grc in self.world.grcs.iter().filter(|grc| grc.is_up()) {
            for reservation in grc.shadow.reservations() {
                lines.push(format!("  {}: {}", grc.name, print::reservation(reservation)));
            }
        }
        for rm in &self.world.rms {
            for (txn, entry) in rm.shadow.entries() {
                let phase = match &entry.phase {
                    Phase::Held(_) => "held".to_owned(),
                    Phase::Booked => "booked".to_owned(),
                    Phase::Refused(refusal) => format!("refused, {:?}", refusal.reason),
                    Phase::Ended(ending) => ending.word().to_owned(),
                };
                lines.push(format!("  {}: {txn} {phase}", rm.name));
            }
        }
        lines.into_iter().for_each(|line| self.print(line));
    }
}

fn option<'a>(options: &[&'a str], key: &str) -> Option<&'a str> {
    options.iter().filter_map(|word| word.split_once('=')).find(|(k, _)| *k == key).map(|(_, v)| v)
}

/// Reads a time such as `10ms` or `7s`.
pub(crate) fn time(text: &str) -> Result<Span, String> {
    let wrong = || format!("{text} is not a time such as 10ms or 7s");
    if let Some(ms) = text.strip_suffix("ms") {
        return Ok(Span::from_millis(ms.parse().map_err(|_| wrong())?));
    }
    let s = text.strip_suffix('s').ok_or_else(wrong)?;
    Ok(Span::from_secs(s.parse().map_err(|_| wrong())?))
}
