"""Tenants and departments: made, changed, isolated, brought into their cluster, deleted."""
