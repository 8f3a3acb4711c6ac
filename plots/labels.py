"""Short labels that distinguish runs: "refine off", "rollover_threshold 200,000"."""

SKIPPED = {"local_dir", "checkpoint_dir", "rule"}  # paths, and entries that are elsewhere in the record
MAX_LABEL_CHARACTERS = 60  # characters of a label after the name; longer ones would push the figure off the screen
ONLY_WITH = {  # tunables that have an effect only if another is on
    "refinement_ratio": "refine", "refinement_factor": "refine", "refinement_minimum": "refine", "relief_ratio": "refine",
    "consolidation_fraction": "consolidate", "rollover_threshold": "rollover", "run_ahead_budget": "run_ahead",
}  # fmt: skip


def labels(traces: list[dict], names=None) -> list[str]:
    """Return a label for each record: its name, and the plan, rule and settings in which the records differ, as many as fit.

    >>> labels([{"plan": "balanced", "config": {"refine": refine, "buckets": 64}} for refine in (True, False)])
    ['refine on', 'refine off']
    >>> configs = ({"refine": True, "refinement_ratio": 3.0}, {"refine": False, "refinement_ratio": 3.0})
    >>> labels([{"plan": "balanced", "config": config} for config in configs])
    ['refine on', 'refine off']
    >>> labels([{"plan": "balanced"}] * 2, ["a.json", "b.json"])
    ['a.json', 'b.json']
    >>> labels([{"plan": "balanced", "config": {"refine": refine}} for refine in (True, False)], ["as it is", "never refined"])
    ['as it is: refine on', 'never refined: refine off']
    """
    facts = [_facts(trace) for trace in traces]
    keys = dict.fromkeys(key for record_settings in facts for key in record_settings)
    differing = [key for key in keys if _differs(key, facts)]
    settings = [
        [_setting_text(key, record_settings[key]) for key in differing if key in record_settings] for record_settings in facts
    ]
    if names is None and len({", ".join(record_settings) for record_settings in settings}) == len(settings):
        short = list(map(_settings_that_fit, settings))
        return short if len(set(short)) == len(short) else list(map(", ".join, settings))  # cut ones may be equal
    run_names = [f"run {number}" for number in range(1, len(traces) + 1)] if names is None else map(str, names)
    return [
        f"{name}: {_settings_that_fit(record_settings)}" if record_settings else name
        for name, record_settings in zip(run_names, settings, strict=True)
    ]


def _settings_that_fit(facts: list[str]) -> str:
    """Return as many of the settings as fit, at least one, as text.

    >>> _settings_that_fit(["ranks 8", "buckets by default"]), _settings_that_fit(["a", "x" * 70, "b"])
    ('ranks 8, buckets by default', 'a, …')
    >>> _settings_that_fit(["x" * 70]) == "x" * 70
    True
    """
    kept = next((most for most in range(len(facts), 1, -1) if len(", ".join(facts[:most])) <= MAX_LABEL_CHARACTERS), 1)
    return ", ".join([*facts[:kept], *["…"] * (kept < len(facts))])


def _differs(key: str, facts: list[dict]) -> bool:
    """True if the values are not all equal. A missing value does not count if another tunable explains it."""
    found = [each.get(key) for each in facts if key in each or key not in ONLY_WITH]
    return any(value != found[0] for value in found)


def _facts(trace: dict) -> dict:
    """Return the settings of a recorded run that had an effect."""
    config = trace.get("config", {})
    own = {key: trace[key] for key in ("plan", "rule", "program") if trace.get(key)}
    if trace.get("plan") == "simulated" and trace.get("iterations"):
        own["ranks"] = len(trace["iterations"][-1]["loads"])
    # A tunable that depends on no other one, or on one that is not recorded, counts: the default is True.
    return own | {key: value for key, value in config.items() if key not in SKIPPED and config.get(ONLY_WITH.get(key), True)}


def _setting_text(key: str, value) -> str:
    if key == "plan" and value:
        return str(value)
    if isinstance(value, bool):
        return f"{key} {'on' if value else 'off'}"
    if isinstance(value, int):
        return f"{key} {value:,}"
    return f"{key} {'by default' if value is None else value}"
