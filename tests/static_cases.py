"""Random recursive programs with atoms that never change, most of which `join_static` rewrites."""

from random import Random

STATIC, MOVING = {"e": 2, "f": 2, "g": 3}, {"p": 2, "q": 2}
VARIABLES = "xyzuvw"


def random_text(random: Random) -> str:
    """A program of some recursive rules; each has one or two recursive atoms, a chain of static ones, and perhaps a filter."""
    lines = [f".decl {name}({', '.join(f'a{i}: number' for i in range(n))})" for name, n in (STATIC | MOVING).items()]
    lines += [f".input {', '.join(STATIC)}", f".output {', '.join(MOVING)}", "p(x, y) :- e(x, y).", "q(x, y) :- f(y, x)."]
    return "\n".join([*lines, *(_rule(random) for _ in range(random.randint(1, 3)))]) + "\n"


def _rule(random: Random) -> str:
    """A rule whose atoms follow one another along variables; its head has two of them."""
    names = [random.choice([*STATIC]) for _ in range(random.randint(2, 3))]
    names.insert(random.randint(0, len(names)), random.choice([*MOVING]))
    names += random.sample([*MOVING], random.randint(0, 1))
    body, at, used = [], 0, []
    for name in names:
        terms = [VARIABLES[at % 6], VARIABLES[(at + 1) % 6]]
        if (STATIC | MOVING)[name] == 3:
            terms.insert(1, random.choice(["_", VARIABLES[at % 6], VARIABLES[random.randrange(6)], "1"]))
        body.append(f"{name}({', '.join(random.sample(terms, len(terms)))})")
        used += [term for term in terms if term.isalpha()]
        at += 1
    if random.random() < 0.4:
        body.append(f"{random.choice(used)} {random.choice(['<', '!=', '<='])} {random.choice([*used, '2'])}")
    if random.random() < 0.3:
        body.append(f"!e({random.choice(used)}, {random.choice(used)})")
    head = f"{random.choice([*MOVING])}({random.choice([used[0], *used])}, {random.choice([used[-1], *used])})"
    return f"{head} :- {', '.join(random.sample(body, len(body)))}."


def random_facts(random: Random, values: int = 6) -> dict[str, set]:
    return {
        name: {tuple(random.randrange(values) for _ in range(n)) for _ in range(random.randint(0, 14))}
        for name, n in STATIC.items()
    }
