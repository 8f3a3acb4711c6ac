"""Trie arrays, whole or in slices and boxes, and what a query looks like over them."""
