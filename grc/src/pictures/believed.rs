//! What one planning believes: profiles that are copied out of the picture, so that updates go on meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use coalloc_common::profile::FreeStep;
use coalloc_common::{
    Amount, AvailabilityVector, InvalidField, Reason, Refusal, ResourceId, RmName, Slot, SlotGrid,
    Span, Time, Window,
};
use coalloc_plan::multicost::Knowledge;
use coalloc_plan::workflow::ScratchTimetables;
use coalloc_proto::v1;
use coalloc_protocol::update::{Picture, Update, UpdateKind};
use tonic::Status;

use crate::availability::federation::{RmClient, Snapshot};
use crate::availability::query::described_resources;

/// What is believed of each RM, and of which RMs nothing is known.
#[derive(Debug, Clone, Default)]
pub struct BelievedProfiles {
    /// What is free, by RM and resource.
    profiles: BTreeMap<RmName, BTreeMap<ResourceId, Vec<FreeStep>>>,
    /// For each known RM, the age of what is known of it.
    ages: BTreeMap<RmName, Span>,
    /// Why nothing is known of the other RMs. Their resources count as taken.
    missing: BTreeMap<RmName, MissingProfiles>,
}

/// Why nothing is known of an RM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingProfiles {
    /// Whether the RM refuses to let this coordinator watch its profiles.
    pub denied: bool,
    /// One sentence, without the RM's name at its beginning.
    pub text: String,
}

impl MissingProfiles {
    /// The RM's profiles did not arrive, for a reason that may pass.
    #[must_use]
    pub const fn silent(text: String) -> Self {
        Self { denied: false, text }
    }
}

impl BelievedProfiles {
    /// What a picture believes of a window. `why` gives the reason for each RM of which the picture knows nothing.
    #[must_use]
    pub fn of(
        picture: &Picture,
        window: Window,
        now: Time,
        why: impl Fn(&RmName) -> MissingProfiles,
    ) -> Self {
        let mut believed = Self::default();
        for (rm, known, _) in picture.members() {
            let Some(known) = known else {
                believed.missing.insert(rm.clone(), why(rm));
                continue;
            };
            let steps = known.profiles();
            let steps = steps.map(|(resource, profile)| (resource.clone(), profile.over(window)));
            believed.profiles.insert(rm.clone(), steps.collect());
            believed.ages.insert(rm.clone(), known.age(now));
        }
        believed
    }

    /// Adds what is known of other RMs.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.profiles.extend(other.profiles);
        self.ages.extend(other.ages);
        self.missing.extend(other.missing);
        self
    }

    /// Marks RMs as unknown, and drops what was known of them.
    #[must_use]
    pub fn without(mut self, missing: impl IntoIterator<Item = (RmName, MissingProfiles)>) -> Self {
        for (rm, why) in missing {
            self.profiles.remove(&rm);
            self.ages.remove(&rm);
            // The reason that came from the RM's own answer says more.
            self.missing.entry(rm).or_insert(why);
        }
        self
    }

    /// For each known RM, the age of what is known of it.
    #[must_use]
    pub const fn ages(&self) -> &BTreeMap<RmName, Span> {
        &self.ages
    }

    /// Is nothing known of any RM?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.profiles.is_empty()
    }

    /// A refusal on this picture. If RMs are unknown, the refusal is theirs, since no shortage is proven.
    #[must_use]
    pub fn blame(&self, refusal: Refusal) -> Refusal {
        let Some((first, _)) = self.missing.iter().next() else { return refusal };
        let denied = self.missing.iter().find(|(_, why)| why.denied).map(|(rm, _)| rm);
        // In a large federation many resource managers have the same reason: it is said once.
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (rm, why) in &self.missing {
            reasons.entry(&why.text).or_default().push(rm.as_str());
        }
        let reasons = reasons.into_iter().map(|(text, rms)| match &rms[..] {
            [first, others @ ..] if !others.is_empty() => {
                format!("{first} {text} (the same of {})", others.join(", "))
            }
            _ => format!("{} {text}", rms.concat()),
        });
        let reasons: Vec<String> = reasons.collect();
        let detail = format!("{}; not counted: {}", refusal.detail, reasons.join("; "));
        let reason = if denied.is_some() { Reason::Denied } else { Reason::Unreachable };
        let rm = Some(denied.unwrap_or(first).clone());
        Refusal { rm, detail, reason, bottleneck: None, ..refusal }
    }

    /// Takes from timetables what is not believed to be free over a window. `window` is that of [`BelievedProfiles::of`].
    /// Nothing is free of a resource of which nothing is known.
    pub fn limit(&self, timetables: &mut ScratchTimetables, window: Window) {
        let all: Vec<_> = timetables.resources().map(|(number, ..)| number).collect();
        for number in all {
            let (rm, resource) = timetables.names(number);
            let steps = self.steps(rm, resource);
            timetables.limit(number, window, steps);
        }
    }

    fn steps(&self, rm: &RmName, resource: &ResourceId) -> &[FreeStep] {
        let steps = self.profiles.get(rm).and_then(|known| known.get(resource));
        steps.map_or(&[], Vec::as_slice)
    }
}

impl Knowledge for BelievedProfiles {
    fn vector(
        &self,
        rm: &RmName,
        resource: &ResourceId,
        amount: Amount,
        grid: SlotGrid,
        first: Slot,
        slots: usize,
    ) -> Result<AvailabilityVector, InvalidField> {
        let steps = self.steps(rm, resource).iter().copied();
        AvailabilityVector::of_profile(steps, amount, grid, first, slots)
            .map_err(|error| InvalidField { field: "options.horizon".to_owned(), ..error })
    }

    fn free_at(&self, rm: &RmName, resource: &ResourceId, at: Time) -> Amount {
        let steps = self.steps(rm, resource);
        let next = steps.partition_point(|(start, _)| *start <= at);
        next.checked_sub(1).map_or(Amount::ZERO, |index| steps[index].1)
    }
}

/// What everybody has, as they describe it. It includes what belongs to others: no plan uses it, but the updates of
/// whoever describes it name it.
pub(super) fn inventories(snapshot: &Snapshot) -> BTreeMap<RmName, Vec<(ResourceId, Amount)>> {
    let of_one = |(rm, (_, said)): (&RmName, &(RmClient, Arc<v1::DescribeResponse>))| {
        let all = described_resources(said);
        (rm.clone(), all.map(|(name, most)| (ResourceId::composed(name), Amount(most))).collect())
    };
    snapshot.members.iter().map(of_one).collect()
}

/// What an update is, for counters.
pub(super) const fn word(update: &Update) -> &'static str {
    match &update.kind {
        UpdateKind::Snapshot { .. } => "snapshot",
        UpdateKind::Delta { .. } if update.parts.is_empty() => "progress",
        UpdateKind::Delta { .. } => "delta",
        UpdateKind::Facts => "facts",
    }
}

/// Why there are no profiles, for people.
pub(super) fn why(error: &Status) -> MissingProfiles {
    match error.code() {
        tonic::Code::PermissionDenied => MissingProfiles {
            denied: true,
            text: "does not let this coordinator watch its profiles: its configuration has to \
                   name this coordinator in `profiles.coordinators`"
                .to_owned(),
        },
        tonic::Code::Unimplemented => MissingProfiles::silent("serves no profiles".to_owned()),
        _ => MissingProfiles::silent(format!("sends no profiles: {}", error.message())),
    }
}
