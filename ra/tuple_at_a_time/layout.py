"""The layout of the machine's arrays: arrays of int64 with a name for each place.

Instructions lie one after the other in `code`; a place in it that begins one is a program counter. An instruction begins with
its operation, and with where to go on when it fails: the generator before it, or -1.
"""

# -- operations. Generators have several ways to go on, one after the other.
JOIN, RANGE, EXISTS, LACKS, HEAD, FAIL, DISTINCT, BEGIN, AGED, OLDER = range(10)
# Comparisons of two registers: of 64 bits, and by the order of a kind.
EQUAL, DIFFERENT, LESS, LESS_UNSIGNED, LESS_FLOAT, UP_TO, UP_TO_UNSIGNED, UP_TO_FLOAT = range(10, 18)
# Functors: a register of two others (of one other and nothing).
FUNCTORS = 30
(
    MOVE, ADD, SUBTRACT, MULTIPLY, DIVIDE, DIVIDE_UNSIGNED, REMAINDER, REMAINDER_UNSIGNED, NEGATE, AND, OR, XOR, NOT,
    SHIFT_LEFT, SHIFT_RIGHT, SHIFT_RIGHT_ZEROS, BOTH, EITHER, ONE_OF, NEITHER, LEAST, GREATEST, LEAST_UNSIGNED,
    GREATEST_UNSIGNED, ADD_FLOAT, SUBTRACT_FLOAT, MULTIPLY_FLOAT, DIVIDE_FLOAT, NEGATE_FLOAT, LEAST_FLOAT,
    GREATEST_FLOAT, NUMBER_TO_FLOAT, UNSIGNED_TO_FLOAT, BITS_TO_FLOAT, FLOAT_TO_NUMBER,
) = range(FUNCTORS, FUNCTORS + 35)  # fmt: skip

# -- an instruction
BACK = 1
CURSOR, RELATION, INDEX, PART, ACCESS, KEYS, BINDS, SIEVE, LISTS = 2, 3, 4, 5, 6, 7, 8, 9, 10  # of JOIN, EXISTS, LACKS
BIND = 3  # of a join, for each new variable: place in the order, column, register
SIFT = 2  # of a sieve, which begins with their number: column, list of blocks whose first column has to have its value
LEFT, RIGHT, INTO = 2, 3, 4  # of comparisons and functors
START, STOP, STEP, SIGNED, VALUE = 3, 4, 5, 6, 7  # of RANGE, after its CURSOR; STEP: -1 if there is none
HEAD_RELATION, HEAD_ACCESS, HEAD_VALUES = 2, 3, 4  # of HEAD; then registers in the order of columns, then in that of the home
SEEN, SEEN_KEYS, SEEN_LIST = 2, 3, 4  # of DISTINCT: where its set is among the cursors, and its registers
AGES, AGE, AGED_KEYS, AGED_LIST = 2, 3, 4, 5  # of AGED and OLDER: a list of ages, the register of a tick, registers of a tuple
NO_MORE = 2  # how long BEGIN is: what follows it begins anew, whatever has failed before it

# -- a cursor: of a join how far it has come in which block, or among the rows after all blocks; of a range how many are left
STAGE, AT, END, CURSOR_SIZE = 0, 1, 2, 3

# -- a set of bindings that have come by since the version began, its RUN: slots with the run and a binding's number, from 1
RUN, BINDINGS, BINDING_SLOTS, BINDING_MASK, BINDING_COUNT, BINDING_ROOM, TESTED, REPEATED, SET_SIZE = range(9)

DELTA, FULL, ALL = range(3)  # the part of a relation that is read

# -- a relation of the stratum. Its rows lie in the order they were born in: full, delta, new. INDEX_LIST: where in `indexes`
# its indexes are listed, first the one by which known tuples are found: by all columns, of a lattice by all but the last; of an
# equivalence the second is by the first column, of classes by the second. BASED: tuples that were there before, and have not
# been superseded. SHARES: how many threads share an iteration, if they do; SHARE: which of them this is; TAKEN: rows of the
# delta that it takes in turn. TIMES: of each row when it was born, if that is asked for, by the CLOCK of all relations.
(
    ROWS, ARITY, COUNT, DELTA_BEGIN, DELTA_END, ROOM, INDEX_LIST, INDEXES, SORT, DEAD, DEAD_COUNT, BASED, LIMIT, SHARE, SHARES,
    TAKEN, TIMES, CLOCK, RELATION_SIZE,
) = range(19)  # fmt: skip
# SORT; from MIN on: a lattice, or the class of each value: a tuple supersedes the one that has its key
PLAIN, EQUIVALENCE, MIN, MAX, MIN_UNSIGNED, MAX_UNSIGNED, MIN_FLOAT, MAX_FLOAT, CLASSES = range(9)
ALIVE, SUPERSEDED, OVER = range(
    3
)  # DEAD, of a row of a lattice. OVER: alive, new, and in the place of a tuple that was there before

# -- an index of it: slots with 32 bits of a hash and the number, from 1, of the newest row that has a key; NEXT: of each row,
# the one before it that has the same. INDEX_COLUMNS: where in `indexes` its columns are listed. EARLIER: of each row, the
# newest one of an earlier iteration that has the same key, in indexes in which what is older than the delta is searched.
SLOTS, MASK, NEXT, INDEX_KEYS, INDEX_COLUMNS, EARLIER, INDEX_SIZE = range(7)

# -- a block of sorted words, as it is searched by some of its first columns. It lies anywhere: its place is counted from where
# the lists begin. Before its blocks, a list has their number; after them, of a lattice, the place of each key column. REST,
# BASE, COARSE, STARTS, GROUPS: the directory of the keys in its first lane; PRESENT, LEAST_VALUE, WITHIN, CELLS: the values of
# its first column, see `Block.present`. GONE, GONE_COUNT: positions in it of tuples that are gone (`ra.blocks.thinned`).
(
    WORDS, WORDS_SIZE, LANES, REST, BASE, COARSE, STARTS, GROUPS, PRESENT, LEAST_VALUE, WITHIN, CELLS, GONE, GONE_COUNT, FIELDS,
) = range(15)  # fmt: skip
LANE, SHIFT, FIELD_MASK, LOW, HIGH, FIELD_SIZE = range(6)

# -- a list of ages has their number, then of each a block and the ticks of its tuples; the first that has a tuple counts
BLOCK_AGED, TICKS, AGES_SIZE = 1, 2, 2

# -- a version of a rule: how many heads it has made, how many were born, how often it has run, and that at the end of the last
# iteration. SPLITS: whether it begins with the rows of the delta, so that each thread may take some of them
ENTRY, DELTA_RELATION, WORK, MADE, BORN, RUNS, MADE_THEN, BORN_THEN, RUNS_THEN, SPLITS, VERSION_SIZE = range(11)
THEN = MADE_THEN - MADE

# -- the state: where the machine goes on, and when it stops. WORKED: the instructions before this iteration, of which MOST_WORK
# may be done in one. SHARED: the tuples of a delta from which on threads share an iteration. PROPOSED: where a thread that has
# a share of one puts its heads, 0 if nothing is shared; then how many there are, there is room for, and how many numbers each
# has. COURSE: where the course of the iterations is; COURSE_AT: its last entry; COURSE_STEPS: of how many iterations each is.
(
    COUNTER, AGAIN, VERSION, ITERATION, ITERATIONS, ITERATION_MADE, BUDGET, SMALL, MOST, SLICE, GROWING, NEEDED,
    RELATIONS_END, VERSIONS_END, HAS_OTHERS, OTHERS_DONE, WORKED, MOST_WORK, SHARED, PROPOSED, PROPOSED_COUNT, PROPOSED_ROOM,
    PROPOSED_SIZE, COURSE, COURSE_AT, COURSE_STEPS, STATE_SIZE,
) = range(27)  # fmt: skip

# -- an entry of the course, of so many iterations: tuples born in them, tuples after them, instructions. There is room for so
# many entries; then two neighbours become one
STEPS_DONE, STEPS_BORN, STEPS_TUPLES, STEPS_WORK, ENTRY_SIZE = range(5)
ENTRIES = 1024

# -- a head that a thread proposes: its version, the instruction that made it, its values. Of each thread: where they are, how
# many there are, and how many have been inserted
PROPOSER, INSTRUCTION, VALUES = range(3)
HEADS, HEADS_COUNT, HEADS_DONE, HEADS_SIZE = range(4)

# -- why it has stopped. In the first five cases it goes on where it was (OTHERS: once what else there is has been done in this
# iteration; SHARING: the next one is to be shared, or a share is done). FAULT and TOO_MANY are in the middle of an iteration,
# and what it has made is to be forgotten; the others at its end.
PAUSED, GROW, COMPACT, OTHERS, SHARING, FIXPOINT, LARGE, SLOW, ENOUGH, FAULT, TOO_MANY = range(11)
