"""Programs in steps, each with a plain evaluation of it in Python."""

from collections import Counter, defaultdict

PAGE_RANK = """
.decl edge(x: number, y: number)
.input edge
.decl vertex(x: number)
vertex(x) :- edge(x, _) ; edge(_, x).
.decl size(n: float)
size(to_float(n)) :- n = count : { vertex(_) }.
.decl degree(x: number, n: number)
degree(x, count(y)) :- edge(x, y).
.decl rank(k: number, x: number, r: float)
.output rank
.decl share(k: number, x: number, s: float)
.decl lost(k: number, s: float)
rank(0, v, 1.0 / n) :- vertex(v), size(n).
share(k + 1, v, sum(p / to_float(d))) :- rank(k, u, p), degree(u, d), edge(u, v), k < 10.
share(k + 1, v, 0.0) :- rank(k, v, _), k < 10.
lost(k, s) :- rank(k, _, _), s = sum p : { rank(k, u, p), !degree(u, _) }.
rank(k + 1, v, 0.15 / n + 0.85 * (s + l / n)) :- share(k + 1, v, s), lost(k, l), size(n).
"""


def page_rank(edges) -> dict:
    vertices = {x for edge in edges for x in edge}
    degree, n = Counter(x for x, _ in edges), len(vertices)
    found = {(0, v): 1 / n for v in vertices}
    for k in range(10):
        lost = sum(found[k, v] for v in vertices if not degree[v])
        for v in vertices:
            share = sum(found[k, x] / degree[x] for x, y in edges if y == v)
            found[k + 1, v] = 0.15 / n + 0.85 * (share + lost / n)
    return found


CDLP = """
.decl edge(x: number, y: number)
.input edge
.decl label(k: number, v: number, l: number)
.output label
.decl votes(k: number, v: number, l: number, n: number)
.decl most(k: number, v: number, n: number)
label(0, v, v) :- edge(v, _) ; edge(_, v).
votes(k + 1, v, l, count(u)) :- label(k, u, l), edge(u, v), k < 6.
votes(k + 1, v, l, count(u)) :- label(k, u, l), edge(v, u), k < 6.
most(k, v, max(n)) :- votes(k, v, _, n).
label(k, v, min(l)) :- votes(k, v, l, n), most(k, v, n).
"""


def cdlp(edges) -> set:
    near = defaultdict(set)
    for x, y in edges:
        near[x].add(y)
        near[y].add(x)
    label, found = {v: v for v in near}, set()
    for k in range(7):
        found |= {(k, v, each) for v, each in label.items()}
        votes = {v: Counter(label[u] for u in others) for v, others in near.items()}
        label = {v: min(each for each, n in counted.items() if n == max(counted.values())) for v, counted in votes.items()}
    return found


LIFE = """
.decl start(x: number, y: number)
.input start
.decl alive(k: number, x: number, y: number)
.output alive
.decl around(dx: number, dy: number)
around(dx, dy) :- dx = range(-1, 2), dy = range(-1, 2), (dx != 0 ; dy != 0).
.decl near(k: number, x: number, y: number, n: number)
alive(0, x, y) :- start(x, y).
near(k, x + dx, y + dy, count(x, y)) :- alive(k, x, y), around(dx, dy).
alive(k + 1, x, y) :- near(k, x, y, 3), k < 8.
alive(k + 1, x, y) :- alive(k, x, y), near(k, x, y, 2), k < 8.
.decl died(k: number, x: number, y: number)
.output died
died(k + 1, x, y) :- alive(k, x, y), !alive(k + 1, x, y), k < 8.
"""


def life(start) -> set:
    alive, found = set(start), set()
    for k in range(9):
        found |= {(k, x, y) for x, y in alive}
        near = Counter((x + dx, y + dy) for x, y in alive for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy)
        alive = {cell for cell, n in near.items() if n == 3 or n == 2 and cell in alive}
    return found


MEANS = """
.decl point(p: number, x: float, y: float)
.input point
.decl seed(c: number, x: float, y: float)
.input seed
.decl center(k: number, c: number, x: float, y: float)
.output center
.decl far(k: number, p: number, c: number, d: float)
.decl nearest(k: number, p: number, d: float)
.decl member(k: number, p: number, c: number)
.output member
.decl changed(k: number)
center(0, c, x, y) :- seed(c, x, y).
changed(0).
far(k, p, c, (x - u) * (x - u) + (y - v) * (y - v)) :- center(k, c, u, v), point(p, x, y).
nearest(k, p, min(d)) :- far(k, p, _, d).
member(k, p, min(c)) :- far(k, p, c, d), nearest(k, p, d).
center(k + 1, c, mean(x), mean(y)) :- member(k, p, c), point(p, x, y), changed(k).
changed(k + 1) :- member(k + 1, p, c), !member(k, p, c).
"""


def means(points, seeds) -> set:
    """The members of each step. Coordinates are small whole numbers, so sums do not depend on their order."""
    centers, found, before = {c: (x, y) for c, x, y in seeds}, set(), None
    for k in range(100):
        far = {p: {c: (x - u) * (x - u) + (y - v) * (y - v) for c, (u, v) in centers.items()} for p, x, y in points}
        member = {p: min(c for c, d in each.items() if d == min(each.values())) for p, each in far.items() if each}
        found |= {(k, p, c) for p, c in member.items()}
        if not member or k and member == before:
            break
        own = defaultdict(list)
        for p, x, y in points:
            own[member[p]].append((x, y))
        centers = {c: (sum(x for x, _ in each) / len(each), sum(y for _, y in each) / len(each)) for c, each in own.items()}
        before = member
    return found


PATHS = """
.decl edge(x: number, y: number, w: number)
.input edge
.decl dist(k: number, y: number, d: number, by: number)
.output dist
.decl best(k: number, y: number, d: number)
.decl changed(k: number)
best(0, 0, 0).
changed(0).
best(k + 1, y, min(d + w)) :- best(k, x, d), edge(x, y, w), changed(k), k < 12.
best(k + 1, y, min(d)) :- best(k, y, d), changed(k), k < 12.
changed(k + 1) :- best(k + 1, y, d), !best(k, y, d).
dist(0, 0, 0, 0).
dist(k + 1, y, d, min(x)) :- best(k + 1, y, d), best(k, x, e), edge(x, y, d - e).
dist(k + 1, y, d, x) :- dist(k, y, d, x), best(k + 1, y, d).
"""


def paths(edges) -> set:
    best, found = {0: 0}, {(0, 0, 0)}
    for k in range(12):
        after = dict(best)
        for x, y, w in edges:
            if x in best and best[x] + w < after.get(y, 1 << 40):
                after[y] = best[x] + w
        found |= {(k + 1, y, d) for y, d in after.items()}
        if after == best:
            break
        best = after
    return found


PLAY = """
.decl payoff(i: number, j: number, p: number)
.input payoff
.decl rows(k: number, i: number, n: number)
.output rows
.decl columns(k: number, j: number, n: number)
.output columns
.decl of_row(k: number, i: number, v: number)
.decl of_column(k: number, j: number, v: number)
.decl row(k: number, i: number)
.decl column(k: number, j: number)
rows(0, i, 0) :- payoff(i, _, _), i != 0.
rows(0, 0, 1).
columns(0, j, 0) :- payoff(_, j, _), j != 0.
columns(0, 0, 1).
of_row(k, i, sum(n * p)) :- columns(k, j, n), payoff(i, j, p).
of_column(k, j, sum(n * p)) :- rows(k, i, n), payoff(i, j, p).
row(k, min(i)) :- of_row(k, i, v), v = max w : { of_row(k, _, w) }.
column(k, min(j)) :- of_column(k, j, v), v = min w : { of_column(k, _, w) }.
rows(k + 1, i, n + 1) :- rows(k, i, n), row(k, i), k < 15.
rows(k + 1, i, n) :- rows(k, i, n), !row(k, i), k < 15.
columns(k + 1, j, n + 1) :- columns(k, j, n), column(k, j), k < 15.
columns(k + 1, j, n) :- columns(k, j, n), !column(k, j), k < 15.
"""


def play(payoff) -> tuple[set, set]:
    value = {(i, j): p for i, j, p in payoff}
    rows, columns = {i: int(i == 0) for i, _ in value}, {j: int(j == 0) for _, j in value}
    of_rows, of_columns = set(), set()
    for k in range(16):
        of_rows |= {(k, i, n) for i, n in rows.items()}
        of_columns |= {(k, j, n) for j, n in columns.items()}
        by_row = {i: sum(n * value[i, j] for j, n in columns.items()) for i in rows}
        by_column = {j: sum(n * value[i, j] for i, n in rows.items()) for j in columns}
        rows[min(i for i in rows if by_row[i] == max(by_row.values()))] += 1
        columns[min(j for j in columns if by_column[j] == min(by_column.values()))] += 1
    return of_rows, of_columns


QUEUE = """
.decl arrive(t: number, job: number)
.input arrive
.decl waiting(t: number, job: number)
.output waiting
.decl served(t: number, job: number)
.output served
waiting(t, job) :- arrive(t, job).
waiting(t + 1, job) :- waiting(t, job), !served(t, job).
served(t, min(job)) :- waiting(t, job).
"""


def queue(arrivals) -> tuple[set, set]:
    waiting, of_waiting, served = set(), set(), set()
    for t in range(200):
        waiting |= {job for at, job in arrivals if at == t}
        of_waiting |= {(t, job) for job in waiting}
        if waiting:
            served.add((t, min(waiting)))
            waiting.remove(min(waiting))
    return of_waiting, served
