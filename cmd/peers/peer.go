package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"cutie/cmd/cutie/load"
)

// task is what is to be measured of each peer.
type task struct {
	dir     string
	phases  []string
	clients int
	jobs    int64
	size    int
}

func (t task) check() error {
	if slices.Contains(t.phases, load.Both) {
		return fmt.Errorf("phase %s: peers are measured in %s and %s only", load.Both, load.Submit, load.Consume)
	}
	if t.jobs == 0 {
		return errors.New("no jobs: would not end")
	}
	return load.Bench{Phases: t.phases, Clients: t.clients, Jobs: t.jobs, Size: t.size, Batch: 1}.Check()
}

// plan is the task's plan for one phase.
func (t task) plan(phase string) load.Plan {
	return load.Plan{Phase: phase, Clients: t.clients, Jobs: t.jobs, Batch: 1, Size: t.size}
}

// A peer is something to be measured.
type peer struct {
	name    string
	about   string
	missing func(context.Context) string // why it cannot be measured here; empty if it can
	measure func(context.Context, task) ([]load.Result, error)
}

// peers is every peer, in the order in which help lists them.
var peers = []peer{
	{"beanstalkd", "beanstalkd -b DIR -f0: put; reserve and delete", needs("beanstalkd"), beanstalkd.measure},
	{"redis", "redis-server, appendfsync always: LPUSH; RPOP", needs("redis-server"), redis.measure},
	{"dirq", "python3-dirq, file and directory synced: add; lock, get and remove", missingDirq, measureDirq},
	{"bare-http", "an HTTP server that stores nothing: what HTTP can reach here", needs(), bareHTTP.measure},
}

func findPeer(name string) (peer, error) {
	var names []string
	for _, p := range peers {
		if p.name == name {
			return p, nil
		}
		names = append(names, p.name)
	}
	return peer{}, fmt.Errorf("unknown peer %.40q: not %s", name, strings.Join(names, ", "))
}

// needs says that a peer can be measured if all programs are installed.
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
