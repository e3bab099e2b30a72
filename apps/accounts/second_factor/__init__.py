"""What is asked for besides a password: an app, passkeys, recovery codes."""
