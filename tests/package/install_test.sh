#!/usr/bin/env bash
# install_test.sh CMAKE BUILD-DIR CXX: installs the library and what programs are built, then builds and runs a
# program that finds it by find_package, and one that finds it by pkg-config.
set -euo pipefail
cmake=$1 build=$2 cxx=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/usr" --component dev
for header in client error limits result types; do
  [[ -f "$work/usr/include/tiercel/$header.h" ]] || { echo "no $header.h"; exit 1; }
done
if [[ -x "$build/bin/tiercel-server" && -x "$build/bin/tiercel" && -x "$build/bin/tiercel-bench" &&
  -x "$build/bin/tiercel-dump" ]]; then
  "$cmake" --install "$build" --prefix "$work/usr" --component programs
  "$work/usr/bin/tiercel" --help >/dev/null
  "$work/usr/bin/tiercel-server" --help >/dev/null
  "$work/usr/bin/tiercel-dump" --help >/dev/null
  [[ -n $(find "$work/usr" -name tiercel.conf) ]]
fi

# The tree is moved before it is used: nothing in it may name the place where it was installed.
mv "$work/usr" "$work/moved"

echo "== find_package"
"$cmake" -S "$here/consumer" -B "$work/by-cmake" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$work/moved"
"$cmake" --build "$work/by-cmake"
"$work/by-cmake/consumer"

echo "== pkg-config"
pc=$(dirname "$(find "$work/moved" -name tiercel.pc)")
export PKG_CONFIG_PATH="$pc"
pkg-config --modversion tiercel
# shellcheck disable=SC2046
"$cxx" -std=c++20 "$here/consumer/consumer.cc" -o "$work/by-pkg-config" $(pkg-config --cflags --libs tiercel)
"$work/by-pkg-config"
