"""The operators of the relational algebra, one file each. A user calls them as methods of `ra.relation.Relation`."""
