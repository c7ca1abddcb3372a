//! The text of the manifests, written by hand and not by a serializer, because people read and change them.
//!
//! Left out: Secrets and NetworkPolicies.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::{
    ALL, EVICTIONS_FILE, Kind, NAMESPACE_FILE, NETWORK_FILE, Plan, Pod, SECRETS_FILE, file_name,
    secrets,
};
use crate::testbed::containers::{IDENTITY, METRICS_PORT, STATE};

/// Where a daemon finds its configuration. Beside its identity and not around it: what is mounted on a volume that cannot be
/// written to would have no place there.
const CONFIG: &str = "/etc/coalloc/config";
/// The user and group of the daemons, as in the image.
const USER: u32 = 65_532;

/// What differs between the pods of resource managers and of the coordinator: what they ask for, and what they may use.
///
/// The limits only stop a daemon that has gone wrong; they are not tight.
fn resources(kind: Kind) -> &'static str {
    match kind {
        Kind::Grc => "{requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: \"2\", memory: 1Gi}}",
        Kind::Crm | Kind::Nrm => {
            "{requests: {cpu: 50m, memory: 64Mi}, limits: {cpu: \"1\", memory: 512Mi}}"
        }
    }
}

/// The first lines of an object that belongs to one daemon.
pub(super) fn head(api: &str, kind: &str, name: &str, plan: &Plan, pod: Pod<'_>) -> String {
    let (namespace, labels) = (&plan.namespace, labels(pod));
    format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: {namespace}\n  \
         labels: {labels}\n"
    )
}

/// The first lines of an object that belongs to all daemons.
pub(super) fn head_of_all(api: &str, kind: &str, plan: &Plan) -> String {
    let namespace = &plan.namespace;
    format!(
        "apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {ALL}\n  namespace: {namespace}\n  \
         labels: {{app.kubernetes.io/name: coalloc}}\n"
    )
}

fn labels(pod: Pod<'_>) -> String {
    format!("{{{}, app.kubernetes.io/component: {}}}", selected(pod.service), pod.kind.name())
}

/// The labels by which a daemon's pod is found.
fn selected(service: &str) -> String {
    format!("app.kubernetes.io/name: coalloc, app.kubernetes.io/instance: {service}")
}

/// `namespace.yaml`.
pub(super) fn namespace(plan: &Plan) -> String {
    let namespace = &plan.namespace;
    format!(
        "# The namespace of the federation. Whoever deletes it deletes the ledgers.\n\
         # Written by `coalloc kubernetes`.\n\
         apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n  labels:\n    \
         # The daemons need no more than the strictest standard for pods allows.\n    \
         pod-security.kubernetes.io/enforce: restricted\n    \
         pod-security.kubernetes.io/warn: restricted\n"
    )
}

/// `evictions.yaml`: a budget over all daemons, as each of them has only one pod.
pub(super) fn evictions(plan: &Plan) -> String {
    let head = head_of_all("policy/v1", "PodDisruptionBudget", plan);
    format!(
        "# Nodes that are drained take the daemons down one after another, and none while another one is down.\n\
         # Written by `coalloc kubernetes`.\n\
         {head}spec:\n  maxUnavailable: 1\n  \
         selector: {{matchLabels: {{app.kubernetes.io/name: coalloc}}}}\n"
    )
}

/// `kustomization.yaml`: what `kubectl apply -k` applies.
pub(super) fn list(plan: &Plan) -> String {
    let mut text = "# kubectl apply -k DIR\n\
                    # Written by `coalloc kubernetes`; explained in docs/guide/kubernetes.md.\n\
                    apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
        .to_owned();
    let daemons = plan.pods().map(|pod| file_name(pod.service));
    let shared = [NAMESPACE_FILE, NETWORK_FILE, EVICTIONS_FILE, SECRETS_FILE].map(str::to_owned);
    for name in shared.into_iter().chain(daemons) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  - {name}");
    }
    text
}

/// The comment above the objects of a daemon.
pub(super) fn comment(plan: &Plan, pod: Pod<'_>) -> String {
    // A name has no line end, but it is used in a comment, so this makes sure.
    let federation = plan.name.replace(char::is_control, " ");
    format!(
        "# {service}: {what} of the federation {federation:?}.\n\
         # Written by `coalloc kubernetes`; explained in docs/guide/kubernetes.md.\n",
        service = pod.service,
        what = pod.kind.article_and_noun()
    )
}

/// The ConfigMap of a daemon.
pub(super) fn config_map(plan: &Plan, pod: Pod<'_>, config: &str) -> String {
    let service = pod.service;
    let head = head("v1", "ConfigMap", &config_name(service), plan, pod);
    format!("{head}data:\n  {}: |\n{}", config_key(service), block(config))
}

/// The Service of a daemon.
pub(super) fn service(plan: &Plan, pod: Pod<'_>) -> String {
    let Pod { service, port, .. } = pod;
    let (head, selected) = (head("v1", "Service", service, plan, pod), selected(service));
    format!(
        "{head}spec:\n  \
         # Its name leads straight to the pod.\n  \
         clusterIP: None\n  \
         # Daemons wait for one another by themselves; a name that is missing for a while would be remembered as missing.\n  \
         publishNotReadyAddresses: true\n  \
         selector: {{{selected}}}\n  \
         ports:\n    \
         - {{name: grpc, port: {port}, targetPort: {port}}}\n    \
         - {{name: metrics, port: {METRICS_PORT}, targetPort: {METRICS_PORT}}}\n"
    )
}

/// The StatefulSet of a daemon. `config` is the configuration.
pub(super) fn stateful_set(plan: &Plan, pod: Pod<'_>, config: &str) -> String {
    let mut text = head("apps/v1", "StatefulSet", pod.service, plan, pod);
    let Pod { service, kind, port } = pod;
    let (labels, selected, storage) = (labels(pod), selected(service), &plan.storage);
    let digest: String =
        Sha256::digest(config.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        text,
        r#"spec:
  serviceName: {service}
  # Never more: a ledger belongs to one process.
  replicas: 1
  selector: {{matchLabels: {{{selected}}}}}
  template:
    metadata:
      labels: {labels}
      annotations:
        # A daemon reads its configuration when it starts: with another one, it starts again.
        coalloc/config-sha256: {digest}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      # It lets calls in flight finish for {patience} s, then closes its ledger.
      terminationGracePeriodSeconds: 30
      securityContext:
        runAsNonRoot: true
        runAsUser: {USER}
        runAsGroup: {USER}
        # The ledger and the key are for this group.
        fsGroup: {USER}
        fsGroupChangePolicy: OnRootMismatch
        seccompProfile: {{type: RuntimeDefault}}
      containers:
        - name: daemon
          image: {image}
          imagePullPolicy: IfNotPresent
          command: [/coalloc, serve, {kind}, --config, {CONFIG}/{key}]
          env:
            - {{name: COALLOC_LOG, value: info}}
            # For the probes, which ask as the daemon itself.
            - {{name: COALLOC_IDENTITY, value: {IDENTITY}}}
          ports:
            - {{name: grpc, containerPort: {port}}}
            - {{name: metrics, containerPort: {METRICS_PORT}}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {{drop: [ALL]}}
          resources: {resources}
          # It serves when it has read its ledger. Until then nothing restarts it, for a day.
          startupProbe:
            exec: {{command: [/coalloc, health, "127.0.0.1:{port}"]}}
            periodSeconds: 5
            timeoutSeconds: 10
            failureThreshold: 17280
          readinessProbe:
            exec: {{command: [/coalloc, health, "127.0.0.1:{port}"]}}
            periodSeconds: 10
            timeoutSeconds: 10
          # Restarted only if it answers nothing for five minutes: a daemon under load is slow, and not dead.
          livenessProbe:
            exec: {{command: [/coalloc, health, "127.0.0.1:{port}"]}}
            periodSeconds: 30
            timeoutSeconds: 10
            failureThreshold: 10
          volumeMounts:
            - {{name: ledger, mountPath: {STATE}}}
            - {{name: config, mountPath: {CONFIG}, readOnly: true}}
            - {{name: identity, mountPath: {IDENTITY}, readOnly: true}}
      volumes:
        - name: config
          configMap: {{name: {config_map}}}
        - name: identity
          secret:
            secretName: {secret}
            # 0440: the group is the daemon's.
            defaultMode: 288
            items:
"#,
        patience = coalloc_common::limits::STOP_PATIENCE.as_us() / 1_000_000,
        image = plan.image,
        kind = kind.name(),
        key = config_key(service),
        resources = resources(kind),
        config_map = config_name(service),
        secret = secrets::name(service),
    );
    for (key, path) in secrets::mounted(plan) {
        let _ = writeln!(text, "              - {{key: {key}, path: {path}}}");
    }
    let _ = write!(
        text,
        "  volumeClaimTemplates:\n    \
         - metadata: {{name: ledger}}\n      \
         spec:\n        \
         accessModes: [ReadWriteOnce]\n        \
         resources: {{requests: {{storage: {storage}}}}}\n"
    );
    text
}

/// The name of a daemon's ConfigMap.
fn config_name(service: &str) -> String {
    format!("{service}-config")
}

/// The file of a daemon's configuration.
fn config_key(service: &str) -> String {
    format!("{service}.json")
}

/// JSON as a block of YAML. Characters beyond ASCII, of which YAML does not allow all, are written as JSON writes them in
/// ASCII; they can only be in strings.
fn block(json: &str) -> String {
    let mut text = String::new();
    for line in json.lines() {
        text += "    ";
        for c in line.chars() {
            if c.is_ascii() && !c.is_ascii_control() {
                text.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_yaml_does_not_allow_is_escaped_and_reads_back_as_it_was() {
        let written =
            serde_json::json!({"name": "T\u{14d}ky\u{14d} \u{1f5fc} \u{feff}\u{7f}\u{85}"});
        let json = serde_json::to_string_pretty(&written).unwrap();
        let text = block(&json);
        assert!(text.is_ascii() && text.lines().all(|line| line.starts_with("    ")), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, written);
    }
}
