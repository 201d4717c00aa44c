"""What goes wrong, as exceptions."""


class HanseError(Exception):
    """What Hanse says; the text is one line for the person who reads it."""


class Refused(HanseError):
    """Bad usage, option or input, found before the first round."""


class Failed(HanseError):
    """A run that has failed while running."""


class Stopped(HanseError):
    """A run that has ended on request, after a checkpoint: hanse.resume() goes on."""
