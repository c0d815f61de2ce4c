"""`python -m vrampool run -- PROGRAM`: the command, where its script is not on PATH."""
from vrampool._command import main

main()
