"""Words for what clients are evaluated on: the column and key `split` of a run."""

WORDS = {"test": "test", "validation": "validation", "train": "training",
         "mixed": "test and training"}
SAMPLES = {"test": "test samples", "validation": "validation samples",
           "train": "training samples",
           "mixed": "test samples, or training samples where a client has no others"}


def prefix_of(split):
    """What stands before "accuracy" or "loss": "test ", "training ", ..., or nothing for several."""
    return f"{WORDS[split]} " if split in ("test", "validation", "train") else ""


def upper_first(text):
    return text[:1].upper() + text[1:]
