"""The revisions with a handshake: sessions, server-to-client requests, resumable streams.

The same features and handlers serve them as serve the current revision, and nothing outside this
room knows how. It can go when those revisions go.
"""
