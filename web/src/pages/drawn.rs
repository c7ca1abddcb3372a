//! The reservations that a drawing is made of: those that the visitor may see and that take something in a window.
//!
//! Resource managers tell no user what others have booked, and the coordinator has no method that would. So a drawing has
//! what `coalloc list` has, and says so (`otherwise` asks what is free besides). Everything is read within bounds; what was left out is said, too.

use coalloc_common::{Window, limits};
use coalloc_net::convert::window_from_wire;
use coalloc_proto::v1;
use maud::{Markup, html};
use tonic::Status;

use super::calls::PageCalls;
use super::words;

/// What a drawing is made of.
#[derive(Debug, Clone, Default)]
pub(super) struct DrawnReservations {
    /// With all segments in their plans, also those of workflows.
    pub(super) all: Vec<v1::Reservation>,
    /// Were there more than are read for a drawing?
    pub(super) is_cut: bool,
    /// Workflows of which the plan was not read.
    pub(super) unread_workflows: usize,
}

impl DrawnReservations {
    /// Reads them. What is over is read only if the window has begun.
    pub(super) async fn read(calls: &mut PageCalls, window: Window) -> Result<Self, Status> {
        use v1::ReservationState as S;
        let mut states =
            vec![S::Checking, S::Held, S::Committing, S::Confirmed, S::Active, S::Terminating];
        if window.start() < words::now() {
            states.push(S::PassedEndTime);
        }
        let states: Vec<i32> = states.into_iter().map(Into::into).collect();
        let mut request = v1::ListRequest { states, ..Default::default() };
        let mut drawn = Self::default();
        let mut read = 0;
        loop {
            let page = calls.list(request.clone()).await?;
            read += page.reservations.len();
            drawn.all.extend(page.reservations.into_iter().filter(|one| takes_part(one, window)));
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                break;
            }
            if read >= limits::WEB_DRAWN_MAX {
                drawn.is_cut = true;
                break;
            }
        }
        drawn.read_workflows(calls).await?;
        Ok(drawn)
    }

    async fn read_workflows(&mut self, calls: &PageCalls) -> Result<(), Status> {
        let mut workflows = self.all.iter_mut().filter(|one| one.workflow.is_some());
        for one in workflows.by_ref().take(limits::WEB_WORKFLOWS_MAX) {
            let segments = calls.workflow_segments(&one.id).await?;
            if let Some(plan) = &mut one.plan {
                plan.segments = segments;
            }
        }
        self.unread_workflows = workflows.count();
        Ok(())
    }

    /// Whose reservations are drawn, and what is not.
    pub(super) fn note(&self) -> Markup {
        html! {
            p class="note" {
                "The reservations that you may see. Resource managers do not tell a coordinator what else is booked there."
                @if self.is_cut {
                    " Only the first " (limits::WEB_DRAWN_MAX) " of them were looked at."
                }
                @if self.unread_workflows > 0 {
                    " The parts of " (words::count(self.unread_workflows, "further workflow")) " are left out."
                }
            }
        }
    }
}

fn takes_part(one: &v1::Reservation, window: Window) -> bool {
    let own = one.plan.as_ref().map(|plan| window_from_wire("", plan.window.as_ref()));
    own.is_some_and(|own| own.is_ok_and(|own| own.overlaps(window)))
}
