"""The examples in the docstrings of every module."""

import doctest
import importlib
import pkgutil

import pytest

import semi_naive

OPTIONS = doctest.NORMALIZE_WHITESPACE
FOLDERS = ("balance", "graphs", "plots", "ra")  # below semi_naive once installed, beside it in the repository


def modules():
    yield from pkgutil.walk_packages(semi_naive.__path__, "semi_naive.")
    for folder in FOLDERS:
        package = importlib.import_module(f"semi_naive.{folder}")
        yield from pkgutil.walk_packages(package.__path__, f"semi_naive.{folder}.")


@pytest.mark.parametrize("name", sorted({module.name for module in modules()} - {"semi_naive.ra.spark.daemon"}))
def test_examples(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=OPTIONS)
    assert not failed
