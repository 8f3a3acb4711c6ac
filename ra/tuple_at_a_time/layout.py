"""The layout of the machine's arrays: a name for the position of each number in a structure. All arrays are int64.

`code` has the instructions one after the other; a program counter is the position of one of them. An instruction begins with
its operation, then has the position at which execution continues if it fails: that of the generator before it, or -1. A
structure of another kind (a relation, an index, a block, a rule version) is referred to by its position in the array of its
kind.
"""

# -- operations. A generator (JOIN, RANGE) has several solutions, and yields one at a time.
JOIN, RANGE, EXISTS, LACKS, HEAD, FAIL, DISTINCT, BEGIN, AGED, OLDER = range(10)
# Comparisons of two registers: of 64 bits, and by the order of a kind.
EQUAL, DIFFERENT, LESS, LESS_UNSIGNED, LESS_FLOAT, UP_TO, UP_TO_UNSIGNED, UP_TO_FLOAT = range(10, 18)
# Functors: they set a register to a function of two others, or of one, which is then given twice.
FUNCTORS = 30
(
    MOVE, ADD, SUBTRACT, MULTIPLY, DIVIDE, DIVIDE_UNSIGNED, REMAINDER, REMAINDER_UNSIGNED, NEGATE, AND, OR, XOR, NOT,
    SHIFT_LEFT, SHIFT_RIGHT, SHIFT_RIGHT_ZEROS, BOTH, EITHER, ONE_OF, NEITHER, LEAST, GREATEST, LEAST_UNSIGNED,
    GREATEST_UNSIGNED, ADD_FLOAT, SUBTRACT_FLOAT, MULTIPLY_FLOAT, DIVIDE_FLOAT, NEGATE_FLOAT, LEAST_FLOAT,
    GREATEST_FLOAT, NUMBER_TO_FLOAT, UNSIGNED_TO_FLOAT, BITS_TO_FLOAT, FLOAT_TO_NUMBER,
) = range(FUNCTORS, FUNCTORS + 35)  # fmt: skip

# -- an instruction
BACK = 1
CURSOR, RELATION, INDEX, PART, ACCESS, KEYS, BINDS, SIEVE, LISTS = 2, 3, 4, 5, 6, 7, 8, 9, 10  # JOIN, EXISTS, LACKS
BIND = 3  # numbers for each new variable of a join: place in the column order, column, register
SIFT = 2  # numbers for each condition of a sieve: column, list of blocks whose first column must have its value
LEFT, RIGHT, INTO = 2, 3, 4  # comparisons and functors
START, STOP, STEP, SIGNED, VALUE = 3, 4, 5, 6, 7  # RANGE, after its CURSOR; STEP: -1 if no step is given
HEAD_RELATION, HEAD_ACCESS, HEAD_VALUES = 2, 3, 4  # HEAD; then registers in the order of columns, and again in home order
SEEN, SEEN_KEYS, SEEN_LIST = 2, 3, 4  # DISTINCT: the position of its set among the cursors, and its registers
AGES, AGE, AGED_KEYS, AGED_LIST = 2, 3, 4, 5  # AGED, OLDER: a list of ages, the register of a tick, registers of a tuple
NO_MORE = 2  # the length of BEGIN, after which execution continues independently of what failed before

# -- a cursor. For a join: the block (or the rows, after all blocks), the position in it, its end. For a range: the rest
STAGE, AT, END, CURSOR_SIZE = 0, 1, 2, 3

# -- the set of distinct bindings of an early projection, valid for one RUN of its rule version: slots with the run and the
# number of a binding, from 1
RUN, BINDINGS, BINDING_SLOTS, BINDING_MASK, BINDING_COUNT, BINDING_ROOM, TESTED, REPEATED, SET_SIZE = range(9)

DELTA, FULL, ALL = range(3)  # the part of a relation that is read

# -- a relation of the stratum. Its rows are in the order of their birth: full, delta, new. INDEX_LIST: the position in
# `indexes` of the list of its indexes. The first is the home index, which finds known tuples: by all columns, or all but the
# last of a lattice. The second index of an equivalence is by the first column, that of classes by the second. BASED: the number
# of tuples from before the machine started that are not superseded. SHARES: the number of threads that share an iteration;
# SHARE: the number of this thread; TAKEN: the rows of the delta that it takes at a time. TIMES: the tick of each row's birth,
# from the CLOCK of all relations, or 0.
(
    ROWS, ARITY, COUNT, DELTA_BEGIN, DELTA_END, ROOM, INDEX_LIST, INDEXES, SORT, DEAD, DEAD_COUNT, BASED, LIMIT, SHARE, SHARES,
    TAKEN, TIMES, CLOCK, RELATION_SIZE,
) = range(19)  # fmt: skip
# SORT; from MIN on: a lattice, or the class of each value: a tuple supersedes the one that has its key
PLAIN, EQUIVALENCE, MIN, MAX, MIN_UNSIGNED, MAX_UNSIGNED, MIN_FLOAT, MAX_FLOAT, CLASSES = range(9)
# DEAD: a flag for each row of a lattice. OVER: a new row that supersedes a tuple in the blocks
ALIVE, SUPERSEDED, OVER = range(3)

# -- an index: slots with 32 bits of a hash and the number, from 1, of the newest row with a key; NEXT: for each row, the
# previous row with the same key. INDEX_COLUMNS: the position in `indexes` of the list of its columns. EARLIER: for each row,
# the newest row of an earlier iteration with the same key; 0 if no search skips the delta.
SLOTS, MASK, NEXT, INDEX_KEYS, INDEX_COLUMNS, EARLIER, INDEX_SIZE = range(7)

# -- a block of sorted words, which is searched by some of its first columns. Its position is relative to the array of lists. A
# list has the number of its blocks, their positions and, for a lattice, the place of each key column. REST, BASE, COARSE,
# STARTS, GROUPS: the directory of the keys in the first lane; PRESENT, LEAST_VALUE, WITHIN, CELLS: the presence bitmap of the
# first column (`Block.present`). GONE, GONE_COUNT: the positions of deleted tuples (`ra.blocks.thinned`).
(
    WORDS, WORDS_SIZE, LANES, REST, BASE, COARSE, STARTS, GROUPS, PRESENT, LEAST_VALUE, WITHIN, CELLS, GONE, GONE_COUNT, FIELDS,
) = range(15)  # fmt: skip
LANE, SHIFT, FIELD_MASK, LOW, HIGH, FIELD_SIZE = range(6)

# -- a list of ages: the number of entries, then for each a block and the ticks of its tuples; the first with a tuple decides
BLOCK_AGED, TICKS, AGES_SIZE = 1, 2, 2

# -- a rule version: the numbers of heads made, of tuples born and of runs, and the same at the end of the last iteration.
# SPLITS: 1 if it begins with the rows of the delta, which threads can divide among them
ENTRY, DELTA_RELATION, WORK, MADE, BORN, RUNS, MADE_THEN, BORN_THEN, RUNS_THEN, SPLITS, VERSION_SIZE = range(11)
THEN = MADE_THEN - MADE

# -- the state: where the machine continues, and when it stops. WORKED: the instructions before this iteration; MOST_WORK: the
# instructions allowed in one iteration. GROWING: after GROW, the full relation, or -1 - the position of a full set of bindings
# (of a thread also 0: its buffer of heads); NEEDED: the rows that the relation needs room for. SHARED: the size of a delta
# from which threads share an iteration. PROPOSED: the address of a thread's buffer of heads, 0 if the iteration is not shared;
# then the number of heads, the capacity, and the numbers that each head takes. COURSE: the address of the record of iterations;
# COURSE_AT: the number of its last entry; COURSE_STRIDE: iterations in a full entry.
(
    COUNTER, AGAIN, VERSION, ITERATION, ITERATIONS, ITERATION_MADE, BUDGET, SMALL, MOST, SLICE, GROWING, NEEDED,
    RELATIONS_END, VERSIONS_END, HAS_OTHERS, OTHERS_DONE, WORKED, MOST_WORK, SHARED, PROPOSED, PROPOSED_COUNT, PROPOSED_ROOM,
    PROPOSED_SIZE, COURSE, COURSE_AT, COURSE_STRIDE, STATE_SIZE,
) = range(27)  # fmt: skip

# -- an entry of the record of iterations: the number of iterations, tuples born in them, tuples after them, instructions.
# ENTRIES: the capacity; if it is reached, each two neighbouring entries are merged
ENTRY_ITERATIONS, ENTRY_BORN, ENTRY_TUPLES, ENTRY_WORK, ENTRY_SIZE = range(5)
ENTRIES = 1024

# -- a head that a thread proposes: its rule version, the instruction that made it, its values. For each thread: the address of
# its heads, their number, and how many have been inserted
PROPOSER, INSTRUCTION, VALUES = range(3)
HEADS, HEADS_COUNT, HEADS_DONE, HEADS_SIZE = range(4)

# -- the reasons to stop. After the first five the machine continues where it was (OTHERS: after the rules that it cannot run
# have been evaluated in this iteration; SHARING: threads are to share the next iteration, or a thread's part is finished).
# FAULT and TOO_MANY occur within an iteration, which is then rolled back; the others at its end.
PAUSED, GROW, COMPACT, OTHERS, SHARING, FIXPOINT, LARGE, SLOW, ENOUGH, FAULT, TOO_MANY = range(11)
