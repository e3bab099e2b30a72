"""A GPU fleet in a box: a small Kubernetes API server with simulated nodes.

Reached by kubeconfig only; production code never imports it.
"""
