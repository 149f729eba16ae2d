"""Figures of a gateway in the text format of Prometheus.

Labels are bounded in number: of names that callers chose the first `max_names` count for
themselves, the others together.

Spec: Prometheus exposition format 0.0.4.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

__all__ = ("CONTENT_TYPE", "Metrics")

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"

_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_OTHER: Final = "(other)"

_Labels = tuple[tuple[str, str], ...]
_Key = tuple[str, str, str, str, int]


class Metrics:
    """Counts requests.

    Args:
        max_names: Names, and methods, that are told apart.
    """

    def __init__(self, max_names: int = 200) -> None:
        self._max_names = max_names
        self._methods: set[str] = set()
        self._names: set[str] = set()
        self._requests: dict[_Key, int] = {}
        self._known: dict[tuple[str | None, str | None, str, str | None, int], _Key] = {}
        """Labels of what was counted before; bounded by the names that are told apart."""
        self._buckets = [0] * (len(_BOUNDS) + 1)
        self._seconds = 0.0
        self.refused_heads = 0
        """Requests whose headers could not be decided on, or did not agree with the body."""
        self.reloads: Counter[str] = Counter()
        """Policies that were read again: `ok`, and `failed`."""
        self.cache: Counter[str] = Counter()
        """Requests for which the shared cache was asked: `hit`, and `miss`."""

    def count(
        self,
        method: str | None,
        name: str | None,
        *,
        verdict: str,
        upstream: str | None,
        status: int,
        seconds: float,
    ) -> None:
        """Count one request that has ended."""
        given = (method, name, verdict, upstream, status)
        labels = self._known.get(given)
        if labels is None:
            bounded = self._bounded(self._methods, method), self._bounded(self._names, name)
            labels = (*bounded, verdict, upstream or "", status)
            self._requests.setdefault(labels, 0)
            if _OTHER not in bounded:
                self._known[given] = labels
        self._requests[labels] += 1
        self._buckets[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds += seconds
        self.refused_heads += verdict == "refuse"

    def render(self, gauges: dict[str, int]) -> bytes:
        """Write all figures.

        Args:
            gauges: Further values of this moment, by the end of their name.
        """
        lines = ["# TYPE mcpost_gateway_requests_total counter"]
        names = ("method", "name", "verdict", "upstream", "status")
        for values, count in sorted(self._requests.items()):
            labels = _write(tuple(zip(names, map(str, values), strict=True)))
            lines.append(f"mcpost_gateway_requests_total{labels} {count}")
        lines.append("# TYPE mcpost_gateway_request_seconds histogram")
        total = 0
        for bound, count in zip((*map(str, _BOUNDS), "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'mcpost_gateway_request_seconds_bucket{{le="{bound}"}} {total}')
        lines.append(f"mcpost_gateway_request_seconds_sum {self._seconds:.6f}")
        lines.append(f"mcpost_gateway_request_seconds_count {total}")
        lines.append("# TYPE mcpost_gateway_refused_heads_total counter")
        lines.append(f"mcpost_gateway_refused_heads_total {self.refused_heads}")
        lines.append("# TYPE mcpost_gateway_reloads_total counter")
        lines += [
            f'mcpost_gateway_reloads_total{{result="{result}"}} {self.reloads[result]}'
            for result in ("ok", "failed")
        ]
        lines.append("# TYPE mcpost_gateway_cache_requests_total counter")
        lines += [
            f'mcpost_gateway_cache_requests_total{{result="{result}"}} {self.cache[result]}'
            for result in ("hit", "miss")
        ]
        for name, value in gauges.items():
            lines.append(f"# TYPE mcpost_gateway_{name} gauge")
            lines.append(f"mcpost_gateway_{name} {value}")
        return ("\n".join(lines) + "\n").encode()

    def _bounded(self, known: set[str], value: str | None) -> str:
        if value is None:
            return ""
        if value not in known:
            if len(known) >= self._max_names:
                return _OTHER
            known.add(value)
        return value


def _write(labels: _Labels) -> str:
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
