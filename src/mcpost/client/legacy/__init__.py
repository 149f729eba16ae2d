"""The client's side of the revisions with a handshake: 2025-11-25 and before.

`session` is what they do, over any wire; `http` and `sse` are their wires over HTTP. The one over
stdio is `mcpost.client.stdio`, which finds out the era first.
"""
