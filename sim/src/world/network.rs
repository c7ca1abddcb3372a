//! The simulated network: what is in flight, what becomes of it, and the weather it flies in.

use coalloc_common::{Span, TransactionId};
use coalloc_protocol::coordinator::MessageKind;
use coalloc_protocol::message::{Answer, Message, Resolution};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Address;

/// The one source of chance.
pub struct RandomSource(ChaCha8Rng);

impl RandomSource {
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// One of `0..n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n.max(1)
    }

    /// One of `from..=to`.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        from + self.below((to - from + 1).unsigned_abs()).cast_signed()
    }

    /// One of `from..=to`, where each doubling is as likely as any other.
    pub fn log_between(&mut self, from: i64, to: i64) -> i64 {
        let from = from.max(1);
        let doublings = u64::from((to / from).max(1).ilog2());
        let low = from << self.below(doublings + 1);
        self.between(low, to.min(2 * low - 1).max(low))
    }

    /// Happens so many times in a thousand. Never costs a throw when it cannot.
    pub fn per_mille(&mut self, chance: u64) -> bool {
        chance > 0 && self.below(1_000) < chance
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        let index = self.below(of.len() as u64);
        &of[usize::try_from(index).expect("an index")]
    }
}

/// What flies from one node to another. `call` and `ask` tell the caller what the answer is to.
#[derive(Debug, Clone)]
pub enum Packet {
    /// A coordinator's message.
    Message { call: u64, txn: TransactionId, message: Message },
    /// An RM's answer to it.
    Answer { call: u64, answer: Answer },
    /// Its transport says that it does not know such a message.
    Rejected { call: u64, text: String },
    /// An RM's question.
    Ask { ask: u64, txn: TransactionId },
    /// The answer to it.
    Resolution { ask: u64, resolution: Resolution },
    /// Nobody is there: the connection was refused.
    Reset { to: Box<Packet> },
}

impl Packet {
    /// The one word that a story names it by.
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
    pub grc: usize,
    pub life: u64,
    /// An RM, or a coordinator that serves as one.
    pub to: Address,
    pub txn: TransactionId,
    pub kind: MessageKind,
    pub open: bool,
}

/// A question of an RM that waits for its answer.
#[derive(Debug)]
pub struct Question {
    pub by: Address,
    pub life: u64,
    pub txn: TransactionId,
    pub open: bool,
}

/// How often things go wrong, per thousand; all zero in stories.
#[derive(Debug, Clone, Copy, Default)]
pub struct FaultRates {
    /// A packet is lost.
    pub loss: u64,
    /// It arrives twice.
    pub twice: u64,
    /// It takes seconds, often beyond every patience.
    pub slow: u64,
    /// It takes longer than the longest hold.
    pub ghost: u64,
    /// A call to a node that is down is refused at once, instead of silence.
    pub reset: u64,
    /// A message is turned away with a status before its RM hears of it: a certificate ran out, a proxy has another
    /// idea, somebody else answers there.
    pub deny: u64,
    /// A node dies at a sync that writes.
    pub crash: u64,
    /// A node that dies at a sync stays away for up to half an hour: longer than every patience and hold.
    pub long_down: u64,
    /// A write or an fsync fails, and the node ends (I16).
    pub io_error: u64,
    /// A sync takes seconds.
    pub slow_disk: u64,
    /// Ordinary delays differ by up to this.
    pub jitter_us: i64,
}

impl FaultRates {
    /// The flying time of one copy.
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

    /// The time of one sync.
    pub fn sync_us(&self, dice: &mut RandomSource) -> i64 {
        if dice.per_mille(self.slow_disk) {
            return dice.between(200, 4_000) * 1_000;
        }
        if self.jitter_us > 0 { dice.between(0, 5_000) } else { 0 }
    }
}

/// What a story does to the next packet of a kind on a way.
#[derive(Debug, Clone)]
pub struct Rule {
    pub word: String,
    pub from: Address,
    pub to: Address,
    pub fate: PacketFate,
    pub times: u32,
}

/// One packet's fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketFate {
    Lose,
    Delay(Span),
    Twice,
}
