//! The single servers of sites that grant whole servers: a row for each server that somebody has in the time of the timeline.
//!
//! Left out: servers that nobody has, which `coalloc servers` searches for.

use std::collections::BTreeMap;

use coalloc_common::{Window, limits};
use coalloc_net::convert::window_from_wire;
use coalloc_proto::v1;
use maud::{Markup, html};

use super::ground::{Ground, LANE, NAME};
use super::timeline::bar;
use super::words;

/// Who has which server when, by the server's whole name. Servers of one name at two resource managers are in one row.
type Servers<'a> = BTreeMap<&'a str, Vec<(&'a v1::Reservation, Window)>>;

fn servers(all: &[v1::Reservation], window: Window) -> Servers<'_> {
    let mut servers = Servers::new();
    for one in all {
        for granted in &one.servers {
            let own = window_from_wire("", granted.window.as_ref());
            let Some(own) = own.ok().filter(|own| own.overlaps(window)) else { continue };
            for name in &granted.servers {
                servers.entry(name).or_default().push((one, own));
            }
        }
    }
    servers
}

/// The rows; nothing if nobody has a server.
pub(super) fn section(ground: Ground<'_>, all: &[v1::Reservation]) -> Markup {
    let mut servers = servers(all, ground.window);
    let left_out = servers.len().saturating_sub(limits::WEB_SERVER_ROWS_MAX);
    while servers.len() > limits::WEB_SERVER_ROWS_MAX {
        servers.pop_last();
    }
    html! {
        @if !servers.is_empty() {
            h2 { "Servers" }
            @if left_out > 0 {
                p class="note" { "The last " (words::count(left_out, "server")) " are left out; each reservation lists its own." }
            }
            (drawing(ground, &servers))
            (table(&servers))
        }
    }
}

fn drawing(ground: Ground<'_>, servers: &Servers<'_>) -> Markup {
    let (tops, end) = Ground::tops(servers.values().map(|_| LANE));
    html! {
        svg class="timeline" width="100%" height=(end) role="group"
            aria-label="Who has which server, a row for each server; the table below says the same" {
            (ground.marks(end))
            @for ((name, bars), top) in servers.iter().zip(&tops) {
                line class="row" x1="0" x2="100%" y1=(top) y2=(top) {}
                text class="row" x="2" y=(top + 15) { (words::text(name)) }
                @for (one, window) in bars {
                    (bar(ground.window, one, *window, top + NAME, &title(name, one)))
                }
            }
            (ground.before(end))
        }
    }
}

fn title(name: &str, one: &v1::Reservation) -> String {
    let (id, user) = (words::text(words::own_id(one)), words::text(&one.user));
    format!("{id} of {user}, {}: {}", words::state(one.state()), words::text(name))
}

fn table(servers: &Servers<'_>) -> Markup {
    let rows = servers.values().map(Vec::len).sum();
    html! {
        details id="servers-as-table" {
            summary { "The same as a table (" (words::count(rows, "row")) ")" }
            div class="scroll" role="region" aria-label="Servers as a table" tabindex="0" {
                table class="cards" {
                    thead { tr {
                        th scope="col" { "Server" } th scope="col" { "Reservation" } th scope="col" { "User" }
                        th scope="col" { "State" } th scope="col" { "Window" }
                    } }
                    tbody { @for (name, bars) in servers { @for (one, window) in bars { tr {
                        td data-label="Server" { (words::text(name)) }
                        td data-label="Reservation" { (words::link(one)) }
                        td data-label="User" { (words::text(&one.user)) }
                        td data-label="State" { (words::badge(one.state())) }
                        td data-label="Window" { (words::window(*window)) }
                    } } } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::{Span, Time};
    use coalloc_net::convert::window_to_wire;

    use super::*;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    #[test]
    fn a_server_has_a_row_with_all_who_have_it_in_time() {
        let hour = |from: i64| {
            let start = NOON.saturating_add(Span::from_secs(from * 3_600));
            Window::starting(start, Span::from_secs(3_600)).unwrap()
        };
        let having = |id: &str, from: i64, servers: &[&str]| v1::Reservation {
            id: id.into(),
            servers: vec![v1::GrantedServers {
                servers: servers.iter().map(|name| (*name).to_owned()).collect(),
                window: Some(window_to_wire(hour(from))),
                ..Default::default()
            }],
            ..Default::default()
        };
        let all = [
            having("a", 0, &["A/n1", "A/n2"]),
            having("b", 1, &["A/n2"]),
            having("later", 30, &["A/n3"]),
        ];
        let day = Window::starting(NOON, Span::from_secs(86_400)).unwrap();
        let servers = servers(&all, day);
        let rows: Vec<_> = servers.iter().map(|(name, bars)| (*name, bars.len())).collect();
        assert_eq!(rows, [("A/n1", 1), ("A/n2", 2)]);
        let text = table(&servers).into_string();
        assert_eq!(text.matches("<td data-label=\"Server\">").count(), 3, "{text}");
    }
}
