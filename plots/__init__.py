"""Figures of recorded runs. Reads traces and nothing else; matplotlib is imported when something is drawn."""
