//! Who may talk to whom: a coordinator with every resource manager, both ways, and nobody else with a resource manager.
//! Users and operators reach the coordinator from pods that are labelled for it.

use std::fmt::Write as _;

use super::manifest::{head, head_of_all};
use super::{GRC_PORT, Kind, Plan, Pod};
use crate::testbed::containers::METRICS_PORT;
use crate::testbed::local::layout::GRC;

/// The label of pods that may call the coordinator.
pub(super) const CLIENT: &str = "coalloc-client";

/// What holds for every daemon: nothing is allowed but what another policy allows; names may be looked up, and metrics
/// may be scraped.
pub(super) fn shared(plan: &Plan) -> String {
    let denied = head_of_all("networking.k8s.io/v1", "NetworkPolicy", plan);
    format!(
        "# What all daemons have in common. Each daemon's own policy adds whom it talks to.\n\
         # Written by `coalloc kubernetes`; explained in docs/guide/kubernetes.md.\n\
         {denied}spec:\n  \
         podSelector: {{matchLabels: {{app.kubernetes.io/name: coalloc}}}}\n  \
         # What is not allowed here or in another policy is denied.\n  \
         policyTypes: [Ingress, Egress]\n  \
         ingress:\n    \
         # Metrics, for a Prometheus in any namespace.\n    \
         - from: [{{namespaceSelector: {{}}, podSelector: {{matchLabels: {{app.kubernetes.io/name: prometheus}}}}}}]\n      \
         ports: [{{protocol: TCP, port: {METRICS_PORT}}}]\n  \
         egress:\n    \
         # The cluster's DNS.\n    \
         - to: [{{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: kube-system}}}}}}]\n      \
         ports: [{{protocol: UDP, port: 53}}, {{protocol: TCP, port: 53}}]\n"
    )
}

/// The policy of one daemon.
pub(super) fn of(plan: &Plan, pod: Pod<'_>) -> String {
    let Pod { service, kind, port } = pod;
    let mut text = head("networking.k8s.io/v1", "NetworkPolicy", service, plan, pod);
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        text,
        "spec:\n  podSelector: {selected}\n  policyTypes: [Ingress, Egress]\n  ingress:\n",
        selected = only(service)
    );
    match kind {
        Kind::Grc => {
            for manager in &plan.managers {
                let _ = writeln!(text, "    - from: [{{podSelector: {}}}]", only(&manager.service));
                let _ = writeln!(text, "      ports: [{{protocol: TCP, port: {port}}}]");
            }
            let _ = write!(
                text,
                "    # Users and operators: pods in any namespace with this label.\n    \
                 - from: [{{namespaceSelector: {{}}, podSelector: {{matchLabels: {{{CLIENT}: \"true\"}}}}}}]\n      \
                 ports: [{{protocol: TCP, port: {port}}}]\n  egress:\n"
            );
            for manager in &plan.managers {
                let _ = writeln!(text, "    - to: [{{podSelector: {}}}]", only(&manager.service));
                let _ = writeln!(text, "      ports: [{{protocol: TCP, port: {}}}]", manager.port);
            }
        }
        Kind::Crm | Kind::Nrm => {
            let grc = only(GRC);
            let _ = write!(
                text,
                "    - from: [{{podSelector: {grc}}}]\n      \
                 ports: [{{protocol: TCP, port: {port}}}]\n  \
                 egress:\n    \
                 - to: [{{podSelector: {grc}}}]\n      \
                 ports: [{{protocol: TCP, port: {GRC_PORT}}}]\n"
            );
        }
    }
    text
}

/// Selects the pods of one daemon.
fn only(service: &str) -> String {
    format!(
        "{{matchLabels: {{app.kubernetes.io/name: coalloc, app.kubernetes.io/instance: {service}}}}}"
    )
}
