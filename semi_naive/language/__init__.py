"""From the text of a program to checked rules: parse, expand, check, lower."""
