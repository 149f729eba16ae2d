"""The `[principals]` tables of a policy file: who the holders of API keys are."""

from __future__ import annotations

from mcpost.gateway.policy import Principal
from mcpost.gateway.policy_rule import read_digests
from mcpost.gateway.policy_table import Table

__all__ = ("read_callers",)


def read_callers(top: Table) -> dict[str, Principal]:
    """Read the principals.

    Returns:
        They, by the SHA-256 digests, in hex, of their keys.

    Raises:
        PolicyError: A principal without a key, a key that is no digest or that two have, or a claim
            that is no text.
    """
    found: dict[str, Principal] = {}
    for name, table in top.named_tables("principals"):
        digests = read_digests(table)
        if not digests:
            table.fail("api_key", "is needed: 'sha256:' and 64 hex digits")
        claims = table.table("claims")
        said = {} if claims is None else {key: claims.text(key) or "" for key in claims.raw}
        table.finish()
        principal = Principal(name, said)
        for digest in digests:
            if digest in found:
                table.fail("api_key", f"is that of {found[digest].name!r} already")
            found[digest] = principal
    return found
