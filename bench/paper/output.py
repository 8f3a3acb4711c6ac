"""One figure from its measurement to its files; and the page that has all of them."""

from pathlib import Path

from bench.paper import files
from semi_naive.plots.style import save_figure


def make(module, name: str, evaluation, folder: Path, redraw: bool) -> None:
    """Measure (or read what an earlier run measured), and write data, table and pictures."""
    if not redraw:
        evaluation.say(module.TITLE)
        files.keep(folder, name, evaluation, module.measure(evaluation))
    record = files.kept(folder, name)
    table = module.table(record["data"])
    table.notes.append(measured_on(record))
    files.write_table(folder, name, table)
    figure = module.draw(record["data"])
    for suffix in (".png", ".svg"):
        save_figure(figure, folder / f"{name}{suffix}")


def measured_on(record: dict) -> str:
    machine = record["machine"]
    packages = ", ".join(f"{package} {machine[package]}" for package in files.PACKAGES if machine.get(package))
    memory = f", {machine['memory_gb']:g} GB" if "memory_gb" in machine else ""
    return f"Measured in {record['size']} size on {machine['cores']} cores{memory} ({machine['processor']}); {packages}."


def write_page(folder: Path, papers: dict[str, tuple[str, ...]]) -> None:
    """All tables, each under its picture, by paper, as paper.md."""
    parts = ["# Evaluated again\n"]
    for paper, names in papers.items():
        sections = [section(folder, name) for name in names if (folder / f"{name}.md").exists()]
        parts += [f"## {paper}\n", *sections] if sections else []
    files.write_whole(folder / "paper.md", "\n".join(parts))


def section(folder: Path, name: str) -> str:
    """A table as it was written, a level further down, with its picture."""
    title, _, rest = (folder / f"{name}.md").read_text().partition("\n")
    return f"#{title}\n\n![{title.lstrip('# ')}]({name}.png)\n{rest}"
