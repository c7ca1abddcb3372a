//! From the reservations that a booking has to those that it is to have: which commands, in which order.
//!
//! 1. **Claims** take what no reservation of the booking has yet. Slurm refuses them when others are in the way. Until
//!    all of them are made, nothing of the booking is given up, so they can be undone.
//! 2. **Moves** take nothing new. Where a reservation grows over what another one of the same booking has, as after the
//!    commit of a change, it gets the flag MAINT, with which Slurm lets it overlap. Then the others shrink or go, and
//!    then the flag goes, which Slurm refuses if anybody else overlaps. So the nodes are covered throughout.
//!
//! Slurm 22.05 takes a new end, new nodes and new users of a reservation of whole nodes at any time, and a new start
//! until it begins. It checks a whole command before it changes anything.
//!
//! The plan is empty when all is as wanted. So it also tells what differs.

use coalloc_common::Time;

use super::pieces::{Nodes, Piece, missing, whole};
use super::text::{Reservation, slurm_time};

/// Who may use what is only held.
pub(super) const NOBODY: &str = "root";

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Command {
    /// Makes a reservation.
    Create { name: String, piece: Piece, users: Vec<String>, is_over_own: bool },
    /// Gives a reservation other values; `None`: the present ones.
    Update {
        name: String,
        start: Option<Time>,
        end: Option<Time>,
        nodes: Option<Nodes>,
        users: Option<Vec<String>>,
        is_over_own: bool,
    },
    /// Ends the jobs of a reservation, and removes it.
    Delete { name: String },
    /// Lets a reservation overlap no others any more.
    Settle { name: String },
}

impl Command {
    /// The name of the reservation.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Create { name, .. }
            | Self::Update { name, .. }
            | Self::Delete { name }
            | Self::Settle { name } => name,
        }
    }
}

/// Commands in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Those that take something new, each with the piece that it is for, and how it is undone.
    pub(super) claims: Vec<Claim>,
    /// Those that take nothing new.
    pub(super) moves: Vec<Command>,
}

/// A command that takes something new.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) command: Command,
    pub(super) undo: Command,
    /// What the reservation has afterwards.
    pub(super) piece: Piece,
    /// The nodes of which something new is taken.
    pub(super) nodes: Nodes,
}

impl Plan {
    /// Is everything as wanted?
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.moves.is_empty()
    }

    /// In what the reservations are not as wanted, in one sentence.
    pub(super) fn difference(&self, own: &[Reservation]) -> Option<String> {
        const SHOWN: usize = 4;
        let commands = self.claims.iter().map(|claim| &claim.command).chain(&self.moves);
        let is_there = |name: &str| own.iter().any(|one| one.name == name);
        // What only covers nodes meanwhile says nothing.
        let is_temporary = |name: &str| {
            !is_there(name)
                && self
                    .moves
                    .iter()
                    .any(|other| matches!(other, Command::Delete { name: of } if of == name))
        };
        let told = commands.filter(|command| match command {
            Command::Settle { name } => {
                own.iter().any(|one| one.name == *name && one.has_flag("MAINT"))
            }
            other => !is_temporary(other.name()),
        });
        let mut texts: Vec<String> = told.map(|command| difference(command, own)).collect();
        texts.dedup();
        texts.truncate(SHOWN);
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

fn difference(command: &Command, own: &[Reservation]) -> String {
    match command {
        Command::Create { name, piece, .. } => format!(
            "there is no reservation {name} of {} from {} to {}",
            joined(&piece.nodes),
            piece.start,
            piece.end
        ),
        Command::Delete { name } => format!("the reservation {name} is not wanted any more"),
        Command::Settle { name } => format!("the reservation {name} has the flag MAINT"),
        Command::Update { name, start, end, nodes, users, .. } => {
            let Some(now) = own.iter().find(|one| one.name == *name) else {
                return format!("the reservation {name} is for somebody else");
            };
            let mut parts = Vec::new();
            if let Some(start) = start {
                parts.push(format!("starts at {} instead of {start}", now.piece.start));
            }
            if let Some(end) = end {
                parts.push(format!("ends at {} instead of {end}", now.piece.end));
            }
            if let Some(nodes) = nodes {
                let [has, wanted] = [&now.piece.nodes, nodes].map(joined);
                parts.push(format!("has the nodes {has} instead of {wanted}"));
            }
            if let Some(users) = users {
                let [has, wanted] = [&now.users, users].map(|list| list.join(","));
                parts.push(format!("is for the users {has} instead of {wanted}"));
            }
            format!("the reservation {name} {}", parts.join(" and "))
        }
    }
}

/// The names of nodes in one text, as Slurm takes them.
pub(super) fn joined(nodes: &Nodes) -> String {
    nodes.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

/// Plans the way from what a booking has, `own`, to what it is to have. `name` is that of its first reservation; the
/// others have a number behind it. `user` is the Unix user.
pub(super) fn plan(
    name: &str,
    user: &str,
    wanted: &[Piece],
    own: &[Reservation],
    now: Time,
) -> Plan {
    let alive: Vec<Reservation> = own.iter().filter_map(|one| from_now(one, now)).collect();
    let areas: Vec<Piece> = alive.iter().map(|one| one.piece.clone()).collect();
    let pairs = pair(name, user, wanted, &alive, now);
    let mut names = Names { name, taken: own.iter().map(|one| one.name.clone()).collect() };
    let is_user_known = own.iter().any(|one| one.users.iter().any(|of| of == user));
    let mut steps = Steps::default();

    for (piece, pair) in wanted.iter().zip(&pairs) {
        let current = pair.and_then(|index| alive.get(index));
        let mut others = alive.iter().filter(|one| current.is_none_or(|it| it.name != one.name));
        let grows = current.is_none_or(|one| !one.piece.covers(piece));
        let gives_up = current.is_some_and(|one| !piece.covers(&clipped(&one.piece, now)));
        let is_over_own = grows && (gives_up || others.any(|one| one.piece.meets(piece)));
        let users = users_of(piece, user);
        let command = match current {
            Some(current) => update(current, piece, &users, is_over_own, now),
            None => {
                let name = names.next(piece.is_granted);
                let mut first = users.clone();
                if !piece.is_granted && !is_user_known && !is_over_own {
                    // Slurm says here and now if it does not know the user: a commit cannot be refused.
                    first = vec![NOBODY.to_owned(), user.to_owned()];
                    first.dedup();
                }
                if first != users {
                    steps.trims.push(only_users(&name, users));
                }
                let piece = piece.clone();
                Some(Command::Create { name, piece, users: first, is_over_own })
            }
        };
        if current.is_some_and(|one| one.has_flag("MAINT")) || is_over_own {
            let name = command.as_ref().map(Command::name).or(current.map(|one| one.name.as_str()));
            steps.settles.extend(name.map(|name| Command::Settle { name: name.to_owned() }));
        }
        let Some(command) = command else { continue };
        let parts = missing(piece, &areas, now);
        match (grows, is_over_own) {
            (true, true) => {
                for part in parts {
                    let name = names.next(false);
                    steps.temporary.push(Command::Delete { name: name.clone() });
                    steps.claims.push(created(name, part));
                }
                // Another reservation may give up what this one is to have, and change before it.
                let is_awaited = gives_up || pairs.iter().flatten().count() > 1;
                if current.is_some() && is_awaited {
                    let name = names.next(false);
                    steps.temporary.push(Command::Delete { name: name.clone() });
                    let (piece, users) = (piece.clone(), vec![NOBODY.to_owned()]);
                    steps.creates.push(Command::Create { name, piece, users, is_over_own });
                }
                let list = if current.is_some() { &mut steps.updates } else { &mut steps.creates };
                list.push(command);
            }
            (true, false) => {
                let undo = current.map_or_else(
                    || Command::Delete { name: command.name().to_owned() },
                    |current| restore(current, &command),
                );
                let nodes = parts.into_iter().flat_map(|part| part.nodes).collect();
                steps.claims.push(Claim { command, undo, piece: piece.clone(), nodes });
            }
            (false, _) => steps.shrinks.push(command),
        }
    }
    let is_kept = |one: &Reservation| {
        pairs.iter().flatten().any(|index| alive.get(*index).is_some_and(|it| it.name == one.name))
    };
    let leftovers = own.iter().filter(|one| !is_kept(one));
    steps.leftovers.extend(leftovers.map(|one| Command::Delete { name: one.name.clone() }));
    steps.in_order()
}

/// The commands of a plan, by what they are for.
#[derive(Debug, Default)]
struct Steps {
    claims: Vec<Claim>,
    /// New reservations over what others of the booking have.
    creates: Vec<Command>,
    /// Changes that take over what others of the booking have.
    updates: Vec<Command>,
    /// Those that take the user out of what is only held.
    trims: Vec<Command>,
    /// Changes that only give up something, and those of users.
    shrinks: Vec<Command>,
    /// Removals of what is not wanted.
    leftovers: Vec<Command>,
    /// Removals of what only had to cover nodes meanwhile.
    temporary: Vec<Command>,
    settles: Vec<Command>,
}

impl Steps {
    fn in_order(self) -> Plan {
        let moves = [
            self.creates,
            self.updates,
            self.trims,
            self.shrinks,
            self.leftovers,
            self.temporary,
            self.settles,
        ];
        Plan { claims: self.claims, moves: moves.into_iter().flatten().collect() }
    }
}

/// What is left of a piece from now on.
fn clipped(piece: &Piece, now: Time) -> Piece {
    Piece { start: piece.start.max(whole(now)), ..piece.clone() }
}

/// The Unix users who may use a piece.
fn users_of(piece: &Piece, user: &str) -> Vec<String> {
    let mut users = vec![NOBODY.to_owned()];
    if piece.is_granted && user != NOBODY {
        users.push(user.to_owned());
    }
    users
}

/// The claim of something for nobody.
fn created(name: String, piece: Piece) -> Claim {
    let users = vec![NOBODY.to_owned()];
    let undo = Command::Delete { name: name.clone() };
    let (nodes, is_over_own) = (piece.nodes.clone(), false);
    let command = Command::Create { name, piece: piece.clone(), users, is_over_own };
    Claim { command, undo, piece, nodes }
}

fn only_users(name: &str, users: Vec<String>) -> Command {
    let (name, users) = (name.to_owned(), Some(users));
    Command::Update { name, start: None, end: None, nodes: None, users, is_over_own: false }
}

/// The command that gives a reservation the values of a piece; `None` when it has them.
fn update(
    current: &Reservation,
    piece: &Piece,
    users: &[String],
    is_over_own: bool,
    now: Time,
) -> Option<Command> {
    let has_started = current.is_active || current.piece.start <= now;
    let starts_alike =
        if piece.start <= now { has_started } else { current.piece.start == piece.start };
    let is_for = |user: &String| current.users.contains(user);
    let users_alike = users.len() == current.users.len() && users.iter().all(is_for);
    let start = (!starts_alike).then_some(piece.start);
    let end = (current.piece.end != piece.end).then_some(piece.end);
    let nodes = (current.piece.nodes != piece.nodes).then(|| piece.nodes.clone());
    let users = (!users_alike).then(|| users.to_vec());
    if start.is_none() && end.is_none() && nodes.is_none() && users.is_none() {
        return None;
    }
    let name = current.name.clone();
    Some(Command::Update { name, start, end, nodes, users, is_over_own })
}

/// The command that undoes an update.
fn restore(current: &Reservation, update: &Command) -> Command {
    let changed = match update {
        Command::Update { start, end, nodes, users, .. } => {
            [start.is_some(), end.is_some(), nodes.is_some(), users.is_some()]
        }
        _ => [true; 4],
    };
    let [start, end, nodes, users] = changed;
    Command::Update {
        name: current.name.clone(),
        start: start.then_some(current.piece.start),
        end: end.then_some(current.piece.end),
        nodes: nodes.then(|| current.piece.nodes.clone()),
        users: users.then(|| current.users.clone()),
        is_over_own: false,
    }
}

/// A reservation that ends later than now. If it has begun, by whichever clock, then now at the latest.
fn from_now(one: &Reservation, now: Time) -> Option<Reservation> {
    let mut one = one.clone();
    if one.is_active {
        one.piece.start = one.piece.start.min(whole(now));
    }
    (one.piece.end > now).then_some(one)
}

/// May a reservation become that of a piece?
type Fits<'a> = dyn Fn(&Reservation, &Piece) -> bool + 'a;

/// The reservation that each wanted piece is to have, by its index. What a user may use keeps the reservation that
/// it has, because jobs run and wait there.
fn pair(
    name: &str,
    user: &str,
    wanted: &[Piece],
    alive: &[Reservation],
    now: Time,
) -> Vec<Option<usize>> {
    let mut pairs: Vec<Option<usize>> = vec![None; wanted.len()];
    let is_granted = |one: &Reservation| one.users.iter().any(|of| of == user);
    let meets_other = |one: &Reservation, piece: &Piece| {
        wanted.iter().any(|it| it != piece && it.meets(&one.piece))
    };
    let rounds: [&Fits<'_>; 3] = [
        &|one, piece| one.piece.meets(piece) && is_granted(one) == piece.is_granted,
        &|one, piece| {
            let is_free = one.piece.meets(piece) || !meets_other(one, piece);
            piece.is_granted && one.name == name && is_free
        },
        &|one, piece| one.piece.meets(piece),
    ];
    for fits in rounds {
        for (index, piece) in wanted.iter().enumerate() {
            if pairs.get(index).is_some_and(Option::is_some) {
                continue;
            }
            let free = alive.iter().enumerate().filter(|(own, _)| !pairs.contains(&Some(*own)));
            let best = free
                // A reservation that has begun cannot begin later.
                .filter(|(_, one)| !(one.is_active && piece.start > now))
                .filter(|(_, one)| fits(one, piece))
                .max_by_key(|(own, one)| {
                    let common = one.piece.nodes.intersection(&piece.nodes).count();
                    (one.name == name, common, std::cmp::Reverse(*own))
                });
            if let (Some((own, _)), Some(pair)) = (best, pairs.get_mut(index)) {
                *pair = Some(own);
            }
        }
    }
    pairs
}

/// Names for new reservations.
struct Names<'a> {
    name: &'a str,
    taken: Vec<String>,
}

impl Names<'_> {
    /// The first name that is free. What takes the place of nothing that the user knows leaves the first name to
    /// what the user may use.
    fn next(&mut self, is_granted: bool) -> String {
        let first = is_granted || self.taken.is_empty();
        let numbered = (2..).map(|number| format!("{}-{number}", self.name));
        let plain = first.then(|| self.name.to_owned());
        let free = plain.into_iter().chain(numbered).find(|name| !self.taken.contains(name));
        let free = free.unwrap_or_default();
        self.taken.push(free.clone());
        free
    }
}

/// The arguments of `scontrol` for a command.
pub(super) fn arguments(command: &Command, now: Time, ignores_jobs: bool) -> Vec<String> {
    let start = |time: Time| match time <= now {
        // By the clock of the controller.
        true => "StartTime=now".to_owned(),
        false => format!("StartTime={}", slurm_time(time)),
    };
    let end = |time: Time| format!("EndTime={}", slurm_time(time));
    let named = |name: &str| format!("ReservationName={name}");
    match command {
        Command::Create { name, piece, users, is_over_own } => {
            let mut all = vec!["create".to_owned(), "reservation".to_owned(), named(name)];
            all.extend([start(piece.start), end(piece.end)]);
            all.push(format!("Nodes={}", joined(&piece.nodes)));
            all.push(format!("Users={}", users.join(",")));
            match (is_over_own, ignores_jobs) {
                (true, _) => all.push("Flags=MAINT,IGNORE_JOBS".to_owned()),
                (false, true) => all.push("Flags=IGNORE_JOBS".to_owned()),
                (false, false) => {}
            }
            all
        }
        Command::Update { name, start: from, end: to, nodes, users, is_over_own } => {
            let mut all = vec!["update".to_owned(), named(name)];
            all.extend(from.map(start));
            all.extend(to.map(end));
            all.extend(nodes.as_ref().map(|nodes| format!("Nodes={}", joined(nodes))));
            all.extend(users.as_ref().map(|users| format!("Users={}", users.join(","))));
            match (is_over_own, ignores_jobs) {
                (true, _) => all.push("Flags+=MAINT,IGNORE_JOBS".to_owned()),
                (false, true) => all.push("Flags+=IGNORE_JOBS".to_owned()),
                (false, false) => {}
            }
            all
        }
        Command::Delete { name } => ["delete", "reservation", name].map(str::to_owned).to_vec(),
        Command::Settle { name } => {
            vec!["update".to_owned(), named(name), "Flags-=MAINT".to_owned()]
        }
    }
}

#[cfg(test)]
mod tests;
