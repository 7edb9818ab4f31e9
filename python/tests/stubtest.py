#!/usr/bin/env python3
"""mypy's stubtest, which knows the functions and classes of C++ too. Arguments: stubtest's.

Of itself, it takes nanobind's functions for objects without a signature, and reports all classes for
their metaclass. Here their signature is the one that nanobind keeps."""

import ast
import inspect
import re
import sys
from typing import Any

from mypy import stubtest

KINDS = inspect.Parameter


def is_from_cpp(runtime: Any) -> bool:
    return type(runtime).__name__ in ("nb_func", "nb_method", "nb_bound_method")


def signature_of(text: str, defaults: tuple[Any, ...]) -> inspect.Signature:
    r"""Of `def f(self, arg: int, /, n: int = \1) -> str`, where \1 is the second of the defaults; \=1 is
    one whose text was given. A signature that was given as a whole has its defaults in it."""
    numbers = re.findall(r"= \\(=?)(\d+)", text)
    defined = ast.parse(re.sub(r"= \\=?\d+", "= ...", text) + ": ...").body[0]
    assert isinstance(defined, ast.FunctionDef)
    args = defined.args
    values = iter([... if given else defaults[int(number)] for given, number in numbers])

    def default_of(node: ast.expr) -> Any:
        written = ast.literal_eval(node)
        return next(values, ...) if written is ... else written

    kinds = [(arg, KINDS.POSITIONAL_ONLY) for arg in args.posonlyargs]
    kinds += [(arg, KINDS.POSITIONAL_OR_KEYWORD) for arg in args.args]
    without = len(kinds) - len(args.defaults)
    parameters = [
        KINDS(arg.arg, kind, default=default_of(args.defaults[i - without]) if i >= without else KINDS.empty)
        for i, (arg, kind) in enumerate(kinds)
    ]
    if args.vararg:
        parameters.append(KINDS(args.vararg.arg, KINDS.VAR_POSITIONAL))
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        value = KINDS.empty if default is None else default_of(default)
        parameters.append(KINDS(arg.arg, KINDS.KEYWORD_ONLY, default=value))
    if args.kwarg:
        parameters.append(KINDS(args.kwarg.arg, KINDS.VAR_KEYWORD))
    return inspect.Signature(parameters)


plain_is_function = stubtest.is_probably_a_function
plain_signature = stubtest.safe_inspect_signature
plain_metaclass = stubtest._verify_metaclass


def is_function(runtime: Any) -> bool:
    return is_from_cpp(runtime) or plain_is_function(runtime)


def signature(runtime: Any) -> inspect.Signature | None:
    if is_from_cpp(runtime):
        overloads = runtime.__nb_signature__
        # Of an overloaded one, stubtest compares what all have; it needs one signature.
        return signature_of(overloads[0][0], overloads[0][2] or ()) if len(overloads) == 1 else None
    if type(runtime).__name__ == "wrapper_descriptor" and runtime.__name__ == "__init__":
        return None  # a class that only C++ makes
    return plain_signature(runtime)


def metaclass(stub: Any, runtime: Any, *args: Any, **named: Any) -> Any:
    return iter(()) if type(runtime).__name__ == "nb_type" else plain_metaclass(stub, runtime, *args, **named)


stubtest.is_probably_a_function = is_function
stubtest.safe_inspect_signature = signature
stubtest._verify_metaclass = metaclass
sys.exit(stubtest.main())
