//! The planner that fixes a start, chooses computers first and paths between them second, and
//! slides the start when there are no paths.
//!
//! The algorithm is that of Elmroth and Tordsson. As Takefusa 2010, section 5, describes it, it
//! "fixes a reservation time and searches a combination of required computers first, and the
//! related network paths next. If it cannot find the requested resources, it slides the reservation
//! time frame and searches for resources in the same manner, repeatedly". Here a frame is one
//! start, and the step from one start to the next is (latest start - earliest start) / (N - 1). At
//! each start, one combination of computers is tried, chosen without regard to the network: a
//! matching of sites and vertices, with each site on the first vertex that is left for it. The
//! paths between them are then searched completely. So whatever plan this planner misses, it misses
//! because the computers were fixed first. [`slide`] does the sliding: the earliest start first,
//! and no start after the first that fits.
//!
//! Left out: a separate query for each start. All frames are in one query, as for every planner.

use coalloc_common::{Reason, Refusal, VertexIndex, Window};

use super::search::{Search, Step};
use crate::ip::{IpOptions, admit};
use crate::objectives::Answer;
use crate::{Budget, FramePlanner, Instance, Outcome};

/// The planner `sliding-window` at one start. It may miss a plan that exists.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlidingWindow {
    /// N_max, as for the integer program.
    pub options: IpOptions,
}

impl FramePlanner for SlidingWindow {
    fn name(&self) -> &'static str {
        "sliding-window"
    }

    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome {
        let Instance { topology, request, view, .. } = instance;
        // Without regard to the network.
        let candidates = match admit::candidates_alone(topology, request, view) {
            Ok(candidates) => candidates,
            Err(refusal) => return Outcome::Refused(*refusal),
        };
        let placed = candidates.matching(request.sites.len(), topology.vertices().len());
        let Some(placed) = placed else {
            // `admit` has checked that there is a matching; otherwise it would have refused.
            return Outcome::Refused(self.no_paths(instance, &[]));
        };
        let links = (0..request.links.len()).map(Step::Link).collect();
        let mut search =
            Search::new(instance, self.options, budget, &candidates, placed.clone(), links);
        search.run(self.name()).unwrap_or_else(|| {
            Outcome::Refused(match search.is_over() {
                true => admit::exhausted(view, budget, "the search used up its budget"),
                false => self.no_paths(instance, &placed),
            })
        })
    }
}

impl SlidingWindow {
    /// The refusal when the computers that were fixed have no paths between them. Other computers
    /// may have.
    fn no_paths(&self, instance: &Instance<'_>, placed: &[VertexIndex]) -> Refusal {
        let Instance { topology, request, view, .. } = instance;
        let sites = request.sites.iter().zip(placed);
        let sites =
            sites.map(|(site, at)| format!("{} at {}", site.name, topology.vertex(*at).name));
        let detail = format!(
            "the computers that were chosen first ({}) have no routes of at most {} paths between \
             them for every link in {}; other computers may have them, but this solver does not \
             try others",
            sites.collect::<Vec<_>>().join(", "),
            self.options.route_edges(),
            view.window,
        );
        Refusal { window: Some(view.window), ..Refusal::new(Reason::NoRoute, detail) }
    }
}

/// Solves frames one after the other in their given order, the earliest first, and stops after the
/// first that fits.
pub fn slide<F>(
    frames: impl IntoIterator<Item = F>,
    mut solve: impl FnMut(F) -> (Window, Answer),
) -> Vec<(Window, Answer)> {
    let mut answers = Vec::new();
    for frame in frames {
        let answer = solve(frame);
        let fits = answer.1.is_ok();
        answers.push(answer);
        if fits {
            break;
        }
    }
    answers
}
