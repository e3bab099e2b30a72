"""What isolates a tenant, as values: manifests, networks, virtual clusters, names. Pure."""
