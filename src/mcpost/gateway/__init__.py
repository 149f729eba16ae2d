"""The gateway: decides from mirrored headers, and lets through only what it can trust."""
