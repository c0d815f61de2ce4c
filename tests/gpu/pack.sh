#!/bin/sh
# Copies what the GPU scripts need from a build folder into a small one that can be carried to a
# machine where nothing can be built, with the libraries that such a machine may lack.
#
# Usage: pack.sh BUILD FOLDER      and on that machine: foundation.py --build FOLDER
set -eu
build=$1
folder=$2
mkdir -p "$folder/lib"

# Keeps the layout of the build folder: the command finds the rest relative to itself.
copy() {
    mkdir -p "$folder/$(dirname "$1")"
    cp -L "$build/$1" "$folder/$1"
}

for file in vrampool shim/libcuda.so.1 src/libvrampool-emu.so bench/launch bench/lookup \
    bench/pace bench/remap examples/train examples/pool tests/programs/overrun \
    tests/programs/full; do
    if [ -e "$build/$file" ]; then copy "$file"; else echo "pack: no $build/$file" >&2; fi
done
for file in "$build"/python/vrampool_hook/*.py "$build"/python/vrampool_hook/*.cpp; do
    copy "python/vrampool_hook/$(basename "$file")"
done
for file in "$build"/tests/conformance/*; do
    if [ -f "$file" ] && [ -x "$file" ]; then copy "tests/conformance/$(basename "$file")"; fi
done
for file in "$build"/machines/*.json; do copy "machines/$(basename "$file")"; done
find "$folder" -type f -perm -u+x -exec ldd {} + 2>/dev/null |
    sed -n 's/.* => \(\/[^ ]*\/lib\(jansson\|cmocka\|hwloc\)\.so[^ ]*\) .*/\1/p' | sort -u |
    while read -r library; do cp -L "$library" "$folder/lib/"; done
du -sh "$folder"
