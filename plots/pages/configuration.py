"""The configuration of runs: first the settings that differ from the defaults or between runs, the others folded."""

from semi_naive.plots.pages.page import folded, paragraph, table


def configuration(traces: list[dict], run_labels: list[str]) -> str:
    """Return tables of the tunables. run_labels: a heading for each run; for a single run it is "value"."""
    configs = [trace.get("config", {}) for trace in traces]
    usual, names = defaults(), dict.fromkeys(name for config in configs for name in config)
    if not names:
        return ""
    differing = [name for name in names if any(config.get(name) != usual.get(name) for config in configs)]
    columns = [(name, "") for name in ("tunable", *(run_labels if len(run_labels) > 1 else ["value"]), "default")]
    rows = {
        name: [name, *(_setting_value(config.get(name)) for config in configs), _setting_value(usual.get(name))]
        for name in names
    }
    first = table("Not as by default (–: the run chooses)", columns, [rows[name] for name in differing])
    rest = [rows[name] for name in names if name not in differing]
    others = folded("all-tunables", f"As by default: {len(rest)} more", table("As by default", columns, rest)) if rest else ""
    return (first if differing else paragraph("All as by default.")) + "\n" + others


def defaults() -> dict:
    """Return the default of every tunable."""
    from semi_naive.config import Config  # only this module: pages of records do not need the engine

    return Config().to_json()


def _setting_value(value) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)
