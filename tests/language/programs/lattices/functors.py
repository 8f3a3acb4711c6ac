from semi_naive import Branch

UNREACHED, ANY = Branch("Unreached"), Branch("Any")
EMPTY = (0, -1)


def either(a, b):
    if UNREACHED in (a, b):
        return b if a == UNREACHED else a
    return a if a == b else ANY


def both(a, b):
    if ANY in (a, b):
        return b if a == ANY else a
    return a if a == b else UNREACHED


def plus(a, b):
    if UNREACHED in (a, b):
        return UNREACHED
    return ANY if ANY in (a, b) else Branch("Constant", a.fields[0] + b.fields[0])


def hull(a, b):
    if EMPTY in (a, b):
        return b if a == EMPTY else a
    return min(a[0], b[0]), max(a[1], b[1])


def common(a, b):
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high and EMPTY not in (a, b) else EMPTY


def moved(a, n):
    return a if a == EMPTY else (a[0] + n, a[1] + n)
