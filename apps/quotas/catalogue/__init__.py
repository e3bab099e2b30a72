"""What there is to have: flavors, offers and their prices."""
