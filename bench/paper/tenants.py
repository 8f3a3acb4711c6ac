"""The seconds of an epoch while ten clients come with each: rules of their own, rules that share a relation, or one rule with a
parameter.

After figure 9 of Göbel (2019), which has curves and no numbers: dataflows that share nothing stop scaling first, those that
share arrangements later, and clients that are rows of one dataflow not within the experiment.
"""

import numpy as np

from bench.paper.drawing import small_legend
from bench.paper.interactive import declared, seconds_of_rounds
from bench.paper.tables import ResultTable
from semi_naive.plots.style import DARK, GREY, SAND, new_figure

TITLE = "Ten more clients in each epoch"
EPOCHS = {"toy": 3, "quick": 60, "full": 300}
CLIENTS, READINGS = 10, 500  # that come with an epoch
DEVICES, SITES = 10_000, 1_000
LONGEST = 120  # seconds of all epochs of a form
TRUNK = "reading(d, v), site(d, s)"
FORMS = {  # the rule of a client, and whether its site is a parameter
    "nothing shared": (f"NAME(d, v) :- {TRUNK}, s = SITE.", False),
    "a shared relation": ("NAME(d, v) :- located(SITE, d, v).", False),
    "one rule with a parameter": (f"mine(d, v) :- {TRUNK}, s = $site.", True),
}
STYLES = {"nothing shared": {"color": GREY}, "a shared relation": {"color": SAND, "linestyle": "--"},
          "one rule with a parameter": {"color": DARK}}  # fmt: skip


def measure(evaluation) -> dict:
    from semi_naive import Program

    epochs, program = evaluation.pick(EPOCHS), Program(declared(["reading", "site"]))
    sites = np.column_stack([np.arange(DEVICES), np.random.default_rng(3).integers(0, SITES, DEVICES)])
    found = {}
    for form in FORMS:
        with program.session({"site": sites}) as session:
            found[form] = seconds_of_rounds(session, rounds_of(session, form, epochs), LONGEST)
        evaluation.say(f"{form}: {len(found[form])} epochs, the last in {1000 * found[form][-1]:.1f} ms")
    return {"epochs": epochs, "seconds": found}


def rounds_of(session, form: str, epochs: int):
    """Let the clients of an epoch subscribe, and yield its readings."""
    random = np.random.default_rng(4)
    rule, by_parameter = FORMS[form]
    session.register("located", f".decl located(s: number, d: number, v: number)\nlocated(s, d, v) :- {TRUNK}.", share=True)
    if by_parameter:
        session.register("mine", f".decl mine(d: number, v: number)\n{rule}")
    for epoch in range(epochs):
        for client in range(epoch * CLIENTS, (epoch + 1) * CLIENTS):
            site = int(random.integers(SITES))
            name = "mine" if by_parameter else f"client_{client}"
            if not by_parameter:
                text = rule.replace("NAME", name).replace("SITE", str(site))
                session.register(name, f".decl {name}(d: number, v: number)\n{text}")
            session.subscribe(name, lambda changes, epoch: None, **({"site": site} if by_parameter else {}))
        yield {"reading": np.column_stack([random.integers(0, DEVICES, READINGS), random.integers(0, 1 << 30, READINGS)])}


def table(data: dict) -> ResultTable:
    marks = sorted({min(data["epochs"], mark) for mark in (1, 10, 30, 60, 100, 200, 300)})
    rows = []
    for form, seconds in data["seconds"].items():
        rows.append(
            [
                form,
                *(
                    1000 * float(np.median(seconds[max(0, mark - 5) : mark])) if mark <= len(seconds) else None
                    for mark in marks
                ),
            ]
        )
    return ResultTable(TITLE, ["form", *(f"{CLIENTS * mark:,} clients, ms" for mark in marks)], rows, [
        f"An epoch has {READINGS} readings of {DEVICES:,} devices on {SITES:,} sites; each client wants those of one site. The"
        " median time of the transaction in five epochs, without the registration. Göbel's figure 9 has no numbers:"
        " shared-nothing is limited first, sharing arrangements later; clients in the data plane are not limited.",
    ])  # fmt: skip


def draw(data: dict):
    figure = new_figure(8, 4.5, f"{TITLE}: {READINGS} readings an epoch")
    axes = figure.subplots()
    for form, seconds in data["seconds"].items():
        axes.plot(CLIENTS * np.arange(1, len(seconds) + 1), 1000 * np.array(seconds), label=form, **STYLES[form])
    axes.set_xlabel("clients")
    axes.set_ylabel("milliseconds of an epoch")
    axes.set_ylim(0)
    axes.grid(linewidth=0.4, alpha=0.6)
    small_legend(axes, loc="upper left")
    return figure
