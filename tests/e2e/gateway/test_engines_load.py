"""Envoy and nginx take every configuration that is exported, whatever the policy calls things."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mcpost.gateway.export.settings import ExportSettings
from mcpost.gateway.policy_read import read_policy
from tests.e2e.gateway.engines import command_of, write_exported
from tests.helpers.ports import free_port
from tests.unit.http11.sockets import make_certificate

WORDS = json.dumps("a \"b\" 'c' $host %PROTOCOL% {x}; \\ # \n \u00e9 \u65e5")
UPSTREAM = '[upstreams.a]\nendpoints = ["http://127.0.0.1:9/mcp"]\n'
ALLOW = '[[rules]]\naction = "allow"\n'
POLICIES = {
    "words": f'{UPSTREAM}[[rules]]\naction = "deny"\nid = {WORDS}\nmessage = {WORDS}\n',
    "names": UPSTREAM
    + ALLOW
    + "name = ['a\"b', 'a$b', 'a\\b', 'a{2}', '(?i)a|b', '*[^x]*', '#', ';', '%', '=?x']\n"
    + "param.Region = ['a\"b', 'a$b', 'a\\b', 'a{2}', '.*', '~x', 'default', 'hostnames']\n"
    + "[[rules]]\naction = 'allow'\nmethod = ['a.b', 'default', 'x/$y']\n",
    "upstreams": 'upstream = "a b;"\ndefault = "allow"\n[upstreams."a b;"]\n'
    'endpoints = ["http://127.0.0.1:9/mcp", "http://[::1]:9/mcp"]\n[upstreams."a b:"]\n'
    'endpoints = ["https://127.0.0.1/"]\n',
    "sharded": UPSTREAM
    + "".join(f"{ALLOW}method = 'm{n}'\nshard = 'param.X'\n" for n in range(3))
    + f"{ALLOW}rate = {{ requests = 1000, per = 1, burst = 5000 }}\n",
    "no rules": UPSTREAM,
    "deny long": f'{UPSTREAM}[[rules]]\naction = "deny"\nmessage = "{"m" * 3000}"\n',
    "many": UPSTREAM + "".join(f"{ALLOW}name = 'tool-{n}'\nparam.P{n} = 'x'\n" for n in range(60)),
}
BINDS = {
    "all": ('":{port}"', "/"),
    "six": ('"[::1]:{port}"', "/a/b-c.d/"),
    "four": ('"127.0.0.1:{port}"', "/mcp"),
}


@pytest.mark.parametrize("kind", ["envoy", "nginx"])
@pytest.mark.parametrize("name", POLICIES)
def test_an_engine_takes_what_is_exported(name: str, kind: str, tmp_path: Path) -> None:
    check_loads(kind, POLICIES[name] + listener_of("four"), tmp_path, ExportSettings())


@pytest.mark.parametrize("kind", ["envoy", "nginx"])
def test_an_engine_takes_several_listeners_with_tls(kind: str, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    settings = ExportSettings(
        authorities=str(certificate), certificate=str(certificate), key=str(key)
    )
    listeners = "".join(map(listener_of, BINDS))
    check_loads(kind, POLICIES["upstreams"] + listeners, tmp_path, settings)


def listener_of(name: str) -> str:
    bind, path = BINDS[name]
    where = bind.format(port=free_port())
    return f'[[listeners]]\nname = "{name}"\nbind = {where}\npath = "{path}"\n'


def check_loads(kind: str, text: str, where: Path, settings: ExportSettings) -> None:
    write_exported(kind, read_policy(text), where, settings)
    command = command_of(kind, where)
    more = ["--mode", "validate"] if kind == "envoy" else ["-t"]
    done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    # With many rules nginx would have another setting larger, which stands outside of the export.
    warned = [line for line in done.stderr.splitlines() if "[warn]" in line]
    assert all("variables_hash" in line for line in warned), warned
