"""`mcpost gateway check`, `mcpost gateway explain`, `mcpost export`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.until import DEADLINE

TEXT = """
[[listeners]]
bind = "127.0.0.1:8080"
[upstreams.books]
endpoints = ["http://127.0.0.1:9001/mcp"]
[[rules]]
id = "search"
action = "allow"
method = "tools/call"
name = "search"
"""
HEADERS = ["-H", "MCP-Protocol-Version: 2026-07-28", "-H", "Mcp-Method: tools/call"]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.toml"
    path.write_text(TEXT)
    return path


def run(*words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", "from mcpost.cli.main import main; main()", *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    return done.returncode, done.stdout, done.stderr


def test_check_says_that_a_policy_is_right(policy: Path) -> None:
    status, out, _ = run("gateway", "check", str(policy))
    assert status == 0
    assert "1 rules, 1 upstreams; what no rule decides is denied" in out


def test_check_points_at_what_is_wrong(policy: Path) -> None:
    policy.write_text(f"{TEXT}nmae = 1\n")
    status, _, err = run("gateway", "check", str(policy))
    assert status == 1
    assert f"{policy}:11 rules[0].nmae is not known here; there is 'name'" in err


def test_explain_says_which_rule_decides(policy: Path) -> None:
    _, out, _ = run("gateway", "explain", str(policy), *HEADERS, "-H", "Mcp-Name: search")
    assert "allow by search: to books" in out
    _, out, _ = run("gateway", "explain", str(policy), *HEADERS, "-H", "Mcp-Name: hold")
    assert "name is 'hold', not 'search'" in out
    assert "deny by default: 403" in out


def test_export_writes_for_envoy(policy: Path) -> None:
    _, out, _ = run("export", str(policy), "--to", "envoy")
    assert json.loads(out)["static_resources"]["listeners"][0]["name"] == "listener-0"


def test_export_writes_a_file_and_leaves_it_where_the_policy_is_wrong(
    policy: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mcp.conf"
    words = ("export", str(policy), "--to", "nginx", "--output", str(file))
    assert run(*words, "--idle-timeout", "7") == (0, "", "")
    assert "proxy_read_timeout 7000ms;" in file.read_text()
    policy.write_text(TEXT.replace("name =", "principal ="))
    status, _, err = run(*words)
    assert (status, "cannot be said to nginx" in err) == (1, True)
    assert "proxy_read_timeout 7000ms;" in file.read_text()


@pytest.mark.parametrize(
    "words", [("--idle-timeout", "0"), ("--max-body", "0"), ("--key", "/k"), ("--output", "/")]
)
def test_export_refuses_settings_that_no_engine_would_take(
    policy: Path, words: tuple[str, str]
) -> None:
    status, out, err = run("export", str(policy), "--to", "envoy", *words)
    assert (status, out, err.count("\n")) == (2, "", 1)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    status, _, err = run("gateway", "check", str(tmp_path / "none.toml"))
    assert (status, err.count("\n")) == (1, 1)
