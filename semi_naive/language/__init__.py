"""The front end: text → syntax tree → checks → the rules of `ra.rules.ir`.

- parse: text to syntax tree (grammar, preprocessor); components: instantiated, names qualified
- single: clauses with one head and no disjunction; anonymous: without records of no declared type
- scopes: which variables are an aggregate's own
- types: what is declared; inference: the type of every expression
- checks, inlining, grounded, type_checks, lattices: what can be wrong
- lower: what comes out

`checking.check` is the same in code.
"""

from semi_naive.lazy import lazily

__all__ = ["check", "compile_text"]
__getattr__ = lazily(__name__, dict.fromkeys(__all__, "semi_naive.language.checking"))
