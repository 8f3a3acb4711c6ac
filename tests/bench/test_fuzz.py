"""The campaign of random programs, and Soufflé as another judge of them."""

import pytest

from bench.fuzz import __main__ as campaign
from bench.fuzz import souffle
from bench.fuzz.rounds import random_cases


@pytest.fixture(scope="session")
def compiler():
    why = "no Soufflé: name the folder of one with 64-bit values in SEMI_NAIVE_SOUFFLE, or have it on the PATH"
    return souffle.souffle_of() or pytest.skip(why)


@random_cases(50, without=souffle.BEYOND, features={"text"})
def test_souffle_agrees_with_the_oracle(case, random, compiler):
    souffle.agrees_with_souffle(case, compiler)


def test_some_programs_without_a_finding(capsys):
    assert campaign.main(["--count", "3", "--seed", "11"]) == 0
    assert "3 programs" in capsys.readouterr().err
