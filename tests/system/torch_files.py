"""Files of PyTorch's modules for the tests."""

import contextlib
import importlib.util
import io
import os
import sys
import threading

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts")
TORCH = threading.Lock()  # tests run at once; torch's compiler and its seed know one thread


def package():
    """The Python package, which has the name of this folder's module."""
    folder = os.path.join(SCRIPTS, "python", "hanse")
    spec = importlib.util.spec_from_file_location(
        "hanse_package", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])
    sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[spec.name])
    return sys.modules[spec.name]


results = package()


def write_graph(module, sample, path, **more):
    """Exports a module, and returns the path."""
    with TORCH, contextlib.redirect_stdout(io.StringIO()):
        results.export(module, sample, path, **more)
    return path


def tensors_of(path):
    """Those of a graph's file, by their names."""
    return results.exporting.graph_files.read(path)[1]
