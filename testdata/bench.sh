#!/bin/sh
# Measures cutie beside other queues on this machine and prints what it reaches
# and the ratios. Run it from the top of the checkout, or with make bench.
#
# For each size of job and number of clients, in turn: every peer, then the
# daemon, each on fresh directories on the same file system; all of it ROUNDS
# times over, so that slow changes of the machine hit all alike. Between two
# measurements the file system is synced and left alone for a moment. What
# every run measured stays in .bench as JSON.
#
# Environment:
#   SIZES    octets of a job       (1024 65536 1048576)
#   CLIENTS  numbers of clients    (1 8 64)
#   PEERS    of: peers help        (beanstalkd redis dirq bare-http)
#   BATCHES  jobs a request, for 64 clients and 1024 octets; may be empty (100)
#   ROUNDS   repetitions           (2)
#   SCALE    divides the numbers of jobs, for a quick look (1)
#   DISK     directory for homes and peers, on the disk to measure (.bench/disk)
#   GO       the go command
set -eu

: "${SIZES=1024 65536 1048576}" "${CLIENTS=1 8 64}" "${PEERS=beanstalkd redis dirq bare-http}"
: "${BATCHES=100}" "${ROUNDS=2}" "${SCALE=1}" "${DISK=.bench/disk}" "${GO=go}"
QUIET=1 # seconds of rest before each measurement

cutie=bin/cutie
peers=.bench/peers
home=
daemon=
failed=0
files=

say() { printf '%s\n' "$*"; }

die() {
	say "bench: $*" >&2
	exit 1
}

stop_daemon() {
	[ -n "$daemon" ] || return 0
	kill "$daemon" 2>/dev/null || :
	wait "$daemon" || :
	daemon=
}

clean() {
	stop_daemon
	if [ -n "$home" ]; then
		[ ! -s "$home/err" ] || sed 's/^/daemon: /' "$home/err" >&2
		rm -rf "$home"
		home=
	fi
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# settle lets what was written before reach the disk.
settle() {
	sync -f "$DISK" 2>/dev/null || sync
	sleep "$QUIET"
}

# start_daemon serves a fresh home and sets url.
start_daemon() {
	home=$(mktemp -d "$DISK/home-XXXXXX")
	"$cutie" serve --home "$home/h" --listen 127.0.0.1:0 --log-level error >"$home/out" 2>"$home/err" &
	daemon=$!
	url=
	tries=0
	while [ -z "$url" ]; do
		kill -0 "$daemon" 2>/dev/null && [ "$tries" -lt 100 ] || die "the daemon does not start: $(cat "$home/err")"
		tries=$((tries + 1))
		sleep 0.1
		url=$(awk '$1 == "open" { print $2 }' "$home/out")
	done
}

# jobs_for SIZE CLIENTS prints how many jobs take a few seconds.
jobs_for() {
	case $2 in
	1) share=1 ;;
	[2-9] | 1[0-9]) share=2 ;;
	*) share=4 ;;
	esac
	if [ "$1" -le 4096 ]; then
		n=$((share == 4 ? 30000 : 10000 * share))
	elif [ "$1" -le 262144 ]; then
		n=$((2000 * share))
	else
		n=$((200 * share))
	fi
	n=$((n / SCALE))
	say $((n > $2 ? n : $2))
}

# keep FILE COMMAND… writes the runs that the command prints to the file and
# shows them. Errors in a run are told and make this script fail at its end.
keep() {
	file=$1
	shift
	settle
	"$@" >"$file" || failed=1
	if [ -s "$file" ] && "$peers" show "$file"; then
		files="$files $file"
	fi
}

# measure_peers ROUND SIZE CLIENTS
measure_peers() {
	for peer in $PEERS; do
		jobs=$(jobs_for "$2" "$3")
		# It is slow, and its rate does not depend on how many jobs it does.
		[ "$peer" != dirq ] || [ "$2" -gt 4096 ] || jobs=$((jobs / 5 > $3 ? jobs / 5 : $3))
		keep ".bench/$2-$3-$peer-$1.json" \
			"$peers" run --dir "$DISK" -c "$3" -n "$jobs" --size "$2" -t json "$peer"
	done
}

# measure_cutie ROUND SIZE CLIENTS BATCH
measure_cutie() {
	jobs=$(jobs_for "$2" "$3")
	[ "$4" = 1 ] || jobs=$((2 * jobs))
	start_daemon
	keep ".bench/$2-$3-cutie-$4-$1.json" \
		"$cutie" bench --url "$url" --pid "$daemon" -c "$3" -n "$jobs" --size "$2" --batch "$4" -t json
	clean
}

[ -f go.mod ] && [ -d cmd/cutie ] || die "not at the top of the checkout"
mkdir -p .bench "$DISK"
rm -f .bench/*.json .bench/ratios.txt
"$GO" build -o "$cutie" ./cmd/cutie
"$GO" build -o "$peers" ./cmd/peers

say "machine: $(uname -srm), $(getconf _NPROCESSORS_ONLN) processors, $DISK on $(df -PT "$DISK" 2>/dev/null | awk 'NR == 2 { print $2 }')"
say "method: $ROUNDS rounds; in each, for every size and number of clients, first the peers ($PEERS), then cutie;"
say "  each submits, then consumes the same jobs, on fresh directories on one file system;"
say "  before each the file system is synced and rests for $QUIET s; dirq does a fifth of the small jobs"
say "  cpu and rss are those of the server; peers move one job a request"
round=1
while [ "$round" -le "$ROUNDS" ]; do
	for size in $SIZES; do
		for clients in $CLIENTS; do
			say
			say "round $round of $ROUNDS, $size octets, $clients clients"
			measure_peers "$round" "$size" "$clients"
			measure_cutie "$round" "$size" "$clients" 1
			if [ "$size" = 1024 ] && [ "$clients" = 64 ]; then
				for batch in $BATCHES; do
					measure_cutie "$round" "$size" "$clients" "$batch"
				done
			fi
		done
	done
	round=$((round + 1))
done

say
say "median of $ROUNDS rounds; ratio is how many times the peer's rate cutie reaches"
# The names are of our making and have no spaces.
# shellcheck disable=SC2086
"$peers" ratios $files >.bench/ratios.txt || failed=1
cat .bench/ratios.txt
exit "$failed"
