"""The front end: text → syntax tree → checks → the rules of `ra.ir`.

- parsing: text to syntax tree; components: instantiated, names qualified
- single: clauses with one head and without disjunction; scopes: the variables of each aggregate
- types: declarations, and the type of every expression
- checks, inlining, grounded, types.type_checks, reductions: errors
- lower: the rules

`checking.check_source` calls them in this order."""

from semi_naive.lazy import lazily

__all__ = ["check_source", "compile_text"]
__getattr__ = lazily(__name__, dict.fromkeys(__all__, "semi_naive.language.checking"))
