"""Refusals and failures: their codes, their words, one answer for each."""
