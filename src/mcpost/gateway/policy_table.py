"""One table of a policy file, read key by key.

Every key that is asked for is checked for its type, and `finish` refuses what nobody has asked
for, so that a misspelt condition never silently asks nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

from mcpost.errors import PolicyError
from mcpost.gateway.policy_lines import Lines

__all__ = ("Table",)


class Table:
    """A table and its place in the file."""

    def __init__(self, raw: Mapping[str, Any], place: str, lines: Lines, file: str) -> None:
        self.raw = raw
        self.place = place
        self._lines = lines
        self._file = file
        self._asked: set[str] = set()

    @property
    def line(self) -> int:
        """The line where it begins; 0 where that is not known."""
        return self._lines.of(self.place)

    def error(self, key: str, message: str) -> PolicyError:
        """Make the error that points at a key."""
        place = f"{self.place}.{key}" if self.place and key else self.place or key
        return PolicyError(message, file=self._file, line=self._lines.of(place), key=place)

    def fail(self, key: str, message: str) -> NoReturn:
        """Raise the error that points at a key."""
        raise self.error(key, message)

    def hint(self, wrong: str, right: Iterable[str]) -> str:
        """Say what would be right, the likeliest alone where one is near."""
        known = sorted(right)
        near = get_close_matches(wrong, known, 1)
        return repr(near[0]) if near else ", ".join(map(repr, known)) or "none"

    def take(self, key: str) -> Any:
        """The value of a key as it is, `None` where it is absent."""
        self._asked.add(key)
        return self.raw.get(key)

    def text(self, key: str, default: str | None = None) -> str | None:
        """A text that is not empty."""
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, str) or not value:
            self.fail(key, "is a text that is not empty")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A text or a list of texts; none where the key is absent."""
        value = self.take(key)
        if value is None:
            return ()
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not found:
            self.fail(key, "is a text or a list of texts that is not empty")
        if not all(isinstance(item, str) and item for item in found):
            self.fail(key, "has something in its list that is no text, or an empty one")
        return tuple(found)

    def flag(self, key: str) -> bool:
        """`true` or `false`; `False` where the key is absent."""
        value = self.take(key)
        if value is not None and not isinstance(value, bool):
            self.fail(key, "is true or false, without quotes")
        return bool(value)

    def number(self, key: str, default: float | None = None) -> float:
        """A number above 0."""
        value = self.take(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.fail(key, "is needed: a number above 0")
        if not 0 < value < 1e12:
            self.fail(key, "is a number above 0")
        return value

    def whole(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number in a range."""
        value = self.take(key)
        if value is None and default is not None:
            return default
        if type(value) is not int or not low <= value <= high:
            self.fail(key, f"is a whole number from {low} to {high}")
        return value

    def choice(self, key: str, choices: tuple[str, ...], default: str | None) -> str | None:
        """One of a few words."""
        value = self.text(key, default)
        if value is not None and value not in choices:
            self.fail(key, f"is {value!r}, and has to be {' or '.join(map(repr, choices))}")
        return value

    def table(self, key: str) -> Table | None:
        """A table inside this one."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.fail(key, "is a table")
        return Table(value, f"{self.place}.{key}".lstrip("."), self._lines, self._file)

    def tables(self, key: str) -> Iterator[Table]:
        """The tables of a list, as [[key]] writes them."""
        value = self.take(key)
        if value is None:
            return
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.fail(key, f"is a list of tables: write [[{key}]]")
        for index, item in enumerate(value):
            yield Table(item, f"{key}[{index}]", self._lines, self._file)

    def named_tables(self, key: str) -> Iterator[tuple[str, Table]]:
        """The tables of a table, as [key.name] writes them."""
        parent = self.table(key)
        if parent is None:
            return
        for name in parent.raw:
            child = parent.table(name)
            if child is not None:
                yield name, child

    def finish(self) -> None:
        """Refuse a key that nobody has asked for."""
        for key in self.raw:
            if key not in self._asked:
                self.fail(key, f"is not known here; there is {self.hint(key, self._asked)}")
