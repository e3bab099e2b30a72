"""Nodes that serve one tenant alone: handed over, brought there, given back."""
