"""What work is for, as far as the choice of an offer depends on it. Pure."""

from apps.words import Word


class Purpose(Word):
    """What a kind of work is for; advice reads the decision table by it."""

    INTERACTIVE = "interactive", "Development and experiments"
    BATCH = "batch", "Batch work"
    TRAINING = "training", "Training"
    SERVING = "serving", "Answering requests"
