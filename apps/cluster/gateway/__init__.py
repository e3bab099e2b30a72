"""The one door to a cluster. `client` alone knows the Kubernetes library."""
