"""Watches clusters, finds out what they can do, and takes in what they tell."""
