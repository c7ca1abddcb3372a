#!/usr/bin/env python3
"""A planner of one's own for `coalloc sim run`: `planner: program:./cheapest.py`.

It reads one frame as JSON from its standard input, and writes a plan, or why there is none, to its standard
output. It tries placements from the cheapest on, and routes one link after the other over the cheapest paths
that are free. So it may miss a plan, and its plans need not be the best.
"""

import heapq
import itertools
import json
import sys

# How many of the cheapest sites are looked at for each requested site, and how many placements are tried.
SITES_MAX = 6
TRIES_MAX = 200


def has_enough(site, wanted):
    return all(site["free"].get(kind, 0) >= amount for kind, amount in wanted["wants"].items())


def placements(frame):
    """Places for all requested sites, each at a site of its own, from the cheapest on."""
    choices = []
    for number, wanted in enumerate(frame["request"]["sites"]):
        fitting = [
            (site["costs"][number], site["name"])
            for site in frame["sites"]
            if has_enough(site, wanted)
        ]
        choices.append(sorted(fitting)[:SITES_MAX])
    found = [
        (sum(cost for cost, _ in choice), [name for _, name in choice])
        for choice in itertools.product(*choices)
        if len({name for _, name in choice}) == len(choice)
    ]
    return [names for _, names in sorted(found)[:TRIES_MAX]]


def cheapest_route(frame, free, number, start, end):
    """The paths of a link from start to end, each with its direction: 0 from a to b, 1 from b to a."""
    rate = frame["request"]["links"][number]["rate_bps"]
    open_ends = [(0, 0, start, [])]
    seen = set()
    while open_ends:
        cost, count, place, route = heapq.heappop(open_ends)
        if place == end:
            return route
        if (place, count) in seen or count == frame["route_paths_max"]:
            continue
        seen.add((place, count))
        for path in frame["paths"]:
            for way, (own, other) in enumerate([(path["a"], path["b"]), (path["b"], path["a"])]):
                if own == place and free[path["name"]][way] >= rate:
                    step = (path["name"], way)
                    if step[0] not in [name for name, _ in route]:
                        more = cost + path["costs"][number][way]
                        heapq.heappush(open_ends, (more, count + 1, other, [*route, step]))
    return None


def routes(frame, places):
    """The routes of all links between these places, or None."""
    free = {path["name"]: list(path["free_bps"]) for path in frame["paths"]}
    shared = {path["name"] for path in frame["paths"] if path["shared"]}
    found = []
    for number, link in enumerate(frame["request"]["links"]):
        route = cheapest_route(frame, free, number, places[link["from"]], places[link["to"]])
        if route is None:
            return None
        for name, way in route:
            for taken in (0, 1) if name in shared else (way,):
                free[name][taken] -= link["rate_bps"]
        found.append([name for name, _ in route])
    return found


def answer(frame):
    for places in placements(frame):
        found = routes(frame, places)
        if found is not None:
            return {"plan": {"sites": places, "routes": found}}
    return {"refused": "no placement that was tried has routes for all links"}


json.dump(answer(json.load(sys.stdin)), sys.stdout)
