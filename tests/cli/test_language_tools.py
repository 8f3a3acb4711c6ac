"""`check`, `format` and `--show`: what is wrong with a program, its layout, and what it was understood as."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from semi_naive.language.origins import Text, read_text
from semi_naive.language.parsing.layout import formatted, tokens
from semi_naive.language.parsing.parse import lexed as tokens_of
from semi_naive.language.parsing.parse import parse

SETTINGS = {"deadline": None, "suppress_health_check": list(HealthCheck), "phases": [Phase.explicit, Phase.generate]}
PROGRAMS = sorted(Path(__file__).parents[2].glob("**/*.dl"))
WRONG = """.decl a(x:number)
.output a
a(x):-b(x),c(y).
.decl d(x: number)
a(x) :- a("x"), a(x).
"""
WARNED = ".decl a(x: number)\n.output a\na(x) :- a(x), a(z).\n"
UNTIDY = """

.comp A<T,U>:B<T>{
.decl p( x:T,y :U )inline choice-domain x,(x,y)
p(x,y):-q(x ,y),x<3,y>=-1,!r( x),z=(x+1)*2-y, n=count:{s(x,_)}.  .plan 0:(1,2)
q(x,m):-m=sum  y : { t(x,y) , y!=-3}.
}
.init a=A<number,symbol>//one
.output a.p(IO=file,filename = "x, (y).csv",delimiter="\\t")
.type L=Nil{}|Cons{head:number,tail:L}
.type R=[x:number,y:R]
.type S<:number
.functor f(x:number,y:symbol):number stateful
l($Cons(1,$Nil())). l($Nil()).



p(x,cat("a b",x)):-q(x);(r(x),s(x)).a.p(1,2).
verylong(x,y,z):-firstrelation(x,y),secondrelation(y,z),thirdrelation(z,x),fourthrelation(x,(y),z),fifth(x).//hi
/* block
   comment */
#define X(a) \\
   b(a)
#ifdef X
.once
p(x):-   // inside
    q(x),
  [x,y]=z,
       n = count : {
   b(x),
 c(x)
  },
      @f(x) = -  1, x = y band-3, x = bnot  y, x = $, z = $ + 1.
#endif
A(x,c1)<=A(x,c2):-c2<c1.
.decl w(x:number)
  brie
.input w
w(1).   /* after */ w(2).
.decl k(
x:number,   // one
    y:symbol
)
"""
TIDY = """.comp A<T, U> : B<T> {
    .decl p(x: T, y: U) inline choice-domain x, (x, y)
    p(x, y) :- q(x, y), x < 3, y >= -1, !r(x), z = (x + 1) * 2 - y, n = count : { s(x, _) }. .plan 0:(1, 2)
    q(x, m) :- m = sum y : { t(x, y), y != -3 }.
}
.init a = A<number, symbol>  // one
.output a.p(IO=file, filename="x, (y).csv", delimiter="\\t")
.type L = Nil {} | Cons {head: number, tail: L}
.type R = [x: number, y: R]
.type S <: number
.functor f(x: number, y: symbol): number stateful
l($Cons(1, $Nil())). l($Nil()).

p(x, cat("a b", x)) :- q(x) ; (r(x), s(x)). a.p(1, 2).
verylong(x, y, z) :-
    firstrelation(x, y),
    secondrelation(y, z),
    thirdrelation(z, x),
    fourthrelation(x, (y), z),
    fifth(x).  //hi
/* block
   comment */
#define X(a) \\
   b(a)
#ifdef X
.once
p(x) :-  // inside
    q(x),
    [x, y] = z,
    n = count : {
        b(x),
        c(x)
    },
    @f(x) = -1, x = y band -3, x = bnot y, x = $, z = $ + 1.
#endif
A(x, c1) <= A(x, c2) :- c2 < c1.
.decl w(x: number)
    brie
.input w
w(1). /* after */ w(2).
.decl k(
    x: number,  // one
    y: symbol
)
"""


def lexed(text: str) -> list[tuple[str, str]]:
    """What the parser sees of a text."""
    whole = Text("p.dl")
    whole.append(text, "p.dl", 1, 1)
    return [(token.type, str(token)) for token in tokens_of(whole)]


def kept(text: str) -> list[str]:
    """The comments, annotations and preprocessor's lines of a text."""
    return [token.text for line in tokens(text) for token in line if token.kind in ("comment", "marker", "note")]


def check_layout(text: str) -> None:
    made = formatted(text)
    assert formatted(made) == made
    assert lexed(made) == lexed(text) and kept(made) == kept(text)
    assert not any(line.endswith(" ") for line in made.split("\n") if "/*" not in text and '"' not in line)


def test_an_untidy_program_has_a_layout():
    assert formatted(UNTIDY).replace("//one", "// one") == TIDY
    check_layout(UNTIDY)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_layout_of_programs_changes_nothing(path):
    text = read_text(path)
    check_layout(text)
    if "__LINE__" not in text:
        assert parse(formatted(text), str(path)).statements == parse(text, str(path)).statements


PIECES = [token.text for path in PROGRAMS for line in tokens(read_text(path)) for token in line if token.kind != "marker"]
BLANKS = st.sampled_from([" ", " ", " ", "\n", "\n\n\n", "  \t", " /* a */ ", " // b\n", "\n#define A 1\n", "\n  "])


@settings(max_examples=150, **SETTINGS)
@given(st.data())
def test_the_layout_of_any_tokens_changes_nothing(data):
    begin = data.draw(st.integers(0, len(PIECES) - 1))
    some = PIECES[begin : begin + data.draw(st.integers(1, 60))]
    blanks = data.draw(st.lists(BLANKS, min_size=len(some), max_size=len(some)))
    check_layout("".join(piece + blank for piece, blank in zip(some, blanks, strict=True)))


@settings(max_examples=100, **SETTINGS)
@given(st.text(alphabet=st.sampled_from('ab1.(){}[],:-<>=!"/*@#$_?+|; \n'), max_size=40))
def test_the_layout_of_any_text_stays(text):
    made = formatted(text)
    assert formatted(made) == made
    assert [token.text for line in tokens(made) for token in line] == [token.text for line in tokens(text) for token in line]


def test_lines_stay_where_a_program_asks_for_their_numbers():
    text = "a(__LINE__).\n\n\n\na( __LINE__ ).\n"
    assert formatted(text) == "a(__LINE__).\n\n\n\na(__LINE__).\n"


def test_programs_are_formatted_in_place_or_compared(run, tmp_path):
    (tmp_path / "a.dl").write_bytes(b"a(1 ) .\n// b\n")
    (tmp_path / "b.dl").write_text("b(1).\n")
    status, out, err = run("format", "--check", "a.dl", "b.dl")
    assert (status, out, err) == (1, "", "a.dl would change\n")
    status, out, _ = run("format", "--diff", "b.dl", "a.dl")
    assert status == 0 and "-a(1 ) .\n+a(1).\n" in out and "b.dl" not in out
    (tmp_path / "a.dl").write_bytes(b"a(1 ) .\n// \xff\n")
    assert run("format", "-i", "a.dl", "b.dl")[0] == 0
    assert (tmp_path / "a.dl").read_bytes() == b"a(1).\n// \xff\n" and run("format", "--check", "a.dl")[0] == 0
    status, _, err = run("format", "nowhere.dl")
    assert status == 2 and "nowhere.dl: no such file" in err
    status, _, err = run("format", "-i", "-")
    assert status == 2 and "cannot be changed in place" in err


def test_a_program_is_formatted_from_standard_input(tmp_path, monkeypatch, capfdbinary):
    from semi_naive.__main__ import main

    monkeypatch.setattr("sys.stdin", io.StringIO("a( 1)."))
    with pytest.raises(SystemExit) as stop:
        main(["format", "-"])
    assert stop.value.code == 0 and capfdbinary.readouterr().out == b"a(1).\n"


def test_all_that_is_wrong_is_told_at_once(run, tmp_path):
    (tmp_path / "p.dl").write_text(WRONG)
    status, out, err = run("check", "p.dl")
    assert (status, err) == (1, "") and out.endswith("3 errors, 2 warnings\n") and out.count("in file p.dl at line") == 5
    status, out, _ = run("check", "p.dl", "--json")
    told = json.loads(out)
    assert status == 1 and [(each["severity"], each["line"], each["column"]) for each in told] == [
        ("error", 3, 7), ("error", 3, 12), ("warning", 3, 14), ("warning", 4, 7), ("error", 5, 11)
    ]  # fmt: skip
    assert told[0] == {
        "file": "p.dl", "line": 3, "column": 7, "end_line": 3, "end_column": 11, "severity": "error",
        "message": "Undefined relation b", "hint": "declare it: .decl b(…)", "notes": [],
    }  # fmt: skip


def test_warnings_alone_are_no_failure(run, tmp_path, monkeypatch):
    (tmp_path / "p.dl").write_text(WARNED)
    status, out, _ = run("check", "p.dl")
    assert status == 0 and out.endswith("0 errors, 1 warning\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("a(x :- b(y). c(."))
    status, out, _ = run("check", "-", "--json")
    told = json.loads(out)
    assert status == 1 and len(told) == 2 and {each["file"] for each in told} == {"<stdin>"} and told[0]["notes"]
    assert all("[?a-z" not in each["message"] for each in told)
    status, _, err = run("check", "nowhere.dl")
    assert status == 2 and "nowhere.dl: no such file" in err


def test_types_of_variables_are_shown(run, tmp_path):
    (tmp_path / "p.dl").write_text(
        ".type N <: number\n.decl a(x: N, s: symbol)\n.input a\n.decl b(n: number, y: float)\n.output b\n"
        'b(x, y) :- a(x, _), y = 1.5 * 2.0, !a(x, "s").\n'
    )
    status, out, _ = run("run", "p.dl", "--show=type-analysis")
    assert (status, out.splitlines()) == (
        0, ['b(x, y) :- a(x, _), y = 1.5 * 2.0, !a(x, "s").', "    x: number & N", "    y: float"]
    )  # fmt: skip
    status, _, err = run("run", "p.dl", "--show=transformed-ram")
    assert status == 2 and "there is no RAM" in err and "--explain" in err
