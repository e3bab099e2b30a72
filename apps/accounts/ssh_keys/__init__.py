"""SSH keys: a person keeps public keys here, so that who connects with one is known by it."""
