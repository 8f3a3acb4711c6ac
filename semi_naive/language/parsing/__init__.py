"""From the text of a program to its syntax tree: preprocessor, grammar, tree builders, messages of syntax errors."""
