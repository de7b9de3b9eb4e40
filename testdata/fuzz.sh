#!/bin/sh
# Fuzzes each target for FUZZTIME. The tests of all packages with targets are compiled at
# once, and what leads the fuzzers is the coverage of this module and of the reader of
# XML: "go test -fuzz" would compile every library again, and link once for each target.
# An input that fails is kept where "go test" keeps it, and so are the interesting ones.
set -u
cd "$(dirname "$0")/.." || exit 1
GO=${GO:-go} FUZZTIME=${FUZZTIME:-5s}
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
trap 'exit 1' HUP INT TERM

module=$($GO list -m) || exit 1
cache=$($GO env GOCACHE)/fuzz/$module
pkgs=$(grep -rl '^func Fuzz' --include='*_test.go' . | sed 's|/[^/]*$||' | sort -u)
$GO test -vet=off -ldflags=-w -gcflags="$module/...=-d=libfuzzer" -gcflags=encoding/xml=-d=libfuzzer \
  -c -o "$bin/" $pkgs || exit 1

fuzz() { # package, target
  (cd "$1" && "$bin/${1##*/}.test" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$FUZZTIME" -test.fuzzcachedir "$cache/${1#./}" </dev/null 2>&1)
}

for pkg in $pkgs; do
  targets=$(cd "$pkg" && "$bin/${pkg##*/}.test" -test.list '^Fuzz') || exit 1
  for target in $targets; do
    echo "$pkg $target"
    out=$(fuzz "$pkg" "$target") && { printf '%s\n' "$out"; continue; }
    printf '%s\n' "$out"
    case $out in
    *'Failing input'*) exit 1 ;;
    # A fuzzer that fails on its own deadline, without an input, is run once more.
    *'context deadline exceeded'*) fuzz "$pkg" "$target" || exit 1 ;;
    *) exit 1 ;;
    esac
  done
done
