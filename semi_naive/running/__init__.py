"""Running a planned program: the relations, the strata, and the plans that evaluate one."""
