"""Trie arrays, whole or in slices and boxes, and the shape of a query over them."""
