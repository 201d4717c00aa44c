"""Words for what clients are evaluated on: the column and key `split` of a run."""

WORDS = {"test": "test", "train": "training", "mixed": "test and training"}
SAMPLES = {"test": "test samples", "train": "training samples",
           "mixed": "test samples, or training samples where a client has no others"}


def prefix_of(split):
    """What stands before "accuracy" or "loss": "test ", "training ", or nothing for both."""
    return f"{WORDS[split]} " if split in ("test", "train") else ""


def upper_first(text):
    return text[:1].upper() + text[1:]
