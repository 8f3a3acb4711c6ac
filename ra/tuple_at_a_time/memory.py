"""Memory access of kernels: intrinsics that read and write a number at a position of an array given by its address. The caller
keeps the array alive.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from semi_naive.host import jit
from semi_naive.host.jit import njit
from semi_naive.ra.words import JIT

address = jit.types.int64  # of an array, where a kernel takes one
COMPILED = {"error_model": "numpy", "few": -1, **JIT}  # no exceptions: every kernel tests for errors itself

_BITS = {types.uint64: 64, types.int64: 64, types.int32: 32, types.uint8: 8}


def _reader(kind):
    """Return the implementation of an intrinsic that reads a number of a type at a position of an array."""

    def read(typingctx, address, place):
        def codegen(context, builder, signature, args):
            return builder.load(_pointer(builder, kind, args))

        return kind(types.int64, types.int64), codegen

    return read


def _writes(kind):
    """Return the implementation of an intrinsic that writes a number of a type to a position of an array."""

    def write(typingctx, address, place, value):
        def codegen(context, builder, signature, args):
            builder.store(args[2], _pointer(builder, kind, args))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, kind), codegen

    return write


def _pointer(builder, kind, args):
    width = ir.IntType(_BITS[kind])
    return builder.gep(builder.inttoptr(args[0], width.as_pointer()), [args[1]])


@intrinsic
def word_at(typingctx, address, place):
    """Return the uint64 at a position of an array."""
    return _reader(types.uint64)(typingctx, address, place)


@intrinsic
def put_word(typingctx, address, place, value):
    """Write a uint64 to a position of an array."""
    return _writes(types.uint64)(typingctx, address, place, value)


@intrinsic
def value_at(typingctx, address, place):
    """Return the int64 at a position of an array."""
    return _reader(types.int64)(typingctx, address, place)


@intrinsic
def put_value(typingctx, address, place, value):
    """Write an int64 to a position of an array."""
    return _writes(types.int64)(typingctx, address, place, value)


@intrinsic
def row_at(typingctx, address, place):
    """Return the int32 at a position of an array."""
    return _reader(types.int32)(typingctx, address, place)


@intrinsic
def put_row(typingctx, address, place, value):
    """Write an int32 to a position of an array."""
    return _writes(types.int32)(typingctx, address, place, value)


@intrinsic
def flag_at(typingctx, address, place):
    """Return the uint8 at a position of an array."""
    return _reader(types.uint8)(typingctx, address, place)


@intrinsic
def put_flag(typingctx, address, place, value):
    """Write a uint8 to a position of an array."""
    return _writes(types.uint8)(typingctx, address, place, value)


@intrinsic
def fetch(typingctx, address, place):
    """Prefetch a position of an array of 64-bit numbers; it may be out of bounds."""

    def codegen(context, builder, signature, args):
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        signature_type = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        read, most, data_cache = (ir.Constant(whole, number) for number in (0, 3, 1))
        pointer = builder.bitcast(_pointer(builder, types.int64, args), byte)
        builder.call(
            builder.module.declare_intrinsic("llvm.prefetch", [byte], signature_type), [pointer, read, most, data_cache]
        )
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def as_float(typingctx, bits):
    """Return the float64 with these 64 bits."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic
def float_bits(typingctx, number):
    """Return the 64 bits of a float64."""

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@njit(**COMPILED)
def register_value(regs, code, place):
    """Return the value of the register that an instruction names at a place."""
    return value_at(regs, value_at(code, place))


@njit(**COMPILED)
def increase(array, place, by):
    """Add `by` to the int64 at a position of an array."""
    put_value(array, place, value_at(array, place) + by)
