"""How this process speaks with Redis and PostgreSQL."""
