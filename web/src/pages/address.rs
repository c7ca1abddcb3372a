//! `/calendar`: the secret address of a user's calendar, for programs that cannot sign in. The page says until when there is one,
//! makes one, and revokes it.
//!
//! A new address is shown in the answer to its form and nowhere else, so it is in no address of a page and not in the browser's
//! history. Sending the form again makes another one.
//!
//! Left out: the calendar itself ([`super::calendar`]). Source: docs/adr/0059-calendar-addresses.md.

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use coalloc_common::InvalidField;
use coalloc_net::status;
use coalloc_proto::v1;
use form_urlencoded::Serializer;
use http::{HeaderMap, Response, StatusCode};
use maud::{Markup, html};
use tonic::Code;

use super::PageState;
use super::calendar::own_address;
use super::calls::PageCalls;
use super::form::Form;
use super::frame::{Frame, redirect, respond};
use super::visitor::{self, Visitor};
use super::words;

const FRAME: Frame<'static> =
    Frame { title: "Subscribe to a calendar", here: "/reservations", is_live: false };

/// The address of the page about the calendar of a user; empty: of the visitor.
pub(super) fn path(user: &str) -> String {
    let user = (!user.is_empty()).then_some(("user", user));
    let query = Serializer::new(String::new()).extend_pairs(user).finish();
    if query.is_empty() { "/calendar".to_owned() } else { format!("/calendar?{query}") }
}

/// `GET /calendar`, of one user with `?user=NAME`.
pub(super) async fn show(
    State(state): State<PageState>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    let fields = form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes());
    let user = fields.filter(|(name, _)| name == "user").map(|(_, user)| user.trim().to_owned());
    let user = user.last().unwrap_or_default();
    if user.is_empty() && !state.has_tls {
        return respond(&visitor, StatusCode::OK, FRAME, &whose());
    }
    match PageCalls::new(&state, &visitor).calendar_address(&user).await {
        Ok(known) => respond(&visitor, StatusCode::OK, FRAME, &about(&visitor, &known)),
        // Whoever is no user has to say whose calendar it is about.
        Err(status) if user.is_empty() && status.code() == Code::InvalidArgument => {
            respond(&visitor, StatusCode::OK, FRAME, &whose())
        }
        Err(status) => visitor::failed(&visitor, FRAME.here, &status),
    }
}

fn whose() -> Markup {
    html! {
        p { "You have not shown that you are a user. Whose calendar is it about?" }
        form method="get" action="/calendar" class="filters" {
            div {
                label for="user" { "User" }
                input id="user" name="user" required autocomplete="off" spellcheck="false";
            }
            button type="submit" { "Show" }
        }
    }
}

fn about(visitor: &Visitor, known: &v1::GetCalendarAddressResponse) -> Markup {
    let expires = words::wire_time(known.expires.as_ref());
    let user = words::text(&known.user);
    html! {
        p {
            "A calendar program cannot sign in. It reads the reservations of " b { (user) } " at a secret address: whoever knows that "
            "may read them, and can do nothing else. One made here ends by itself after 90 days, and earlier when you revoke it or "
            (user) " may not see reservations any more."
        }
        @match expires {
            Some(expires) => {
                p {
                    "There is an address until " (words::instant(expires)) ". It was shown when it was made, and nobody can show it again."
                }
                (button(visitor, &known.user, "make", "Make a new one, and revoke the old one"))
                (button(visitor, &known.user, "revoke", "Revoke it"))
            }
            None => {
                p { "There is no address." }
                (button(visitor, &known.user, "make", "Make one"))
            }
        }
        p { a href="/reservations" { "Back to the reservations" } }
    }
}

fn button(visitor: &Visitor, user: &str, what: &str, label: &str) -> Markup {
    html! {
        form method="post" action="/calendar" class="stacked" data-once="yes" {
            (Form::hidden(visitor))
            input type="hidden" name="user" value=(user);
            button type="submit" name="do" value=(what) { (label) }
        }
    }
}

/// `POST /calendar`: makes an address, or revokes it.
pub(super) async fn change(
    State(state): State<PageState>,
    visitor: Visitor,
    headers: HeaderMap,
    request: Request,
) -> Response<Body> {
    let form = match Form::read(&visitor, request).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let (user, mut calls) = (form.field("user"), PageCalls::new(&state, &visitor));
    let answer = match form.field("do") {
        "make" => calls.make_calendar_address(user).await.map(|made| {
            let web = own_address(&state, &headers).unwrap_or_default();
            let made = made_page(&format!("{web}{}", made.path), &made, user);
            respond(&visitor, StatusCode::OK, FRAME, &made)
        }),
        "revoke" => calls.revoke_calendar_address(user).await.map(|()| redirect(&path(user))),
        other => Err(status::invalid(&InvalidField::new(
            "do",
            InvalidField::quoted(other),
            "make, revoke",
        ))),
    };
    answer.unwrap_or_else(|status| visitor::failed(&visitor, FRAME.here, &status))
}

fn made_page(address: &str, made: &v1::MakeCalendarAddressResponse, user: &str) -> Markup {
    html! {
        p { b { "Copy this address now: it is not shown again." } }
        div class="stacked" {
            label for="address" { "Address of the calendar" }
            input id="address" type="text" readonly value=(address) autocomplete="off" spellcheck="false";
        }
        p {
            "Your calendar program takes it where it asks for the address of a calendar, often called \"subscribe\" or \"from URL\". "
            @if let Some(expires) = words::wire_time(made.expires.as_ref()) {
                "It ends on " (words::instant(expires)) ". "
            }
            "Give it to nobody who may not see these reservations. If it becomes known, revoke it here."
        }
        p { a href=(path(user)) { "Back" } }
    }
}

#[cfg(test)]
mod tests {
    use coalloc_proto::Timestamp;

    use super::*;

    #[test]
    fn only_what_there_is_can_be_revoked_and_no_name_breaks_the_page() {
        let visitor = Visitor::with_secret("0123456789abcdef0123456789abcdef");
        let mut known =
            v1::GetCalendarAddressResponse { user: "<i>&".to_owned(), ..Default::default() };
        let none = about(&visitor, &known).into_string();
        assert!(none.contains("There is no address") && none.contains("value=\"make\""), "{none}");
        assert!(!none.contains("revoke\"") && !none.contains("<i>"), "{none}");
        known.expires = Some(Timestamp { seconds: 1_795_262_400, nanos: 0 });
        let some = about(&visitor, &known).into_string();
        assert!(some.contains("until <time") && some.contains("value=\"revoke\""), "{some}");
        assert!(some.matches("name=\"secret\" value=\"0123").count() == 2, "{some}");
        assert_eq!((path(""), path("a&b")), ("/calendar".into(), "/calendar?user=a%26b".into()));
    }
}
