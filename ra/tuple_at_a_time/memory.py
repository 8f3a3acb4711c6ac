"""Instructions for kernels that read and write a number at a position of an array given by its address. The caller keeps the
array alive. The instructions exist only in machine code.
"""

from semi_naive.host import jit
from semi_naive.host.jit import njit
from semi_naive.ra.bits import Instruction, generate_prefetch
from semi_naive.ra.words import JIT

address = jit.types.int64  # of an array, where a kernel takes one
# numpy's error model: no exceptions, every kernel tests for errors itself; few: no call is too small for machine code
COMPILED = {"error_model": "numpy", "few": -1, **JIT}

_BITS = {"uint64": 64, "int64": 64, "int32": 32, "uint8": 8}


def _unavailable(*given):
    """Raise NotImplementedError: the Python version of an instruction that exists only in machine code."""
    raise NotImplementedError("the machine runs compiled only")


def _reader(kind: str) -> Instruction:
    """Return the instruction that reads a number of a type at a position of an array."""

    def read(typingctx, address, place):
        from numba import types

        def codegen(context, builder, signature, args):
            return builder.load(_pointer(builder, kind, args))

        return getattr(types, kind)(types.int64, types.int64), codegen

    return Instruction(_unavailable, read)


def _writer(kind: str) -> Instruction:
    """Return the instruction that writes a number of a type to a position of an array."""

    def write(typingctx, address, place, value):
        from numba import types

        def codegen(context, builder, signature, args):
            builder.store(args[2], _pointer(builder, kind, args))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, getattr(types, kind)), codegen

    return Instruction(_unavailable, write)


def _pointer(builder, kind: str, args):
    """Generate the pointer to a position of an array. args: its address and the position."""
    from llvmlite import ir

    return builder.gep(builder.inttoptr(args[0], ir.IntType(_BITS[kind]).as_pointer()), [args[1]])


def _fetch(typingctx, address, place):
    """Generate the prefetch of a position of an array of 64-bit numbers."""
    from numba import types

    def codegen(context, builder, signature, args):
        generate_prefetch(builder, _pointer(builder, "int64", args))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


def _bitcast(source: str, target: str) -> Instruction:
    """Return the instruction that reinterprets 64 bits of one type, int64 or float64, as the other."""

    def cast(typingctx, bits):
        from llvmlite import ir
        from numba import types

        def codegen(context, builder, signature, args):
            return builder.bitcast(args[0], ir.DoubleType() if target == "float64" else ir.IntType(64))

        return getattr(types, target)(getattr(types, source)), codegen

    return Instruction(_unavailable, cast)


word_at, put_word = _reader("uint64"), _writer("uint64")
value_at, put_value = _reader("int64"), _writer("int64")
row_at, put_row = _reader("int32"), _writer("int32")
flag_at, put_flag = _reader("uint8"), _writer("uint8")
fetch = Instruction(_unavailable, _fetch)  # the position may be out of bounds
as_float, float_bits = _bitcast("int64", "float64"), _bitcast("float64", "int64")


@njit(**COMPILED)
def register_value(regs, code, place):
    """Return the value of the register that an instruction names at a place."""
    return value_at(regs, value_at(code, place))


@njit(**COMPILED)
def increase(array, place, by):
    """Add `by` to the int64 at a position of an array."""
    put_value(array, place, value_at(array, place) + by)
