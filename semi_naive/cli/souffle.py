"""The flags of Soufflé 2.5. `semi-naive run` accepts all of them: it obeys a flag, or says why it has no effect.

For a flag that changes no answer, a note is printed and the run continues. A flag that requests something other than a run is
refused.
"""

import os
from typing import NamedTuple

import click
from click.core import ParameterSource

from semi_naive.cli.options import option_group
from semi_naive.io.errors import BadInput


class Flag(NamedTuple):
    """A flag of Soufflé.

    here: why it has no effect; "" if `run` has an option of this name.
    refused: True if the flag is an error, with `here` as its text.
    """

    letter: str
    name: str
    argument: str = ""
    here: str = ""
    refused: bool = False

    def __str__(self) -> str:
        return f"-{self.letter} (--{self.name})" if self.letter else f"--{self.name}"


BUILT_IN = "the preprocessor is built in, and changes nothing but lines that begin with # and the names of -M"
FLAGS = [
    Flag("a", "auto-schedule", "FILE", "joins are ordered by the sizes that relations have during the run"),
    Flag("c", "compile", "", "nothing is compiled, the rules are run as they are"),
    Flag("C", "compile-many", "", "nothing is compiled, the rules are run as they are"),
    Flag("r", "debug-report", "FILE", "it is not written; --show=transformed-datalog, --explain and --report tell as much"),
    Flag("z", "disable-transformers", "TRANSFORMERS", "the passes here are others, and none is left out"),
    Flag("o", "dl-program", "FILE", "nothing is compiled; leave -o out", refused=True),
    Flag("", "emit-statistics", "", "sizes are looked at during the run, without being asked for"),
    Flag("F", "fact-dir", "DIR"),
    Flag("g", "generate", "FILE", "no C++ is generated; leave -g out", refused=True),
    Flag("G", "generate-many", "DIR", "no C++ is generated; leave -G out", refused=True),
    Flag("N", "generate-namespace", "NS", "no C++ is generated that would be in a namespace"),
    Flag("h", "help"),
    Flag("I", "include-dir", "DIR"),
    Flag("", "inline-exclude", "RELATIONS"),
    Flag("j", "jobs", "N"),
    Flag("", "legacy"),
    Flag("l", "libraries", "FILE"),
    Flag("L", "library-dir", "DIR"),
    Flag("", "live-profile"),
    Flag("M", "macro", "MACROS"),
    Flag("m", "magic-transform", "RELATIONS"),
    Flag("", "magic-transform-exclude", "RELATIONS"),
    Flag("", "no-preprocessor", "", BUILT_IN),
    Flag("w", "no-warn"),
    Flag("D", "output-dir", "DIR"),
    Flag("", "parse-errors", "", "errors of the syntax end any run; --show=parse-errors prints nothing else"),
    Flag("P", "pragma", "OPTIONS"),
    Flag("", "preprocessor", "CMD", BUILT_IN),
    Flag("p", "profile", "FILE"),
    Flag("", "profile-frequency", "", "the profile of -p counts without being asked to"),
    Flag("t", "provenance", "none|explain|explore"),
    Flag("", "show", "WHAT"),
    Flag("s", "swig", "LANG", "Python has `from semi_naive import Program`, other languages have nothing; leave -s out",
         refused=True),
    Flag("v", "verbose"),
    Flag("", "version"),
    Flag("W", "warn", "WARN"),
    Flag("", "wno", "WARN"),
]  # fmt: skip
BY_NAME = {flag.name: flag for flag in FLAGS}

WARNINGS = (
    "deprecated-qualifier", "deprecated-type-decl", "no-rules-nor-facts", "no-subsumptive-rule", "useless-annotation",
    "useless-doc-comment", "var-appears-once",
)  # fmt: skip
PREPROCESSORS = ("gcc", "mcpp", "cpp", "cc", "clang")  # programs that do what the built-in preprocessor does
PRAGMAS = ("semantics",)  # pragmas that are not flags
# Options that only exist as pragmas of a program.
OF_THE_PROGRAM = ("inline-exclude", "magic-transform", "magic-transform-exclude")
IN_THE_TEXT = (
    "output-dir", "jobs", "no-warn", "profile", "provenance", "verbose", "warn", "wno",
)  # fmt: skip  # pragmas of a program that are options


transforming = option_group(  # how rules are rewritten, and -P
    click.option("-m", "--magic-transform", metavar="RELATIONS", help="Compute these as far as they are asked for; * is all."),
    click.option("--magic-transform-exclude", metavar="RELATIONS", help="Compute these in full."),
    click.option("--inline-exclude", metavar="RELATIONS", help="Inline none of these, whatever the program says."),
    click.option("-P", "--pragma", "pragmas", metavar="KEY:VALUE", multiple=True, help="Set a pragma."),
)
warning = option_group(  # what is warned of
    click.option("-w", "--no-warn", is_flag=True, help="Print no warnings, and take a missing fact file as empty."),
    click.option("-W", "--warn", metavar="NAME", multiple=True, help="Warn of this and nothing else: var-appears-once, …"),
    click.option("--wno", metavar="NAME", multiple=True, help="Do not warn of this."),
)


def _note_ignored(context, option, value):
    """Add a given flag without effect to the context, for `note_flags`."""
    if value:
        context.meta.setdefault(__name__, []).append((option.name.replace("_", "-"), value))


def _noted_option(flag: Flag):
    """Return the hidden click option of a flag that has no effect."""
    names = [f"-{flag.letter}"] * bool(flag.letter) + [f"--{flag.name}"]
    how = {"metavar": flag.argument} if flag.argument else {"is_flag": True}
    return click.option(*names, callback=_note_ignored, expose_value=False, hidden=True, **how)


flags = option_group(*(_noted_option(flag) for flag in FLAGS if flag.here))


def note_flags(pragmas: dict[str, str], quiet: bool) -> None:
    """Log a note for each given flag that has no effect. Raises BadInput for a refused one."""
    for name, value in [*click.get_current_context().meta.get(__name__, []), *pragmas.items()]:
        flag = BY_NAME.get(name)
        if flag is None and name not in PRAGMAS and not quiet:
            click.echo(f"semi-naive: -P {name}: no flag has this name", err=True)
        if flag is None or not flag.here:  # without a reason why it has no effect, it is an option of `run`
            continue
        if flag.refused:
            raise BadInput(f"{flag}: {flag.here}")
        if name == "preprocessor" and value.strip() and os.path.basename(value.split()[0]) not in PREPROCESSORS:
            raise BadInput(f"{flag}: the preprocessor is built in; for another: {value} PROGRAM | semi-naive run -")
        if not quiet:
            click.echo(f"semi-naive: {flag}: {flag.here}", err=True)


def pragmas_of(given: dict) -> dict[str, str]:
    """Return the pragmas of -P, "key:value" each, and of the options that are pragmas. given: the options of the command line.

    >>> pragmas_of({"pragmas": ("legacy", "magic-transform:a,b"), "inline_exclude": "c"})
    {'legacy': '', 'magic-transform': 'a,b', 'inline-exclude': 'c'}
    """
    pragmas = {key: value for key, _, value in (text.partition(":") for text in given["pragmas"])}
    options = {key: given.get(key.replace("-", "_")) for key in OF_THE_PROGRAM}
    return pragmas | {key: value for key, value in options.items() if value is not None}


def merge_pragmas(given: dict, pragmas: dict[str, str], names=None) -> dict:
    """Return the options of the command line, with pragmas as the values of options that were not given. names: the pragmas
    that may set options; None: all."""
    context = click.get_current_context()
    merged = dict(given)
    for option in context.command.params:
        name = next((name[2:] for name in option.opts if name.startswith("--")), "")
        unsaid = context.get_parameter_source(option.name) is ParameterSource.DEFAULT
        if name in pragmas and option.name in given and unsaid and (names is None or name in names):
            value = (pragmas[name],) if option.multiple else pragmas[name]
            is_flag = isinstance(option, click.Option) and option.is_flag
            merged[option.name] = True if is_flag else option.type_cast_value(context, value)
    return merged


def shown_warnings(problems: list, given: dict) -> list:
    """Return the warnings that -w, -W and --wno leave. -W names the only ones to show, or all. given: the options of the
    command line."""
    on, off = set(given["warn"]) or {"all"}, set(given["wno"]) - {"none"}
    for name in sorted((on | off) - {"all", *WARNINGS}):
        raise BadInput(f"there is no warning {name!r}", hint=f"known are all, {', '.join(WARNINGS)}")
    if given["no_warn"] or "all" in off:
        return []
    return [problem for problem in problems if problem.flag not in off and ("all" in on or problem.flag in on)]
