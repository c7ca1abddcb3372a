//! `/reservations`: the reservations that the visitor may see, a row each, as `coalloc list` has them.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use coalloc_common::limits;
use coalloc_proto::v1;
use form_urlencoded::Serializer;
use http::{Response, StatusCode};
use maud::{Markup, html};

use super::calls::PageCalls;
use super::frame::{Frame, respond};
use super::visitor::{self, Visitor};
use super::words;
use super::{PageState, address};

/// Which reservations are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Filter {
    /// Empty: all users that the visitor may see.
    user: String,
    /// Unset: all states.
    state: Option<v1::ReservationState>,
    /// Also those that have ended, if no state is wanted.
    with_ended: bool,
    /// The place at which the list goes on.
    page: String,
}

impl Filter {
    fn of(query: Option<&str>) -> Self {
        let mut filter = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            match &*name {
                "user" => filter.user = value.trim().to_owned(),
                "state" => {
                    filter.state =
                        words::STATES.into_iter().find(|one| words::state(*one) == value);
                }
                "ended" => filter.with_ended = !value.is_empty(),
                "page" => filter.page = value.into_owned(),
                // Other programs may add what they like to an address.
                _ => {}
            }
        }
        filter
    }

    fn request(&self) -> v1::ListRequest {
        let states = match self.state {
            Some(state) => vec![state],
            None if self.with_ended => Vec::new(),
            None => words::STATES.into_iter().filter(|one| !words::has_ended(*one)).collect(),
        };
        v1::ListRequest {
            user: self.user.clone(),
            states: states.into_iter().map(Into::into).collect(),
            page_size: Some(limits::WEB_LIST_ROWS),
            page_token: self.page.clone(),
            ..Default::default()
        }
    }

    /// The address of the calendar of these users.
    fn calendar(&self) -> String {
        let user = (!self.user.is_empty()).then_some(("user", &self.user));
        let query = Serializer::new(String::new()).extend_pairs(user).finish();
        if query.is_empty() { "/calendar.ics".to_owned() } else { format!("/calendar.ics?{query}") }
    }

    /// The page about the secret address of that calendar.
    fn subscription(&self) -> String {
        address::path(&self.user)
    }

    /// The address of the page of this list that begins there.
    fn address(&self, page: &str) -> String {
        let mut query = Serializer::for_suffix("/reservations?".to_owned(), "/reservations?".len());
        let state = self.state.map(words::state).unwrap_or_default();
        for (name, value) in [("user", self.user.as_str()), ("state", &state), ("page", page)] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        if self.with_ended {
            query.append_pair("ended", "yes");
        }
        query.finish()
    }
}

/// `GET /reservations`.
pub(super) async fn show(
    State(state): State<PageState>,
    visitor: Visitor,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    let filter = Filter::of(query.as_deref());
    let answer = PageCalls::new(&state, &visitor).list(filter.request()).await;
    let frame = Frame { title: "Reservations", here: "/reservations", is_live: true };
    match answer {
        Ok(answer) => respond(&visitor, StatusCode::OK, frame, &markup(&filter, &answer)),
        Err(status) => visitor::failed(&visitor, frame.here, &status),
    }
}

fn markup(filter: &Filter, answer: &v1::ListResponse) -> Markup {
    html! {
        (filters(filter))
        @if answer.reservations.is_empty() {
            p { "No reservations of these." }
        } @else {
            (table(&answer.reservations))
        }
        p {
            (words::count(answer.reservations.len(), "reservation"))
            @if filter.state.is_none() && !filter.with_ended { ", without those that have ended" }
            ", in the order in which they were made."
            @if !filter.page.is_empty() { " " a href=(filter.address("")) { "The first ones" } }
            @if !answer.next_page_token.is_empty() {
                " " a href=(filter.address(&answer.next_page_token)) { "The next ones" }
            }
        }
        p {
            a href=(filter.calendar()) { "Calendar (.ics)" } ", with those that are over or released. "
            a href=(filter.subscription()) { "Subscribe to it" } " in a program that cannot sign in."
        }
    }
}

fn filters(filter: &Filter) -> Markup {
    html! {
        form method="get" action="/reservations" class="filters" {
            div {
                label for="user" { "User" }
                input id="user" name="user" value=(filter.user) autocomplete="off" spellcheck="false";
            }
            div {
                label for="state" { "State" }
                select id="state" name="state" {
                    option value="" { "all" }
                    @for one in words::STATES {
                        option value=(words::state(one)) selected[filter.state == Some(one)] { (words::state(one)) }
                    }
                }
            }
            div class="check" {
                input id="ended" type="checkbox" name="ended" value="yes" checked[filter.with_ended];
                label for="ended" { "also ended" }
            }
            button type="submit" { "Show" }
        }
    }
}

/// A row for each reservation.
pub(super) fn table(all: &[v1::Reservation]) -> Markup {
    html! {
        div class="scroll" role="region" aria-label="Reservations" tabindex="0" {
            table class="cards" {
                thead { tr {
                    th scope="col" { "Id" }
                    th scope="col" { "User" }
                    th scope="col" { "State" }
                    th scope="col" { "Window" }
                    th scope="col" { "Where" }
                } }
                tbody {
                    @for one in all {
                        tr {
                            td data-label="Id" { (words::link(one)) }
                            td data-label="User" { (words::text(&one.user)) }
                            td data-label="State" { (words::badge(one.state())) }
                            td data-label="Window" {
                                (words::wire_window(one.plan.as_ref().and_then(|plan| plan.window.as_ref())))
                            }
                            td data-label="Where" { (place_or_note(one)) }
                        }
                    }
                }
            }
        }
    }
}

/// What is wrong, if it is refused nothing but that; otherwise where it is.
fn place_or_note(one: &v1::Reservation) -> Markup {
    let troubled = one.equipment_trouble.iter();
    let troubled: Vec<_> = troubled.map(|one| words::text(&one.resource_manager)).collect();
    html! {
        @if !troubled.is_empty() { "trouble at " (troubled.join(", ")) "; " }
        @match &one.refusal {
            Some(why) => { (words::refusal(why)) }
            None => { (words::places(one)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_read_from_its_own_address() {
        let filter = Filter::of(Some("user=a%26b&state=failed&utm=1&page=7"));
        assert_eq!((filter.user.as_str(), filter.page.as_str()), ("a&b", "7"));
        assert_eq!(filter.request().states, [i32::from(v1::ReservationState::Failed)]);
        let address = filter.address("8");
        assert_eq!(address, "/reservations?user=a%26b&state=failed&page=8");
        assert_eq!(filter.calendar(), "/calendar.ics?user=a%26b");
        assert_eq!(Filter::default().calendar(), "/calendar.ics");
        let again = Filter::of(address.split_once('?').map(|(_, query)| query));
        assert_eq!(again, Filter { page: "8".into(), ..filter });
    }

    #[test]
    fn what_has_ended_is_left_out_unless_it_is_asked_for() {
        let states = |query| Filter::of(query).request().states;
        let passed = i32::from(v1::ReservationState::PassedEndTime);
        assert_eq!(states(None).len(), 7);
        assert!(!states(None).contains(&passed));
        assert!(states(Some("ended=yes")).is_empty());
        assert_eq!(states(Some("state=passed")), [passed]);
        assert_eq!(states(Some("state=nonsense")).len(), 7);
    }

    #[test]
    fn a_row_has_the_own_id_and_says_what_is_wrong() {
        let evil = "<img src=x>";
        let refusal = v1::Refusal { detail: "no room".into(), ..Default::default() };
        let one = v1::Reservation {
            id: "grc-1".into(),
            request_id: evil.into(),
            user: evil.into(),
            state: v1::ReservationState::Failed.into(),
            refusal: Some(refusal),
            ..Default::default()
        };
        let answer = v1::ListResponse { reservations: vec![one], next_page_token: "\"9".into() };
        let text = markup(&Filter::default(), &answer).into_string();
        assert!(!text.contains("<img"), "{text}");
        assert!(text.contains("href=\"/reservations/grc%2D1\">&lt;img src=x&gt;</a>"), "{text}");
        assert!(text.contains("no room") && text.contains("page=%229"), "{text}");
        assert!(text.contains("<span class=\"badge failed\">failed</span>"), "{text}");
        let none = markup(&Filter::default(), &v1::ListResponse::default()).into_string();
        assert!(none.contains("No reservations"), "{none}");
    }
}
