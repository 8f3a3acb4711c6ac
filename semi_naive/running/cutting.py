"""A rule version on the partitions: its body cut into segments, between which its bindings go to where their partners are."""

from semi_naive.balance.bucket_map import BucketMap
from semi_naive.ra.rules.evaluating import Version
from semi_naive.ra.rules.ir import Atom, Rule, Var
from semi_naive.ra.rules.multiway import Multiway
from semi_naive.ra.rules.spread import SpreadRelation
from semi_naive.ra.rules.steps import Bind, Exchange, Join


def cut(number: int, rule: Rule, place: int | None, body, relations: dict[str, SpreadRelation]) -> Version:
    """The version of a compiled body; `place`: of the atom that reads the delta."""
    segments, exchanges = [[]], []
    for step in body.derivation.steps:
        if isinstance(step, Exchange):
            if not exchanges and place is not None and _stays(relations, rule.body[place], segments[0], step):
                continue
            exchanges.append(step)
            segments.append([])
        else:
            segments[-1].append(step)
    first = next((step for step in body.derivation.steps if isinstance(step, Join | Multiway)), None)
    shared = isinstance(first, Multiway) and first.share
    first = first if isinstance(first, Join) else None
    part = first.part if first is not None and first.part in ("delta", "share") else "share" * shared
    relation, order = (first.relation, first.order) if first is not None and part else ("", ())
    names = [_shipped(number, i, exchange, segments) for i, exchange in enumerate(exchanges)]
    return Version(number, body.derivation, segments, exchanges, relation, order, part, rule, 0, names)


def _stays(relations, atom: Atom, segment: list, exchange: Exchange) -> bool:
    """Whether the delta can be scanned where its partners in an exchange already are: then nothing has to go anywhere."""
    spread, target = relations[atom.relation], relations[exchange.relation].index(exchange.order)
    keys = exchange.keys[: target.keys]
    scan = segment[0] if segment and isinstance(segment[0], Join) and segment[0].part == "delta" else None
    if scan is None or scan.keys or not all(isinstance(term, Var) for term in keys) or target.keys != len(keys):
        return False
    for index in () if refined(target.map) else spread.indexes:
        bound = [atom.args[column] for column in index.order[: index.keys]]
        if bound == list(keys) and index.map.homes == target.map.homes:
            order = {place: scan.order[place] for place, _ in scan.binds}
            scan.binds = tuple((index.order.index(order[place]), name) for place, name in scan.binds)
            scan.order = index.order
            return True
    return False


def _shipped(number: int, at: int, exchange: Exchange, segments) -> tuple[str, ...]:
    """The columns of what is shipped: the key's, made where it is no variable, and the others that are needed."""
    names = []
    for place, term in enumerate(exchange.keys):
        if isinstance(term, Var) and term.name not in names:
            names.append(term.name)
        else:
            names.append(f"key.{number}.{at}.{place}")
            segments[at].append(Bind(names[-1], term))
    return tuple(names) + tuple(sorted(exchange.keep - set(names) - {"@group"}))


def refined(placement: BucketMap) -> bool:
    return bool((placement.subbuckets > 1).any())
