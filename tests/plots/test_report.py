"""The report: of every kind of run, well formed, by itself, escaped, small enough; and as a browser has it."""

import json
import random
import re
import shutil
import subprocess
from html import escape, unescape
from html.parser import HTMLParser

import pytest

from semi_naive import Program, graphs, transitive_closure
from semi_naive.balance.trace import VERSION
from semi_naive.host.account import PARTS
from semi_naive.host.numbers import number, seconds, size, summands
from semi_naive.plots.descriptions import description
from semi_naive.plots.pages.inline import inlined, shorter
from semi_naive.plots.pages.page import style
from semi_naive.plots.pages.report import report
from semi_naive.plots.pages.summary import summary
from semi_naive.plots.pages.words import events_in_words
from semi_naive.plots.run import RecordedRun
from semi_naive.plots.style import new_figure

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECTIONS = ["summary", "figures", "events", "configuration"]
VOID = {"meta", "br", "link", "img", "hr", "input"}
RULES = """
.decl edge(x: number, y: number)
.input edge
.decl path(x: number, y: number)
path(x, y) :- edge(x, y), x != y.
path(x, z) :- path(x, y), edge(y, z), x < 100000000.
.decl same(s: symbol)
.output same
same(cat("<b>&\\"", to_string(x))) :- path(x, y), edge(y, x), x <= y.
"""


class Page(HTMLParser):
    """Checks that elements are nested, and collects: tags with their attributes, text, ids."""

    def __init__(self, text: str):
        super().__init__()
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> where {self.open[-3:]} are open, at {self.getpos()}"
        self.open.pop()

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


@pytest.fixture(scope="module")
def balanced(here):
    options = {"buckets": 6, "partitions": 3, "refinement_minimum": 8, "run_ahead": 0, "rollover_threshold": 40}
    with transitive_closure(graphs.tree(7), here, "balanced", **options) as closure:
        yield closure.trace


@pytest.fixture(scope="module")
def balanced_page(balanced):
    return report(balanced, names="tree.tsv")


@pytest.fixture(scope="module")
def decomposed(here):
    with transitive_closure(graphs.tree(7), here, "decomposed") as closure:
        yield closure.trace


@pytest.fixture(scope="module")
def program(here):
    options = {"local_tuples": 0, "partitions": 2, "buckets": 4}
    edges = [(x, x + 1) for x in range(12)] + [(12, 0)]
    with Program(RULES, "a<b>.dl").run({"edge": edges}, here, **options) as result:
        yield result.trace


def noise(iterations: int, buckets: int = 16, partitions: int = 8) -> dict:
    """A trace of many iterations in which nothing repeats: the largest page there is."""
    draw = random.Random(1)
    entries = []
    for number_ in range(1, iterations + 1):
        loads = [draw.randrange(10**6) for _ in range(partitions)]
        figures = {key: [draw.randrange(10**6) for _ in loads] for key in ("received", "sent", "bytes", "seconds")}
        entries.append({
            "iteration": number_, "steps": 1, "births": [draw.randrange(10**6)], "born": 1, "delta": draw.randrange(10**6),
            "full": sum(loads), "driver": draw.random(), "seconds": 1.0, "loads": loads,
            "phases": [{"inner": 0, "phase": name, **figures} for name in ("intra-bucket", "join", "all-to-all", "insert")],
            "sizes": [[draw.randrange(10**6)] for _ in range(buckets)],
            "imbalance": {name: 1 + draw.random() for name in ("partitions", "buckets", "subbuckets")},
        })  # fmt: skip
    events = [{"event": "roll-over", "iteration": n, "inner": 0} for n in range(1, iterations, 2)]
    result = {"tuples": 5, "iterations": iterations, "disk_bytes": 80}
    return {"version": VERSION, "plan": "balanced", "reason": "asked for", "rule": "path-edge", "config": {}, "seconds": 1.5,
            "input": {"nodes": 9}, "iterations": entries, "events": events, "result": result}  # fmt: skip


def stands_alone(text: str) -> Page:
    """The page, if it is well nested and fetches nothing."""
    page = Page(text)
    assert not re.findall(r"https?://|@import|url\((?!#)|//[a-z]+\.", re.sub(r"data:[^\"]*", "", text))
    assert not page.all("script") and not page.all("link") and not page.all("iframe")
    assert all(each.get("href", "#").startswith(("#", "data:image/png")) for _, each in page.tags)
    assert len(set(page.ids)) == len(page.ids), "ids are used twice"
    missing = set(re.findall(r"url\(#([^)]+)|href=\"#([^\"]+)", text))
    assert {a or b for a, b in missing} <= set(page.ids)
    headings = [tag for tag, _ in page.tags if tag in ("h1", "h2", "h3")]
    assert headings[0] == "h1" and headings.count("h1") == 1
    return page


def test_a_closure(balanced, balanced_page):
    page = stands_alone(balanced_page)
    assert [name for name in page.ids if name in SECTIONS] == SECTIONS
    assert "Transitive closure of tree.tsv" in page.text and f"{balanced['result']['tuples']:,} pairs" in page.text
    assert len(page.all("svg")) == 7 and all(svg["role"] == "img" and svg["aria-label"] for svg in page.all("svg"))
    assert len(page.all("figcaption")) == 7
    for sentence in events_in_words(balanced["events"])[:5]:
        assert " ".join(sentence.split()) in page.text
    assert "rolled over" in page.text


def test_the_configuration_begins_with_what_is_not_as_by_default(balanced_page):
    differing, rest = balanced_page.split('id="configuration"')[1].split("<details")
    assert re.findall(r'<th scope="row">(\w+)', differing) == ["buckets", "partitions", "refinement_minimum",
                                                                "rollover_threshold", "run_ahead"]  # fmt: skip
    assert ">check_interval<" in rest and ">buckets<" not in rest


def test_a_decomposed_closure(decomposed):
    page = stands_alone(report(decomposed))
    assert len(page.all("svg")) == 3 and "Nothing was moved" in page.text and "All as by default." in page.text


def test_a_program_with_its_strata_rules_and_relations(program):
    page = stands_alone(report(program))
    assert [name for name in page.ids if name in ("strata", "rules", "relations", *SECTIONS)] == [
        "summary", "strata", "rules", "relations", "figures", "events", "configuration",
    ]  # fmt: skip
    assert "a<b>.dl" in page.text and 'cat("<b>&\\"", to_string(x))' in page.text and "x <= y" in page.text
    assert re.search(r"a<b>\.dl:\d+", page.text) and "balanced" in page.text
    parts = len(summands(program["account"]))
    bars = [each for each in page.all("i") if "--share" in each.get("style", "")]
    assert len(bars) == parts + 2 + 3 + 3  # of parts, strata, rules, relations
    assert "with the processes of Spark" in page.text


def test_a_relation_in_the_driver_has_its_bytes():
    with Program(RULES).run({"edge": [(1, 2), (2, 1)]}) as result:
        page, held = Page(result.report()), {each["relation"]: each["bytes"] for each in result.trace["profile"]["relations"]}
    assert held["edge"] >= 16 and f"{held['edge']} B {held['edge'] / 2:.1f}" in page.text
    assert f"{size(result.trace['profile']['memory']['tables'])} in the driver's tables, at most " in page.text


def test_a_program_that_stayed_in_the_driver_shows_its_iterations():
    with Program(RULES).run({"edge": [(1, 2), (2, 1)]}) as result:
        text = result.report()
        (course,) = [stratum["course"] for stratum in result.trace["strata"] if "course" in stratum]
    page = stands_alone(text)
    assert "figures" not in page.ids and "Hottest rules" in text and len(page.all("svg")) == 2
    assert f"{sum(course['steps'])} iterations in the driver" in page.text and "Tuples of each iteration" in text


def test_the_parts_of_the_time_add_up_on_the_page(program, balanced_page):
    for text, least in ((report(program), len(summands(program["account"]))), (balanced_page, 2)):
        rows = re.search(r'id="account".*?</tbody>', text, re.DOTALL)[0]
        *parts, total = map(float, re.findall(r'</th><td class="number">([\d.]+) s</td>', rows))
        assert round(sum(parts), 3) == total > 0 and len(parts) >= least > 0  # a part below half a millisecond has no row
        stands_alone(text)
    strata = re.findall(
        r'<td class="number">([\d.]+) s</td><td class="text">',
        re.search(r'id="account".*?</tbody>', report(program), re.DOTALL)[0],
    )
    assert float(strata[-1]) == pytest.approx(sum(stratum["seconds"] for stratum in program["strata"]), abs=0.01)


def test_the_program_has_the_time_of_each_rule_beside_it():
    with Program(RULES, "p.dl").run({"edge": [(1, 2), (2, 1)]}) as result:
        trace = result.trace
    hot = [rule | {"seconds": 3.0 if rule["line"] == 6 else 1.0} for rule in trace["profile"]["rules"]]
    page = report(trace | {"profile": trace["profile"] | {"rules": hot}})
    listing = re.search(r'id="source".*?</table>', page, re.DOTALL)[0]
    rows = re.findall(r"<tr><th[^>]*>([\d,]*)</th><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td><td[^>]*>(.*?)</td></tr>", listing)
    assert [unescape(re.sub("<[^>]*>", "", code)) for *_, code in rows] == RULES.splitlines()
    times = {int(line): (time, "--heat" in heat) for line, time, heat, _ in rows if time}
    assert times == {5: ("1.00 s", True), 6: ("3.00 s", True), 9: ("1.00 s", True)} and "60%" in listing


def test_of_a_long_program_what_is_around_its_rules_is_shown():
    facts = "".join(f"a({n}).\n" for n in range(3000))
    with Program(f".decl a(x: number)\n{facts}.decl b(x: number)\n.output b\nb(x) :- a(x).\n").run() as result:
        listing = re.search(r'id="source".*?</table>', result.report(), re.DOTALL)[0]
    assert re.search("⋯</th>.*3,001 lines", listing) and listing.count("<tr>") == 5 and len(listing) < 3000


def test_of_a_long_program_rules_are_shown_to_their_ends():
    facts = "".join(f"a({n}).\n" for n in range(300))
    body = "".join(f"  // {n}\n  x != {n},\n" for n in range(9))
    text = f".decl a(x: number)\n{facts}.decl b(x: number)\n.output b\nb(x) :-\n{body}  a(x).\n\n\n\n\n\nb(0) :- a(1).\n"
    for blank, elided in ((7, 1), (9, 2)):  # after and before a rule two lines are shown, and three between them
        with Program(text.replace("\n" * 6, "\n" * (blank + 1))).run() as result:
            listing = re.search(r'id="source".*?</table>', result.report(), re.DOTALL)[0]
        assert listing.count("⋯</th>") == elided and all(f"x != {n}," in listing for n in range(9))


def test_no_two_parts_of_the_time_look_the_same():
    told = style()
    hue = {part: value for rule, value in re.findall(r"((?:\[data-part=\"\w+\"\](?:, )?)+) \{ --hue: ([^;]+); \}", told)
           for part in re.findall(r'"(\w+)"', rule)}  # fmt: skip
    striped = re.findall(r'"(\w+)"', re.search(r"i:is\((.*?)\)", told)[1])
    assert hue.keys() == PARTS.keys() and len({(value, part in striped) for part, value in hue.items()}) == len(PARTS)


def test_the_slowest_stratum_is_the_first_of_the_table(program):
    rows = re.findall(r"<tr><th[^>]*>(\d+)</th>", re.search(r'id="strata".*?</table>', report(program), re.DOTALL)[0])
    found = sorted(program["strata"], key=lambda stratum: -stratum["seconds"])
    assert [int(row) for row in rows] == [stratum["number"] for stratum in found] and len(rows) > 1


def test_what_a_program_is_called_is_its_file():
    stratum = {"relations": ["b"], "plan": "local", "reason": "", "tuples": 5, "seconds": 1.0}
    rule = {"rule": "b(1).", "file": "/a/long/way/p.dl", "line": 7, "seconds": 1.0, "made": 1}
    record = {"version": VERSION, "program": "/a/long/way/p.dl", "seconds": 1.0, "config": {}, "strata": [stratum]}
    text = report(record | {"profile": {"rules": [rule]}})
    assert '<th scope="row" class="number">1</th>' in text, "the first stratum, as explain says"
    assert "<h1>p.dl</h1>" in text and ">p.dl:7<" in text and "/a/long" not in text


def test_several_side_by_side(balanced, decomposed):
    page = stands_alone(report([balanced, decomposed], names=["a.json", "<b>.json"]))
    assert "2 runs side by side" in page.text and "Balance and time" in page.text and "<b>.json" in page.text
    again = stands_alone(report([balanced, balanced]))
    assert len(again.all("svg")) == 7 and "run 2" in again.text


def test_closures_and_results_write_their_own(here, tmp_path):
    with transitive_closure([(1, 2), (2, 3)], here) as closure:
        assert closure.report(tmp_path / "r.html") == (tmp_path / "r.html").read_text()


def test_nothing_to_evaluate(here):
    with transitive_closure([(1, 2)], here, max_iterations=1) as closure:
        trace = closure.trace | {"iterations": [], "result": {"tuples": 0, "iterations": 0, "disk_bytes": 0}}
    assert "0 pairs" in stands_alone(report(trace)).text


def test_a_run_that_has_not_ended(balanced):
    trace = {key: value for key, value in balanced.items() if key not in ("result", "seconds")}
    assert "so far" in stands_alone(report(trace)).text


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        ({}, "is not a trace: expected a dictionary"),
        (7, "is not a trace: expected a dictionary"),
        ([], "expected one trace or more"),
        ({"version": 0, "iterations": []}, "expected version 1, got version 0"),
        ({"version": VERSION, "iterations": [{"iteration": 1}]}, "iterations[0].delta is missing"),
    ],
)
def test_what_is_no_trace(trace, expected, tmp_path):
    with pytest.raises(ValueError, match=re.escape(expected)):
        report(trace, tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


def test_names_that_are_too_few(balanced):
    with pytest.raises(ValueError, match="as many names: got 2 and 1"):
        report([balanced, balanced], names=["a"])


def test_written_whole_or_not_at_all(decomposed, tmp_path, monkeypatch):
    target = tmp_path / "r.html"
    target.write_text("what was there")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        report(decomposed, target)
    assert target.read_text() == "what was there" and list(tmp_path.iterdir()) == [target]


def test_two_thousand_iterations_are_a_page_of_a_megabyte_and_a_half():
    text = report(noise(2000))
    assert len(text.encode()) < 1_500_000
    page = stands_alone(text)
    assert "and 600 more" in page.text and len(page.all("svg")) == 7


def test_a_thousand_iterations_are_less_than_a_megabyte():
    assert len(report(noise(1000)).encode()) < 1_000_000


def test_the_iterations_are_a_part_of_the_time_in_the_headline(balanced, decomposed):
    for trace in (balanced, decomposed):
        spent, total = re.findall(r"The iterations took ([\d.]+) s. All of it took ([\d.]+) s = ", report(trace))[0]
        assert 0 < float(spent) <= float(total) == pytest.approx(trace["seconds"], abs=0.001)
    (sentence,) = description("times", [RecordedRun(decomposed)])
    assert re.fullmatch(r"\d+ tasks? that took .* together, the slowest .*\.", sentence)


def test_figures_follow_the_page_by_day_and_by_night(balanced_page):
    text = balanced_page
    body = text[text.index("<body>") :]
    assert "currentColor" in body and "var(--c00204d)" in body
    assert not re.findall(r"#(?:000000|ffffff|00204d|575d6d)\b", body)
    assert "prefers-color-scheme: dark" in text and "--c00204d: #00204d;" in text and "--c00204d: #6f9bd8;" in text


def test_two_figures_share_no_ids():
    drawn = [new_figure(3, 2), new_figure(3, 2)]
    for figure in drawn:
        figure.add_subplot().bar([1, 2], [1, 2], hatch="//")
    first, second = (inlined(figure, name, "bars") for figure, name in zip(drawn, "ab", strict=True))
    assert Page(first).ids and not set(Page(first).ids) & set(Page(second).ids)


def test_outlines_keep_their_extremes():
    points = [(x / 100, 500 if x == 777 else x % 7) for x in range(5000)]
    path = "M " + " \nL ".join(f"{x:.6f} {y:.6f}" for x, y in points)
    found = shorter(path)
    assert "500" in found and len(found) < len(path) / 10
    assert shorter("M 1.234567 2 C 1.99 2 3 4 5 6") == "M 1.2 2 C 2 2 3 4 5 6"
    assert shorter("33.444444") == "33.4" and shorter("") == ""


EVENTS = {
    "refine": ({"relation": "same", "index": 1, "moved": 5, "buckets": [{"bucket": 3, "before": [9], "after": [3, 6]}]},
               "after iteration 4: index 1 of same: bucket 3 refined 1 → 2, 5 tuples moved"),
    "consolidate": ({"buckets": [{"bucket": b, "before": [1] * 4, "after": [4]} for b in range(9)], "moved": 1_234_567,
                     "seconds": 0.5, "loads_before": [9, 1], "loads_after": [5, 5]},
                    "after iteration 4: 9 buckets (0, 1, 2, 3, 4, …) consolidated 4 → 1, 1.2 M tuples moved in 500 ms, "
                    "imbalance of the partitions 1.80 → 1.00"),
    "move": ({"relation": "path", "buckets": [{"bucket": 2, "before": [4], "after": [4]}], "moved": 4},
             "after iteration 4: bucket 2 moved, 4 tuples moved"),
    "copy": ({"buckets": [1, 2], "copied": 7},
             "after iteration 4: inner buckets 1 and 2 copied to where the delta's was dealt, 7 tuples"),
    "roll-over": ({"inner": 0}, "in iteration 4: a local join rolled over once, into 2 inner iterations"),
    "checkpoint": ({"bytes": 12_300_000}, "after iteration 4: checkpoint, 12.3 MB copied"),
    "restore": ({"tuples": 5}, "taken up from the checkpoint of iteration 4, 5 tuples"),
    "runs lost": ({"reason": "a host"}, "runs were lost, and the evaluation began again: a host"),
    "to driver": ({"delta": 1}, "after iteration 4: delta down to 1 tuple, the driver goes on by itself"),
    "to partitions": ({}, "after iteration 4: delta grown again, back to the partitions"),
    "something new": ({}, "after iteration 4: something new"),
}  # fmt: skip


@pytest.mark.parametrize("kind", EVENTS)
def test_events_in_words(kind):
    facts, expected = EVENTS[kind]
    assert events_in_words([{"event": kind, "iteration": 4, **facts}]) == [expected]


def test_roll_overs_of_an_iteration_are_one_sentence():
    found = events_in_words([{"event": "roll-over", "iteration": n, "inner": i} for n in (2, 3) for i in range(3)])
    assert found == [f"in iteration {n}: a local join rolled over 3 times, into 4 inner iterations" for n in (2, 3)]


def test_numbers():
    assert [number(n) for n in (99_999, 100_000, 999_950, 2.5)] == ["99,999", "100 k", "1.0 M", "2.50"]
    assert [size(n) for n in (1000, 1_500_000_000)] == ["1.0 kB", "1.5 GB"]
    assert [seconds(s) for s in (0.9996, 59.99, 3600)] == ["1.00 s", "1 min 0 s", "1 h 0 min"]


def test_the_summary_of_what_lacks_most():
    assert summary({"iterations": [], "events": []})["pairs"] == "0"
    assert summary({"strata": []})["strata"] == "0"


def test_captions_say_what_is_seen(balanced):
    run = RecordedRun(balanced)
    loads = run.loads["at the end"]
    assert description("partitions", [run]) == [
        f"3 partitions, at the end with {number(min(loads))} to {number(max(loads))} tuples, imbalance {run.imbalance:.2f}."
    ]
    for name in ("heat", "imbalance", "times", "tuples", "bytes", "duplicates"):
        (sentence,) = description(name, [run])
        assert re.search(r"\d", sentence) and sentence[0] == sentence[0].upper()


def test_from_the_command_line(spark, run, tmp_path):
    (tmp_path / "e.tsv").write_text("1\t2\n2\t3\n3\t1\n")
    status, _, errors = run("tc", "e.tsv", "--plan", "balanced", "--report", "tc.html", "--trace", "run.json")
    assert status == 0, errors
    assert "Transitive closure of e.tsv" in stands_alone((tmp_path / "tc.html").read_text()).text
    (tmp_path / "p.dl").write_text(RULES)
    (tmp_path / "edge.facts").write_text("1\t2\n2\t1\n")
    assert run("run", "p.dl", "--report", "run.html")[0] == 0
    assert "p.dl" in stands_alone((tmp_path / "run.html").read_text()).text
    assert run("plot", "run.json", "run.json", "--report", "two.html")[:2] == (0, "two.html\n")
    assert "2 runs side by side" in stands_alone((tmp_path / "two.html").read_text()).text
    assert not list(tmp_path.glob("*.png"))


def test_refused_on_the_command_line(spark, run, tmp_path):
    (tmp_path / "e.tsv").write_text("1\t2\n")
    (tmp_path / "bad.json").write_text(json.dumps({"version": VERSION, "iterations": 5}))
    status, _, errors = run("tc", "e.tsv", "--report", "none/r.html")
    assert status == 2 and "none/r.html: there is no directory 'none'" in errors
    status, _, errors = run("plot", "bad.json", "--report", "r.html")
    assert status == 2 and "bad.json is not a trace" in errors
    assert run("plot", "absent.json", "--report", "r.html")[0] == 2 and not (tmp_path / "r.html").exists()


PROBE = """<script>
const wide = [...document.querySelectorAll("body *")].filter((each) => !each.closest("svg, .wide, .drawing")
  && each.getBoundingClientRect().right > innerWidth + 1).map((each) => each.tagName);
const small = [...document.querySelectorAll(".figures svg text")].filter((each) => each.getBoundingClientRect().height < 6);
parent.document.body.dataset.found = JSON.stringify({inner: innerWidth, scroll: document.documentElement.scrollWidth, wide,
  small: small.length, drawn: document.querySelectorAll("svg").length});
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_on_a_phone_nothing_is_wider_than_the_screen(balanced, program, tmp_path):
    for name, trace in (("closure", balanced), ("program", program)):
        text = re.sub(r"<meta http-equiv[^>]*>", "", report(trace, names="x" * 90))  # which forbids the probe
        inner = escape(text.replace("</body>", PROBE + "</body>"))
        phone = f'<body><iframe width="390" height="900" style="border: 0" srcdoc="{inner}"></iframe></body>'
        (tmp_path / f"{name}.html").write_text(phone)
        found = json.loads(unescape(re.search(r'data-found="([^"]*)"', rendered(tmp_path / f"{name}.html", tmp_path))[1]))
        assert found["inner"] == found["scroll"] == 390 and not found["wide"] and not found["small"] and found["drawn"] >= 7


def rendered(path, profile) -> str:
    """The page after a browser has had it."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
               "--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile / 'chromium'}",
               "--hide-scrollbars", "--dump-dom", f"file://{path}"]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_escaped_everywhere():
    nasty = '<script>alert("&")<b>'
    rule = {"rule": nasty, "relation": nasty, "seconds": 1.0, "made": 1, "tuples": 1, "line": 3, "file": nasty}
    stratum = {"relations": [nasty], "plan": "local", "reason": nasty, "tuples": 1, "seconds": 1.0}
    trace = {"version": VERSION, "program": nasty, "seconds": 1.0, "config": {nasty: nasty}, "strata": [stratum],
             "profile": {"rules": [rule]}, "result": {"relations": {nasty: 1}, "tuples": 1}}  # fmt: skip
    text = report(trace)
    assert text.count(escape(nasty)) >= 9 and nasty not in text and not Page(text).all("script")
