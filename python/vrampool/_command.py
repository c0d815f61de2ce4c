"""Finds the `vrampool` command and becomes it: the entry point of the wheel, and `python -m`."""
import os
import sys
from pathlib import Path
from typing import NoReturn

CANNOT_RUN = 126  # as the command says it of its own parts


def find_command() -> Path:
    """The binary that belongs to this package.

    It lies within the package where that came as a wheel, and above it in a build folder.
    Raises FileNotFoundError, naming the places looked at."""
    package = Path(__file__).resolve().parent
    places = [package / "native" / "vrampool", package.parent.parent / "vrampool"]
    for path in places:
        if path.is_file():
            return path
    raise FileNotFoundError("the vrampool command is missing: neither "
                            + " nor ".join(map(str, places)) + "; install the package again")


def main() -> NoReturn:
    """Becomes `vrampool ARGUMENT…`: process, streams and exit status are the command's own."""
    try:
        command = str(find_command())
        os.execv(command, [command, *sys.argv[1:]])
    except OSError as error:
        print(f"vrampool: {error}", file=sys.stderr)
        sys.exit(CANNOT_RUN)
