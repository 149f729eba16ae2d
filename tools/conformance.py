"""Run the official conformance suite, strictly.

`python -m tools.conformance [LEG …]` runs the legs (all by default), prints a line a leg and what
is wrong in it, and exits 1 if anything is. Stricter than the suite itself: a warning (a missed
SHOULD) is a failure, and so is a scenario without one successful check, which the suite ticks off.

The suite needs Node 22 or newer; where there is none, one is installed beside it from npm. Both go
to `.conformance/`, or to the directory that CONFORMANCE_HOME names.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SUITE = "@modelcontextprotocol/conformance"
VERSION = "0.2.0-alpha.12"
TYPESCRIPT = "@modelcontextprotocol/client"
TYPESCRIPT_VERSION = "2.4.0"
PACKAGES = {
    SUITE: VERSION,
    TYPESCRIPT: TYPESCRIPT_VERSION,
    # For the tests of our client against the TypeScript server.
    "@modelcontextprotocol/server": "2.4.0",
    "@modelcontextprotocol/node": "2.1.2",
    "zod": "4.1.13",
    # Servers of earlier revisions, likewise.
    "@modelcontextprotocol/server-everything": "2026.8.31",
    "@modelcontextprotocol/server-filesystem": "2026.8.31",
    "@modelcontextprotocol/server-memory": "2026.8.31",
}
EARLIER = "mcp>=1.28,<2"
"""The official package before 2.0; it needs an environment of its own."""
NODE = "22"
ROOT = Path(__file__).parent.parent
HOME = Path(os.environ.get("CONFORMANCE_HOME", ROOT / ".conformance"))
ALLOW_ALL = """default = "allow"
upstream = "server"
legacy = "inspect"

[[listeners]]
name = "main"
bind = "127.0.0.1:{port}"

[upstreams.server]
endpoints = ["{url}"]
audience = true
"""
"""A policy under which the gateway may be seen in nothing."""
START_TIMEOUT = 30.0
LEG_TIMEOUT = 600.0


class Leg(NamedTuple):
    """One run of the suite."""

    side: str
    """Which of our ends is tested: `server`, the same through the `gateway`, or `client`."""
    revision: str
    pattern: str = "."
    """Which scenarios, as a regular expression on their names (client side)."""


LEGS = {
    "server-2026-07-28": Leg("server", "2026-07-28"),
    "server-2025-11-25": Leg("server", "2025-11-25"),
    "gateway-2026-07-28": Leg("gateway", "2026-07-28"),
    "gateway-2025-11-25": Leg("gateway", "2025-11-25"),
    "client-2026-07-28": Leg("client", "2026-07-28", r"^(?!auth/)"),
    "client-2025-11-25": Leg("client", "2025-11-25", r"^(?!auth/)"),
}


def main(names: list[str]) -> int:
    """Run legs by name; gives the exit status."""
    unknown = [name for name in names if name not in LEGS]
    if unknown:
        print(f"no such leg: {', '.join(unknown)}; there are {', '.join(LEGS)}", file=sys.stderr)
        return 2
    suite = install()
    green = [run(suite, name, LEGS[name]) for name in names or LEGS]
    if not names:
        green.append(run_typescript(suite[0]))
    print(f"conformance: {sum(green)} passed, {len(green) - sum(green)} failed")
    return 0 if all(green) else 1


def install() -> list[str]:
    """Put the suite, and Node if needed, into HOME; gives the command that runs it."""
    HOME.mkdir(parents=True, exist_ok=True)
    missing = [name for name, version in PACKAGES.items() if installed_version(name) != version]
    if missing or find_node() is None:
        # All at once: npm takes away what is not among what it is asked for.
        wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
        machine = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, "")
        if machine:
            wanted.append(f"node-linux-{machine}@{NODE}")
        npm = shutil.which("npm")
        if npm is None:
            sys.exit("npm is needed to install the conformance suite")
        (HOME / "package.json").write_text('{"private": true}\n')
        quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([npm, "install", *quiet, *wanted], cwd=HOME, check=True)
    earlier = HOME / "earlier"
    if not (earlier / "bin" / "mcp").exists():
        venv.create(earlier, with_pip=True, clear=True)
        pip = [str(earlier / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "--disable-pip-version-check", EARLIER], check=True)
    node = find_node()
    if node is None:
        sys.exit(f"Node {NODE} or newer could not be installed")
    return [node, str(HOME / "node_modules" / SUITE / "dist" / "index.js")]


def installed_version(package: str) -> str | None:
    """The version of a package beside the suite, if it is there."""
    path = HOME / "node_modules" / package / "package.json"
    if not path.exists():
        return None
    version: str = json.loads(path.read_text("utf-8"))["version"]
    return version


def find_node() -> str | None:
    """Find a Node that is new enough: the system's, or the one beside the suite."""
    installed = sorted(HOME.glob("node_modules/node-linux-*/bin/node"))
    for node in filter(None, [shutil.which("node"), *map(str, installed)]):
        print_major = [node, "-p", "process.versions.node.split('.')[0]"]
        found = subprocess.run(print_major, capture_output=True, text=True, check=False)
        if found.returncode == 0 and int(found.stdout) >= int(NODE):
            return node
    return None


def run(suite: list[str], name: str, leg: Leg) -> bool:
    """Run one leg; gives whether all of it is green."""
    with tempfile.TemporaryDirectory(prefix="mcpost-conformance-") as directory:
        out = Path(directory)
        baseline = out / "baseline.yml"
        # Empty, and not absent: only with a baseline does a warning of the server leg count.
        baseline.write_text("server: []\nclient: []\n")
        common = ["--spec-version", leg.revision, "--output-dir", str(out / "checks")]
        if leg.side != "client":
            with contextlib.ExitStack() as stack:
                url = stack.enter_context(serving(ROOT / "tests" / "conformance" / "server.py"))
                if leg.side == "gateway":
                    url = stack.enter_context(gateway(url, out))
                arguments = ["server", "--url", url, "--suite", "all", "--timeout", "30000"]
                arguments += ["--expected-failures", str(baseline), *common]
                codes = [execute(suite, arguments, out)]
        else:
            command = f"{sys.executable} {ROOT / 'tests' / 'conformance' / 'client.py'}"
            client = ["client", "--command", command, "--timeout", "60000", *common]
            codes = [
                execute(suite, [*client, "--scenario", scenario], out)
                for scenario in scenarios(suite, leg)
            ]
        return judge(name, out, max(codes, default=1))


def run_typescript(node: str) -> bool:
    """Let the TypeScript SDK's client call the example library; gives whether all is well."""
    module = HOME / "node_modules" / TYPESCRIPT / "dist" / "index.mjs"
    script = ROOT / "tests" / "conformance" / "typescript.mjs"
    with serving(ROOT / "examples" / "library.py") as url:
        done = subprocess.run(
            [node, str(script), str(module), url],
            capture_output=True,
            text=True,
            timeout=LEG_TIMEOUT,
            check=False,
        )
    lines = done.stdout.splitlines()
    green = done.returncode == 0 and bool(lines)
    verdict = "green" if green else "RED"
    print(f"typescript client {TYPESCRIPT_VERSION}: {len(lines)} checks: {verdict}")
    if not green:
        print(done.stdout, done.stderr)
    return green


def execute(suite: list[str], arguments: list[str], out: Path) -> int:
    """Run the suite once, its output into a file."""
    with (out / "suite.log").open("ab") as log:
        done = subprocess.run(
            [*suite, *arguments],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            timeout=LEG_TIMEOUT,
            check=False,
        )
    return done.returncode


def scenarios(suite: list[str], leg: Leg) -> list[str]:
    """List the client scenarios of a leg."""
    arguments = [*suite, "list", "--client", "--spec-version", leg.revision]
    listed = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^  - (\S+)", re.sub(r"\x1b\[[0-9;]*m", "", listed), re.MULTILINE)
    return [name for name in names if re.search(leg.pattern, name)]


def serving(target: Path) -> contextlib.AbstractContextManager[str]:
    """Serve a file's server on a port that the kernel picks."""
    port = free_port()
    return running(["serve", f"{target}:server", "--port", str(port)], port)


def gateway(url: str, out: Path) -> contextlib.AbstractContextManager[str]:
    """Run a gateway that lets everything through, in front of a server."""
    port = free_port()
    policy = out / "policy.toml"
    policy.write_text(ALLOW_ALL.format(port=port, url=url), "utf-8")
    return running(["gateway", "run", str(policy), "--admin", ""], port)


def free_port() -> int:
    """A port that the kernel picks."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(arguments: list[str], port: int) -> Iterator[str]:
    """Run `mcpost` until the block ends; gives the URL of its endpoint."""
    command = [str(Path(sys.executable).parent / "mcpost"), *arguments]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=ROOT)
    try:
        wait_for(port, server)
        yield f"http://127.0.0.1:{port}/mcp"
        if server.poll() is not None:
            sys.exit("the server under test ended during the run")
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until a port takes connections."""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit(f"the server under test ended with {server.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    sys.exit("the server under test did not start")


def judge(name: str, out: Path, code: int) -> bool:
    """Count the checks of a leg, print what is wrong, and say whether all is green."""
    total: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []
    seen = 0
    for path in sorted(out.glob("checks/**/checks.json")):
        seen += 1
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name)
        checks = json.loads(path.read_text())
        count = collections.Counter(check["status"] for check in checks)
        total += count
        for check in checks:
            if check["status"] in ("FAILURE", "WARNING"):
                reason = check.get("errorMessage") or check.get("description") or ""
                wrong.append(f"  {check['status']} {scenario} [{check['id']}] {reason[:200]}")
        if not count["SUCCESS"] and not count["FAILURE"] and not count["WARNING"]:
            wrong.append(f"  VACUOUS {scenario}: no check succeeded")
    if wrong:
        print("\n".join(wrong))
    judged = total["SUCCESS"] + total["FAILURE"] + total["WARNING"]
    green = bool(seen) and not wrong and code == 0
    print(
        f"conformance {name}: {seen} scenarios, {total['SUCCESS']}/{judged} checks,"
        f" {total['FAILURE']} failures, {total['WARNING']} warnings, {total['SKIPPED']} skipped:"
        f" {'green' if green else f'RED (exit code {code})'}"
    )
    if not green:
        print((out / "suite.log").read_text(errors="replace")[-3000:])
    return green


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
