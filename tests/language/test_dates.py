"""Dates, timestamps, durations and truth values in rules: constants, functors, arithmetic, and their errors."""

import datetime as dt

import pytest

from semi_naive import Config, EvaluationError, Program, ProgramError

UTC = dt.UTC
BORN = '.decl born(who: symbol, day: date, at: timestamp)\nborn("ann", "2024-02-29", "2024-02-29T23:30:15.25Z").\n'
LAYOUTS = [{}, {"local_tuples": 0, "partitions": 2}]


def rows(text: str, types: str, config=None, **facts) -> list:
    names = ", ".join(f"x{place}: {name}" for place, name in enumerate(types.split()))
    return Program(f"{BORN}.decl o({names}) .output o\n{text}").run(facts, config=config)["o"].to_list()


def problems(text: str, types: str = "number") -> list[str]:
    with pytest.raises(ProgramError) as caught:
        rows(text, types)
    return [problem.message for problem in caught.value.problems]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_of_dates_and_times(layout):
    found = rows(
        "o(year(d), month(d), day(d), weekday(d), year(t), hour(t), minute(t), second(t)) :- born(_, d, t).",
        "number " * 8,
        Config(**layout),
    )
    assert found == [(2024, 2, 29, 4, 2024, 23, 30, 15)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arithmetic_counts_days_and_microseconds(layout):
    found = rows(
        'o(d + 1, d - e, t + hours(2), t - timestamp(d), duration("PT1S") * 3, days(1) / hours(5), date(t)) :- '
        'born(_, d, t), e = as("2024-02-01", date).',
        "date number timestamp duration duration number date",
        Config(**layout),
    )
    assert found == [
        (
            dt.date(2024, 3, 1), 28, dt.datetime(2024, 3, 1, 1, 30, 15, 250_000, UTC),
            dt.timedelta(hours=23, minutes=30, seconds=15.25), dt.timedelta(seconds=3), 4, dt.date(2024, 2, 29),
        )
    ]  # fmt: skip


def test_text_and_back():
    text = 'o(to_string(d), cat("at ", to_string(t)), date("2000-01-01"), as("true", bool)) :- born(_, d, t).'
    assert rows(text, "symbol symbol date bool") == [
        ("2024-02-29", "at 2024-02-29T23:30:15.250000Z", dt.date(2000, 1, 1), True)
    ]


def test_comparisons_search_and_aggregate():
    seen = ".decl seen(who: symbol, at: timestamp, for: duration) .input seen\n"
    facts = [
        (who, dt.datetime(2026, 1, day, tzinfo=UTC), dt.timedelta(minutes=day))
        for who, day in (("ann", 1), ("ann", 5), ("bob", 3))
    ]
    total = seen + "o(w, m, s) :- seen(w, _, _), m = max t : { seen(w, t, _) }, s = sum u : { seen(w, _, u) }."
    assert sorted(rows(total, "symbol timestamp duration", seen=facts)) == [
        ("ann", dt.datetime(2026, 1, 5, tzinfo=UTC), dt.timedelta(minutes=6)),
        ("bob", dt.datetime(2026, 1, 3, tzinfo=UTC), dt.timedelta(minutes=3)),
    ]
    late = seen + 'o(w) :- seen(w, t, _), t >= "2026-01-03", t < "2026-01-05".'
    assert rows(late, "symbol", seen=facts) == [("bob",)]


def test_a_range_of_days():
    assert rows('o(d) :- d = range(as("2024-02-28", date), as("2024-03-02", date)).', "date") == [
        (dt.date(2024, 2, 28),), (dt.date(2024, 2, 29),), (dt.date(2024, 3, 1),),
    ]  # fmt: skip


def test_a_subtype_of_date_is_written_as_a_date():
    text = """
    .type Birthday <: date
    .decl b(d: Birthday)
    b("1990-05-01").
    .decl c(d: Birthday) .output c
    c(d) :- b(d), year(d) = 1990.
    """
    assert Program(text).run()["c"].to_list() == [(dt.date(1990, 5, 1),)]


def test_programs_may_declare_types_and_relations_with_these_names():
    text = """
    .type date <: symbol
    .decl year(d: date, timestamp: number) .output year
    year("x", 1).
    .decl o(n: number) .output o
    o(n + 1) :- year("x", n).
    """
    result = Program(text).run()
    assert result["year"].to_list() == [("x", 1)] and result["o"].to_list() == [(2,)]


@pytest.mark.parametrize(
    "rule, types, told",
    [
        ('o("2024-02-30").', "date", '"2024-02-30" is no date'),
        ('o("1h").', "duration", '"1h" is no duration'),
        ("o(d + hours(1)) :- born(_, d, _).", "number", "date + duration has no meaning"),
        ("o(t + 1) :- born(_, _, t).", "number", "timestamp + number has no meaning"),
        ("o(t - hours(1)) :- born(_, _, t).", "date", "a timestamp where a date is expected"),
        ("o(hour(d)) :- born(_, d, _).", "number", "hour of a date"),
        ("o(foo(d)) :- born(_, d, _).", "number", "Undefined functor foo"),
        ("o(d) :- born(_, d, t), d < t.", "date", "Unable to deduce type for variable d"),
    ],
)
def test_errors_tell_what_has_no_meaning(rule, types, told):
    assert told in problems(rule, types)


def test_a_text_that_is_no_date_stops_the_run_with_its_rule():
    with pytest.raises(EvaluationError, match=r'date\("ann"\): expected a date, such as 2026-01-31'):
        rows("o(date(who)) :- born(who, _, _).", "date")


def test_functors_of_python_get_and_give_dates():
    text = """
    .functor next(d: date): date
    .decl born(d: date)
    born("2024-02-28").
    .decl o(d: date) .output o
    o(@next(d)) :- born(d).
    """
    program = Program(text, functors={"next": lambda day: day + dt.timedelta(1)})
    assert program.run()["o"].to_list() == [(dt.date(2024, 2, 29),)]


def test_sessions_change_and_explain_dates():
    program = Program(
        ".decl due(who: symbol, day: date) .input due\n.decl late(who: symbol, day: date) .output late\n"
        'late(w, d) :- due(w, d), d < "2026-02-01".'
    )
    with program.session({"due": [("ann", dt.date(2026, 1, 31))]}) as session:
        with session.transaction() as transaction:
            transaction.insert("due", [("bob", "2026-01-30"), ("eve", dt.date(2026, 3, 1))])
        assert sorted(session["late"].to_list()) == [("ann", dt.date(2026, 1, 31)), ("bob", dt.date(2026, 1, 30))]
        assert session.query('late(w, "2026-01-30")').to_list() == [("bob",)]
