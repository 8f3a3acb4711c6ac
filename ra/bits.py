"""Machine instructions for kernels for which numba has no function."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Instruction:
    """A machine instruction for kernels. uncompiled: its definition in Python; compiled: the function that generates its code,
    as `numba.extending.intrinsic` requires.
    """

    uncompiled: Callable
    compiled: Callable

    def __call__(self, *given):
        return self.uncompiled(*given)

    @cached_property
    def _numba_type_(self):
        """The numba type of the compiled instruction, which numba asks for when it compiles a kernel that uses it."""
        from numba.extending import intrinsic

        from semi_naive.host.kernel_cache import type_of

        return type_of(intrinsic(self.compiled))


def _lowest_bit(typingctx, word):
    """Generate the instruction that returns the position of a word's lowest set bit."""
    from llvmlite import ir
    from numba import types

    def codegen(context, builder, signature, args):
        zero_is_undefined = ir.Constant(ir.IntType(1), 1)  # saves a test: the word is not zero
        return builder.cttz(args[0], zero_is_undefined)

    return types.uint64(types.uint64), codegen


def _count_bits(typingctx, word):
    """Generate the instruction that returns the number of bits of a word that are set."""
    from numba import types

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


def _prefetch(typingctx, data, at):
    """Generate the instruction that begins to load data[at] into the cache."""
    from numba import types

    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        generate_prefetch(builder, builder.gep(array.data, [args[1]]))
        return context.get_dummy_value()  # the instruction returns nothing

    return types.void(data, types.int64), codegen


def generate_prefetch(builder, pointer) -> None:
    """Generate the prefetch of the memory at a pointer."""
    from llvmlite import ir

    byte, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
    called = ir.FunctionType(ir.VoidType(), [byte, int32, int32, int32])
    read, closest, data_cache = (ir.Constant(int32, number) for number in (0, 3, 1))
    instruction = builder.module.declare_intrinsic("llvm.prefetch", [byte], called)
    builder.call(instruction, [builder.bitcast(pointer, byte), read, closest, data_cache])


# Return the position of the lowest set bit of a uint64 that is not zero.
lowest_bit = Instruction(lambda word: np.uint64((int(word) & -int(word)).bit_length() - 1), _lowest_bit)

# Return the number of set bits of a uint64.
count_bits = Instruction(lambda word: np.uint64(int(word).bit_count()), _count_bits)

# Begin to load data[at] from memory, because it is read soon. The position may be beyond the end.
prefetch = Instruction(lambda data, at: None, _prefetch)
