"""Kernels of leapfrog triejoin, generated and compiled for the shape of a query."""
