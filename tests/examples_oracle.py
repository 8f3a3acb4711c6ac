"""The answers of the examples once more, in plain Python and by other ways than the rules': brute force, networkx.

Each function takes a folder of examples/ and returns some of its relations, as sets of rows of text as they are in the files.
"""

import csv
import re
from collections import Counter, defaultdict
from functools import cache
from ipaddress import ip_address, ip_network
from itertools import combinations, product
from pathlib import Path

import networkx as nx


def rows(file: Path) -> list[tuple[str, ...]]:
    """The rows of a fact file, or of an answer, without a header."""
    with open(file, newline="") as opened:
        if file.parent.name == "facts" and file.suffix == ".csv":
            return list(map(tuple, csv.reader(opened)))[1:]
        return [tuple(line.rstrip("\n").split("\t")) for line in opened]


def facts_of(folder: Path) -> dict[str, list[tuple[str, ...]]]:
    return {file.stem: rows(file) for file in (folder / "facts").iterdir()}


def text(found) -> set[tuple[str, ...]]:
    return {tuple(map(str, row)) for row in found}


def closed(pairs) -> set[tuple]:
    """The pairs of the transitive closure; of a node with itself where it is in a cycle."""
    graph = nx.DiGraph(pairs)
    return {(x, z) for x in graph for y in graph[x] for z in {y} | nx.descendants(graph, y)}


def points_to(folder):
    """An interpreter: the program's statements are executed, in any order, until nothing changes."""
    f = facts_of(folder)
    declared, base = {(c, n): m for c, n, m in f["declares"]}, dict(f["extends"])
    class_of = {o: c for _, o, c, _ in f["made"]}
    parameters = {(m, int(n)): v for m, n, v in f["parameter"]}
    points, heap, calls, before = defaultdict(set), defaultdict(set), set(), None

    def method(c, name):
        return declared.get((c, name)) or method(base[c], name)

    while before != (before := (sum(map(len, points.values())), sum(map(len, heap.values())), len(calls))):
        reached = {m for (m,) in f["entry"]} | {m for _, m in calls}
        for v, o, _, m in f["made"]:
            points[v] |= {o} if m in reached else set()
        for to, source in f["assigned"]:
            points[to] |= points[source]
        for b, field, source in f["stored"]:
            for o in points[b]:
                heap[o, field] |= points[source]
        for to, b, field in f["loaded"]:
            points[to] |= set().union(*(heap[o, field] for o in points[b]))
        for site, receiver, name, m in f["called"]:
            for o in points[receiver] if m in reached else ():
                to = method(class_of[o], name)
                calls.add((site, to))
                points[parameters[to, 0]].add(o)
                for s, n, v in f["argument"]:
                    if s == site:
                        points[parameters[to, int(n)]] |= points[v]
                for (s, v), (m, r) in product(f["result"], f["returned"]):
                    points[v] |= points[r] if (s, m) == (site, to) else set()
    aliases = {(v, w) for v, w in product(points, points) if v < w and points[v] & points[w]}
    never = {(m,) for m in declared.values()} - {(m,) for m in reached}
    return {
        "points_to": {(v, o) for v in points for o in points[v]}, "calls": calls, "aliases": aliases, "never_called": never,
    }  # fmt: skip


def taint_tracking(folder):
    """One graph for each danger, and breadth-first searches."""
    f = facts_of(folder)
    call, leaks = dict(f["call"]), set()
    for danger in {d for _, d, _ in f["sink"]}:
        graph = nx.DiGraph(f["flow"])
        steps = [(call[site], x, y) for site, x, y in f["passed"] + f["given_back"]]
        graph.add_edges_from((x, y) for function, x, y in steps if (function, danger) not in f["cleans"])
        graph.add_nodes_from(v for v, *_ in f["source"] + f["sink"])
        for (source, what), (sink, d, line) in product(f["source"], f["sink"]):
            if d == danger and nx.has_path(graph, source, sink):
                leaks.add((what, d, line, nx.shortest_path_length(graph, source, sink)))
    harmed = {(line, d) for _, d, line, _ in leaks}
    return {"leak": text(leaks), "safe": {(line, d) for _, d, line in f["sink"]} - harmed}


def access_control(folder):
    """Each question by itself: the folders outwards from a resource, the first that says anything decides."""
    f = facts_of(folder)
    groups, below, outer = closed(f["member"]), closed(f["includes"]), dict(f["inside"])
    revoked = defaultdict(set)
    for m, n in f["revokes"]:
        revoked[n].add(m)
    state: dict[str, bool] = {}  # of certificates, as far as it is decided
    for _ in f["certificate"] * 2:
        for n, _, _ in f["certificate"]:
            if all(state.get(m) is False for m in revoked[n]):
                state[n] = True
            elif any(state.get(m) for m in revoked[n]):
                state[n] = False
    roles = {(p, r) for (p,), (g, r) in product(f["person"], f["has_role"]) if (p, g) in groups}
    roles |= {(p, r) for n, p, r in f["certificate"] if state.get(n)}
    roles |= {(p, s) for p, r in roles for q, s in below if q == r}

    def may(p, a, x):
        while x is not None:
            said = {
                word for word in ("granted", "refused") for r, b, y in f[word] if (b, y) == (a, x) and (p, r) in roles
            }  # fmt: skip
            if said:
                return said == {"granted"}
            x = outer.get(x)
        return False

    resources, actions = {x for pair in f["inside"] for x in pair}, {a for _, a, _ in f["granted"]}
    allowed = {(p, a, x) for (p,), a, x in product(f["person"], actions, resources) if may(p, a, x)}
    broken = {(p, a, b, x) for (p,), (a, b, x) in product(f["person"], f["never_both"]) if {(p, a, x), (p, b, x)} <= allowed}
    unread = {(x,) for x in resources if not any((p, "read", x) in allowed for (p,) in f["person"])}
    undecided = {(n,) for n, _, _ in f["certificate"] if n not in state}
    return {
        "may": allowed, "broken": broken, "out_of_reach": unread,
        "valid": {(n,) for n, yes in state.items() if yes}, "valid.undefined": undecided,
        "circle": {(x,) for x, y in groups if x == y},
    }  # fmt: skip


def bill_of_materials(folder):
    """Recursion over the tree of parts."""
    f = facts_of(folder)
    uses = [(w, p, int(n)) for w, p, n in f["uses"]]
    parts = {p: [(q, n) for w, q, n in uses if w == p] for p, *_ in f["uses"] + f["offer"]}
    work = {w: (int(h), int(d)) for w, h, d in f["assembly"]}
    offers = defaultdict(list)
    for p, s, *numbers in f["offer"]:
        cents, grams, days = map(int, numbers)
        offers[p].append((cents, s, grams, days))
    best = {p: min(found) for p, found in offers.items()}
    made = {p for p in parts if parts[p]}

    @cache
    def cost(p):
        return sum(n * cost(q) for q, n in parts.get(p, ())) + 4200 * work.get(p, (0, 0))[0] + best.get(p, (0,))[0]

    @cache
    def weight(p):
        return sum(n * weight(q) for q, n in parts.get(p, ())) + best.get(p, (0, "", 0))[2]

    @cache
    def ready(p):
        if p in best:
            return best[p][3], 0
        below = [ready(q) for q, _ in parts[p] if q in parts]
        return max(d for d, _ in below) + work[p][1], max(n for _, n in below) + 1

    def pieces(w, p):
        return 1 if w == p else sum(n * pieces(q, p) for q, n in parts.get(w, ()))

    stock, order = dict(f["stock"]), f["order"]
    lacking = {p: sum(int(n) * pieces(w, p) for w, n in order) - int(stock.get(p, 0)) for p in best}
    alone = {p: found[0][1] for p, found in offers.items() if len(found) == 1}
    return {
        "cost": text((p, cost(p)) for p in parts), "weight": text((p, weight(p)) for p in parts),
        "ready": text((p, *ready(p)) for p in parts),
        "to_buy": text((p, n, n * best[p][0]) for p, n in lacking.items() if n > 0),
        "at_risk": {(s, w) for p, s in alone.items() for w, _ in order if pieces(w, p)},
        "missing": {(p,) for _, p, _ in uses if p not in best and p not in made},
    }  # fmt: skip


def rdfs(folder):
    """All rules over and over, on sets."""
    [given] = facts_of(folder).values()
    known, before = set(given), 0
    while before != (before := len(known)):
        of = defaultdict(set)
        for s, p, o in known:
            of[p].add((s, o))
        new = {(x, "rdf:type", c) for p, c in of["rdfs:domain"] for x, _ in of[p]}
        new |= {(y, "rdf:type", c) for p, c in of["rdfs:range"] for _, y in of[p]}
        new |= {(x, q, y) for p, q in of["rdfs:subPropertyOf"] for x, y in of[p]}
        new |= {(x, "rdf:type", d) for c, d in of["rdfs:subClassOf"] for x, e in of["rdf:type"] if e == c}
        new |= {(y, q, x) for p, q in of["owl:inverseOf"] for x, y in of[p]} | {
            (y, p, x) for p, q in of["owl:inverseOf"] for x, y in of[q]
        }
        kinds = defaultdict(set)
        for p, kind in of["rdf:type"]:
            kinds[kind].add(p)
        new |= {(y, p, x) for p in kinds["owl:SymmetricProperty"] for x, y in of[p]}
        for p in kinds["owl:TransitiveProperty"] | {"rdfs:subClassOf", "rdfs:subPropertyOf"}:
            new |= {(x, p, z) for x, z in closed(of[p])}
        same = nx.Graph(of["owl:sameAs"])
        same.add_edges_from(
            (x, y) for p in kinds["owl:InverseFunctionalProperty"] for (x, v), (y, w) in product(of[p], of[p]) if v == w
        )
        for group in nx.connected_components(same):
            new |= {(x, p, o) for s, p, o in known if s in group for x in group}
            new |= {(s, p, x) for s, p, o in known if o in group for x in group}
        known |= new
    classes = {o for _, p, o in known if p == "rdf:type"}
    members = {c: sum((p, o) == ("rdf:type", c) for _, p, o in known) for c in classes}
    return {"inferred": known - set(given), "members": {("class", "n")} | text(members.items())}


def dominators(folder):
    """networkx's immediate dominators; loops by what can get back to a header."""
    f = facts_of(folder)
    [(entry,)] = f["entry"]
    graph = nx.DiGraph(f["edge"])
    live = nx.descendants(graph, entry) | {entry}
    inner = graph.subgraph(live)
    above = {b: d for b, d in nx.immediate_dominators(inner, entry).items() if b != entry and d is not None}

    def dominates(d, b):
        return d == b or (b in above and dominates(d, above[b]))

    loops = set()
    for b, h in inner.edges:
        if dominates(h, b):
            without = inner.subgraph(live - {h})
            loops |= {(h, h)} | {(h, a) for a in ({b} | nx.ancestors(without, b) if b != h else ())}
    nested = {b: sum(x == b for _, x in loops) for b in live}
    return {
        "dead": {(b,) for b in set(graph) - live}, "loop": loops, "nested": text(nested.items()),
        "immediate": {(d, b) for b, d in above.items()},
    }  # fmt: skip


def dyck_reachability(folder):
    """Ways are walked with a stack of calls, of which no more than six are open."""
    f = facts_of(folder)
    steps, sinks = defaultdict(list), {v for (v,) in f["sink"]}
    for x, y in f["flow"]:
        steps[x].append((0, "", y))
    for sign, word in ((1, "passed"), (-1, "given_back")):
        for site, x, y in f[word]:
            steps[x].append((sign, site, y))
    real, edges = set(), nx.DiGraph([(x, y) for x in steps for *_, y in steps[x]])
    for (source,) in f["source"]:
        ways, seen = [(source, ())], set()
        while ways:
            x, stack = ways.pop()
            if (x, stack) in seen or len(stack) > 6:
                continue
            seen.add((x, stack))
            if x in sinks:
                real.add((source, x))
            for sign, site, y in steps[x]:
                if sign == 0:
                    ways.append((y, stack))
                elif sign == 1:
                    ways.append((y, (*stack, site)))
                elif not stack or stack[-1] == site:
                    ways.append((y, stack[:-1]))
    follows = {(s, y) for (s,) in f["source"] for y in nx.descendants(edges, s) | {s} if y in sinks}
    return {"real": real, "false_alarm": follows - real}


def network_configuration(folder):
    """Packets are sent, one at a time, by Python's own addresses and networks."""
    found = defaultdict(list)
    site = re.sub(r"//.*", "", (folder / "site.dl").read_text())
    for name, arguments in re.findall(r"(\w+)\(([^()]*)\)\.", site):
        found[name].append([argument.strip().strip('"') for argument in arguments.split(",")])
    hosts = {name: (ip_address(a), at) for name, a, at in found["host"]}

    def within(address, network, bits):
        return address in ip_network(f"{network}/{bits}")

    def sent(f, t, port):
        (source, at), (target, home), seen = hosts[f], hosts[t], []
        while True:
            if at in seen:
                return {f"$Circle({r})" for r in seen[seen.index(at) :]}
            seen.append(at)
            fits = [
                (int(n), verdict) for r, n, a, i, b, j, low, high, verdict in found["filter"]
                if r == at and within(source, a, i) and within(target, b, j) and int(low) <= port <= int(high)
            ]  # fmt: skip
            if fits and min(fits)[1] == "deny":
                return {f"$Filtered({at}, {min(fits)[0]})"}
            routes = [(int(bits), to) for r, network, bits, to in found["route"] if r == at and within(target, network, bits)]
            if not routes or (max(routes)[1] == at != home):
                return {f"$NoRoute({at})"}
            if max(routes)[1] == at:
                return {"$Arrives"}
            at = max(routes)[1]

    outcome = {(f, t, p, v) for f, t, p in found["must"] + found["must_not"] for v in sent(f, t, int(p))}
    return {
        "outcome": outcome, "broken": {row for row in outcome if [*row[:3]] in found["must"] and row[3] != "$Arrives"},
        "exposed": {row[:3] for row in outcome if [*row[:3]] in found["must_not"] and row[3] == "$Arrives"},
    }  # fmt: skip


def entity_resolution(folder):
    """All pairs of records are compared, and groups are merged one match after the other."""
    names: dict = {}
    exec((folder / "functors.py").read_text(), names)
    f = facts_of(folder)
    people = {i: (names["plain"](n), e, names["digits"](p) if p else "", town) for i, _, n, e, p, town, _ in f["customers"]}
    group = {i: {i} for i in people}
    for a, b in combinations(sorted(people), 2):
        (n, e, p, t), (m, g, q, u) = people[a], people[b]
        alike = names["alike"](n, m)
        match = (e and e == g) or (p and p == q and alike >= 80) or (t and t == u and n[0] == m[0] and alike >= 90)
        if match and not {(a, b), (b, a)} & set(f["distinct"]):
            merged = group[a] | group[b]
            group |= dict.fromkeys(merged, merged)
    return {"entity": {(i, min(group[i])) for i in people}}


def components_and_shortest_paths(folder):
    """networkx's components, Dijkstra's distances and bridges; of quick and cheap all simple ways."""
    f = facts_of(folder)
    graph, towns = nx.MultiGraph(), {t for _, x, y, _, _ in f["line"] for t in (x, y)}
    graph.add_nodes_from(towns)
    for i, x, y, minutes, euros in f["line"]:
        if (i,) not in f["closed"]:
            graph.add_edge(x, y, minutes=int(minutes), euros=int(euros))
    groups = [*nx.connected_components(graph)]
    reach = dict(nx.all_pairs_dijkstra_path_length(graph, weight="minutes"))
    asked = [(x, y) for x, y in f["asked"] if y in reach[x]]

    def offers(x, y):
        ways = [[]] if x == y else nx.all_simple_edge_paths(graph, x, y)
        costs = {tuple(sum(graph.edges[edge][word] for edge in way) for word in ("minutes", "euros")) for way in ways}
        return {a for a in costs if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in costs)}

    pairs = [(x, y) for group in groups for x, y in combinations(sorted(group), 2)]
    most = {t: max(reach[x][y] for x, y in combinations(group | {t}, 2)) for group in groups if len(group) > 1 for t in group}
    return {
        "together": text((min(group), len(group)) for group in groups), "way": text((x, y, reach[x][y]) for x, y in asked),
        "no_way": set(f["asked"]) - set(asked), "best": text((x, y, *offer) for x, y in asked for offer in offers(x, y)),
        "farthest": text((x, y, reach[x][y]) for x, y in pairs if reach[x][y] == most[x]),
        "bridge": {tuple(sorted(edge)) for edge in nx.bridges(nx.Graph(graph)) if graph.number_of_edges(*edge) == 1},
        "stop": text((x, y, reach[x][z], z) for x, y in asked for z in reach[x] if reach[x][z] + reach[z][y] == reach[x][y]),
    }  # fmt: skip


def organisation(folder):
    """Lines of managers as Python's own lists, units as a tree that is walked."""
    f = facts_of(folder)
    boss, outer = dict(f["reports"]), dict(f["unit"])
    cost, unit = {}, {}
    for p, _, u, contract in f["person"]:
        kind, numbers = re.match(r"\$(\w+)", contract)[1], [int(n) for n in re.findall(r"\d+", contract)]
        cost[p], unit[p] = numbers[0] if kind == "Salaried" else numbers[0] * numbers[1], u

    def line(p):
        found = []
        while p in boss and boss[p] not in found:
            found.append(p := boss[p])
        return found if p not in boss else None

    lines = {p: found for p in cost if (found := line(p)) is not None}

    def shown(managers):
        return f"[{managers[0]}, {shown(managers[1:])}]" if managers else "nil"

    def inside(u, v):
        return u == v or (outer[u] != "" and inside(outer[u], v))

    totals = {u: (sum(cost[p] for p in cost if inside(unit[p], u)), sum(inside(unit[p], u) for p in cost)) for u in outer}
    return {
        "line": {(p, shown(above)) for p, above in lines.items()},
        "decides": {(p, q, next(m for m in lines[p] if m in lines[q])) for p, q in f["at_odds"]},
        "unit_cost": text((u, *both) for u, both in totals.items()),
        "over_budget": text((u, totals[u][0] - int(b)) for u, b in f["budget"] if totals[u][0] > int(b)),
    }  # fmt: skip


def collaborative_text(folder):
    """The operations in the order of their stamps, each put into a list right after its letter: what a copy would do."""
    f = facts_of(folder)
    name = dict(f["person"])
    letters, gone = [(0, "")], {int(stamp) for stamp, _ in f["delete"]}
    for stamp, after, letter in sorted((int(s), int(a), letter) for s, a, letter in f["insert"]):
        letters.insert([s for s, _ in letters].index(after) + 1, (stamp, letter))
    who = [name[str(stamp % 100)] for stamp, _ in letters[1:] if stamp not in gone]
    deleted = [(by, name[str(int(stamp) % 100)]) for stamp, by in f["delete"]]
    return {
        "text": {("".join(letter for stamp, letter in letters if stamp not in gone),)},
        "share": text((p, who.count(p)) for p in set(who)),
        "deleted": text((*pair, deleted.count(pair)) for pair in set(deleted)),
    }  # fmt: skip


def families(folder):
    """Label propagation and PageRank, step by step."""
    f = facts_of(folder)
    number = {name: int(n) for n, name in f["family"]}
    names, graph = {n: name for name, n in number.items()}, nx.Graph((number[x], number[y]) for x, y in f["married"])
    circle, before = {x: x for x in graph}, None
    while circle != before:
        before, circle = circle, {}
        for x in graph:
            votes = Counter(before[y] for y in (x, *graph[x]))
            circle[x] = min(c for c, n in votes.items() if n == max(votes.values()))
    ranks = dict.fromkeys(graph, 1 / len(graph))
    for _ in range(1000):
        ranks = {x: 0.15 / len(graph) + 0.85 * sum(ranks[y] / len(graph[y]) for y in graph[x]) for x in graph}
    return {
        "belongs": {(names[x], names[c]) for x, c in circle.items()},
        "visits": text((names[x], int(10_000 * rank + 0.5)) for x, rank in ranks.items()),
    }  # fmt: skip
