"""The example library on a server that does not compare headers with the body: for a test only."""

from __future__ import annotations

import runpy
from pathlib import Path

from mcpost.server import endpoint

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "library.py"

endpoint.check_agreement = lambda *compared: None  # type: ignore[assignment]
server = runpy.run_path(str(EXAMPLE))["server"]
