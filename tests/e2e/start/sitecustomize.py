# SPDX-License-Identifier: MIT
"""Python imports this at its start, from PYTHONPATH, in the programs that the tests run: PyTorch is imported faster.

Python looks for garbage again and again among the hundreds of thousands of objects of these packages, while they are
imported and once more when the program ends: a quarter of what a small job takes. There is none, so it is not looked
for. Everything that the program makes itself is collected as ever.
"""

import gc
import sys
from importlib.machinery import PathFinder


class Finder:
    """Finds them like everybody else, and has their loaders keep the collector still meanwhile."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        # PyTorch's compiler is imported by the first optimizer, when the program has objects of its own.
        if name not in ("torch", "torch._dynamo"):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            enabled = gc.isenabled()
            gc.disable()
            try:
                execute(module)
            finally:
                if name == "torch":
                    gc.freeze()
                if enabled:
                    gc.enable()

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder)
