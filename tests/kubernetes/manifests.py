"""Manifests in the folder that `coalloc kubernetes` has written, as Python objects. Needs PyYAML."""

import json
import pathlib

import yaml


def load(folder):
    """All objects that kustomization.yaml lists, in order."""
    folder = pathlib.Path(folder)
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    objects = []
    for name in listed:
        objects += [one for one in yaml.safe_load_all((folder / name).read_text()) if one]
    return objects


def of_kind(objects, kind):
    """The objects of a kind, by name."""
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def config(objects, service):
    """The configuration of a daemon."""
    data = of_kind(objects, "ConfigMap")[f"{service}-config"]["data"]
    return json.loads(data[f"{service}.json"])
