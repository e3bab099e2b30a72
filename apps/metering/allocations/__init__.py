"""Who holds which device, and when."""
