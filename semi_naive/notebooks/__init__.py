"""Display in notebooks: HTML without scripts, in the colours of the notebook's own theme.

- html: tables and their first rows; page: a report in a cell; figures: strata and balance drawn as SVG
- progress: a bar while something runs, in a notebook and on a terminal
"""
