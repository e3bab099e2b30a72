"""The sources of telemetry and the formats they speak. Pure."""
