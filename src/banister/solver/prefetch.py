"""A processor hint: fetch what will be read soon, while the arithmetic on this row goes on."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line that holds `array[index]`, a 1-D array; no effect on results."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32]),
            "llvm.prefetch.p0",
        )
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte_pointer)
        builder.call(function, [place, int32(0), int32(3), int32(1)])  # a read, keep close, data
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
