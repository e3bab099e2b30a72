"""What holds for every request: who may ask how often, what comes in, what is done once."""
