package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
)

// A peer is another queue to be measured.
type peer struct {
	name    string
	about   string
	missing func(context.Context) string // why it cannot be measured here; empty if it can
	measure func(ctx context.Context, dir string, t task) ([]result, error)
}

// peers is every peer, in the order of the help.
var peers = []peer{
	{"beanstalkd", "beanstalkd -b DIR -f0: put; reserve and delete", needs("beanstalkd"), beanstalkd.measure},
	{"redis", "redis-server, appendfsync always: LPUSH; RPOP", needs("redis-server"), redis.measure},
	{"dirq", "python3-dirq, file and directory synced: add; lock, get and remove", missingDirq, measureDirq},
	{"bare-http", "an HTTP server that stores nothing: the most that HTTP reaches here", needs(), bareHTTP.measure},
}

// needs returns a test for the programs.
func needs(programs ...string) func(context.Context) string {
	return func(context.Context) string {
		for _, name := range programs {
			if _, err := exec.LookPath(name); err != nil {
				return name + " is not installed"
			}
		}
		return ""
	}
}

// choosePeers finds the peers by their names, and refuses tasks not for peers.
func choosePeers(t task, names []string) (chosen []peer, err error) {
	switch {
	case slices.Contains(t.phases, mixed):
		return nil, fmt.Errorf("phase %s: peers are measured in %s and %s only", mixed, submit, consume)
	case t.jobs == 0:
		return nil, errors.New("no jobs: would not end")
	case len(names) == 0:
		return nil, errors.New("no peer named")
	}
	for _, name := range names {
		p := peerNamed(name)
		if p == nil {
			return nil, fmt.Errorf("unknown peer %.40q", name)
		}
		chosen = append(chosen, *p)
	}
	return chosen, nil
}

// peerNamed returns the peer of the name, nil without one.
func peerNamed(name string) *peer {
	i := slices.IndexFunc(peers, func(p peer) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return &peers[i]
}

// runPeers measures the peers, each in a directory of its own below dir.
func runPeers(ctx context.Context, dir string, t task, chosen []peer, stderr io.Writer) (report, error) {
	var r report
	for _, p := range chosen {
		if missing := p.missing(ctx); missing != "" {
			fmt.Fprintf(stderr, "bench: nopeer %s: %s\n", p.name, missing)
			continue
		}
		runs, err := p.measure(ctx, dir, t)
		if err != nil {
			return r, fmt.Errorf("%s: %w", p.name, err)
		}
		for i := range runs {
			runs[i].Server = p.name
		}
		r.Runs = append(r.Runs, runs...)
	}
	return r, nil
}
