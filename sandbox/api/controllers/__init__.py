"""The controllers that every cluster has, and what runs them."""
