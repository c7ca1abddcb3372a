"""Does for one machine what a cluster does with the manifests of `coalloc kubernetes`, as far as podman does not.

    pods.py pods FOLDER OUT     writes OUT/SERVICE.yaml for `podman play kube --network host`, and what it mounts
    pods.py secrets FOLDER OUT  brings new keys into the pods that run
    pods.py probe FOLDER KIND SERVICE
                                prints the command of a probe, one word a line

Podman 4.3 knows Pods and ConfigMaps. So each StatefulSet becomes the one Pod that it stands for, a claim of a volume
becomes a folder of the host, and a Secret becomes one as the kubelet makes it: files behind a link that is replaced whole.
A Service is a name and an address of loopback, in a file that is mounted over /etc/hosts: podman forgets hostAliases
with the network of the host. What does not go together with the network of the host is changed: ports
are not published, and each daemon's metrics are at its own address. Probes are run by the test, since podman runs them
by a shell, which the image does not have.
"""

import base64
import json
import os
import pathlib
import sys

import yaml

from manifests import load, of_kind

USER = 65532


def hosts(objects):
    """The address of each Service, and its names."""
    found = {}
    for number, (name, one) in enumerate(sorted(of_kind(objects, "Service").items()), 1):
        full = f"{name}.{one['metadata']['namespace']}.svc"
        found[f"127.0.1.{number}"] = [name, full, f"{full}.cluster.local"]
    return found


def place_secret(folder, source, secrets):
    """The files of a Secret in a folder, as the kubelet places them: old or new as a whole."""
    data = secrets[source["secretName"]]["data"]
    folder.mkdir(parents=True, exist_ok=True)
    version = folder / f"..{os.urandom(8).hex()}"
    for item in source["items"]:
        path = version / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data[item["key"]], validate=True))
        os.chown(path, 0, USER)
        path.chmod(source["defaultMode"])
        top = folder / item["path"].split("/")[0]
        if not top.is_symlink():
            top.symlink_to(pathlib.Path("..data") / top.name)
    new = folder / "..data_tmp"
    new.symlink_to(version.name)
    new.replace(folder / "..data")


def host_path(path):
    return {"path": str(path.resolve()), "type": "Directory"}


def pod(name, stateful_set, objects, out):
    """The Pod of a StatefulSet, and the ConfigMap that it mounts."""
    spec = stateful_set["spec"]
    assert spec["replicas"] == 1 and spec["serviceName"] in of_kind(objects, "Service")
    template = spec["template"]
    labels = template["metadata"]["labels"]
    assert all(labels[key] == value for key, value in spec["selector"]["matchLabels"].items())
    pod = template["spec"]
    secrets, configs = of_kind(objects, "Secret"), of_kind(objects, "ConfigMap")
    config = None
    for volume in pod["volumes"]:
        if "secret" in volume:
            folder = out / "secrets" / name
            place_secret(folder, volume.pop("secret"), secrets)
            volume["hostPath"] = host_path(folder)
        else:
            config = configs[volume["configMap"]["name"]]
    for claim in spec["volumeClaimTemplates"]:
        folder = out / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        # As fsGroup does it.
        os.chown(folder, 0, pod["securityContext"]["fsGroup"])
        folder.chmod(0o2775)
        volume = {"name": claim["metadata"]["name"], "hostPath": host_path(folder)}
        pod["volumes"].append(volume)
    (container,) = pod["containers"]
    for key in ["ports", "startupProbe", "readinessProbe", "livenessProbe"]:
        del container[key]
    hosts_file = {"path": str((out / "hosts").resolve()), "type": "File"}
    pod["volumes"].append({"name": "hosts", "hostPath": hosts_file})
    container["volumeMounts"].append({"name": "hosts", "mountPath": "/etc/hosts", "readOnly": True})
    pod["restartPolicy"] = "Never"
    (own,) = [address for address, names in hosts(objects).items() if name in names]
    (key,) = config["data"]
    text = json.loads(config["data"][key])
    _, port = text["daemon"]["metricsListen"].split(":")
    text["daemon"]["metricsListen"] = f"{own}:{port}"
    config["data"][key] = json.dumps(text)
    metadata = {"name": f"{name}-0", "labels": labels}
    return [config, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}]


def main(what, folder, *rest):
    objects = load(folder)
    stateful_sets = of_kind(objects, "StatefulSet")
    if what == "probe":
        kind, name = rest
        (container,) = stateful_sets[name]["spec"]["template"]["spec"]["containers"]
        print("\n".join(container[kind]["exec"]["command"]))
        return
    out = pathlib.Path(rest[0])
    lines = [f"{address} {' '.join(names)}\n" for address, names in hosts(objects).items()]
    (out / "hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))
    for name, one in stateful_sets.items():
        if what == "secrets":
            (source,) = [v["secret"] for v in one["spec"]["template"]["spec"]["volumes"] if "secret" in v]
            place_secret(out / "secrets" / name, source, of_kind(objects, "Secret"))
        else:
            objects_of_pod = pod(name, one, objects, out)
            (out / f"{name}.yaml").write_text(yaml.safe_dump_all(objects_of_pod))


if __name__ == "__main__":
    main(*sys.argv[1:])
