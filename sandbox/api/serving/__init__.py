"""A cluster put on a port: TLS, the ASGI application, the sandbox's own endpoints."""
