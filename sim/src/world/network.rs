//! The simulated network: its packets, what happens to them, and the rates of all faults.

use coalloc_common::{Span, TransactionId};
use coalloc_protocol::coordinator::MessageKind;
use coalloc_protocol::message::{Answer, Message, Resolution};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Address;

/// The only source of random numbers in a world.
pub struct RandomSource(ChaCha8Rng);

impl RandomSource {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number of `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n.max(1)
    }

    /// A number of `from..=to`.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from + 1).unsigned_abs()).cast_signed()
    }

    /// A number of `from..=to`, where each doubling is as likely as any other.
    pub fn log_between(&mut self, from: i64, to: i64) -> i64 {
        let from = from.max(1);
        let doublings = u64::from((to / from).max(1).ilog2());
        let low = from << self.below(doublings + 1);
        self.between(low, to.min(2 * low - 1).max(low))
    }

    /// True so many times in a thousand. Draws no number when `chance` is 0.
    pub fn per_mille(&mut self, chance: u64) -> bool {
        chance > 0 && self.below(1_000) < chance
    }

    /// One of these values, all equally likely. The slice must not be empty.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let index = self.below(of.len() as u64);
        &of[usize::try_from(index).expect("an index")]
    }
}

/// A packet from one node to another. `call` and `ask` tell the sender which call or question the answer
/// belongs to.
#[derive(Debug, Clone)]
pub enum Packet {
    /// A coordinator's message.
    Message { call: u64, txn: TransactionId, message: Message, oldest_open: u64 },
    /// An RM's answer to a message.
    Answer { call: u64, answer: Answer },
    /// The RM's transport says that it does not know such a message.
    Rejected { call: u64, text: String },
    /// An RM's question (Resolve).
    Ask { ask: u64, txn: TransactionId },
    /// The answer to a question.
    Resolution { ask: u64, resolution: Resolution },
    /// No process listens: the connection was refused.
    Reset { to: Box<Packet> },
}

impl Packet {
    /// The word by which a story names the packet.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Message { message, .. } => match message.kind() {
                MessageKind::Hold => "Hold",
                MessageKind::Commit => "Commit",
                MessageKind::Abort => "Abort",
                MessageKind::Release => "Release",
            },
            Self::Answer { answer, .. } => match answer {
                Answer::Held { .. } => "Held",
                Answer::Done => "Done",
                Answer::Refused(_) => "Refused",
                Answer::OtherContent => "OtherContent",
                Answer::Denied => "Denied",
                Answer::OlderLeader { .. } => "OlderLeader",
            },
            Self::Rejected { .. } => "Rejected",
            Self::Ask { .. } => "Resolve",
            Self::Resolution { .. } => "Resolution",
            Self::Reset { .. } => "Reset",
        }
    }
}

/// A message of a coordinator that waits for its answer.
#[derive(Debug)]
pub struct OpenCall {
    /// The index of the coordinator.
    pub grc: usize,
    /// The coordinator's life in which it called.
    pub life: u64,
    /// An RM, or a child coordinator that serves as one.
    pub to: Address,
    pub txn: TransactionId,
    pub kind: MessageKind,
    /// Neither an answer nor the timeout has come yet.
    pub open: bool,
}

/// A question of an RM that waits for its answer.
#[derive(Debug)]
pub struct Question {
    /// The RM, or a child coordinator that asks its parent.
    pub by: Address,
    /// That node's life in which it asked.
    pub life: u64,
    pub txn: TransactionId,
    /// Neither an answer nor the timeout has come yet.
    pub open: bool,
}

/// How often things go wrong, per thousand. All rates are zero in stories.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultRates {
    /// A packet is lost.
    pub loss: u64,
    /// A packet arrives twice.
    pub twice: u64,
    /// A packet takes seconds, often longer than every timeout.
    pub slow: u64,
    /// A packet takes longer than the longest hold.
    pub ghost: u64,
    /// A call to a node that is down is refused at once, instead of getting no answer.
    pub reset: u64,
    /// A message is rejected with a status before its RM gets it: a certificate has expired, a proxy
    /// intervenes, or another server answers at that address.
    pub deny: u64,
    /// A node dies at a sync that writes.
    pub crash: u64,
    /// A node that dies at a sync stays down for up to half an hour, which is longer than every timeout and
    /// hold.
    pub long_down: u64,
    /// A write or an fsync fails, and the node ends (I16).
    pub io_error: u64,
    /// A sync takes seconds.
    pub slow_disk: u64,
    /// Ordinary delays vary by up to this many microseconds.
    pub jitter_us: i64,
}

impl FaultRates {
    /// How long one copy of a packet travels, in microseconds.
    pub fn delay_us(&self, dice: &mut RandomSource) -> i64 {
        let jitter = if self.jitter_us > 0 { dice.between(0, self.jitter_us) } else { 0 };
        let extra = if dice.per_mille(self.ghost) {
            dice.between(100, 1_200) * 1_000_000
        } else if dice.per_mille(self.slow) {
            dice.between(500, 15_000) * 1_000
        } else {
            0
        };
        10_000 + jitter + extra
    }

    /// How long one sync takes, in microseconds.
    pub fn sync_us(&self, dice: &mut RandomSource) -> i64 {
        if dice.per_mille(self.slow_disk) {
            return dice.between(200, 4_000) * 1_000;
        }
        if self.jitter_us > 0 { dice.between(0, 5_000) } else { 0 }
    }
}

/// What a story does to the next packets with this word in one direction.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The word of the packets, as [`Packet::word`] gives it.
    pub word: String,
    pub from: Address,
    pub to: Address,
    pub fate: PacketFate,
    /// Number of packets that the rule is still for.
    pub times: u32,
}

/// What happens to one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketFate {
    Lose,
    Delay(Span),
    Twice,
}
