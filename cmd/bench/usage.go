package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// processUsage is the cost of a run to the server process.
type processUsage struct {
	CPUSeconds float64 `json:"cpu_seconds"` // user and system
	RSS        int64   `json:"rss_octets"`  // resident at the end of the run
}

// watch measures a process from now on. The returned function gives the usage so
// far.
func watch(pid int) (func() (*processUsage, error), error) {
	before, _, err := readUsage(pid)
	if err != nil {
		return nil, err
	}
	return func() (*processUsage, error) {
		after, rss, err := readUsage(pid)
		if err != nil {
			return nil, err
		}
		return &processUsage{CPUSeconds: (after - before).Seconds(), RSS: rss}, nil
	}, nil
}

// clockTick is the unit of processor time in /proc, the same on every Linux.
const clockTick = 10 * time.Millisecond

// readUsage reads the processor time and resident memory of a process from
// /proc/PID/stat; see proc(5). It works on Linux only.
func readUsage(pid int) (cpu time.Duration, rss int64, err error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, 0, err
	}
	// The second field is a name in parentheses, of any characters.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const state, utime, stime, pages = 3, 14, 15, 24
	var n [3]int64
	for i, field := range []int{utime, stime, pages} {
		if len(fields) <= field-state {
			return 0, 0, fmt.Errorf("%s: too short", name)
		}
		if n[i], err = strconv.ParseInt(string(fields[field-state]), 10, 64); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return time.Duration(n[0]+n[1]) * clockTick, n[2] * int64(os.Getpagesize()), nil
}
