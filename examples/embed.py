"""Writes a text file as a C string, so that the program carries it: embed.py NAME FROM TO."""
import sys

name, source, target = sys.argv[1:]
with open(source, encoding="ascii") as file:
    lines = file.read().splitlines()
with open(target, "w", encoding="ascii") as file:
    file.write(f"extern const char {name}[];\nconst char {name}[] =\n")
    for line in lines:
        text = line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
        file.write(f'    "{text}\\n"\n')
    file.write("    ;\n")
