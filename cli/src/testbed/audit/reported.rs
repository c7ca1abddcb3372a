//! Checks I6 and I8 against a journal: what clients were told is what the daemons have.
//!
//! A client that was told nothing, or nothing final, can claim no particular outcome. What it asked for
//! must still have one of the allowed outcomes: all of it or nothing, the complete old version or the
//! complete new one.

use std::collections::BTreeMap;

use coalloc_proto::v1;
use coalloc_proto::v1::ReservationState as State;

use super::journal::{CallKnowledge, Entry, Kind, pieces};
use super::rules::{BookingKey, booked, pieces_of, sentence, standing};
use super::testimony::Testimony;
use super::violation::{Check, Violation};

/// The reservations of each coordinator, by the coordinator's name.
pub(super) type Kept<'a> = BTreeMap<&'a str, &'a [v1::Reservation]>;

/// Compares what clients were told with what coordinators and resource managers report.
pub(super) fn all_is_as_reported(
    entries: &[Entry],
    testimonies: &[Testimony],
    kept: &Kept<'_>,
) -> Check {
    let mut stories: BTreeMap<(&str, &str), Story<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for entry in entries {
        let story = stories.entry((&entry.grc, &entry.request)).or_default();
        found.extend(story.hear(entry));
    }
    let known = index(kept);
    let (mut confirmed, mut ended, mut untold) = (0, 0, 0);
    let booked = booked(testimonies);
    let world = World { testimonies, booked };
    for ((grc, request), story) in &stories {
        match (story.gone, story.standing) {
            (Some(_), _) => ended += 1,
            (None, Some(_)) => confirmed += 1,
            (None, None) => untold += 1,
        }
        let now: Vec<&v1::Reservation> = known
            .get(request)
            .into_iter()
            .flatten()
            .filter(|(name, _)| grc.is_empty() || name == grc)
            .map(|(_, reservation)| *reservation)
            .collect();
        if let [_, _, ..] = now[..] {
            let expected = "a journal that names the coordinator of each request";
            let text = format!("request {request} at {} coordinators", now.len());
            found.push(Violation::new("I8", "", "", expected, text));
            continue;
        }
        found.extend(story.judge(request, now.first().copied(), &world));
    }
    let sentence = format!(
        "everything agrees with what clients were told: {} requests, {confirmed} told confirmed, \
         {ended} told refused or released, {untold} told nothing final",
        stories.len()
    );
    Check::new("I6", found, sentence)
}

/// Reservations by the ids of their requests, each with the coordinator that has it.
fn index<'a>(kept: &Kept<'a>) -> BTreeMap<&'a str, Vec<(&'a str, &'a v1::Reservation)>> {
    let mut known: BTreeMap<&str, Vec<(&str, &v1::Reservation)>> = BTreeMap::new();
    for (name, reservations) in kept {
        for reservation in *reservations {
            known.entry(&reservation.request_id).or_default().push((name, reservation));
        }
    }
    known
}

/// The reports of the resource managers.
struct World<'a> {
    testimonies: &'a [Testimony],
    booked: BTreeMap<BookingKey, Vec<super::rules::Piece>>,
}

/// Everything that the client knows about one request.
#[derive(Debug, Default)]
struct Story<'a> {
    /// The last version that the client was told.
    standing: Option<&'a Entry>,
    /// The entry that told the client that nothing is reserved, or nothing any more.
    gone: Option<&'a Entry>,
    /// Calls of Reserve without a final answer.
    reserves: usize,
    /// Calls of each change without a final answer.
    changes: BTreeMap<&'a str, usize>,
    /// Calls of Release without a final answer.
    releases: usize,
    /// Whether a release was acknowledged, but not finished.
    releasing: bool,
    /// Whether a change was ever asked for: its mixed outcome would end the reservation.
    ever_changed: bool,
    /// Whether a release was ever asked for.
    ever_released: bool,
}

impl<'a> Story<'a> {
    /// Adds an entry; returns the violation if it contradicts the earlier entries.
    fn hear(&mut self, entry: &'a Entry) -> Option<Violation> {
        let change = entry.change.as_str();
        match entry.said {
            CallKnowledge::Asked => {
                match entry.kind {
                    Kind::Reserve => self.reserves += 1,
                    Kind::Modify => {
                        self.ever_changed = true;
                        *self.changes.entry(change).or_default() += 1;
                    }
                    Kind::Release => {
                        self.ever_released = true;
                        self.releases += 1;
                    }
                }
                None
            }
            CallKnowledge::Confirmed | CallKnowledge::Changed => {
                let wrong = self.contradicts(entry);
                match entry.kind {
                    Kind::Modify => drop(self.changes.remove(change)),
                    Kind::Reserve | Kind::Release => self.reserves = 0,
                }
                self.standing = Some(entry);
                wrong
            }
            CallKnowledge::Unchanged => {
                self.changes.remove(change);
                None
            }
            CallKnowledge::Refused | CallKnowledge::Released => {
                let may_end = match self.standing {
                    Some(_) => self.ever_released || self.ever_changed,
                    None => entry.said == CallKnowledge::Refused || self.ever_released,
                };
                self.gone = Some(entry);
                let before = self.standing.filter(|_| !may_end);
                before.map(|before| contradiction(before, entry))
            }
            CallKnowledge::Rejected => {
                // Only this call has done nothing; an earlier call that was lost may have done something.
                let calls = match entry.kind {
                    Kind::Reserve => &mut self.reserves,
                    Kind::Modify => self.changes.entry(change).or_default(),
                    Kind::Release => &mut self.releases,
                };
                *calls = calls.saturating_sub(1);
                self.changes.retain(|_, calls| *calls > 0);
                None
            }
            CallKnowledge::Indefinite => {
                self.releasing |= entry.kind == Kind::Release;
                None
            }
            CallKnowledge::Lost => None,
        }
    }

    fn contradicts(&self, entry: &Entry) -> Option<Violation> {
        if let Some(gone) = self.gone {
            return Some(contradiction(gone, entry));
        }
        let before = self.standing?;
        let same = before.version == entry.version;
        let differs = same
            && (&before.segments, &before.transaction) != (&entry.segments, &entry.transaction);
        (differs || entry.version < before.version).then(|| contradiction(before, entry))
    }

    fn judge(
        &self,
        request: &str,
        now: Option<&v1::Reservation>,
        world: &World<'_>,
    ) -> Vec<Violation> {
        let is = now.map_or_else(
            || "the coordinator does not know it".to_owned(),
            |now| format!("{} version {}", crate::kit::text::state(now.state()), now.version),
        );
        let wrong = |told: Option<&Entry>, expected: &str| {
            let transaction = told.map(|told| told.transaction.as_str()).unwrap_or_default();
            let said = told.map_or_else(
                || "nothing final".to_owned(),
                |told| format!("{:?}", told.said).to_lowercase(),
            );
            let expected = format!("{expected}, because the client of {request} was told {said}");
            vec![Violation::new("I6", transaction, "", expected, is.clone())]
        };
        if now.is_some_and(|now| !now.definite) {
            // Another check reports that the reservation is not final.
            return Vec::new();
        }
        let state = now.map(v1::Reservation::state);
        let mixed = now
            .and_then(|now| now.refusal.as_ref())
            .is_some_and(|refusal| refusal.reason() == v1::Reason::Mixed);
        match (self.gone, self.standing, state) {
            (Some(gone), _, Some(State::Failed | State::Terminated)) => world.nothing_of(gone),
            (Some(gone), ..) => {
                let mut found = wrong(Some(gone), "failed or terminated");
                found.extend(world.nothing_of(gone));
                found
            }
            (None, Some(told), Some(State::Confirmed | State::Active | State::PassedEndTime)) => {
                let version = now.map(|now| now.version).unwrap_or_default();
                if self.releasing {
                    wrong(Some(told), "terminated (its release was acknowledged)")
                } else if version == told.version {
                    world.exactly(told, now, request)
                } else if version > told.version && !self.changes.is_empty() {
                    Vec::new()
                } else {
                    wrong(Some(told), &format!("confirmed version {}", told.version))
                }
            }
            (None, Some(_), Some(State::Terminated)) if self.releases > 0 => Vec::new(),
            (None, Some(_), Some(State::Failed)) if mixed && !self.changes.is_empty() => Vec::new(),
            (None, Some(told), _) => {
                let mut found = wrong(Some(told), &format!("confirmed version {}", told.version));
                found.extend(world.exactly(told, None, request));
                found
            }
            (None, None, None | Some(State::Failed)) => Vec::new(),
            (None, None, Some(State::Terminated)) if self.releases > 0 => Vec::new(),
            (None, None, Some(State::Confirmed | State::Active | State::PassedEndTime))
                if self.reserves > 0 && !self.releasing =>
            {
                Vec::new()
            }
            (None, None, _) => wrong(None, "an outcome that the client's calls can have caused"),
        }
    }
}

fn contradiction(before: &Entry, entry: &Entry) -> Violation {
    let tell = |entry: &Entry| {
        let Entry { said, version, .. } = entry;
        let all = pieces(entry).into_iter();
        let all: Vec<String> =
            all.map(|(manager, pieces)| format!("{manager}: {}", sentence(&pieces))).collect();
        format!("{said:?} version {version} {}", all.join("; ")).trim_end().to_owned()
    };
    let expected =
        format!("what the client of {} was told before, {}", before.request, tell(before));
    Violation::new("I8", &entry.transaction, "", expected, tell(entry))
}

impl World<'_> {
    /// Checks that nothing of this reservation is held or booked anywhere.
    fn nothing_of(&self, gone: &Entry) -> Vec<Violation> {
        if gone.reservation.is_empty() {
            return Vec::new();
        }
        let prefix = format!("{}/", gone.reservation);
        let mut found = Vec::new();
        for testimony in self.testimonies {
            let live = testimony.bookings.iter().filter(|one| one.transaction.starts_with(&prefix));
            for booking in live.filter(|one| !one.segments.is_empty()) {
                let place = BookingKey::new(&booking.transaction, &testimony.name);
                let said = format!("{:?}", gone.said).to_lowercase();
                found.push(Violation::new(
                    "I6",
                    &place.transaction,
                    &place.manager,
                    format!("nothing, because the client of {} was told {said}", gone.request),
                    standing(self.testimonies, &place),
                ));
            }
        }
        found
    }

    /// Checks that everything the client was told is booked, and that the coordinator still reports the same.
    fn exactly(
        &self,
        told: &Entry,
        now: Option<&v1::Reservation>,
        request: &str,
    ) -> Vec<Violation> {
        let mut found = Vec::new();
        let expected = pieces(told);
        let because = format!("because the client of {request} was told so");
        if let Some(now) = now {
            let kept = pieces_of(now);
            if kept != expected || now.transaction != told.transaction {
                let all = |places: &BTreeMap<String, Vec<super::rules::Piece>>| {
                    let all: Vec<String> = places
                        .iter()
                        .map(|(manager, pieces)| format!("{manager}: {}", sentence(pieces)))
                        .collect();
                    all.join("; ")
                };
                found.push(Violation::new(
                    "I8",
                    &told.transaction,
                    "",
                    format!("the coordinator to keep {}, {because}", all(&expected)),
                    format!("{}: {}", now.transaction, all(&kept)),
                ));
            }
            if now.state() == State::PassedEndTime {
                return found;
            }
        }
        for (manager, pieces) in &expected {
            let place = BookingKey::new(&told.transaction, manager);
            if self.booked.get(&place) != Some(pieces) {
                found.push(Violation::new(
                    "I6",
                    &place.transaction,
                    &place.manager,
                    format!("booked, {because}: {}", sentence(pieces)),
                    standing(self.testimonies, &place),
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests;
