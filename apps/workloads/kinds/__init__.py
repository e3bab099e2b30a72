"""The kinds of work: a module here is a kind, and nothing else has to be told of it. Pure.

How to write one: docs/adding-a-workload-kind.md.
"""
