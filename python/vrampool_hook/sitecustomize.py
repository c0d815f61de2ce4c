"""Waits for PyTorch. `vrampool run` puts this folder on PYTHONPATH, so each Python starts here.

It must not be noticed. It installs a finder that does nothing but wait for `import torch`, one that
knows the vrampool package where nothing else does, and then runs the sitecustomize that this one
hides, if there is one. What happens with torch is in vrampool_torch.py, which is read only then.
Whatever fails here leaves the program as it was."""
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))


def wanted():
    """Whether this process runs under a pool; decided from the environment alone, to be quick."""
    return ("libcuda.so" in os.environ.get("LD_PRELOAD", "")
            and os.environ.get("VRAMPOOL", "1") != "0"
            and os.environ.get("VRAMPOOL_NO_POOL", "0") != "1")


def torch_imported(torch):
    from importlib.util import module_from_spec, spec_from_file_location
    path = os.path.join(FOLDER, "vrampool_torch.py")
    spec = spec_from_file_location("vrampool_torch", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.prepare(torch)


class TorchFinder:
    """Finds torch by the finders behind it, and has its loader call torch_imported at its end."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                self.follow(spec.loader)
                return spec
        return None

    def follow(self, loader):
        execute = getattr(loader, "exec_module", None)

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:  # once only
                sys.meta_path.remove(self)
                try:
                    torch_imported(module)
                except Exception as error:
                    print(f"vrampool: warn: PyTorch is not listened to: {error!r}", file=sys.stderr)
        try:
            if execute:
                loader.exec_module = exec_module
        except AttributeError:
            pass  # a loader that allows no changes: torch then runs without the listener


class PackageFinder:
    """Finds the vrampool package that came with the command, for a Python that has none itself."""

    # Beside this folder in a build folder and where `make install` puts it; above the package's
    # native folder in a wheel, which may be another environment's.
    places = [os.path.dirname(FOLDER), os.path.abspath(os.path.join(FOLDER, *[os.pardir] * 4))]

    def find_spec(self, name, path=None, target=None):
        if name != "vrampool":
            return None
        from importlib.machinery import PathFinder
        found = (place for place in self.places
                 if os.path.exists(os.path.join(place, "vrampool", "__init__.py")))
        return PathFinder.find_spec(name, [next(found, self.places[0])])


def run_hidden():
    """Runs the next sitecustomize on the path; looks only behind this folder, so it cannot loop."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec
    path = [os.path.abspath(entry or ".") for entry in sys.path]
    behind = path[path.index(FOLDER) + 1:] if FOLDER in path else path
    spec = PathFinder.find_spec("sitecustomize", behind)
    if spec is not None and spec.loader is not None and spec.origin != os.path.abspath(__file__):
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if wanted():
    sys.meta_path.insert(0, TorchFinder())
    sys.meta_path.append(PackageFinder())
run_hidden()
