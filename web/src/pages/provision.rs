//! `/provision/ID` and `/deprovision/ID`: lets the user of a reservation in to its equipment, or takes the equipment back. Both
//! ask first.
//!
//! Left out: what the equipment makes of it, which the page of the reservation shows.

use axum::body::Body;
use axum::extract::{Path, Request, State};
use coalloc_proto::v1;
use http::{Response, StatusCode};
use maud::{Markup, html};
use uuid::Uuid;

use super::calls::PageCalls;
use super::form::Form;
use super::frame::{Frame, redirect, respond};
use super::visitor::{self, Visitor};
use super::{PageState, words};

const HERE: &str = "/reservations";

/// May its user be let in, or be let out?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Provisioning {
    Provision,
    Deprovision,
}

impl Provisioning {
    /// What can be done with a reservation. `has_equipment`: some equipment has something of it.
    pub(super) fn of(one: &v1::Reservation, has_equipment: bool) -> Option<Self> {
        match (one.state().is_booked(), one.manual_provision) {
            (true, true) => Some(Self::Provision),
            (true, false) if has_equipment => Some(Self::Deprovision),
            _ => None,
        }
    }

    /// The word in addresses.
    pub(super) const fn page(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Deprovision => "deprovision",
        }
    }

    /// The word on buttons.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Provision => "Provision",
            Self::Deprovision => "Deprovision",
        }
    }

    const fn question(self) -> &'static str {
        match self {
            Self::Provision => {
                "Its user is let in to the equipment as soon as its window has begun."
            }
            Self::Deprovision => {
                "The equipment is taken from its user, and what runs there ends. It stays reserved, and Provision gives it back."
            }
        }
    }
}

/// `GET /provision/ID`.
pub(super) async fn ask_provision(
    state: State<PageState>,
    visitor: Visitor,
    id: Path<String>,
) -> Response<Body> {
    ask(state, visitor, id, Provisioning::Provision).await
}

/// `GET /deprovision/ID`.
pub(super) async fn ask_deprovision(
    state: State<PageState>,
    visitor: Visitor,
    id: Path<String>,
) -> Response<Body> {
    ask(state, visitor, id, Provisioning::Deprovision).await
}

/// `POST /provision/ID`.
pub(super) async fn provision(
    state: State<PageState>,
    visitor: Visitor,
    id: Path<String>,
    request: Request,
) -> Response<Body> {
    change(state, visitor, id, request, Provisioning::Provision).await
}

/// `POST /deprovision/ID`.
pub(super) async fn deprovision(
    state: State<PageState>,
    visitor: Visitor,
    id: Path<String>,
    request: Request,
) -> Response<Body> {
    change(state, visitor, id, request, Provisioning::Deprovision).await
}

async fn ask(
    State(state): State<PageState>,
    visitor: Visitor,
    Path(id): Path<String>,
    wanted: Provisioning,
) -> Response<Body> {
    match PageCalls::new(&state, &visitor).get(&id).await {
        Ok(one) => {
            let title = format!("{} a reservation", wanted.label());
            let frame = Frame { title: &title, here: HERE, is_live: false };
            respond(&visitor, StatusCode::OK, frame, &question(&visitor, &one, wanted))
        }
        Err(status) => visitor::failed(&visitor, HERE, &status),
    }
}

fn question(visitor: &Visitor, one: &v1::Reservation, wanted: Provisioning) -> Markup {
    let is_possible =
        one.state().is_booked() && one.manual_provision == (wanted == Provisioning::Provision);
    html! {
        p {
            b { (words::text(words::own_id(one))) } " of " (words::text(&one.user)) ", " (words::badge(one.state())) ", "
            (words::wire_window(one.plan.as_ref().and_then(|plan| plan.window.as_ref())))
        }
        @if is_possible {
            p { (wanted.question()) }
            form method="post" action=(words::path(wanted.page(), &one.id)) data-once="yes" {
                (Form::hidden(visitor))
                input type="hidden" name="change" value=(Uuid::new_v4());
                button type="submit" { (wanted.label()) " it" }
                " " a href=(words::page_of(one)) { "Leave it as it is" }
            }
        } @else {
            p {
                "There is nothing to do: it is " (words::state(one.state())) ", and "
                @if one.manual_provision { "not provisioned" } @else { "provisioned" } "."
            }
            p { a href=(words::page_of(one)) { "Back to it" } }
        }
    }
}

/// A change that is sent twice has one id, so it is made once.
async fn change(
    State(state): State<PageState>,
    visitor: Visitor,
    Path(id): Path<String>,
    request: Request,
    wanted: Provisioning,
) -> Response<Body> {
    let form = match Form::read(&visitor, request).await {
        Ok(form) => form,
        Err(response) => return response,
    };
    let mut calls = PageCalls::new(&state, &visitor);
    // The user of the reservation; whether the visitor may act for that one, the coordinator judges.
    let user = match calls.get(&id).await {
        Ok(one) => one.user,
        Err(status) => return visitor::failed(&visitor, HERE, &status),
    };
    let change_id = form.field("change").to_owned();
    let answer = match wanted {
        Provisioning::Provision => {
            calls.provision(v1::ProvisionRequest { id: id.clone(), change_id, user }).await
        }
        Provisioning::Deprovision => {
            calls.deprovision(v1::DeprovisionRequest { id: id.clone(), change_id, user }).await
        }
    };
    match answer {
        // The page of the reservation says what came of it.
        Ok(one) => redirect(&words::page_of(&one)),
        Err(status) => visitor::failed(&visitor, HERE, &status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reservation(state: v1::ReservationState, manual_provision: bool) -> v1::Reservation {
        let id = "<script>".to_owned();
        v1::Reservation { id, state: state.into(), manual_provision, ..Default::default() }
    }

    #[test]
    fn only_what_changes_something_is_offered() {
        use v1::ReservationState as S;
        let of = |state, manual, has| Provisioning::of(&reservation(state, manual), has);
        assert_eq!(of(S::Confirmed, true, false), Some(Provisioning::Provision));
        assert_eq!(of(S::Active, false, true), Some(Provisioning::Deprovision));
        assert_eq!(of(S::Confirmed, false, false), None);
        assert_eq!(of(S::Terminated, true, true), None);
        let visitor = Visitor::with_secret("0123456789abcdef0123456789abcdef");
        let asked = |manual| {
            question(&visitor, &reservation(S::Confirmed, manual), Provisioning::Provision)
                .into_string()
        };
        let text = asked(true);
        assert!(
            text.contains("action=\"/provision/%3Cscript%3E\"") && !text.contains("<script"),
            "{text}"
        );
        assert!(
            text.contains("name=\"change\" value=\"") && text.contains("name=\"secret\""),
            "{text}"
        );
        assert!(!asked(false).contains("<form"), "{}", asked(false));
    }
}
