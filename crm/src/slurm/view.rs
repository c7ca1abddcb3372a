//! What a look at the cluster shows, compared with what is wanted.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::plain_text::one_line;
use coalloc_common::{ResourceId, Span, Time};
use coalloc_protocol::participant::equipment::{EquipmentKey, Observed, Presence, Unusable};
use coalloc_rm::driver::Naming;

use super::pieces::{Nodes, Piece};
use super::plan::{joined, plan};
use super::text::{Job, Node, Reservation};

/// Most sentences about one matter.
const SENTENCES_MAX: usize = 20;
/// Longest reason of a node's state in a sentence, in characters.
const REASON_SHOWN_MAX: usize = 100;

/// How far the cluster's clock may be ahead of ours.
const CLOCKS_APART_MAX: Span = Span::from_secs(5);

/// What the cluster has at a moment.
#[derive(Debug)]
pub(super) struct View {
    pub(super) reservations: Vec<Reservation>,
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) jobs: Vec<Job>,
}

/// What is wanted under a key.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The name of its first reservation.
    pub(super) name: String,
    /// Its pieces.
    pub(super) pieces: Vec<Piece>,
    /// The Unix user, or why there is none.
    pub(super) user: Result<String, String>,
}

/// The name of the first reservation of the booking that a reservation belongs to.
pub(super) fn base(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((base, number)) if Naming::is_of_some_rm(base) && number.parse::<u64>().is_ok() => {
            base
        }
        _ => name,
    }
}

/// The reservations of one booking.
pub(super) fn own_of(name: &str, all: &[Reservation]) -> Vec<Reservation> {
    all.iter().filter(|one| base(&one.name) == name).cloned().collect()
}

/// Compares the cluster with everything that is wanted.
pub(super) fn compare(
    view: &View,
    wanted: &BTreeMap<EquipmentKey, Wanted>,
    naming: &Naming,
    now: Time,
) -> Observed {
    let mut observed = Observed::default();
    for (key, wanted) in wanted {
        let own = own_of(&wanted.name, &view.reservations);
        if own.is_empty() {
            continue;
        }
        // A user who is not in the configuration any more cannot be mended, nor can a node.
        let user = wanted.user.as_ref();
        let differs = match user {
            Err(_) => None,
            Ok(user) => plan(&wanted.name, user, &wanted.pieces, &own, now).difference(&own),
        };
        let differs = differs.or_else(|| {
            let job = displaced(&view.jobs, wanted, now).next()?;
            let (id, nodes) = (&job.id, joined(&job.nodes));
            Some(format!("the job {id} runs on {nodes}, which its user may not use"))
        });
        let nodes = wanted.pieces.iter().flat_map(|piece| &piece.nodes).cloned().collect();
        let trouble = user.err().cloned().or_else(|| unusable(&nodes, &view.nodes));
        let reference = wanted.name.clone();
        observed.present.insert(key.clone(), Presence { reference, differs, trouble });
    }
    let names: BTreeSet<&str> = wanted.values().map(|one| one.name.as_str()).collect();
    let reservations = view.reservations.iter().map(|one| one.name.as_str());
    let jobs = view.jobs.iter().map(|job| job.reservation.as_str());
    let own = reservations.chain(jobs).filter(|name| naming.is_own(name)).map(base);
    observed.orphans = own.filter(|name| !names.contains(name)).map(str::to_owned).collect();
    let pieces: Vec<&Piece> = wanted.values().flat_map(|one| &one.pieces).collect();
    observed.intruders = intruders(view, &pieces, naming, now);
    observed
}

/// The jobs of a booking's user on nodes that the user may not use now.
pub(super) fn displaced<'a>(
    jobs: &'a [Job],
    wanted: &'a Wanted,
    now: Time,
) -> impl Iterator<Item = &'a Job> {
    // A job that runs in what is to begin has begun by the cluster's clock.
    let begun = now.saturating_add(CLOCKS_APART_MAX);
    let granted = wanted.pieces.iter().filter(|piece| piece.is_granted && piece.start <= begun);
    let usable: Nodes = granted.flat_map(|piece| piece.nodes.iter().cloned()).collect();
    let of_user =
        jobs.iter().filter(|job| wanted.user.as_ref().is_ok_and(|user| job.user == *user));
    let own = of_user.filter(|job| base(&job.reservation) == wanted.name);
    own.filter(move |job| !job.nodes.is_subset(&usable))
}

/// What is there of others on nodes that are wanted: reservations through the same time, and jobs now.
fn intruders(view: &View, wanted: &[&Piece], naming: &Naming, now: Time) -> Vec<String> {
    let mut sentences = Vec::new();
    for piece in wanted {
        sentences.extend(foreign_reservations(&view.reservations, piece, naming));
        if piece.start <= now {
            sentences.extend(foreign_jobs(&view.jobs, piece, naming));
        }
    }
    sentences.sort_unstable();
    sentences.dedup();
    sentences.truncate(SENTENCES_MAX);
    sentences
}

/// A sentence for each reservation of others that has a node of a piece at the same time.
pub(super) fn foreign_reservations(
    all: &[Reservation],
    piece: &Piece,
    naming: &Naming,
) -> Vec<String> {
    let sentence = |one: &Reservation| {
        let common: Nodes = one.piece.nodes.intersection(&piece.nodes).cloned().collect();
        let whose = if Naming::is_of_some_rm(base(&one.name)) { " of another CRM" } else { "" };
        format!(
            "the reservation {}{whose} has {} from {} to {}; delete it there, or wait for its end",
            one.name,
            joined(&common),
            one.piece.start,
            one.piece.end
        )
    };
    let foreign = all.iter().filter(|one| !naming.is_own(&one.name) && one.piece.meets(piece));
    foreign.take(SENTENCES_MAX).map(sentence).collect()
}

/// A sentence for each job of others that may still run on a node of a piece when the piece begins.
pub(super) fn foreign_jobs(all: &[Job], piece: &Piece, naming: &Naming) -> Vec<String> {
    let sentence = |job: &Job| {
        let common: Nodes = job.nodes.intersection(&piece.nodes).cloned().collect();
        let until = job.end.map_or_else(|| "for ever".to_owned(), |end| format!("until {end}"));
        format!(
            "the job {} of {} may run on {} {until}; wait for its end, or cancel it",
            job.id,
            job.user,
            joined(&common)
        )
    };
    let foreign = all.iter().filter(|job| !naming.is_own(&job.reservation));
    let met = foreign.filter(|job| reaches_into(job, piece));
    met.take(SENTENCES_MAX).map(sentence).collect()
}

/// May a job still run on a node of a piece when the piece begins?
fn reaches_into(job: &Job, piece: &Piece) -> bool {
    !job.nodes.is_disjoint(&piece.nodes) && job.end.is_none_or(|end| end > piece.start)
}

/// The servers whose nodes cannot run new jobs, each with the reason.
pub(super) fn unusable_servers(
    servers: &BTreeMap<String, ResourceId>,
    nodes: &BTreeMap<String, Node>,
) -> BTreeMap<ResourceId, Unusable> {
    let reason = |(node, server): (&String, &ResourceId)| {
        let sentence = unusable(&Nodes::from([node.clone()]), nodes)?;
        let goes_on = nodes.get(node).is_some_and(Node::is_draining);
        Some((server.clone(), Unusable { sentence, goes_on }))
    };
    servers.iter().filter_map(reason).collect()
}

/// A sentence about those of some nodes that cannot run jobs; `None`: all can.
pub(super) fn unusable(wanted: &Nodes, nodes: &BTreeMap<String, Node>) -> Option<String> {
    let texts = wanted.iter().filter_map(|name| match nodes.get(name) {
        None => Some(format!("the node {name} is in no partition of the cluster")),
        Some(node) if node.is_usable() => None,
        Some(node) => {
            let reason: String = one_line(&node.reason).chars().take(REASON_SHOWN_MAX).collect();
            Some(format!("the node {name} is {} ({reason})", node.state))
        }
    });
    let texts: Vec<String> = texts.take(SENTENCES_MAX).collect();
    let help = "see `scontrol show node`, and set its State=RESUME when it is well";
    (!texts.is_empty()).then(|| format!("{}; {help}", texts.join(", ")))
}
