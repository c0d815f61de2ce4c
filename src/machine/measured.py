#!/usr/bin/env python3
"""Prints the C header that holds a machine file as the text form of machine.h, so that the library,
which reads no JSON, knows the machine that was measured: measured.py FILE.json

The file has one card, one path, and says all costs."""
import json
import sys


def size_bytes(value):
    shift = {"K": 10, "M": 20, "G": 30, "T": 40}
    return value if isinstance(value, int) else int(value[:-1]) << shift[value[-1]]


def text_of(machine):
    (card,), (path,) = machine["cards"], machine["paths"]
    def rate(gbps):
        return round(gbps * 1e9)

    rates = f"{rate(path['gbps'])},{rate(path['both_gbps'])}"
    fields = f"{rates},{path['latency_ns']},{path['start_ns']},1,0"
    yield f"name={machine['name']} cards=1 host={size_bytes(machine['host'])}"
    yield f"granularity={size_bytes(machine['granularity'])}"
    yield f"address={size_bytes(machine['address'])}"
    yield f"hbm=*:{size_bytes(card['hbm'])} hbm_rate=*:{rate(card['hbm_gbps'])}"
    yield f"path=*>h:{fields} path=h>*:{fields}"
    for call, cost in machine["costs"].items():
        yield f"{call}={cost['base_ns']},{cost['per_mib_ns']}"


def main(path):
    with open(path, encoding="utf-8") as file:
        machine = json.load(file)
    print(f"/* From machines/{machine['name']}.json. */")
    print("#define MEASURED_TEXT \\")
    print(" \\\n".join(f'    "{part} "' for part in text_of(machine)))


if __name__ == "__main__":
    main(sys.argv[1])
