"""Traces that are made up, small and whole, for the figures to be drawn from."""

from semi_naive.balance.trace import VERSION

REFINE = {"refine": True, "refinement_ratio": 3.0, "buckets": 3}


def entry(number: int, sizes=None, steps: int = 1, partitions: int = 2, inner: int = 1, **facts) -> dict:
    """One iteration of the balanced plan; without sizes, of the simulator."""
    flat = [size for subs in sizes or [] for size in subs]
    loads = [sum(flat[p::partitions]) for p in range(partitions)] if sizes else [number + p % 7 for p in range(partitions)]
    each = {"received": [6] * partitions, "sent": [5] * partitions, "bytes": [8] * partitions}
    own = {"join": {"joined": [7] * partitions}, "all-to-all": {}, "insert": {"bytes": [0], "duplicates": [1] * partitions}}
    each["seconds"] = [0.01 * (1 + p % 2) for p in range(partitions)]
    phases = [{"inner": turn, "phase": name, **each, **more} for turn in range(inner) for name, more in own.items()]
    ratios = {"partitions": 1.2} | ({"buckets": 2.0, "subbuckets": 1.5} if sizes else {})
    return {
        "iteration": number, "steps": steps, "births": [5] * steps, "born": 5 * steps, "delta": 5, "full": sum(loads),
        "phases": phases, "driver": 0.03, "seconds": 0.07, "loads": loads, "imbalance": ratios,
        **({"sizes": sizes} if sizes else {}), **facts,
    }  # fmt: skip


def trace(iterations: list[dict], events=(), **facts) -> dict:
    return {
        "version": VERSION, "plan": "balanced", "rule": "path-edge", "seconds": 1.5, "config": REFINE,
        "iterations": iterations, "events": list(events), "input": {"nodes": 9}, "reason": "asked for",
        "result": {"tuples": 10, "iterations": len(iterations), "disk_bytes": 80}, **facts,
    }  # fmt: skip


REFINED = trace(
    [entry(1, [[9], [1], [0]]), entry(2, [[30], [2], [0]], inner=3), entry(3, [[9, 9, 9, 9], [2], [1]], inner=2)],
    [
        {"event": "refine", "iteration": 2, "relation": "path", "moved": 27, "loads_before": [30, 2],
         "loads_after": [18, 14], "buckets": [{"bucket": 0, "before": [30], "after": [8, 8, 7, 7]}], "seconds": 0.1},
        {"event": "copy", "iteration": 2, "relation": "inner", "buckets": [0], "copied": 3},
        {"event": "roll-over", "iteration": 3, "inner": 0},
        {"event": "something new", "iteration": 3},
    ],
)  # fmt: skip
NOT_REFINED = trace([entry(1, [[9], [1], [0]]), entry(2, [[300], [2], [0]])], config=REFINE | {"refine": False})
GROUPS = trace(
    [{
        "iteration": 3, "steps": 3, "births": [9, 5, 1], "born": 15, "full": 15, "delta": 9, "loads": [8, 7],
        "imbalance": {"partitions": 1.07},
        "phases": [
            {"inner": 0, "phase": "groups", "received": [4, 5], "sent": [8, 7], "bytes": [0, 0], "seconds": [0.1, 0.2]},
        ],
    }],
    plan="decomposed",
)  # fmt: skip


def stratum(name: str, seconds: float, found: dict | None = None) -> dict:
    entry = {"relations": [name, name + "_2"], "plan": "balanced" if found else "local", "seconds": seconds, "tuples": 12345}
    return entry | {"number": 1, "reason": "small"} | ({"trace": found} if found else {})


def program(strata: list[dict], rules: int = 3, text: str = "r{}(x, z) :- r(x, y), s(y, z).") -> dict:
    found = [
        {"rule": text.format(k), "relation": f"r{k}", "file": "p.dl", "line": k, "seconds": 1 / (k + 1), "made": k * 99,
         "tuples": k, "recursive": True, "iterations": 3, "stratum": 1}
        for k in range(rules)
    ]  # fmt: skip
    return {"version": VERSION, "program": "p.dl", "seconds": 3.0, "config": {}, "strata": strata, "result": {"tuples": 3},
            "profile": {"version": 1, "rules": found, "memory": {"tables": 80, "peak": 9_000_000},
                        "relations": [{"relation": "r0", "tuples": 3, "seconds": 0.5, "bytes": 72}]}}  # fmt: skip


SPREAD = program([stratum("half", 0.1), stratum("path", 2.0, REFINED), stratum("reach", 1.0, GROUPS)])
SIMULATED = {"plan": "simulated", "rule": "path-edge"}


def boxed(boxes: list[dict], order="abc", **facts) -> dict:
    head = {"version": VERSION, "plan": "multiway", "form": "boxed", "order": list(order), "budget": 4000, "input_bytes": 9000}
    return {**head, "seconds": 0.5, "boxes": boxes, "result": {"tuples": sum(box["count"] for box in boxes)}, **facts}


def box(*ranges: list[int], copied: int = 900, seconds: float = 0.01, count: int = 3) -> dict:
    return {"ranges": list(ranges), "bytes": 3900, "copied": copied, "seconds": seconds, "count": count}


def bigjoin(work: list[int], steps: list[tuple[int, str]], form: str = "shuffled") -> dict:
    head = {"version": VERSION, "plan": "multiway", "form": form, "order": list("abc"), "batch": 64, "bound": 99, "peak": 70}
    each = [{"stage": stage, "phase": phase, "received": work, "sent": work, "bytes": work, "seconds": work}
            for stage, phase in steps]  # fmt: skip
    return {**head, "rounds": 3, "jobs": 1, "seconds": 2.5, "stages": [], "messages": {"tuples": 9, "bytes": 80}, "steps": each,
            "work": work, "result": {"tuples": 7}}  # fmt: skip


BOXED = boxed(
    [box([x, x + 9], [y, y + 9], [0, 99], seconds=0.001 * (1 + x)) for x in range(0, 100, 10) for y in range(x, 100, 10)]
)
SPREAD_JOIN = bigjoin([90, 4, 3], [(0, "propose"), (1, "propose"), (1, "visit"), (2, "propose"), (2, "visit")])
JOINS = {
    "boxed": BOXED,
    "in one box": boxed([box([0, 0], [0, 0], [0, 0], seconds=0.0)]),
    "without a box": boxed([]),
    "of one variable": boxed([box([-5, 5]), box([7, 2**62])], "a"),
    "without variables": boxed([box()], ""),
    "3000 boxes": boxed([box([k, k], [k % 60, 99], [k, k + 9]) for k in range(3000)]),
    "on partitions": SPREAD_JOIN,
    "of 56 steps on 200": bigjoin(list(range(200)), [(k // 7 % 3, "answer") for k in range(56)], "skew"),
    "that had nothing to do": bigjoin([0, 0], []),
}
