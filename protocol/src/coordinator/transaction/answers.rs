//! What the answer to a message does, and what does not count as an answer. Covers a refused Hold, a Commit
//! that came too late, and a message that somebody other than the RM turned away.

use coalloc_common::planted::{self, Bug};
use coalloc_common::{Now, Reason, Refusal, RmName, TransactionId, limits};

use super::TransactionGoal;
use crate::coordinator::record::CoordinatorRecord;
use crate::coordinator::{Coordinator, CoordinatorEffect, StepOutput};
use crate::message::{Answer, Delivery, Message, MessageKind};

impl Coordinator {
    /// Handles what became of a message. An answer to a goal that is no longer pursued changes nothing.
    pub(in crate::coordinator) fn delivered(
        &mut self,
        rm: &RmName,
        id: &TransactionId,
        kind: MessageKind,
        delivery: Delivery,
        now: Now,
        out: &mut StepOutput,
    ) {
        let Some(txn) = self.transactions.get_mut_unnoted(id).filter(|txn| !txn.done) else {
            return;
        };
        let goal = txn.goal;
        let Some(party) = txn.parties.get_mut(rm).filter(|party| !party.answered) else { return };
        let meant = match goal {
            TransactionGoal::Hold | TransactionGoal::Prepared => kind == MessageKind::Hold,
            TransactionGoal::Commit => kind == MessageKind::Commit,
            TransactionGoal::Abort if party.booked => kind == MessageKind::Release,
            TransactionGoal::Abort => kind == MessageKind::Abort,
            TransactionGoal::Release => kind == MessageKind::Release,
        };
        if !meant {
            return;
        }
        let answer = match delivery {
            // `Held` answers only Hold, and `Done` only the other messages. Elsewhere they mean nothing.
            Delivery::Answered(answer @ Answer::Held { .. }) => {
                Some(answer).filter(|_| kind == MessageKind::Hold)
            }
            Delivery::Answered(Answer::Done) => {
                Some(Answer::Done).filter(|_| kind != MessageKind::Hold)
            }
            Delivery::Answered(Answer::Refused(refusal))
                if refusal.reason == Reason::Unknown && planted::is(Bug::UnknownForLost) =>
            {
                None
            }
            Delivery::Answered(answer @ (Answer::Refused(_) | Answer::Denied)) => Some(answer),
            // Anybody on the way may have said this, perhaps after the RM has held. So it ends an attempt that
            // is undecided, and counts as an answer to nothing else.
            Delivery::Answered(Answer::OtherContent) if goal == TransactionGoal::Hold => {
                return self.reject(
                    id,
                    rm,
                    "it knows this transaction with other content",
                    now,
                    out,
                );
            }
            Delivery::Rejected(text) if goal == TransactionGoal::Hold => {
                return self.reject(id, rm, &text, now, out);
            }
            Delivery::Rejected(text)
                if goal == TransactionGoal::Commit && planted::is(Bug::StatusForAnswer) =>
            {
                Some(Answer::Refused(Refusal::new(Reason::Denied, text).at(rm)))
            }
            Delivery::Rejected(_)
                if goal == TransactionGoal::Abort && planted::is(Bug::DeniedForDone) =>
            {
                Some(Answer::Done)
            }
            Delivery::Answered(Answer::OtherContent) | Delivery::Rejected(_) => None,
            Delivery::Lost if planted::is(Bug::LostForRefused) && goal == TransactionGoal::Hold => {
                let refusal = Refusal::new(Reason::TimedOut, "it did not answer");
                Some(Answer::Refused(refusal))
            }
            // Another process leads. It goes on with the transaction, and this one will end.
            Delivery::Answered(Answer::OlderLeader { .. }) | Delivery::Lost => None,
        };
        match (goal, answer) {
            (TransactionGoal::Hold, Some(answer)) => self.hold_answered(rm, id, answer, now, out),
            (TransactionGoal::Commit, Some(answer)) => {
                self.commit_answered(rm, id, answer, now, out)
            }
            // The RM does not let the booking go. It must never be reported as released.
            (TransactionGoal::Release, Some(Answer::Refused(_)))
            | (
                TransactionGoal::Abort | TransactionGoal::Release,
                Some(Answer::Held { .. } | Answer::OtherContent | Answer::OlderLeader { .. }),
            )
            | (_, None) => {
                party.send_at = now.boot.saturating_add(party.pause);
                party.pause = party.pause.saturating_mul(2).min(limits::RESEND_MAX);
                self.set_alarm(id);
            }
            // It is booked already, so only Release ends it.
            (TransactionGoal::Abort, Some(Answer::Refused(_))) => {
                party.booked = true;
                party.send_at = now.boot;
                self.send_due(id, now, out);
            }
            (TransactionGoal::Prepared, Some(_)) => {}
            // Denied: this RM has nothing of it for this coordinator, so there is nothing to end.
            (
                TransactionGoal::Abort | TransactionGoal::Release,
                Some(Answer::Done | Answer::Denied),
            ) => {
                self.end_answered(rm, id, now, out);
            }
        }
    }

    /// Somebody turned a Hold away. The RM may hold all the same, so it is sent Abort like the others.
    fn reject(
        &mut self,
        id: &TransactionId,
        rm: &RmName,
        text: &str,
        now: Now,
        out: &mut StepOutput,
    ) {
        self.abort(id, Refusal::new(Reason::Denied, text).at(rm), None, now, out);
    }

    fn hold_answered(
        &mut self,
        rm: &RmName,
        id: &TransactionId,
        answer: Answer,
        now: Now,
        out: &mut StepOutput,
    ) {
        let (expires_in, servers) = match answer {
            Answer::Held { expires_in, servers } => (expires_in, servers),
            Answer::Refused(refusal) => {
                // Normally an RM that has refused refuses for ever. But an RM without disk space keeps its
                // refusal of a one-way Hold in memory only. After a restart it would book a late copy that
                // nobody asks about, so it is sent Abort.
                let one_way = self.transactions.get(id).is_some_and(|txn| txn.one_way);
                let is_final = refusal.reason != Reason::DiskFull || !one_way;
                let refuser = Some(rm).filter(|_| is_final);
                return self.abort(id, refusal.at(rm), refuser, now, out);
            }
            Answer::Denied => {
                return self.reject(id, rm, "it does not accept this coordinator here", now, out);
            }
            Answer::Done | Answer::OtherContent | Answer::OlderLeader { .. } => return,
        };
        let Some(txn) = self.transactions.get_mut_unnoted(id) else { return };
        let opened = if planted::is(Bug::ExpiryFromAnswer) { now.boot } else { txn.opened };
        let one_way = txn.one_way;
        if let Some(party) = txn.parties.get_mut(rm) {
            party.answered = true;
            party.granted = servers;
            // A booking does not end by itself.
            party.expires_at = Some(opened.saturating_add(expires_in)).filter(|_| !one_way);
        }
        if planted::is(Bug::CommitBeforeDecision) {
            let (rm, txn, message) = (rm.clone(), id.clone(), Message::Commit);
            let oldest_open = self.oldest_open();
            out.effects.push(CoordinatorEffect::Send { rm, txn, message, oldest_open });
        }
        let early = planted::is(Bug::PromisedEarly) && self.is_for_parent(id);
        let Some(txn) = self.transactions.get(id) else { return };
        if !txn.all_answered() && !early {
            // It may be the next RM's turn.
            self.send_due(id, now, out);
            return;
        }
        let margin_from = now.boot.saturating_add(limits::COMMIT_MARGIN);
        let short = txn
            .parties
            .iter()
            .find(|(_, party)| party.expires_at.is_none_or(|expires| expires < margin_from))
            .map(|(rm, _)| rm.clone());
        let short = short.filter(|_| !early && !one_way && !planted::is(Bug::MarginIgnored));
        if let Some(rm) = short {
            let text = "its hold is about to expire; it is too late to decide";
            return self.abort(id, Refusal::new(Reason::TimedOut, text).at(&rm), None, now, out);
        }
        // The parent has decided this before, and the attempt only mends it.
        let mends = self.transactions.get(id).is_some_and(|txn| txn.mends);
        if self.is_for_parent(id) && !mends {
            self.prepare(id, now, out);
        } else {
            self.decide_commit(id, now, out);
        }
    }

    fn commit_answered(
        &mut self,
        rm: &RmName,
        id: &TransactionId,
        answer: Answer,
        now: Now,
        out: &mut StepOutput,
    ) {
        let refusal = match answer {
            Answer::Done => return self.end_answered(rm, id, now, out),
            Answer::Denied if planted::is(Bug::DeniedForBooked) => {
                return self.end_answered(rm, id, now, out);
            }
            Answer::Refused(refusal) => refusal,
            Answer::Denied => {
                Refusal::new(Reason::Denied, "it has nothing held or booked for this transaction")
            }
            Answer::Held { .. } | Answer::OtherContent | Answer::OlderLeader { .. } => return,
        };
        let old = self.transactions.get(id).and_then(|txn| txn.replaces.clone());
        if old.is_some() && !planted::is(Bug::ChangeDestroyed) {
            // The RM still has the version that the change was to replace. Nothing is released before all have
            // answered.
            if let Some(party) =
                self.transactions.get_mut_unnoted(id).and_then(|t| t.parties.get_mut(rm))
            {
                party.refused = Some(refusal.at(rm));
            }
            return self.end_answered(rm, id, now, out);
        }
        let detail = format!(
            "it refused to book what it had held ({}); the other bookings are released",
            refusal.detail
        );
        let refusal = Refusal { reason: Reason::Mixed, detail, ..refusal.at(rm) };
        let (txn, rm) = (id.clone(), rm.clone());
        self.record(CoordinatorRecord::Mixed { txn, rm, refusal, at: now }, out);
        if let Some(old) = old {
            // An RM that has not booked the change still has the version that it was to replace.
            self.end_old_for_parent(id, now, out);
            self.send_due(&old, now, out);
        }
        self.finish_or_go_on(id, now, out);
    }
}
