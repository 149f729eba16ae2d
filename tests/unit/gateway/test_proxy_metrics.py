"""Figures whose labels are bounded (gateway.metrics)."""

from __future__ import annotations

from mcpost.gateway.metrics import Metrics


def count(metrics: Metrics, name: str) -> None:
    metrics.count("tools/call", name, verdict="allow", upstream="u", status=200, seconds=0.002)


def test_names_beyond_the_bound_count_together() -> None:
    metrics = Metrics(max_names=2)
    for name in ("a", "b", "c", "d", "a"):
        count(metrics, name)

    text = metrics.render({}).decode()

    assert 'name="a",verdict="allow",upstream="u",status="200"} 2' in text
    assert 'name="(other)",verdict="allow",upstream="u",status="200"} 2' in text
    assert 'name="c"' not in text


def test_a_label_is_escaped() -> None:
    metrics = Metrics()
    count(metrics, 'a"\\\n')

    assert 'name="a\\"\\\\\\n"' in metrics.render({}).decode()


def test_durations_are_cumulative() -> None:
    metrics = Metrics()
    count(metrics, "a")

    lines = metrics.render({"open_streams": 3}).decode().splitlines()

    assert 'mcpost_gateway_request_seconds_bucket{le="0.001"} 0' in lines
    assert 'mcpost_gateway_request_seconds_bucket{le="0.0025"} 1' in lines
    assert 'mcpost_gateway_request_seconds_bucket{le="+Inf"} 1' in lines
    assert "mcpost_gateway_open_streams 3" in lines
