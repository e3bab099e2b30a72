"""The Kubernetes API server of the sandbox: store, semantics and HTTP.

It knows nothing of GPUs or of Kueue's rules.
"""
