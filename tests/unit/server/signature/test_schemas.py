"""The input schema that a signature and a docstring make."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import subprocess
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from mcpost.errors import UsageError
from mcpost.schema import compile_schema
from tests.helpers.signature import Context, compiled
from tests.helpers.until import DEADLINE


class Sort(enum.Enum):
    TITLE = "title"
    YEAR = "year"


@dataclasses.dataclass
class Page:
    number: int = 1


@pytest.mark.req("F-01/S", "J-07/S")
def test_a_schema_is_plain_json_schema_made_of_the_hints() -> None:
    def search(
        query: str,
        ctx: Context,
        sort: Sort = Sort.TITLE,
        since: datetime.date | None = None,
        limit: Annotated[int, Field(ge=1, le=100)] = 10,
        kind: Literal["book", "map"] = "book",
    ) -> None: ...

    schema = compiled(search).input_schema

    assert schema == {
        "type": "object",
        "$defs": {"Sort": {"type": "string", "enum": ["title", "year"], "title": "Sort"}},
        "properties": {
            "query": {"type": "string"},
            "sort": {"$ref": "#/$defs/Sort", "default": "title"},
            "since": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10},
            "kind": {"type": "string", "enum": ["book", "map"], "default": "book"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    assert compile_schema(schema).check({"query": "a", "sort": "year"}) is None


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    def now() -> None: ...

    assert compiled(now).input_schema == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


def test_defaults_that_json_can_say_are_told() -> None:
    def tool(
        page: Page = Page(3), after: datetime.date = datetime.date(2026, 7, 28), x: Any = object()
    ) -> None: ...

    properties = compiled(tool).input_schema["properties"]

    assert properties["page"]["default"] == {"number": 3}
    assert properties["after"]["default"] == "2026-07-28"
    assert properties["x"] == {}


GOOGLE = """Find books.

Searches titles first.

Args:
    query: What to look for,
        in words.
    limit (int): The most to find.

Returns:
    Books.
"""
NUMPY = """Find books.

Searches titles first.

Parameters
----------
query : str
    What to look for,
    in words.
limit : int
    The most to find.

Returns
-------
list
    Books.
"""
SPHINX = """Find books.

Searches titles first.

:param query: What to look for,
    in words.
:param int limit: The most to find.
:returns: Books.
"""


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["Google", "NumPy", "Sphinx"])
def test_a_docstring_describes_the_tool_and_its_parameters(text: str) -> None:
    def find(
        query: str, limit: Annotated[int, Field(description="From the hint.")] = 5
    ) -> None: ...

    find.__doc__ = text
    function = compiled(find)

    assert function.description == "Find books.\n\nSearches titles first."
    described = {
        name: each["description"] for name, each in function.input_schema["properties"].items()
    }
    assert described == {"query": "What to look for,\nin words.", "limit": "From the hint."}


@pytest.mark.parametrize("text", [None, "", "   ", "Args:\n  x"])
def test_a_docstring_may_be_missing_or_odd(text: str | None) -> None:
    def tool(n: int) -> None: ...

    tool.__doc__ = text

    assert compiled(tool).input_schema["properties"] == {"n": {"type": "integer"}}


class Library:
    """A place with books."""

    def lend(self, book_id: int) -> None:
        """Lend a book."""

    async def __call__(self, query: str) -> str:
        """Search it."""
        return query

    @classmethod
    def open(cls, name: str) -> None:
        """Open one."""


def lend(database: Any, book_id: int, days: int = 14) -> None:
    """Lend a book."""


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(
    ("function", "name", "description", "parameters"),
    [
        pytest.param(Library().lend, "lend", "Lend a book.", ("book_id",), id="a method"),
        pytest.param(Library.open, "open", "Open one.", ("name",), id="a class method"),
        pytest.param(Library(), "Library", "Search it.", ("query",), id="a callable object"),
        pytest.param(
            functools.partial(lend, object()), "lend", None, ("book_id", "days"), id="a partial"
        ),
        pytest.param(
            functools.partial(functools.partial(lend, days=7), database=object()),
            "lend",
            None,
            ("book_id",),
            id="a partial of a partial hides what it has filled",
        ),
        pytest.param(lambda a, b: a, "<lambda>", None, ("a", "b"), id="a lambda"),
    ],
)
def test_any_callable_with_named_parameters_will_do(
    function: Callable[..., Any], name: str, description: str | None, parameters: tuple[str, ...]
) -> None:
    found = compiled(function)

    assert (found.name, found.description) == (name, description)
    assert found.parameters.names == parameters


def test_a_decorated_function_is_known_by_the_one_inside() -> None:
    def inner(n: int) -> int:
        """Count."""
        return n

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    function = compiled(outer)

    assert (function.name, function.description) == ("inner", "Count.")
    assert function.input_schema["properties"] == {"n": {"type": "integer"}}


def test_whether_a_call_has_to_be_awaited_is_known() -> None:
    async def coroutine() -> None: ...
    def plain() -> None: ...

    functions = [coroutine, functools.partial(coroutine), Library(), plain, Library().lend]

    assert [compiled(each).is_async for each in functions] == [True, True, True, False, False]


class Later(BaseModel):
    """Stands below the functions that name it in other modules."""

    n: int


def test_hints_may_be_text_and_name_what_stands_around_the_function() -> None:
    class Local(BaseModel):
        n: int

    def tool(a: Local, b: Later, c: list[Local] | None = None) -> None: ...

    assert compiled(tool).bind({"a": {"n": 1}, "b": {"n": 2}}) == {"a": Local(n=1), "b": Later(n=2)}


def test_the_context_is_known_by_name_where_only_a_type_checker_imports_it() -> None:
    module = types.ModuleType("without_context")
    exec("def tool(n: 'int', ctx: 'Context'): ...", module.__dict__)

    assert compiled(module.tool).context == "ctx"


def rest(*books: int) -> None: ...
def unnamed(book: int, /) -> None: ...
def nowhere(book: Nowhere) -> None: ...  # type: ignore[name-defined] # noqa: F821
def callback(book: Callable[[int], int]) -> None: ...
def foreign(book: types.ModuleType) -> None: ...
def items() -> Iterator[int]:
    yield 1


async def stream() -> AsyncIterator[int]:
    yield 1


@pytest.mark.req("F-01/S")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        pytest.param(rest, r"rest: \*books.* arguments come by name", id="*args"),
        pytest.param(unnamed, "unnamed: book.* arguments come by name", id="positional only"),
        pytest.param(nowhere, "nowhere: .*'Nowhere' is not defined", id="a name that is not there"),
        pytest.param(callback, "callback: a type hint has no JSON Schema", id="a callable"),
        pytest.param(foreign, "foreign: a type hint has no JSON Schema", id="a class of no data"),
        pytest.param(items, "items: a generator .*ctx.progress", id="a generator"),
        pytest.param(stream, "stream: a generator .*ctx.progress", id="an async generator"),
        pytest.param(print, "print: .* arguments come by name", id="a built-in"),
        pytest.param(iter, "iter: it has no signature", id="a built-in without signature"),
    ],
)
def test_a_signature_that_cannot_be_used_is_refused_at_registration(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        compiled(function)


RAW = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "x-unit": "d"}},
    "required": ["city"],
}


@pytest.mark.req("F-01/S", "J-07/S")
def test_an_authors_own_schema_is_served_unchanged_and_kept_to() -> None:
    def forecast(city: Any, days: Any = 3) -> None: ...

    function = compiled(forecast, input_schema=RAW)

    assert function.input_schema is RAW
    assert function.bind({"city": "Oslo", "days": 2, "x": 1}) == {"city": "Oslo", "days": 2}
    with pytest.raises(Exception, match='days: "2" is not of type "integer"'):
        function.bind({"city": "Oslo", "days": "2"})


@pytest.mark.req("F-01/S")
def test_with_a_schema_of_its_own_a_function_may_take_all_arguments_as_one() -> None:
    def one(arguments: dict[str, Any], ctx: Context) -> None: ...
    def rest(**arguments: Any) -> None: ...

    sent = {"city": "Oslo", "x": 1}

    assert compiled(one, input_schema=RAW).bind(sent) == {"arguments": sent}
    assert compiled(rest, input_schema=RAW).bind(sent) == sent


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        pytest.param({"type": "array"}, '"type": "object"', id="no object"),
        pytest.param({}, '"type": "object"', id="nothing"),
        pytest.param({"type": "object", "$schema": "urn:x"}, "dialect", id="an unknown dialect"),
        pytest.param({**RAW, "required": []}, "differ in city", id="a parameter left unfilled"),
        pytest.param(
            {**RAW, "properties": {"city": {}, "zone": {}}}, "differ in zone", id="no parameter"
        ),
    ],
)
def test_an_authors_schema_that_does_not_fit_is_refused(schema: Any, message: str) -> None:
    def forecast(city: Any, days: Any = 3) -> None: ...

    with pytest.raises(UsageError, match=message):
        compiled(forecast, input_schema=schema)


def test_pydantic_is_loaded_when_the_first_function_is_compiled() -> None:
    program = (
        "import sys, mcpost, mcpost.server.app, mcpost.server.marks;"
        "print('pydantic' in sys.modules);"
        "import mcpost.server.signature; print('pydantic' in sys.modules)"
    )

    result = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=DEADLINE)

    assert result.stdout.split() == [b"False", b"True"], result.stderr
