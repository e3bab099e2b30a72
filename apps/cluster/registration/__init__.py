"""A cluster told to the installation, changed and removed."""
