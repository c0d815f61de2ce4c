#!/usr/bin/env python3
"""`vrampool topo`: emulated machines as described, and a real one by a stand-in for NVML.

Usage: test_topo.py BUILD STANDIN"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

STANDIN = os.path.abspath(sys.argv.pop(2))
BUILD = os.path.abspath(sys.argv.pop(1))
VRAMPOOL = os.path.join(BUILD, "vrampool")
EMULATOR = os.path.join(BUILD, "src", "libvrampool-emu.so")


def topo(*options, **environment):
    return subprocess.run([VRAMPOOL, "topo", *options], capture_output=True, text=True,
                          timeout=60, check=False, env={**os.environ, **environment})


def found(*options, **environment):
    done = topo(*options, "--json", **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pair_of(shown, a, b):
    return next(p for p in shown["pairs"] if (p["from"], p["to"]) == (a, b))


class Emulated(unittest.TestCase):
    def test_double_cube(self):
        shown = found("--emulate", "double-cube-8x24")
        self.assertEqual(len(shown["cards"]), 8)
        self.assertEqual(len(shown["links"]), 16)
        for link in shown["links"]:
            self.assertEqual((link["lanes"], link["in_use"], link["state"]), (4, 3, "up"))
            self.assertTrue(link["calibrated"])
        pair = pair_of(shown, "card0", "card6")
        self.assertEqual((pair["way"], pair["hops"], pair["through"]), ("NVB", 2, ["card2"]))
        self.assertEqual((pair["gbps"], pair["latency_ns"]), (78.6, 710))
        self.assertEqual(pair_of(shown, "card0", "card4")["way"], "NV3")
        self.assertEqual(pair_of(shown, "card0", "host0")["hops"], 0)

    def test_lost_lanes_show(self):
        shipped = os.path.join(BUILD, "machines", "double-cube-8x24.json")
        with open(shipped, encoding="utf-8") as file:
            machine = json.load(file)
        machine["links"][2]["dead_lanes"] = 2
        machine["links"][0]["dead"] = True
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "hurt.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(machine, file)
            shown = found("--emulate", path)
        states = {(link["from"], link["to"]): link["state"] for link in shown["links"]}
        self.assertEqual(states["card0", "card4"], "degraded")
        self.assertEqual(states["card0", "card1"], "down")
        self.assertEqual(states["card4", "card5"], "up")
        self.assertAlmostEqual(pair_of(shown, "card0", "card4")["gbps"], 102.4 * 2 / 3, delta=0.1)

    def test_other_machines(self):
        pair = pair_of(found("--emulate", "rtx4090-8"), "card0", "card1")
        self.assertEqual((pair["way"], pair["access"]), ("PHB", False))
        pair = pair_of(found("--emulate", "hgx-h200-8"), "card0", "card7")
        self.assertEqual((pair["way"], pair["through"], pair["hops"]), ("NV18", ["switch"], 1))
        pair = pair_of(found("--emulate", "dgx1v"), "card0", "card5")
        self.assertEqual((pair["way"], pair["access"]), ("PHB", False))

    def test_table_and_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "t.svg")
            done = topo("--emulate", "double-cube-8x24", "--svg", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"card0 +X +NV3 +NV3 +NV3 +NV3 +NVB")
            root = xml.etree.ElementTree.parse(path).getroot()
            lines = root.findall("{http://www.w3.org/2000/svg}line")
            self.assertEqual(len(lines), 16 + 1)

    def test_mistakes(self):
        for options, said in [(("--emulate", "nonesuch"), "no machine `nonesuch`"),
                              (("surplus",), "runs no program"),
                              (("--emulated", "8x24M"), "did you mean --emulate")]:
            with self.subTest(options):
                done = topo(*options)
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)


NCCL = """<system version="1">
  <cpu numaid="1" affinity="ff" arch="x86_64" vendor="GenuineIntel">
    <pci busid="0000:15:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:17:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1">
          <nvlink target="0000:65:00.0" count="4" tclass="0x030200"/>
        </gpu>
      </pci>
    </pci>
    <pci busid="0000:65:00.0" class="0x030200" link_speed="8.0 GT/s PCIe" link_width="8">
      <gpu dev="1" sm="80" rank="1" gdr="1">
        <nvlink target="0000:17:00.0" count="4" tclass="0x030200"/>
      </gpu>
    </pci>
    %s
  </cpu>
</system>
"""
SWITCHED = """
<pci busid="0000:%d:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
  <gpu dev="%d" sm="90" rank="0" gdr="1">
    <nvlink target="0000:c0:00.0" count="9" tclass="0x068000"/>
    <nvlink target="0000:c1:00.0" count="9" tclass="0x068000"/>
  </gpu>
</pci>"""


class Nccl(unittest.TestCase):
    def read(self, text):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(text)
            file.flush()
            return topo("--nccl", file.name, "--json")

    def test_links_between_cards_and_to_a_switch(self):
        done = self.read(NCCL % (SWITCHED % (70, 2) + SWITCHED % (71, 3)))
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = json.loads(done.stdout)
        self.assertEqual([card["bus_id"] for card in shown["cards"]],
                         ["0000:17:00.0", "0000:65:00.0", "0000:70:00.0", "0000:71:00.0"])
        self.assertEqual([card["pcie_generation"] for card in shown["cards"]], [4, 3, 5, 5])
        self.assertEqual({card["numa_node"] for card in shown["cards"]}, {1})
        self.assertEqual([link["lanes"] for link in shown["links"]], [4, 18, 18])
        self.assertEqual(pair_of(shown, "card0", "card1")["way"], "NV4")
        self.assertEqual(pair_of(shown, "card2", "card3")["way"], "NV18")
        self.assertEqual(pair_of(shown, "card0", "card2")["hops"], 0)

    def test_what_is_no_topology(self):
        for text, said in [("{}", ".xml:1: "), ("<system/>", "no <gpu> in it"),
                           ("<system>" + "<gpu/>" * 17 + "</system>", "more than 16 cards")]:
            with self.subTest(text):
                done = self.read(text)
                self.assertEqual(done.returncode, 2)
                self.assertIn(said, done.stderr)
        self.assertIn("cannot read", topo("--nccl", "/nonexistent.xml").stderr)


class Real(unittest.TestCase):
    """The emulated driver stands in for the real one, of which NVML knows the cards."""
    driver = {"VRAMPOOL_DRIVER": EMULATOR, "VRAMPOOL_EMULATE": "2x24M"}

    def test_what_nvml_tells(self):
        shown = found(**self.driver, VRAMPOOL_NVML=STANDIN)
        self.assertTrue(shown["nvml"])
        self.assertEqual([card["temperature_c"] for card in shown["cards"]], [40, 41])
        self.assertEqual([card["pcie_width"] for card in shown["cards"]], [16, 8])
        self.assertEqual(shown["cards"][1]["bus_id"], "0000:02:00.0")
        self.assertEqual(len(shown["links"]), 1)
        link = shown["links"][0]
        self.assertEqual((link["lanes"], link["in_use"], link["dead_lanes"], link["state"]),
                         (4, 3, 1, "degraded"))
        self.assertAlmostEqual(link["gbps"], 3 * 25 * 256 / 272 * 0.965, delta=0.1)
        pair = pair_of(shown, "card0", "card1")
        self.assertEqual((pair["way"], pair["hops"], pair["access"]), ("NV3", 1, True))
        self.assertEqual(pair_of(shown, "card1", "host0")["gbps"], 13)

    def test_without_nvml(self):
        done = topo(**self.driver, VRAMPOOL_NVML="/nonexistent.so")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("NVML (libnvidia-ml.so.1) was not found", done.stdout)

    def test_without_a_driver(self):
        done = topo(VRAMPOOL_DRIVER="/nonexistent.so")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent.so", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
