"""A platform engineer sees the portal as somebody else: read-only, announced, audited."""
