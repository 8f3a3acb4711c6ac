"""The front end: text → syntax tree → checks → the rules of `ra.rules.ir`.

parse       text to syntax tree (grammar, preprocessor)
components  components instantiated, names qualified
types       what is declared; then single (one head, no disjunction), scopes (aggregates), inference (of expressions)
checks, inlining, grounded, type_checks, lattices    what can be wrong
lower       what comes out
"""

from semi_naive.language.checking import check as check
from semi_naive.language.checking import compile_text as compile_text
