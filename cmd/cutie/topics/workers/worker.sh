#!/bin/sh
# Uncompresses gzip files: sh worker.sh [BASE QUEUE]
base=${1:-http://127.0.0.1:8080/} queue=${2:-jobs} dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT; trap exit INT TERM
field() { tr -d '\r' <"$dir/head" | sed -n "s/^$1: //Ip"; }
while :; do
    code=$(curl -s -X POST -H 'Accept: application/octet-stream' -D "$dir/head" -o "$dir/payload" \
        -w '%{http_code}' "${base}consume/$queue?wait=20&lease=30")
    [ "$code" != 204 ] || continue                       # no job came
    [ "$code" = 200 ] || { echo "answer $code" >&2; sleep 1; continue; }
    job=$(field Content-Location) job=${job##*/} lease="Cutie-Lease: $(field Cutie-Lease)"
    outcome='outcome=error&type=fatal' sum=$(openssl dgst -sha256 -binary <"$dir/payload" | base64)
    if [ "$(field Repr-Digest)" != "sha-256=:$sum:" ]; then
        echo damaged >"$dir/why"; outcome='outcome=error&type=transient'
    elif gzip -dc <"$dir/payload" >"$dir/text" 2>"$dir/why"; then
        curl -sf -o "$dir/state" -T "$dir/text" -H "$lease" "${base}result/$queue/$job/text" || continue
        outcome=outcome=completed
    fi
    curl -s -o "$dir/state" -X POST -G -H "$lease" --data-urlencode "message@$dir/why" \
        "${base}outcome/$queue/$job?$outcome" || echo "no report of $job" >&2
done
