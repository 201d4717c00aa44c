"""Reads R's .rda files (R Internals, section 1.8, serialization in XDR) as far as data sets need it:
lists by name, and matrices of numbers by the names of their columns."""
import bz2
import gzip
import lzma
import struct

from hanse.program import Refused

OPENED = {b"BZ": bz2.open, b"\x1f\x8b": gzip.open, b"\xfd7": lzma.open}
SYMBOL, PAIRS, CHARACTERS, LOGICAL, INTEGER, REAL, TEXTS, LIST = 1, 2, 9, 10, 13, 14, 16, 19
NOTHING, REFERENCE = 254, 255


class Reader:
    def __init__(self, data):
        self.data, self.at, self.symbols = data, 0, []

    def take(self, form, count=1):
        values = struct.unpack_from(f">{count}{form}", self.data, self.at)
        self.at += struct.calcsize(f">{count}{form}")
        return values

    def integer(self):
        return self.take("i")[0]

    def item(self):
        flags = self.integer()
        kind, attributed, tagged = flags & 0xFF, flags & 0x200, flags & 0x400
        if kind == NOTHING:
            return None
        if kind == REFERENCE:
            return self.symbols[(flags >> 8 or self.integer()) - 1]
        if kind == SYMBOL:
            self.symbols.append(self.item())
            return self.symbols[-1]
        if kind == PAIRS:
            return self.pairs(attributed, tagged)
        if kind == CHARACTERS:
            length = max(self.integer(), 0)
            self.at += length
            return self.data[self.at - length:self.at].decode(errors="replace")
        if kind in (LOGICAL, INTEGER, REAL):
            value = list(self.take("d" if kind == REAL else "i", self.integer()))
        elif kind in (TEXTS, LIST):
            value = [self.item() for _ in range(self.integer())]
        else:
            raise ValueError(f"type {kind} is unknown")
        return with_attributes(value, self.item()) if attributed else value

    def pairs(self, attributed, tagged):
        """A list of pairs becomes a dictionary; what follows is the rest of the list."""
        if attributed:
            self.item()
        name = self.item() if tagged else ""
        return {name: self.item(), **(self.item() or {})}


def with_attributes(value, attributes):
    if "names" in attributes:
        return dict(zip(attributes["names"], value))
    if "dimnames" in attributes and attributes["dimnames"][1]:
        rows = attributes["dim"][0]
        return {name: value[i * rows:(i + 1) * rows]
                for i, name in enumerate(attributes["dimnames"][1])}
    return value


def read(path):
    """The objects of the file by name."""
    try:
        with open(path, "rb") as file:
            opened = OPENED.get(file.read(2), open)
        with opened(path, "rb") as file:
            reader = Reader(file.read())
        if reader.data[:7] not in (b"RDX2\nX\n", b"RDX3\nX\n"):
            raise ValueError("no RDX2 or RDX3 in XDR")
        reader.at = 7 + 3 * 4
        if reader.data[3:4] == b"3":
            reader.take("s", reader.integer())
        return reader.item()
    except (OSError, EOFError, ValueError, IndexError, struct.error, lzma.LZMAError) as error:
        raise Refused(f"{path} cannot be read: {error}; hint: is it a file of R's save()?") from None
