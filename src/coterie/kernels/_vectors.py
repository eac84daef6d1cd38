"""Vector instructions that numba does not emit by itself, written in LLVM's IR, which compiles for any processor.

LLVM vectorises most of numba's loops. But it neither keeps a sum of rows in registers nor turns comparisons into bit
masks, and these two took most of the time besides products.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from coterie.kernels import FEW_LANES, LANES
from coterie.kernels._compiling import compiled

WORD_BITS = 64  # values compared at once

SUM_FLAGS = ("contract", "reassoc")


@intrinsic
def within(typing_context, values, start, bound):
    """Return ``values[start : start + 64] <= bound`` as a word of 64 bits; all of these values must exist."""

    def generate(context, builder, signature, arguments):
        array, at, limit = arguments
        vector = ir.VectorType(context.get_value_type(values.dtype), WORD_BITS)
        some = builder.load(pointer(context, builder, values, array, at, vector), align=size_of(values))
        return builder.bitcast(
            builder.fcmp_ordered("<=", some, repeated(builder, limit, vector)), ir.IntType(WORD_BITS)
        )

    must_be_contiguous(values)
    return types.uint64(values, types.intp, values.dtype), generate


@intrinsic
def first_bit(typing_context, word):
    """Return the number of the lowest bit that is set; 64 if none is."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@intrinsic
def count_bits(typing_context, word):
    """Return the number of set bits."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


def rows_adder(lanes):
    """Return the intrinsic that adds ``lanes`` columns of weighted rows in registers."""

    @intrinsic
    def add_columns(typing_context, indices, weights, start, stop, table, column, out):
        """Add ``weights[s] * table[indices[s]]`` for s in [start, stop) to ``out``: the columns from ``column`` on.

        All of these columns must exist in ``table``, which has two dimensions, and in ``out``.
        """

        def generate(context, builder, signature, arguments):
            numbers, factors, first, last, rows, left, sums = arguments

            def more(s, vector):
                number = builder.zext(builder.load(pointer(context, builder, indices, numbers, s)), first.type)
                factor = builder.load(pointer(context, builder, weights, factors, s))
                row = load_row(context, builder, table, rows, number, left, vector)
                return builder.fmul(repeated(builder, factor, vector), row, flags=SUM_FLAGS)

            return add_vectors(context, builder, out, sums, left, first, last, more, lanes)

        must_be_contiguous(indices, weights, table, out)
        return types.void(indices, weights, types.intp, types.intp, table, types.intp, out), generate

    return add_columns


def gaps_adder(lanes):
    """Return the intrinsic that adds ``lanes`` columns of squared differences in registers."""

    @intrinsic
    def add_columns(typing_context, values, table, column, out):
        """Add ``(values[t] - table[t]) ** 2`` for all t to ``out``: the columns from ``column`` on."""

        def generate(context, builder, signature, arguments):
            numbers, rows, left, sums = arguments
            count = cgutils.unpack_tuple(builder, make_array(table)(context, builder, rows).shape)[0]

            def more(t, vector):
                own = repeated(builder, builder.load(pointer(context, builder, values, numbers, t)), vector)
                gap = builder.fsub(own, load_row(context, builder, table, rows, t, left, vector))
                return builder.fmul(gap, gap, flags=SUM_FLAGS)

            return add_vectors(context, builder, out, sums, left, ir.Constant(left.type, 0), count, more, lanes)

        must_be_contiguous(values, table, out)
        return types.void(values, table, types.intp, out), generate

    return add_columns


many_rows, few_rows = rows_adder(LANES), rows_adder(FEW_LANES)
many_gaps, few_gaps = gaps_adder(LANES), gaps_adder(FEW_LANES)


@compiled()
def add_rows(indices, weights, start, stop, table, out):
    """Add ``weights[s] * table[indices[s]]`` for s in [start, stop) to ``out``, which is as wide as the table."""
    last = table.shape[1] // LANES * LANES
    for column in range(0, last, LANES):
        many_rows(indices, weights, start, stop, table, column, out)
    if last < table.shape[1]:
        few_rows(indices, weights, start, stop, table, last, out)


@compiled()
def add_square_gaps(values, table, out):
    """Add ``(values[t] - table[t]) ** 2`` for all t to ``out``, which is as wide as the table."""
    last = table.shape[1] // LANES * LANES
    for column in range(0, last, LANES):
        many_gaps(values, table, column, out)
    if last < table.shape[1]:
        few_gaps(values, table, last, out)


def add_vectors(context, builder, out_type, out, column, start, stop, more, lanes):
    """Add the vectors ``more(s)`` for s in [start, stop) to ``lanes`` columns of ``out``, from ``column`` on."""
    vector = ir.VectorType(context.get_value_type(out_type.dtype), lanes)
    address = pointer(context, builder, out_type, out, column, vector)
    total = cgutils.alloca_once_value(builder, ir.Constant(vector, None))  # LLVM turns it into a register
    builder.store(builder.load(address, align=size_of(out_type)), total)
    with cgutils.for_range_slice(builder, start, stop, ir.Constant(start.type, 1)) as (s, _):
        builder.store(builder.fadd(builder.load(total), more(s, vector), flags=SUM_FLAGS), total)
    builder.store(builder.load(total), address, align=size_of(out_type))
    return context.get_dummy_value()


def load_row(context, builder, table_type, table, number, column, vector):
    """Return a vector of a table's row, from ``column`` on."""
    width = cgutils.unpack_tuple(builder, make_array(table_type)(context, builder, table).shape)[1]
    at = builder.add(builder.mul(number, width), column)
    return builder.load(pointer(context, builder, table_type, table, at, vector), align=size_of(table_type))


def must_be_contiguous(*arrays):
    """Refuse to compile for arrays that are not C-contiguous: strides are ignored here."""
    for array in arrays:
        if array.layout != "C":
            raise TypingError(f"{array} is not contiguous: copy it with numpy.ascontiguousarray")


def pointer(context, builder, array_type, array, at, kind=None):
    """Return the address of an array's element ``at``, as a pointer to the type ``kind`` if given."""
    address = builder.gep(make_array(array_type)(context, builder, array).data, [at])
    return address if kind is None else builder.bitcast(address, kind.as_pointer())


def repeated(builder, number, vector):
    """Return a vector with ``number`` in every lane."""
    blank = ir.Constant(vector, ir.Undefined)
    lone = builder.insert_element(blank, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(lone, blank, ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None))


def size_of(array_type):
    """Return the size of an array's element in bytes: vectors may begin at any element, so it is their alignment."""
    return array_type.dtype.bitwidth // 8
