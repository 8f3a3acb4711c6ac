"""Where prefixes and candidates go: the visits that BiGJoin's steps make on partitions, planned before anything runs.

The candidates of a proposer visit the indexes of the other atoms of its stage to be intersected; what survives, extended,
visits the indexes of the next stage to be counted. Verbs whose indexes are on one partition are one visit: in triangles
    propose z by edge(x, z), where x is | intersect with edge(y, z), where y is
is one shuffle, and so is the way there if edge(x, z) counted last.
"""

from typing import NamedTuple

from semi_naive.ra.multiway.prefixes.stages import Plan, Stage

Route = tuple[int, ...]  # the columns of prefix and candidate whose hash is the partition; () is wherever one is


class Visit(NamedTuple):
    """Numbers of the verbs to intersect with there, whether candidates are extended after that, and numbers of the next
    stage's verbs to count by then."""

    route: Route
    intersects: tuple[int, ...]
    extends: bool
    counts: tuple[int, ...]


def route(stage: Stage, verb: int) -> Route:
    """Where the verb's index is; () when it needs none."""
    return stage.atoms[verb].route(stage.width) if verb < len(stage.atoms) else ()


def keyed(stage: Stage) -> tuple[int, ...]:
    """The proposers whose counts have to be asked for: not those of one index without a key, whose size is known. None
    when there is no choice."""
    found = tuple(n for n in stage.proposers if n < len(stage.atoms) and stage.atoms[n].places)
    return found if len(stage.proposers) > 1 else ()


def itinerary(plan: Plan, number: int, proposer: int) -> tuple[Visit, ...]:
    """The visits of the candidates of one proposer; the first is where they are proposed."""
    stage = plan.stages[number]
    following = plan.stages[number + 1] if number + 1 < len(plan.stages) else None
    to_meet = [n for n in range(len(stage.atoms)) if n != proposer]
    to_count = list(keyed(following)) if following else []
    at, visits = route(stage, proposer), []
    while True:
        met = tuple(n for n in to_meet if route(stage, n) == at)
        to_meet = [n for n in to_meet if n not in met]
        if not to_meet:
            break
        visits.append(Visit(at, met, False, ()))
        useful = {route(following, n) for n in to_count}
        at = min((route(stage, n) for n in to_meet), key=lambda r: r in useful)  # last where a count follows
    extends = True
    while True:
        counts = tuple(n for n in to_count if route(following, n) == at)
        to_count = [n for n in to_count if n not in counts]
        visits.append(Visit(at, met if extends else (), extends, counts))
        extends = False
        if not to_count:
            return tuple(visits)
        at = route(following, to_count[0])


class Layout(NamedTuple):
    """Of each stage, how many steps a round of it takes, the visits of each of its proposers, and whether all that it makes
    is at home for the next stage where it is made."""

    steps: tuple[int, ...]
    visits: tuple[dict[int, tuple[Visit, ...]], ...]
    stays: tuple[bool, ...]

    @classmethod
    def of(cls, plan: Plan) -> "Layout":
        visits = tuple({p: itinerary(plan, n, p) for p in stage.proposers} for n, stage in enumerate(plan.stages))
        stays = tuple(_stays(own, after) for own, after in zip(visits, plan.stages[1:], strict=False))
        return cls(tuple(max(map(len, own.values())) for own in visits), visits, (*stays, False))


def _stays(visits: dict[int, tuple[Visit, ...]], following: Stage) -> bool:
    """Whether the last visits are where the next stage's proposers are, all of them in one place."""
    ends = {own[-1].route for own in visits.values()}
    homes = {following.atoms[n].places if n < len(following.atoms) else () for n in following.proposers}
    return len(ends) == 1 and ends == homes and () not in homes  # () is everywhere, or wherever one is
