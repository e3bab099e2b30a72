"""Budgets, what is spent of them, and the holds that keep a queue still."""
