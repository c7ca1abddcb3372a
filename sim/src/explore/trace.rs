//! How a path through the states is printed.

use coalloc_protocol::message::{Answer, Resolution};

use super::federation::{Choice, Federation, NextEvent, State};
use super::packet::{Content, Packet};
use crate::world::print::line;

/// The choices of a path, one line each, and the answers that the user got.
pub(super) fn tell(world: &mut Federation, first: &State, choices: &[u16]) -> Vec<String> {
    let mut state = first.clone();
    let mut lines = Vec::new();
    for &choice in choices {
        let Some(choice) = world.choices(&state).get(usize::from(choice)).copied() else {
            lines.push("there is no such choice".to_owned());
            return lines;
        };
        let (who, what) = describe(world, &state, choice);
        let (next, told, problem) = world.take(&state, choice);
        let fault = choice.fault.map_or(String::new(), |fault| format!("   ({fault:?})"));
        lines.push(line(next.now, &who, &format!("{what}{fault}")).trim_end().to_owned());
        for (_, text) in told {
            lines.push(line(next.now, "user", &format!("is told {text}")));
        }
        lines.extend(problem.map(|problem| line(next.now, "", &problem)));
        state = next;
    }
    lines
}

fn describe(world: &Federation, state: &State, choice: Choice) -> (String, String) {
    let content = |packet: Packet| print(&world.contents[packet.content as usize]);
    let call = || world.scenario.calls.get(state.call).map_or("", |call| call.word());
    let (who, what) = match choice.what {
        NextEvent::Take(packet) => content(packet),
        NextEvent::Wake(node) => (node.name().to_owned(), "its alarm fires".to_owned()),
        NextEvent::Call => ("user".to_owned(), call().to_owned()),
        NextEvent::Haste => ("user".to_owned(), "does not wait, and releases".to_owned()),
        NextEvent::Lose(packet) => {
            let (way, what) = content(packet);
            (way, format!("{what} is lost"))
        }
        NextEvent::Twice(packet) => {
            let (way, what) = content(packet);
            (way, format!("{what}, which will arrive a second time"))
        }
        NextEvent::Stranger(packet, foreign) => {
            let (way, what) = content(packet);
            (way, format!("{what} is answered by a stranger: {foreign:?}"))
        }
        NextEvent::Kill(node) => (node.name().to_owned(), "dies and starts again".to_owned()),
    };
    let dies =
        if choice.dies { "; it dies before it sends anything, and starts again" } else { "" };
    (who, format!("{what}{dies}"))
}

fn print(content: &Content) -> (String, String) {
    let rms = super::scenarios::RMS;
    match content {
        Content::Request { rm, txn, message } => {
            (format!("grc -> {}", rms[*rm]), format!("{:?} {txn}", message.kind()))
        }
        Content::Answer { rm, txn, kind, answer } => {
            let text = match answer {
                Answer::Held { expires_in, .. } => format!("held, ends after {expires_in}"),
                Answer::Refused(refusal) => format!("refused: {refusal}"),
                other => format!("{other:?}"),
            };
            (format!("{} -> grc", rms[*rm]), format!("{kind:?} {txn}: {text}"))
        }
        Content::Question { rm, txn } => (format!("{} -> grc", rms[*rm]), format!("Resolve {txn}")),
        Content::Resolution { rm, txn, resolution } => {
            let text = match resolution {
                Resolution::Decided(decision) => format!("{decision:?}"),
                other => format!("{other:?}"),
            };
            (format!("grc -> {}", rms[*rm]), format!("Resolve {txn}: {text}"))
        }
    }
}
