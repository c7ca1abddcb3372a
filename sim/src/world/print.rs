//! The transcript: how packets, records and replies are printed. Windows are printed in seconds of the world.

use coalloc_common::{RmName, TransactionId};
use coalloc_common::{Segment, Span};
use coalloc_protocol::conversation::{ChangeEnd, ReleaseReply, RequestEnd};
use coalloc_protocol::coordinator::{
    Candidate, CoordinatorRecord, GiveUpReply, MendTarget, ReportEnd, Reservation,
};
use coalloc_protocol::message::{Answer, Cause, Decision, HoldOrder, Message, Resolution};
use coalloc_protocol::participant::ParticipantRecord;

use super::network::Packet;
use super::node::WALL_START;
use super::rogue::ForgedContent;

const DISK_FULL: &str = "DiskFull: the disk is nearly full, send it again later";
const OTHER_CONTENT: &str = "OtherContent: the id is known with other content";
const BROKEN_OFF: &str = "BrokenOff: send it again";
const UNKNOWN: &str = "Unknown: there is no such reservation";

/// One line of the transcript.
pub fn line(now_us: i64, who: &str, what: &str) -> String {
    let (s, ms) = (now_us / 1_000_000, now_us / 1_000 % 1_000);
    format!("{s:>3}.{ms:03}s {who:<18} {what}")
}

fn segments(segments: &[Segment]) -> String {
    if segments.is_empty() {
        return "nothing".to_owned();
    }
    let one = |segment: &Segment| {
        let s = |time: coalloc_common::Time| time.since(WALL_START).as_us() / 1_000_000;
        let (start, end) = (s(segment.window.start()), s(segment.window.end()));
        format!("{} {} [{start},{end})", segment.resource, segment.amount)
    };
    segments.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn candidate(candidate: &Candidate) -> String {
    let one = |(rm, list): (&_, &Vec<Segment>)| format!("{rm} {}", segments(list));
    let all = candidate.segments.iter().map(one).collect::<Vec<_>>().join("; ");
    let order: Vec<&str> = candidate.order.iter().map(|rm| rm.as_str()).collect();
    let manner = if candidate.one_way { "one-way" } else { "in turns" };
    if order.is_empty() { all } else { format!("{all}; {manner}: {}", order.join(", ")) }
}

/// A message of the rogue about a transaction.
pub fn forged(txn: &TransactionId, content: &ForgedContent) -> String {
    match content {
        ForgedContent::ToRm(Message::Hold(order)) => format!("Hold {txn}  {}", hold(order)),
        ForgedContent::ToRm(message) => format!("{:?} {txn}", message.kind()),
        ForgedContent::Resolve(rm) => format!("Resolve {txn} as {rm}"),
        ForgedContent::Release => format!("Release the reservation of {txn}"),
        ForgedContent::GiveUp(rm) => format!("GiveUp on {rm} for the reservation of {txn}"),
    }
}

/// A packet in the transcript.
pub fn packet(packet: &Packet) -> String {
    match packet {
        Packet::Message { txn, message: Message::Hold(order), .. } => {
            format!("Hold {txn}  {}", hold(order))
        }
        Packet::Message { txn, .. } | Packet::Ask { txn, .. } => {
            format!("{} {txn}", packet.word())
        }
        Packet::Answer { answer: Answer::Held { expires_in, .. }, .. } => {
            format!("Held, ends after {expires_in}")
        }
        Packet::Answer { answer: Answer::Refused(refusal), .. } => {
            format!("Refused ({:?}): {refusal}", refusal.reason)
        }
        Packet::Answer { .. } => packet.word().to_owned(),
        Packet::Rejected { text, .. } => format!("Rejected: {text}"),
        Packet::Resolution { resolution: Resolution::Decided(decision), .. } => {
            format!("Resolution: {decision:?}")
        }
        Packet::Resolution { resolution, .. } => format!("Resolution: {resolution:?}"),
        Packet::Reset { to } => format!("no process to receive {}", to.word()),
    }
}

fn hold(order: &HoldOrder) -> String {
    let ask = order.hold_for.map_or(String::new(), |span: Span| format!(", hold for {span}"));
    let old = order.replaces.as_ref().map_or(String::new(), |old| format!(", replaces {old}"));
    let way = if order.one_way { ", one-way" } else { "" };
    format!("{} for {}{ask}{old}{way}", segments(&order.segments), order.user)
}

/// A coordinator's record in the transcript.
pub fn coordinator_record(record: &CoordinatorRecord) -> String {
    match record {
        CoordinatorRecord::Refused { reservation, ticket, refusal, .. } => {
            format!("refused {reservation} ({}): {refusal}", ticket.request)
        }
        CoordinatorRecord::Opened { reservation, ticket, .. } => {
            format!("opened {reservation} for {} ({})", ticket.user, ticket.request)
        }
        CoordinatorRecord::Intent { txn, candidate: plan, replaces, mends, .. } => {
            let replaces =
                replaces.as_ref().map_or(String::new(), |old| format!(", replaces {old}"));
            let mends = match mends {
                None => "",
                Some(MendTarget::New) => ", to book the new version everywhere",
                Some(MendTarget::Old) => ", to restore the old version everywhere",
            };
            format!("D1 intent {txn}: {}{replaces}{mends}", candidate(plan))
        }
        CoordinatorRecord::Decided { txn, decision: Decision::Commit, .. } => {
            format!("D3 decided {txn}: commit")
        }
        CoordinatorRecord::Decided { txn, refusal, .. } => {
            let why = refusal.as_ref().map_or(String::new(), |why| format!(", {why}"));
            format!("D3 decided {txn}: abort{why}")
        }
        CoordinatorRecord::Mixed { txn, refusal, .. } => format!("mixed {txn}: {refusal}"),
        CoordinatorRecord::Split { txn, refused, .. } => {
            let late: Vec<&str> = refused.keys().map(RmName::as_str).collect();
            format!("split {txn}: not booked at {}", late.join(" "))
        }
        CoordinatorRecord::Releasing { txn, by, .. } => format!("releasing {txn}, by {by}"),
        CoordinatorRecord::Finished { txn, .. } => format!("D6 finished {txn}"),
        CoordinatorRecord::ChangeOpened { ticket, .. } => {
            format!("change {} of {} opened", ticket.change, ticket.reservation)
        }
        CoordinatorRecord::ChangeRefused { reservation, refusal, .. } => {
            format!("change of {reservation} refused: {refusal}")
        }
        CoordinatorRecord::ParentHoldOpened { reservation, order, .. } => {
            format!("opened {reservation} for {} of {}", order.txn, order.coordinator)
        }
        CoordinatorRecord::Prepared { txn, expires_in, .. } => {
            format!("D2 prepared {txn}, ends after {expires_in}")
        }
        CoordinatorRecord::ParentTombstone { txn, .. } => format!("tombstone of {txn}"),
        CoordinatorRecord::ReplacedForParent { reservation, by, .. } => {
            format!("{reservation} is replaced by {by}")
        }
        CoordinatorRecord::Superseded { reservation, .. } => {
            format!("{reservation} is superseded, says its parent")
        }
        CoordinatorRecord::Settled { txn, .. } => format!("settled {txn}"),
        CoordinatorRecord::RetentionEnded { txn, .. } => format!("retention of {txn} ended"),
        CoordinatorRecord::UsageChanged { txn, usage, .. } => {
            let told = usage.trouble.iter().map(|(rm, text)| format!(", {rm}: {text}"));
            format!("usage of {txn}: {}{}", usage.phase.word(), told.collect::<String>())
        }
        CoordinatorRecord::LeaderElected { epoch, member, .. } => {
            format!("{member} leads in epoch {epoch}")
        }
        CoordinatorRecord::ParentLeaderChanged { ledger, epoch, .. } => {
            format!("{ledger} is led in epoch {epoch}")
        }
        CoordinatorRecord::CalendarChanged { user, address, .. } => match address {
            Some(address) => {
                format!("the calendar of {user} has an address until {}", address.expires)
            }
            None => format!("the calendar of {user} has no address"),
        },
        CoordinatorRecord::Forgotten { reservations, tombstones, .. } => {
            let all = reservations.iter().map(ToString::to_string);
            let all: Vec<String> = all.chain(tombstones.iter().map(ToString::to_string)).collect();
            format!("forgotten: {}", all.join(" "))
        }
        CoordinatorRecord::Disowned { txn, rm, by, .. } => {
            format!("{txn} at {rm} belongs to nobody, says {by}")
        }
        CoordinatorRecord::GaveUp { txn, rm, by, .. } => {
            format!("{rm} is no longer waited for in {txn}, says {by}")
        }
        CoordinatorRecord::DisownEnded { txn, rm, .. } => format!("{rm} has nothing of {txn}"),
        CoordinatorRecord::Differs { txn, rm, differs, .. } => match differs {
            Some(differs) => format!("{txn} at {rm}: {}", differs.word()),
            None => format!("{txn} at {rm} agrees again"),
        },
        CoordinatorRecord::Reported { reservation, report, .. } => {
            format!("report {} of {reservation}: {}", report.id, report.text)
        }
        CoordinatorRecord::Concluded { reservation, refusal, .. } => {
            format!("concluded {reservation}: {refusal}")
        }
    }
}

/// An RM's record in the transcript.
pub fn participant_record(record: &ParticipantRecord) -> String {
    match record {
        ParticipantRecord::Opened { boot, .. } => format!("opened in {boot}"),
        ParticipantRecord::Held { order, .. } if order.one_way => {
            format!("D2 held {}, one-way", order.txn)
        }
        ParticipantRecord::Held { order, soft, hard, .. } => {
            format!("D2 held {}, asks after {soft}, ends after {hard}", order.txn)
        }
        ParticipantRecord::Moved { moves, by, .. } => {
            let who: Vec<String> = moves.iter().map(|moved| moved.txn.to_string()).collect();
            format!("new routes for {}, {}", who.join(" "), cause(by))
        }
        ParticipantRecord::LeaderChanged { ledger, epoch, .. } => {
            format!("{ledger} is led in epoch {epoch}")
        }
        ParticipantRecord::Forgotten { transactions, .. } => {
            let which: Vec<&str> = transactions.iter().map(TransactionId::as_str).collect();
            format!("forgotten: {}", which.join(" "))
        }
        ParticipantRecord::Claimed { txn, .. } => format!("claimed {txn}"),
        ParticipantRecord::ClaimRefused { txn, refusal, .. } => {
            format!("claim of {txn} refused ({:?})", refusal.reason)
        }
        ParticipantRecord::Equipped { key, txn, state, .. } => {
            let state = state.as_ref().map_or("gone".to_owned(), |state| match &state.trouble {
                Some(trouble) => format!("in trouble: {trouble}"),
                None => format!("{:?}", state.stage),
            });
            format!("equipment {} of {txn}: {state}", key.resource)
        }
        ParticipantRecord::Refused { order, refusal, .. } => {
            format!("refused {} ({:?})", order.txn, refusal.reason)
        }
        ParticipantRecord::Booked { txn, by, .. } => format!("D4 booked {txn}, {}", cause(by)),
        ParticipantRecord::Ended { txn, ending, by, .. } => {
            format!("D5 {} {txn}, {}", ending.word(), cause(by))
        }
    }
}

fn cause(cause: &Cause) -> String {
    match cause {
        Cause::Coordinator(name) => format!("told by {name}"),
        Cause::Resolve(name) => format!("after asking {name}"),
        Cause::ResourceManager(name) => format!("told by {name}"),
        Cause::User(name) => format!("told by {name}"),
        Cause::Expiry => "time ran out".to_owned(),
        Cause::Restart => "restarted".to_owned(),
    }
}

/// A reservation in the transcript.
pub fn reservation(reservation: &Reservation) -> String {
    let why = reservation
        .refusal
        .as_ref()
        .map_or(String::new(), |refusal| format!(" ({:?}: {refusal})", refusal.reason));
    let (id, state, attempts) = (&reservation.id, reservation.state, reservation.attempts);
    let s = if attempts == 1 { "" } else { "s" };
    let version = match reservation.version {
        1 => String::new(),
        version => format!(", version {version}"),
    };
    let change = reservation.change.as_ref().map_or(String::new(), |change| {
        let why = change.refusal.as_ref().map_or(String::new(), |why| format!(" ({why})"));
        format!(", change {} {:?}{why}", change.id, change.state)
    });
    format!("{state:?} {id} after {attempts} attempt{s}{why}{version}{change}")
}

/// How a conversation about a request ends, in the transcript.
pub fn request_end(end: &RequestEnd) -> String {
    match end {
        RequestEnd::Stands(known) => reservation(known),
        RequestEnd::DiskFull => DISK_FULL.to_owned(),
        RequestEnd::OtherContent => OTHER_CONTENT.to_owned(),
        RequestEnd::BrokenOff => BROKEN_OFF.to_owned(),
    }
}

/// How a conversation about a change ends, in the transcript.
pub fn change_end(end: &ChangeEnd) -> String {
    match end {
        ChangeEnd::Stands(known) => reservation(known),
        ChangeEnd::DiskFull => DISK_FULL.to_owned(),
        ChangeEnd::OtherContent => OTHER_CONTENT.to_owned(),
        ChangeEnd::BrokenOff => BROKEN_OFF.to_owned(),
        ChangeEnd::Unknown => UNKNOWN.to_owned(),
        ChangeEnd::UnderWay(change) => format!("ChangeUnderWay: {change}"),
        ChangeEnd::Spent => "ChangesSpent: no further change is allowed".to_owned(),
        ChangeEnd::NotConfirmed(known) => format!("NotConfirmed: {}", reservation(known)),
    }
}

/// What a report is answered with, in the transcript.
pub fn report_end(end: &ReportEnd) -> String {
    match end {
        ReportEnd::Recorded(number) => format!("Recorded: number {number}"),
        ReportEnd::DiskFull => DISK_FULL.to_owned(),
        ReportEnd::OtherContent => OTHER_CONTENT.to_owned(),
        ReportEnd::Unknown => UNKNOWN.to_owned(),
        ReportEnd::Spent => "ReportsSpent: no further report is allowed".to_owned(),
        ReportEnd::NotConfirmed(known) => format!("NotConfirmed: {}", reservation(known)),
    }
}

/// What a release is answered with, in the transcript.
pub fn released(answer: &ReleaseReply) -> String {
    match answer {
        ReleaseReply::Stands(known) => reservation(known),
        ReleaseReply::Unknown => UNKNOWN.to_owned(),
    }
}

/// What an operator is told who gives up on an RM, in the transcript.
pub fn gave_up(answer: &GiveUpReply) -> String {
    match answer {
        GiveUpReply::GaveUp(on) => {
            let of: Vec<&str> = on.reservations.iter().map(|id| id.as_str()).collect();
            format!("given up: {}", of.join(" "))
        }
        GiveUpReply::NotGivenUp(why) => format!("not given up: {why:?}"),
        GiveUpReply::Unknown => UNKNOWN.to_owned(),
    }
}
