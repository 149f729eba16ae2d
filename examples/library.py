"""A library on SQLite: `mcpost serve examples/library.py:server`.

The database is a temporary file, gone with the process; `LIBRARY_DB=/path/to/file` keeps it. It is
filled from library.csv when it is new.
"""

from __future__ import annotations

import asyncio
import csv
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mcpost import Context, Mirror, NotFound, Server, ToolError

SEED = Path(__file__).with_name("library.csv")
TABLES = """
CREATE TABLE books (
  id INTEGER PRIMARY KEY, title TEXT, author TEXT, year INTEGER, subject TEXT, region TEXT
);
CREATE TABLE words (word TEXT, book_id INTEGER, PRIMARY KEY (word, book_id)) WITHOUT ROWID;
CREATE TABLE holds (id INTEGER PRIMARY KEY, book_id INTEGER);
CREATE TABLE runs (id INTEGER PRIMARY KEY, state TEXT, done INTEGER, steps INTEGER);
"""

Region = Literal["eu", "us", "apac"]

server = Server(
    "library",
    version="1.0",
    title="A small library",
    instructions="Search first; `place_hold` takes the id of a book that `search` found.",
)


@dataclass
class Book:
    """A book and where its copy stands."""

    id: int
    title: str
    author: str
    year: int
    subject: str
    region: str


@dataclass
class Hold:
    """A hold, and how many come before it."""

    id: int
    book_id: int
    title: str
    waiting: int


@dataclass
class Run:
    """What one run of `reindex` did."""

    state: str
    done: int
    steps: int


@cache
def database() -> Path:
    """Give the path of the database; make and fill it where it is new."""
    named = os.environ.get("LIBRARY_DB")
    if named is None:
        # Kept by the function's cache; removed when the process ends.
        database.folder = tempfile.TemporaryDirectory(prefix="library-")  # type: ignore[attr-defined]
        named = f"{database.folder.name}/library.sqlite3"  # type: ignore[attr-defined]
    path = Path(named)
    if not path.exists():
        with connection(path) as rows, SEED.open(encoding="utf-8", newline="") as seed:
            rows.executescript("PRAGMA journal_mode = WAL;" + TABLES)
            books = [tuple(row.values()) for row in csv.DictReader(seed)]
            rows.executemany("INSERT INTO books VALUES (?, ?, ?, ?, ?, ?)", books)
            index(rows, 0, len(books) + 1)
    return path


@contextmanager
def connection(path: Path | None = None) -> Iterator[sqlite3.Connection]:
    """Give a connection; commit at the end."""
    rows = sqlite3.connect(path or database(), timeout=5)
    rows.row_factory = sqlite3.Row
    try:
        with rows:
            yield rows
    finally:
        rows.close()


def index(rows: sqlite3.Connection, first: int, last: int) -> None:
    """Index the words of the books with `first <= id < last`."""
    rows.execute("DELETE FROM words WHERE book_id >= ? AND book_id < ?", (first, last))
    for book in rows.execute("SELECT * FROM books WHERE id >= ? AND id < ?", (first, last)):
        text = f"{book['title']} {book['author']} {book['subject']}".casefold()
        words = {(word, book["id"]) for word in re.findall(r"\w+", text)}
        rows.executemany("INSERT INTO words VALUES (?, ?)", sorted(words))


@server.tool(annotations={"readOnlyHint": True})
def search(
    query: Annotated[str, Field(description="Words of the title, author or subject")],
    region: Annotated[Region | None, Mirror("Region")] = None,
    limit: Annotated[int, Field(ge=1, le=50)] = 10,
) -> list[Book]:
    """Find books whose title, author and subject have all words of the query."""
    words = re.findall(r"\w+", query.casefold())
    clauses = ["id IN (SELECT book_id FROM words WHERE word LIKE ? || '%')" for _ in words]
    values: list[str | int] = list(words)
    if region is not None:
        clauses.append("region = ?")
        values.append(region)
    where = " AND ".join(clauses) or "TRUE"
    with connection() as rows:
        found = rows.execute(
            f"SELECT * FROM books WHERE {where} ORDER BY id LIMIT ?", (*values, limit)
        )
        return [Book(**row) for row in found]


@server.tool(annotations={"destructiveHint": False})
def place_hold(book_id: int) -> Hold:
    """Reserve a book for the next person in line."""
    with connection() as rows:
        book = rows.execute("SELECT title FROM books WHERE id = ?", (book_id,)).fetchone()
        if book is None:
            raise ToolError(f"there is no book {book_id}; search for one first")
        waiting = rows.execute("SELECT count(*) FROM holds WHERE book_id = ?", (book_id,))
        (before,) = waiting.fetchone()
        made = rows.execute("INSERT INTO holds (book_id) VALUES (?)", (book_id,))
        hold = Hold(made.lastrowid or 0, book_id, book["title"], before)
    server.notify_resource_updated("library://holds")
    return hold


@server.tool(annotations={"idempotentHint": True})
async def reindex(
    ctx: Context,
    steps: Annotated[int, Field(ge=1, le=1000)] = 40,
    delay: Annotated[float, Field(ge=0, le=10)] = 0.05,
) -> Run:
    """Index all books again, in steps; a caller who leaves stops it after the step it is in."""
    with connection() as rows:
        made = rows.execute("INSERT INTO runs (state, done, steps) VALUES ('runs', 0, ?)", (steps,))
        (last,) = rows.execute("SELECT max(id) + 1 FROM books").fetchone()
    run, state = made.lastrowid, "cancelled"
    done = 0
    try:
        for step in range(steps):
            with connection() as rows:
                index(rows, last * step // steps, last * (step + 1) // steps)
                rows.execute("UPDATE runs SET done = ? WHERE id = ?", (step + 1, run))
            done = step + 1
            ctx.progress(done, steps, f"indexed {done} of {steps}")
            await asyncio.sleep(delay)
        state = "finished"
    finally:
        with connection() as rows:
            rows.execute("UPDATE runs SET state = ? WHERE id = ?", (state, run))
    return Run(state, done, steps)


@server.resource("library://books", mime_type="application/json")
def books() -> list[Book]:
    """All books."""
    with connection() as rows:
        return [Book(**row) for row in rows.execute("SELECT * FROM books ORDER BY id")]


@server.resource("library://books/{book_id}", mime_type="application/json")
def book(book_id: int) -> Book:
    """One book."""
    with connection() as rows:
        row = rows.execute("SELECT * FROM books WHERE id = ?", (book_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no book {book_id}")
    return Book(**row)


@server.resource("library://holds", mime_type="application/json")
def holds() -> list[dict[str, int]]:
    """All holds, oldest first."""
    with connection() as rows:
        return [dict(row) for row in rows.execute("SELECT id, book_id FROM holds ORDER BY id")]


@server.resource("library://runs", mime_type="application/json")
def runs() -> list[Run]:
    """What each run of `reindex` did, newest first."""
    with connection() as rows:
        found = rows.execute("SELECT state, done, steps FROM runs ORDER BY id DESC")
        return [Run(**row) for row in found]


@server.prompt
def recommend(subject: str, count: str = "3") -> str:
    """Ask for books about a subject."""
    return (
        f"Recommend {count} books about {subject} from this library. Look with `search` first,"
        " name author and year, and say in one sentence each why they are worth reading."
    )


@server.completion("recommend", "subject")
def subjects(value: str) -> list[str]:
    """Subjects of the catalogue."""
    with connection() as rows:
        found = rows.execute(
            "SELECT DISTINCT subject FROM books WHERE subject LIKE ? || '%' ORDER BY 1", (value,)
        )
        return [subject for (subject,) in found]


@server.completion("library://books/{book_id}", "book_id")
def book_ids(value: str) -> list[str]:
    """Ids of books that begin so."""
    with connection() as rows:
        found = rows.execute("SELECT id FROM books WHERE id LIKE ? || '%' ORDER BY id", (value,))
        return [str(book_id) for (book_id,) in found]


if __name__ == "__main__":
    server.run()
