#!/usr/bin/env bash
# Fails every third of each kind of system call that the daemon makes on files, with
# the errors of a bad disk, while it works. Then it is killed or stopped, and opened
# again. Whatever was acknowledged must be there, every sidecar must be as it was, no
# job may be handed out twice, and `cutie check` must find nothing.
#   testdata/errors.sh [CALL...]     calls instead of all that a trace shows
set -u
cd "$(dirname "$0")/.." || exit 1
skip() { echo "errors: skipped: $1"; exit 0; }
command -v strace >/dev/null || skip "strace is missing"
command -v curl >/dev/null || skip "curl is missing"
strace -o /dev/null -e inject=openat:error=EIO:when=60000 true 2>/dev/null || skip "tracing is not allowed here"

work=$(mktemp -d) pid="" tracer=""
cleanup() {
  for p in $tracer $pid; do kill -9 "$p" 2>/dev/null; done
  rm -rf "$work"
}
trap cleanup EXIT
cutie=$work/cutie home=$work/home
go build -o "$cutie" ./cmd/cutie || exit 1

start() { # home, and the command to run the daemon under
  local home=$1
  shift
  : >"$work/out"
  "$@" "$cutie" serve --home "$home" --listen 127.0.0.1:0 --log-level error >"$work/out" 2>>"$work/log" &
  pid=$!
  for _ in $(seq 200); do
    url=$(sed -n 's/^ *open *//p' "$work/out")
    [ -n "$url" ] && return
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  echo "errors: $case: the daemon does not start"; tail -5 "$work/log"; exit 1
}

stop() { # signal
  kill "-$1" "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  pid=""
}

trace() { # options of strace
  strace -f -qq -o "$work/trace" "$@" -p "$pid" 2>"$work/strace" &
  tracer=$!
  for _ in $(seq 100); do
    grep -q '^TracerPid:[[:space:]]*[1-9]' "/proc/$pid/status" 2>/dev/null && return
    kill -0 "$tracer" 2>/dev/null || break
    sleep 0.02
  done
  grep -q 'not permitted' "$work/strace" && skip "attaching is not allowed here"
  echo "errors: $case: $(head -1 "$work/strace")"
  exit 1
}

untrace() {
  kill "$tracer" 2>/dev/null
  wait "$tracer" 2>/dev/null
  tracer=""
}

ask() { # what, method, path, options of curl: appends "what status location"
  local what=$1 method=$2 path=$3
  shift 3
  rm -f "$work/head"
  local code
  code=$(curl -s -m 10 -o "$work/body" -D "$work/head" -w '%{http_code}' -X "$method" "$@" "$url$path")
  echo "$what $code $(grep -io '/jobs/j[0-9]*' "$work/head" 2>/dev/null | tail -1)" >>"$work/done"
}

head -c 200000 /dev/zero | tr '\0' x >"$work/large"
echo small >"$work/small"

work() { # what clients do meanwhile
  : >"$work/done"
  ask hold POST hold/jobs/j000000000001
  ask hold POST hold/jobs/j000000000002
  ask submit POST content/jobs -F "file=@$work/small" -F "sidecar=aside new"
  ask submit POST content/jobs -F "file=@$work/large" -F "sidecar=aside new"
  for _ in 1 2 3 4; do
    ask consume POST consume/jobs -H 'Accept: application/octet-stream'
  done
  ask delete DELETE content/jobs/j000000000010
  ask cull POST cull/jobs
  ask hold POST hold/jobs/j000000000009
  ask state GET state/jobs
  sleep 1.2 # files and documents follow
}

wrong() { echo "errors: $case: $1"; failed=1; }

verify() {
  local n
  local id file
  for n in $(seq 10); do
    id=$(printf 'j%012d' "$n")
    file=$(curl -s "${url}state/jobs/$id?t=anvl")
    grep -q "^sidecar: aside $n\$" <<<"$file" || wrong "$id has lost its sidecar"
    grep -q '^filename: ' <<<"$file" || wrong "$id has lost its name"
  done
  while read -r what code path; do
    case $code in 2??) ;; *) continue ;; esac
    case $what in
      submit)
        file=$(curl -s "${url}state$path?t=anvl")
        grep -q '^sidecar: aside new$' <<<"$file" || wrong "acknowledged ${path##*/} is gone" ;;
      consume)
        [ "$code" = 204 ] || grep -q '^status: consumed$' <<<"$(curl -s "${url}state$path?t=anvl")" || wrong "${path##*/} was handed out, and is not consumed" ;;
      delete)
        grep -q '^status: deleted$' <<<"$(curl -s "${url}state/jobs/j000000000010?t=anvl")" || wrong "a deleted job is back" ;;
    esac
  done <"$work/done"
  [ -z "$(awk '$1 == "consume" && $2 == 200 {print $3}' "$work/done" | sort | uniq -d)" ] || wrong "a job was handed out twice"
  grep -c '^hold 2' "$work/done" >"$work/holds"
  local held
  held=$(curl -s "${url}state/jobs?t=anvl" | sed -n 's/^numHeldJobs: *//p')
  [ "${held:-0}" -ge "$(cat "$work/holds")" ] || wrong "$(cat "$work/holds") jobs were put on hold, and ${held:-0} are"
}

case="without errors" failed=0
start "$home"
for n in $(seq 10); do
  of=small
  [ $((n % 3)) = 0 ] && of=large
  curl -s -o /dev/null -F "file=@$work/$of" -F "sidecar=aside $n" "${url}content/jobs" || exit 1
done
stop TERM
cp -a "$home" "$work/base"

calls=$*
if [ -z "$calls" ]; then
  start "$home"
  trace -e trace=%file,%desc
  work
  untrace
  stop TERM
  # Of sockets and of the runtime; a wait or an open descriptor fails for nobody.
  calls=$(sed -n 's/^[0-9]* *\([a-z0-9_]*\)(.*/\1/p' "$work/trace" | sort -u |
    grep -vE '^(epoll_|accept|close|syscall_|fcntl|ioctl|mmap|munmap|poll|ppoll|pipe|eventfd|dup|sendmsg|recvmsg|readlink|execve|getcwd|chdir)')
fi
[ -n "$calls" ] || { echo "errors: the trace shows no calls"; exit 1; }

errors=(EIO ENOSPC EUCLEAN ETIMEDOUT EBADMSG ENODATA EMFILE)
n=0
for call in $calls; do
  for _ in 1 2; do
    error=${errors[n % ${#errors[@]}]}
    case="$call fails with $error"
    n=$((n + 1))
    rm -rf "$home"
    cp -a "$work/base" "$home"
    start "$home"
    trace -e trace="$call" -e inject="$call:error=$error:when=2+3"
    work
    untrace
    if [ $((n % 2)) = 0 ]; then stop KILL; else stop TERM; fi
    start "$home"
    verify
    stop TERM
    "$cutie" check "$home" >"$work/check" 2>&1 || { wrong "check is not content"; head -5 "$work/check"; }
  done
done

# One queue has properties that cannot be read since the start, and the others are served.
case="queue-info.txt cannot be read" info=$home/queues/jobs/queue-info.txt
code() { curl -s -o /dev/null -w '%{http_code}' "$@"; }
rm -rf "$home"
cp -a "$work/base" "$home"
start "$home"
[ "$(code -X PUT "${url}state/other") $(code -F "file=@$work/small" "${url}content/other")" = "201 201" ] || wrong "there is no other queue"
stop TERM
cp "$info" "$work/info"
touch "$info" # it is not read if it is as it was
start "$home" strace -f -qq -o /dev/null -P "$info" -e trace=read,pread64 -e inject=read,pread64:error=EIO
tracer=$pid pid=$(pgrep -P "$pid")
[ "$(code "${url}state/jobs") $(code -X POST "${url}consume/jobs") $(code -F "file=@$work/small" "${url}content/jobs")" = "503 503 503" ] || wrong "the queue is served"
[ "$(code -X POST "${url}consume/other")" = 200 ] || wrong "the other queue is not served"
curl -s "${url}readyz" | grep -q "1 queues are shut" || wrong "readyz does not tell"
curl -s "${url}state?t=anvl" | grep -q "^shutQueue: ${url}state/jobs\$" || wrong "the state of the home does not tell"
kill -TERM "$pid"
wait "$tracer" 2>/dev/null
pid="" tracer=""
cmp -s "$info" "$work/info" || wrong "the file was written"
start "$home"
[ "$(code "${url}state/jobs")" = 200 ] || wrong "the queue stays shut"
stop TERM
"$cutie" check "$home" >"$work/check" 2>&1 || { wrong "check is not content"; head -5 "$work/check"; }

[ "$failed" = 0 ] || exit 1
echo "errors: $n kinds of failing calls, nothing acknowledged is lost ($(echo $calls | wc -w) calls)"
