"""Digests of what a run leaves in its directory, without what differs from one time to the next."""
import hashlib
import json

from hanse.folders import read_rows


def model_digest(folder):
    """The digest of the trained model, or of what was computed, as the run's summary has it."""
    summary = json.loads((folder / "summary.json").read_text())
    return summary.get("results_digest") or summary["model_digest"]


def table_digest(folder, bytes_too=True, but=("participation.csv",)):
    """The digest of the run's CSV files, all but those named, without columns of measured times or of
    what a resume repeated, and of its traces. Who took part decides the model, which has a digest of
    its own. The columns of bytes are the same on one number of ranks alone, and on several only as long
    as the work is shared out in the same way."""
    digest = hashlib.sha256()
    changing = ("seconds", "replayed") if bytes_too else ("seconds", "replayed", "bytes")
    for path in sorted(folder.glob("*.csv")):
        if path.name in but:
            continue
        lines = read_rows(path)
        names = lines[0] if lines else []
        columns = sorted(name for name in names if not name.startswith(changing))
        digest.update(json.dumps([path.name, columns,
                                  [[line[name] for name in columns] for line in lines]]).encode())
    for path in sorted(folder.glob("trace-*.json")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
