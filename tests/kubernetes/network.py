"""Who may talk to whom, by the NetworkPolicies of a folder, is who has to, by the configurations of the daemons.

    network.py FOLDER

The rules are worked out as Kubernetes does: a connection is allowed if a policy of the one who connects lets it out and a
policy of the other lets it in; a pod that no policy selects is free.
"""

import sys

from manifests import config, load, of_kind

METRICS = 9000
# Labels and namespace of pods that are no daemons.
OTHERS = {
    "client": ({"coalloc-client": "true"}, "elsewhere"),
    "prometheus": ({"app.kubernetes.io/name": "prometheus"}, "monitoring"),
    "dns": ({"k8s-app": "kube-dns"}, "kube-system"),
    "stranger": ({"app.kubernetes.io/instance": "grc"}, "coalloc"),
}


def selects(selector, labels):
    assert set(selector) <= {"matchLabels"}, selector
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def is_peer(peer, pod, own_namespace):
    labels, namespace = pod
    assert set(peer) <= {"podSelector", "namespaceSelector"}, peer
    if "namespaceSelector" in peer:
        in_namespace = selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": namespace})
    else:
        in_namespace = namespace == own_namespace
    return in_namespace and selects(peer.get("podSelector", {}), labels)


def lets(policies, direction, pod, other, port):
    """Does a policy of the pod let this connection out (`egress`) or in (`ingress`)?"""
    labels, namespace = pod
    own = [one for one in policies if one["metadata"]["namespace"] == namespace]
    own = [one for one in own if selects(one["spec"]["podSelector"], labels)]
    own = [one for one in own if direction.capitalize() in one["spec"]["policyTypes"]]
    if not own:
        return True
    for rule in (rule for one in own for rule in one["spec"].get(direction, [])):
        # A rule without peers or ports would be one for everybody; none is meant.
        peers = rule["from" if direction == "ingress" else "to"]
        ports = {one["port"] for one in rule["ports"]}
        if port in ports and any(is_peer(peer, other, namespace) for peer in peers):
            return True
    return False


def main(folder):
    objects = load(folder)
    policies = list(of_kind(objects, "NetworkPolicy").values())
    pods = dict(OTHERS)
    for name, one in of_kind(objects, "StatefulSet").items():
        pods[name] = (one["spec"]["template"]["metadata"]["labels"], one["metadata"]["namespace"])
    daemons = sorted(set(pods) - set(OTHERS))
    ports = {name: int(config(objects, name)["daemon"]["listen"].split(":")[1]) for name in daemons}

    needed = {("client", "grc", ports["grc"])}
    for name in daemons:
        needed |= {("prometheus", name, METRICS), (name, "dns", 53)}
        own = config(objects, name)
        for peer in own.get("resourceManagers", []) + own.get("coordinators", []):
            host, port = peer["address"].split(":")
            needed.add((name, host, int(port)))
    allowed = {
        (one, other, port)
        for one in pods
        for other in pods
        if one != other and (one in daemons or other in daemons)
        for port in sorted({*ports.values(), METRICS, 53, 443})
        if lets(policies, "egress", pods[one], pods[other], port)
        and lets(policies, "ingress", pods[other], pods[one], port)
    }
    assert len(needed) > 4 * (len(daemons) - 1), needed
    for what, found in [("not allowed", needed - allowed), ("not needed", allowed - needed)]:
        for one, other, port in sorted(found):
            print(f"{what}: {one} to {other}:{port}")
    print(f"{len(pods)} pods, {len(allowed)} connections allowed, {len(needed)} needed")
    return 0 if needed == allowed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
