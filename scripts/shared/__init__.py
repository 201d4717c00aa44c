"""What the scripts share. The Python package is theirs too, as it lies beside them."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
