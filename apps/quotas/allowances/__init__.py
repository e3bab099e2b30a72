"""What a tenant may have: quotas, grants, weights, own nodes; and where it stands with them."""
