"""A tenant's work where the tenant changes: another trust level, or its end."""
