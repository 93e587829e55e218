# SPDX-License-Identifier: MIT
"""Python imports this at its start, from PYTHONPATH, in the ranks of `vramtrace run --ranks`.

It lets simgpu_ranks adapt PyTorch's distributed package once that is imported, and gives way to the sitecustomize
that Python would have found without it.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TARGET = "torch.distributed.distributed_c10d"


class Finder:
    """Finds the target like everybody else, and has its loader call simgpu_ranks afterwards."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != TARGET:
            return None
        from importlib.util import find_spec, module_from_spec, spec_from_file_location

        sys.meta_path.remove(Finder)
        spec = find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            folder = os.path.join(HERE, "simgpu_ranks")
            package = spec_from_file_location(
                "simgpu_ranks", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
            )
            sys.modules[package.name] = module_from_spec(package)
            package.loader.exec_module(sys.modules[package.name])
            sys.modules[package.name].adapt(module)

        spec.loader.exec_module = exec_module
        return spec


def give_way():
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != HERE]
    own = sys.modules.pop(__name__)
    try:
        __import__(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
        sys.modules[__name__] = own


if os.environ.get("SIMGPU_RANKS"):
    sys.meta_path.insert(0, Finder)
give_way()
