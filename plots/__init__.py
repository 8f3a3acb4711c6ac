"""Figures and reports of recorded runs. Reads traces only; matplotlib is imported on first use."""
