"""From a Python function to what the protocol needs of it.

The only room that knows pydantic: it makes the input schema, the validator of arguments and the
shape of results from one source, the function's type hints. Importing it loads pydantic, so it is
imported when the first tool is registered.
"""

from __future__ import annotations

from mcpost.server.signature.function import Function, SecretMirroredWarning, compile_function
from mcpost.server.signature.models import Model
from mcpost.server.signature.parameters import Asked
from mcpost.server.signature.results import shape_result

__all__ = (
    "Asked",
    "Function",
    "Model",
    "SecretMirroredWarning",
    "compile_function",
    "shape_result",
)
