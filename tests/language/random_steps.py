"""Random programs in steps, and their unfolding: a program in which each step is a relation, and so strata, of its own."""

from dataclasses import dataclass

from hypothesis import strategies as st

LAST = 5  # steps from 0 on; rules go on to the next one below `BOUND`
BOUND = 4
LARGE = 16  # no value that a rule reads or makes, but for its sum, is as large
NAMES = ("a", "b", "c")
AGGREGATES = {"a": ("plain",), "b": ("plain", "sum", "count", "min", "max"), "c": ("plain", "sum", "count", "min", "max")}


@dataclass(frozen=True)
class StepRule:
    """head(step, key, value) :- literals. Literals: (form, relation, steps before the head, arguments); a form is "atom",
    "not", "count" or "sum". Without literals that step, `begin` is the step, a number or "x"."""

    head: str
    args: tuple[str, str]
    literals: tuple
    begin: int | str | None = None
    style: int = 0


@st.composite
def step_rules(draw, head: str, kind: str):
    """A rule of a relation: it reads its own step of relations before it in `NAMES`, and of itself if it is plain."""
    earlier = NAMES[: NAMES.index(head)]
    if draw(st.integers(0, 5)) == 0:
        args = draw(st.permutations(["x", "y"]))
        return StepRule(head, tuple(args), (), draw(st.sampled_from([0, 0, 1, "x"])))
    literals, low = [], draw(st.integers(0, 1)) if earlier or kind == "plain" else 1
    own = [*earlier, *([head] if kind == "plain" else [])]
    literals.append(("atom", draw(st.sampled_from(own if low == 0 else NAMES)), low, ("x", "y")))
    for _ in range(draw(st.integers(1, 3))):
        form = draw(st.sampled_from(["atom", "edge", "not", "not", "count", "sum"]))
        before = draw(st.integers(0, 2)) if earlier else draw(st.integers(1, 2))
        name = draw(st.sampled_from(earlier if before == 0 else NAMES))
        args = (
            tuple(draw(st.permutations(["x", "y", "_"]))[:2])
            if form != "atom"
            else draw(st.sampled_from([("y", "z"), ("z", "x")]))
        )
        literals.append((form, name, before, args))
    bound = ["x", "y", *(["z"] if any(each[0] == "atom" for each in literals[1:]) else [])]
    args = tuple(draw(st.sampled_from([*bound, f"w{at}"])) if each[0] in ("count", "sum") else draw(st.sampled_from(bound))
                 for at, each in ((len(literals) - 1, literals[-1]), (len(literals) - 1, literals[-1])))  # fmt: skip
    return StepRule(head, args, tuple(literals), None, draw(st.integers(0, 2)))


@st.composite
def step_programs(draw):
    """(kind of each relation, rules)."""
    kinds = {name: draw(st.sampled_from(AGGREGATES[name])) for name in NAMES}
    rules = [
        StepRule("a", ("x", "y"), (), 0),
        StepRule("a", ("x", "y"), (("atom", "c", 1, ("x", "y")), ("not", "b", 1, ("y", "_")))),
    ]
    rules += [
        StepRule("c", ("x", "y"), (("atom", "b", 0, ("x", "y")),)),
        StepRule("b", ("x", "y"), (("atom", "a", 0, ("x", "y")),)),
    ]
    rules += [draw(step_rules(name, kinds[name])) for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4))]
    return kinds, draw(st.permutations(rules))


def declared(kinds: dict, suffixes: list[str], step: str) -> str:
    lines = [".decl e(x: number, y: number)", ".input e"]
    for name in kinds:
        lines += [f".decl {name}{suffix}({step}x: number, y: number)\n.output {name}{suffix}" for suffix in suffixes]
    return "\n".join(lines) + "\n"


def in_steps(kinds: dict, rules: list[StepRule]) -> str:
    """The text of a program with a step in each atom."""
    return declared(kinds, [""], "k: number, ") + "\n".join(_text(kinds, rule) for rule in rules)


def _text(kinds: dict, rule: StepRule) -> str:
    if rule.begin is not None:
        return f"{_head(kinds, rule, rule.head, f'{rule.begin}, ')} :- e(x, y)."
    ages = [before for form, _, before, _ in rule.literals if form != "edge"]
    oldest = max(ages)
    grounded = any(form == "atom" and before == oldest for form, _, before, _ in rule.literals)
    if rule.style == 0 and grounded:  # head k + 1 :- body k
        terms = {before: f"k + {oldest - before}".removesuffix(" + 0") for before in range(3)}
        step, body = terms[0], [_literal(each, at, f"{each[1]}({terms[each[2]]}, ") for at, each in enumerate(rule.literals)]
    else:  # head k :- body j, k = j + 1
        step, body = "k", [_literal(each, at, f"{each[1]}(k{each[2] or ''}, ") for at, each in enumerate(rule.literals)]
        used = [n for n in (1, 2) if f"(k{n}," in " ".join(body)]
        body += [f"k = k{n} + {n}" if rule.style == 1 else f"k{n} = k - {n}" for n in used]
    bound = [f"{step} <= {BOUND}"] * _moves(rule)
    return f"{_head(kinds, rule, rule.head, f'{step}, ')} :- {', '.join([*body, *bound, *_small(rule)])}."


def _moves(rule: StepRule) -> bool:
    """True if a rule makes tuples of a step from those of steps before: then it ends at `BOUND`."""
    return all(before for form, _, before, _ in rule.literals if form == "atom")


def _small(rule: StepRule) -> list[str]:
    """Literals that keep the values of the head small: sums of sums would make many."""
    return [f"{name} < {LARGE}" for name in sorted({*rule.args, "x", "y"})]


def _head(kinds: dict, rule: StepRule, name: str, step: str) -> str:
    value = rule.args[1] if kinds[rule.head] == "plain" else f"{kinds[rule.head]}({rule.args[1]})"
    return f"{name}({step}{rule.args[0]}, {value})"


def _literal(literal, at: int, begin: str) -> str:
    """A literal; `begin`: its atom as far as the arguments besides the step."""
    form, _, _, args = literal
    if form == "edge":
        return f"e({', '.join(args)})"
    if form == "sum":
        return f"w{at} = sum v{at} : {{ {begin}{args[0]}, v{at}) }}"
    inside = f"{begin}{', '.join(args)})"
    return {"atom": inside, "not": f"!{inside}", "count": f"w{at} = count : {{ {inside} }}"}[form]


def unfolded(kinds: dict, rules: list[StepRule]) -> str:
    """The text of a program with relations for each step."""
    lines = [declared(kinds, [held("", n) for n in range(-2, LAST + 1)], "")]
    lines += [text for rule in rules for n in range(LAST + 1) if (text := _at_step(kinds, rule, n))]
    return "\n".join(lines)


def held(name: str, step: int) -> str:
    """The relation of one step."""
    return f"{name}_{step}".replace("-", "m")


def _at_step(kinds: dict, rule: StepRule, step: int) -> str:
    """A rule for the tuples of one step; empty if it makes none there."""
    head = _head(kinds, rule, held(rule.head, step), "")
    if rule.begin is not None:
        return f"{head} :- e(x, y), x = {step}." if rule.begin == "x" else f"{head} :- e(x, y)." * (rule.begin == step)
    if step > BOUND and _moves(rule):
        return ""
    body = [_literal(each, at, f"{held(each[1], step - each[2])}(") for at, each in enumerate(rule.literals)]
    return f"{head} :- {', '.join([*body, *_small(rule)])}."
