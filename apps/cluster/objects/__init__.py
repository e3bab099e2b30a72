"""What is known of Kubernetes' objects: kinds, names, quantities, conditions. Pure."""
