"""Traces by OpenTelemetry, an extra: docs/operating.md, Tracing."""
