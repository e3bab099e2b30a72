"""What a tenant's quota used, lent and borrowed over time."""
