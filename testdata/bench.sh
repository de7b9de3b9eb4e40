#!/bin/sh
# Measures cutie beside other queues on this machine and prints what it reaches
# and the ratios. Run it from the top of the checkout, or with make bench.
#
# For each size of job and number of clients, in turn: every peer, then the
# daemon, each on fresh directories on the same file system; all of it ROUNDS
# times over, so that slow changes of the machine hit all alike. Between two
# measurements the file system is synced and left alone for a moment. For a
# minute after many files were removed some file systems are slow to make new
# ones: so homes are removed at the end of a round, the peer that removes a file
# for each job has its turn there, and the next round waits for a minute. What
# every run measured stays in .bench as JSON.
#
# Environment:
#   SIZES    octets of a job       (1024 65536 1048576)
#   CLIENTS  numbers of clients    (1 8 64)
#   PEERS    of: bench help        (beanstalkd redis dirq bare-http)
#   BATCHES  jobs a request, for 64 clients and 1024 octets; may be empty (100)
#   ROUNDS   repetitions           (2)
#   STEADY   seconds of a load that lasts, at the end; 0 is none (60)
#   SCALE    divides the numbers of jobs, for a quick look (1)
#   DISK     directory for homes and peers, on the disk to measure (.bench/disk)
#   GO       the go command
set -eu

: "${SIZES=1024 65536 1048576}" "${CLIENTS=1 8 64}" "${PEERS=beanstalkd redis dirq bare-http}"
: "${BATCHES=100}" "${ROUNDS=2}" "${STEADY=60}" "${SCALE=1}" "${DISK=.bench/disk}" "${GO=go}"
QUIET=1  # seconds of rest before each measurement
AFTER=65 # and after the files of a round were removed

cutie=bin/cutie
bench=.bench/bench
homes=
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

# leave stops the daemon; its home stays to the end of the round.
leave() {
	stop_daemon
	[ ! -s "$home/err" ] || sed 's/^/daemon: /' "$home/err" >&2
	home=
}

clean() {
	[ -z "$home" ] || leave
	[ -z "$homes" ] || rm -rf "$homes"
	homes=
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
	home=$(mktemp -d "$homes/XXXXXX")
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
	if [ -s "$file" ] && "$bench" show "$file"; then
		files="$files $file"
	fi
}

# measure_peers PEER…: those, for the round, size and number of clients that the
# loops are at.
measure_peers() {
	for peer; do
		jobs=$(jobs_for "$size" "$clients")
		# It is slow, and its rate does not depend on how many jobs it does.
		[ "$peer" != dirq ] || [ "$size" -gt 4096 ] || jobs=$((jobs / 5 > clients ? jobs / 5 : clients))
		keep ".bench/$size-$clients-$peer-$round.json" \
			"$bench" peers --dir "$DISK" -c "$clients" -n "$jobs" --size "$size" -t json "$peer"
	done
}

# measure_cutie BATCH, for the same.
measure_cutie() {
	jobs=$(jobs_for "$size" "$clients")
	[ "$1" = 1 ] || jobs=$((2 * jobs))
	start_daemon
	keep ".bench/$size-$clients-cutie-$1-$round.json" \
		"$bench" cutie --url "$url" --pid "$daemon" -c "$clients" -n "$jobs" --size "$size" --batch "$1" -t json
	leave
}

[ -f go.mod ] && [ -d cmd/cutie ] || die "not at the top of the checkout"
mkdir -p .bench "$DISK"
rm -f .bench/*.json .bench/ratios.txt
"$GO" build -o "$cutie" ./cmd/cutie
"$GO" build -o "$bench" ./cmd/bench

say "machine: $(uname -srm), $(getconf _NPROCESSORS_ONLN) processors, $DISK on $(df -PT "$DISK" 2>/dev/null | awk 'NR == 2 { print $2 }')"
say "method: $ROUNDS rounds; in each, for every size and number of clients, first the peers ($PEERS), then cutie;"
say "  each submits, then consumes the same jobs, on fresh directories on one file system;"
say "  before each the file system is synced and rests for $QUIET s"
case " $PEERS " in *" dirq "*) say "  dirq does a fifth of the small jobs, at the end of a round" ;; esac
say "  cpu and rss are those of the server; peers move one job a request"
quick=
for peer in $PEERS; do
	[ "$peer" = dirq ] || quick="$quick $peer"
done
round=1
while [ "$round" -le "$ROUNDS" ]; do
	homes=$(mktemp -d "$DISK/homes-XXXXXX")
	for size in $SIZES; do
		for clients in $CLIENTS; do
			say
			say "round $round of $ROUNDS, $size octets, $clients clients"
			# shellcheck disable=SC2086
			measure_peers $quick
			measure_cutie 1
			if [ "$size" = 1024 ] && [ "$clients" = 64 ]; then
				for batch in $BATCHES; do
					measure_cutie "$batch"
				done
			fi
		done
	done
	case " $PEERS " in *" dirq "*)
		for size in $SIZES; do
			for clients in $CLIENTS; do
				say
				say "round $round of $ROUNDS, $size octets, $clients clients"
				measure_peers dirq
			done
		done
		;;
	esac
	clean
	round=$((round + 1))
	[ "$round" -gt "$ROUNDS" ] || {
		sleep "$AFTER" &
		wait $! # which a signal ends, other than a sleep in front
	}
done

say
say "median of $ROUNDS rounds; ratio is how many times the peer's rate cutie reaches"
# The names are of our making and have no spaces.
# shellcheck disable=SC2086
"$bench" ratios $files >.bench/ratios.txt || failed=1
cat .bench/ratios.txt
if [ "$STEADY" -gt 0 ]; then
	say
	say "a load that lasts; a burst of it comes first"
	settle
	steady=
	for peer in $PEERS; do
		case $peer in beanstalkd | redis) steady="$steady${steady:+,}$peer" ;; esac
	done
	"$bench" steady --program "$cutie" --dir "$DISK" --seconds "$STEADY" --peers "$steady" || failed=1
fi
exit "$failed"
