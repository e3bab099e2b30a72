"""Accounts for automation, and closing a person's account everywhere."""
