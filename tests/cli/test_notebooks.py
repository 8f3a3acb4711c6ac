"""The notebooks of examples/: they run from beginning to end, and are kept without what they print."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from semi_naive.notebooks.figures import bars_svg

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
PICTURES = {"first_tour": 3, "from_skew_to_balance": 7}
SAID = {
    "first_tour": [
        'way("Ulm", "Oslo")   [way(x, z) :- way(x, y), road(y, z).]', "('Ulm', 'Oslo', 1670)", "('city bike', 100500, 1)",
    ],
    "from_skew_to_balance": ["before: (0,)  after: (0, 0, 1, 2, 3", "'no refinement': 21.7", "the paper's rules\": 1.3"],
}  # fmt: skip


def output(cell) -> list[dict[str, str]]:
    """What a cell shows, each thing by its kinds."""
    return [{"text/plain": each.text} if each.output_type == "stream" else dict(each.data) for each in cell.get("outputs", [])]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    shown = [each for cell in notebook.cells for each in output(cell)]
    assert sum("image/png" in each for each in shown) == PICTURES[path.stem]
    text = "\n".join(each.get("text/plain", "") for each in shown)
    assert [words for words in SAID[path.stem] if words not in text] == []


def test_the_last_bar_of_a_chart_is_an_average_too():
    heights = re.findall(r'<rect [^>]*height="([\d.]+)"', bars_svg("equal values", [5] * 129))  # 43 groups of three
    assert set(heights) == {"70.0"} and len(heights) == 43
    heights = re.findall(r'<rect [^>]*height="([\d.]+)"', bars_svg("equal values", [5] * 130))  # the last has one
    assert set(heights) == {"70.0"} and len(heights) == 44
