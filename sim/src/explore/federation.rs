//! One coordinator and two resource managers, the packets in flight between them, and what may happen next.
//!
//! Time moves to an alarm, of any node. Nodes with an earlier alarm are then late, like a process that gets no
//! processor. If time moves while a message waits to be handled, the message is late, too. A caller gives up
//! after the timeout of its call, and the message may still arrive.
//!
//! Left out: the checks of what is right, which [`super::checks`] has.

use std::collections::BTreeMap;
use std::rc::Rc;

use coalloc_common::{RmName, limits};
use coalloc_protocol::conversation::{Caller, ChangeEnd, Next, ReleaseReply, RequestEnd};
use coalloc_protocol::coordinator::{
    Coordinator, CoordinatorEffect, CoordinatorInput, Reply, Reservation,
};
use coalloc_protocol::message::{Delivery, Message, Resolution, Token};
use coalloc_protocol::participant::{Participant, ParticipantEffect, ParticipantInput};

use super::cores::{Cores, Number};
use super::packet::{Content, Foreign, NOBODY, Node, Packet, status, strangers, tidy};
use super::scenarios::{RMS, Scenario, UserCall, coordinator_name};

/// The token of an RM's Resolve. The tokens of users are the numbers of their calls.
const ASKED: u64 = u64::MAX;

/// Something that may happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextEvent {
    /// A node handles a packet.
    Take(Packet),
    /// A node's alarm fires, now or when its time comes.
    Wake(Node),
    /// The user makes its next call, or repeats one without an answer.
    Call,
    /// The user releases before the answer to its last call has arrived.
    Haste,
    /// A packet is lost. If the coordinator waits for it, the coordinator learns that at once.
    Lose(Packet),
    /// A node handles a packet, and another copy of it will arrive.
    Twice(Packet),
    /// A stranger answers a call, or puts another answer in the place of the true one.
    Stranger(Packet, Foreign),
    /// A process dies, and a new one begins.
    Kill(Node),
}

/// Something that may happen, and how it ends: a process may die when its records are durable and none of its
/// messages has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) what: NextEvent,
    pub(super) dies: bool,
    pub(super) fault: Option<Fault>,
}

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A message is lost.
    Loss,
    /// A message comes twice.
    Double,
    /// A stranger answers a message in place of a node.
    Stranger,
    /// A process dies.
    Death,
    /// Time moves before a message is handled, or before a node has handled its alarm.
    Late,
    /// The user does not wait for an answer.
    Haste,
}

/// The whole state of the federation at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) now: i64,
    pub(super) grc: Number,
    pub(super) rms: [Number; 2],
    /// The packets in flight, in the order of their numbers.
    pub(super) flight: Vec<Packet>,
    /// The user's next call, or the call that it waits for.
    pub(super) call: usize,
    pub(super) waits: bool,
}

/// What a node handles in one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stimulus {
    Restart,
    Tick,
    Take(u32),
    Stranger(u32, Foreign),
    Lost(u32),
    Call(usize),
}

/// The outcome of one step of a node.
pub(super) struct StepOutcome {
    to: Number,
    /// The numbers of the contents of the packets that it sends.
    sends: Vec<u32>,
    /// Which calls of the user are answered, and how.
    pub(super) told: Vec<(u64, String)>,
    problem: Option<String>,
}

/// A scenario, and everything that was met in exploring it: states of cores, contents of packets, and steps.
pub(super) struct Federation {
    pub(super) scenario: Scenario,
    pub(super) grc: Cores<Coordinator>,
    pub(super) rms: [Cores<Participant>; 2],
    pub(super) contents: Vec<Content>,
    numbers: BTreeMap<String, u32>,
    made: BTreeMap<(Node, Number, i64, Stimulus), Rc<StepOutcome>>,
}

impl Federation {
    /// The federation, and its first state.
    pub(super) fn new(scenario: Scenario) -> (Self, State) {
        let start = || ParticipantInput::Start { boot: "boot-1".to_owned() };
        let participant = |rm| {
            let core = Participant::new(scenario.participant(rm)).with_changes_kept(0);
            Cores::new(core, start)
        };
        let coordinator = Coordinator::new(Scenario::coordinator());
        let mut federation = Self {
            scenario,
            grc: Cores::new(coordinator, || CoordinatorInput::Start),
            rms: [participant(0), participant(1)],
            contents: Vec::new(),
            numbers: BTreeMap::new(),
            made: BTreeMap::new(),
        };
        let grc = federation.grc.begin().to;
        let rms = [federation.rms[0].begin().to, federation.rms[1].begin().to];
        (federation, State { now: 0, grc, rms, flight: Vec::new(), call: 0, waits: false })
    }

    /// How many states of cores there are, and how many steps of cores were made.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.grc.len() + self.rms[0].len() + self.rms[1].len(), self.made.len())
    }

    pub(super) fn wake(&self, state: &State, node: Node) -> Option<i64> {
        match node {
            Node::Grc => self.grc.wake(state.grc),
            Node::Rm(rm) => self.rms[rm].wake(state.rms[rm]),
        }
    }

    /// Is nothing under way, and does no node wait for an alarm?
    pub(super) fn is_at_rest(&self, state: &State) -> bool {
        let live = state.flight.iter().any(|packet| packet.is_live());
        !live && Node::ALL.into_iter().all(|node| self.wake(state, node).is_none())
    }

    /// Everything that may happen next, in a fixed order.
    pub(super) fn choices(&self, state: &State) -> Vec<Choice> {
        let mut choices = Vec::new();
        let mut add = |what, fault| choices.push(Choice { what, dies: false, fault });
        let calls = self.scenario.calls;
        if state.call < calls.len() && !state.waits {
            add(NextEvent::Call, None);
        }
        let last = matches!(calls.last(), Some(UserCall::Release));
        if state.waits && state.call + 1 < calls.len() && last {
            add(NextEvent::Haste, Some(Fault::Haste));
        }
        for (index, &packet) in state.flight.iter().enumerate() {
            if index > 0 && state.flight[index - 1] == packet {
                continue;
            }
            add(NextEvent::Take(packet), None);
            if !packet.is_live() {
                continue;
            }
            add(NextEvent::Lose(packet), Some(Fault::Loss));
            let content = &self.contents[packet.content as usize];
            if content.is_call() && !state.flight.contains(&Packet { until: NOBODY, ..packet }) {
                add(NextEvent::Twice(packet), Some(Fault::Double));
            }
            for &foreign in strangers(content) {
                add(NextEvent::Stranger(packet, foreign), Some(Fault::Stranger));
            }
        }
        let live = state.flight.iter().any(|packet| packet.is_live());
        let wakes = Node::ALL.map(|node| self.wake(state, node));
        for (node, wake) in Node::ALL.into_iter().zip(wakes) {
            let Some(wake) = wake else { continue };
            let overtakes = wakes.iter().flatten().any(|&other| other < wake);
            let late = wake > state.now && (live || overtakes);
            add(NextEvent::Wake(node), late.then_some(Fault::Late));
        }
        for node in Node::ALL {
            add(NextEvent::Kill(node), Some(Fault::Death));
        }
        let steps = choices.iter().filter(|choice| choice.fault.is_none());
        let dying = steps.map(|step| Choice { dies: true, fault: Some(Fault::Death), ..*step });
        let dying: Vec<Choice> = dying.collect();
        choices.extend(dying);
        choices
    }

    /// The state after a choice, the answers to the user, and the problem if a check failed.
    pub(super) fn take(
        &mut self,
        from: &State,
        Choice { what, dies, .. }: Choice,
    ) -> (State, Vec<(u64, String)>, Option<String>) {
        let mut next = NextState { state: from.clone(), told: Vec::new(), problem: None, dies };
        match what {
            NextEvent::Take(packet) => self.delivered(&mut next, packet),
            NextEvent::Twice(packet) => {
                next.add(Packet { until: NOBODY, ..packet });
                self.delivered(&mut next, packet);
            }
            NextEvent::Lose(packet) => {
                next.remove(packet);
                if self.contents[packet.content as usize].caller() == Node::Grc {
                    self.give(&mut next, Node::Grc, Stimulus::Lost(packet.content), NOBODY);
                }
            }
            NextEvent::Stranger(packet, foreign) => {
                next.remove(packet);
                let caller = self.contents[packet.content as usize].caller();
                self.give(&mut next, caller, Stimulus::Stranger(packet.content, foreign), NOBODY);
            }
            NextEvent::Wake(node) => {
                if let Some(wake) = self.wake(&next.state, node) {
                    self.pass(&mut next.state, wake);
                }
                self.give(&mut next, node, Stimulus::Tick, NOBODY);
            }
            NextEvent::Call | NextEvent::Haste => {
                if what == NextEvent::Haste {
                    next.state.call = self.scenario.calls.len() - 1;
                }
                next.state.waits = true;
                let call = Stimulus::Call(next.state.call);
                self.give(&mut next, Node::Grc, call, NOBODY);
            }
            NextEvent::Kill(node) => self.restart(&mut next, node),
        }
        (next.state, next.told, next.problem)
    }

    fn delivered(&mut self, next: &mut NextState, packet: Packet) {
        next.remove(packet);
        let to = self.contents[packet.content as usize].to();
        self.give(next, to, Stimulus::Take(packet.content), packet.until);
    }

    /// Moves the time. Callers whose timeout has passed give up.
    fn pass(&self, state: &mut State, to: i64) {
        state.now = state.now.max(to);
        let now = state.now;
        let flight = std::mem::take(&mut state.flight);
        let kept = flight.into_iter().filter_map(|packet| {
            if packet.until > now {
                return Some(packet);
            }
            let is_call = self.contents[packet.content as usize].is_call();
            is_call.then_some(Packet { until: NOBODY, ..packet })
        });
        state.flight = kept.collect();
        tidy(&mut state.flight);
    }

    /// A process dies, with all the answers that it waits for, and a new one begins.
    fn restart(&mut self, next: &mut NextState, node: Node) {
        let contents = &self.contents;
        let flight = std::mem::take(&mut next.state.flight);
        let kept = flight.into_iter().filter_map(|packet| {
            let content = &contents[packet.content as usize];
            if content.caller() != node {
                return Some(packet);
            }
            content.is_call().then_some(Packet { until: NOBODY, ..packet })
        });
        next.state.flight = kept.collect();
        tidy(&mut next.state.flight);
        if node == Node::Grc {
            next.state.waits = false;
        }
        next.dies = false;
        self.give(next, node, Stimulus::Restart, NOBODY);
    }

    /// A node handles a stimulus. The caller waits until `until` for the answer that the node sends.
    fn give(&mut self, next: &mut NextState, node: Node, stimulus: Stimulus, until: i64) {
        let now = next.state.now;
        let number = match node {
            Node::Grc => &mut next.state.grc,
            Node::Rm(rm) => &mut next.state.rms[rm],
        };
        let made = self.make(node, *number, now, stimulus);
        *number = made.to;
        if let Some(problem) = &made.problem {
            next.problem.get_or_insert(format!("{}: {problem}", node.name()));
        }
        if next.dies {
            return self.restart(next, node);
        }
        for &content in &made.sends {
            let is_call = self.contents[content as usize].is_call();
            let patience = now + limits::MESSAGE_PATIENCE.as_us();
            let until = if is_call { patience } else { until };
            if is_call || until != NOBODY {
                next.add(Packet { content, until });
            }
        }
        for (token, text) in &made.told {
            if next.state.waits && *token == next.state.call as u64 {
                next.state.waits = false;
                next.state.call += 1;
            }
            next.told.push((*token, text.clone()));
        }
    }

    /// One step of a core. A step that was made before is not made again.
    fn make(&mut self, node: Node, from: Number, now: i64, stimulus: Stimulus) -> Rc<StepOutcome> {
        let key = (node, from, now, stimulus);
        if let Some(made) = self.made.get(&key) {
            return Rc::clone(made);
        }
        let made = Rc::new(match node {
            Node::Grc => self.make_coordinator(from, now, stimulus),
            Node::Rm(rm) => self.make_participant(rm, from, now, stimulus),
        });
        self.made.insert(key, Rc::clone(&made));
        made
    }

    fn make_coordinator(&mut self, from: Number, now: i64, stimulus: Stimulus) -> StepOutcome {
        let input = self.told_coordinator(stimulus);
        let asked = match stimulus {
            Stimulus::Take(content) => self.contents.get(content as usize).cloned(),
            _ => None,
        };
        let mut stepped = match stimulus {
            Stimulus::Restart => self.grc.restart(from, now),
            _ => self.grc.step(from, input.into_iter().collect(), now),
        };
        let (mut sends, mut told) = (Vec::new(), Vec::new());
        loop {
            let mut follow = Vec::new();
            for effect in std::mem::take(&mut stepped.effects) {
                match effect {
                    CoordinatorEffect::Send { rm, txn, message, .. } => {
                        let rm = usize::from(rm.as_str() == RMS[1]);
                        sends.push(self.content(Content::Request { rm, txn, message }));
                    }
                    CoordinatorEffect::Reply(Reply::Resolve(_, resolution)) => {
                        if let Some(Content::Question { rm, txn }) = asked.clone() {
                            sends.push(self.content(Content::Resolution { rm, txn, resolution }));
                        }
                    }
                    CoordinatorEffect::Reply(reply) => match self.planned(reply) {
                        Ok(input) => follow.push(input),
                        Err((call, end)) => told.push((call, end)),
                    },
                    CoordinatorEffect::AskParent { .. } => {}
                }
            }
            if follow.is_empty() {
                return StepOutcome { to: stepped.to, sends, told, problem: stepped.problem };
            }
            let problem = stepped.problem.take();
            stepped = self.grc.step(stepped.to, follow, now);
            stepped.problem = problem.or(stepped.problem);
        }
    }

    /// The coordinator's input with the result of planning, if the answer asks for that. Otherwise the number
    /// of the call that is answered, and the answer.
    fn planned(&self, reply: Reply) -> Result<CoordinatorInput, (u64, String)> {
        let (number, job, caller) = match reply {
            Reply::Request(token, Next::Plan(job)) => (token.number(), job, Caller::Request(token)),
            Reply::Change(token, Next::Plan(job)) => (token.number(), job, Caller::Change(token)),
            Reply::Request(token, Next::Done(RequestEnd::Stands(known))) => {
                return Err((token.number(), print(&known)));
            }
            Reply::Change(token, Next::Done(ChangeEnd::Stands(known))) => {
                return Err((token.number(), print(&known)));
            }
            Reply::Release(token, ReleaseReply::Stands(known)) => {
                return Err((token.number(), print(&known)));
            }
            Reply::Request(token, end) => return Err((token.number(), format!("{end:?}"))),
            Reply::Change(token, end) => return Err((token.number(), format!("{end:?}"))),
            Reply::Release(token, end) => return Err((token.number(), format!("{end:?}"))),
            other => return Err((ASKED, format!("{other:?}"))),
        };
        let step = usize::try_from(number).unwrap_or(usize::MAX);
        Ok(self.scenario.planned(step, job, caller).into())
    }

    fn told_coordinator(&self, stimulus: Stimulus) -> Option<CoordinatorInput> {
        let content = |number: u32| self.contents.get(number as usize).cloned();
        let (content, delivery) = match stimulus {
            Stimulus::Restart | Stimulus::Tick => return None,
            Stimulus::Call(call) => return self.scenario.begin(call),
            Stimulus::Take(number) => match content(number)? {
                Content::Answer { ref answer, .. } => {
                    let delivery = Delivery::Answered(answer.clone());
                    (content(number)?, delivery)
                }
                Content::Question { rm, txn } => {
                    let rm = RmName::composed(RMS[rm]);
                    return Some(CoordinatorInput::Resolve { txn, rm, token: Token::new(ASKED) });
                }
                Content::Request { .. } | Content::Resolution { .. } => return None,
            },
            Stimulus::Lost(number) => (content(number)?, Delivery::Lost),
            Stimulus::Stranger(number, foreign) => (content(number)?, status(foreign)),
        };
        let (rm, txn, kind) = match content {
            Content::Request { rm, txn, message } => (rm, txn, message.kind()),
            Content::Answer { rm, txn, kind, .. } => (rm, txn, kind),
            Content::Question { .. } | Content::Resolution { .. } => return None,
        };
        Some(CoordinatorInput::Delivered { rm: RmName::composed(RMS[rm]), txn, kind, delivery })
    }

    fn make_participant(
        &mut self,
        rm: usize,
        from: Number,
        now: i64,
        stimulus: Stimulus,
    ) -> StepOutcome {
        let content = match stimulus {
            Stimulus::Take(number) | Stimulus::Stranger(number, _) => {
                self.contents.get(number as usize).cloned()
            }
            _ => None,
        };
        let (token, by) = (Token::new(ASKED), coordinator_name());
        let input = match content.clone() {
            None => None,
            Some(Content::Request { txn, message, .. }) => Some(match message {
                Message::Hold(order) => ParticipantInput::Hold { order, oldest_open: 0, token },
                Message::Commit => ParticipantInput::Commit { txn, by, token },
                Message::Abort => ParticipantInput::Abort { txn, by, token },
                Message::Release => ParticipantInput::Release { txn, by, token },
            }),
            Some(Content::Question { txn, .. }) => {
                Some(ParticipantInput::Resolved { txn, resolution: Resolution::NotMine })
            }
            Some(Content::Resolution { txn, resolution, .. }) => {
                let is_foreign = matches!(stimulus, Stimulus::Stranger(..));
                let resolution = if is_foreign { Resolution::NotMine } else { resolution };
                Some(ParticipantInput::Resolved { txn, resolution })
            }
            Some(Content::Answer { .. }) => None,
        };
        let stepped = match stimulus {
            Stimulus::Restart => self.rms[rm].restart(from, now),
            _ => self.rms[rm].step(from, input.into_iter().collect(), now),
        };
        let mut sends = Vec::new();
        for effect in stepped.effects {
            match (effect, &content) {
                (ParticipantEffect::Ask { txn, .. }, _) => {
                    sends.push(self.content(Content::Question { rm, txn }));
                }
                (
                    ParticipantEffect::Reply { answer, .. },
                    Some(Content::Request { txn, message, .. }),
                ) => {
                    let (txn, kind) = (txn.clone(), message.kind());
                    sends.push(self.content(Content::Answer { rm, txn, kind, answer }));
                }
                (ParticipantEffect::Reply { .. } | ParticipantEffect::Reconcile { .. }, _) => {}
            }
        }
        StepOutcome { to: stepped.to, sends, told: Vec::new(), problem: stepped.problem }
    }

    fn content(&mut self, content: Content) -> u32 {
        let next = u32::try_from(self.contents.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(format!("{content:?}")).or_insert(next);
        if number == next {
            self.contents.push(content);
        }
        number
    }
}

/// The state after a choice, while it is being computed.
struct NextState {
    state: State,
    told: Vec<(u64, String)>,
    problem: Option<String>,
    dies: bool,
}

impl NextState {
    fn add(&mut self, packet: Packet) {
        self.state.flight.push(packet);
        tidy(&mut self.state.flight);
    }

    fn remove(&mut self, packet: Packet) {
        if let Some(at) = self.state.flight.iter().position(|other| *other == packet) {
            self.state.flight.remove(at);
        }
    }
}

fn print(known: &Reservation) -> String {
    let change = known.change.as_ref().map(|change| change.state);
    let change = change.map_or(String::new(), |change| format!(", change {change:?}"));
    let definite = if known.is_definite() { "definite" } else { "not definite" };
    format!("{:?}{change}, {definite}", known.state)
}
