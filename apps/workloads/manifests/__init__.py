"""From a request to the Kubernetes objects that it needs. Pure."""
