package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// processUsage is the cost of a run to the server process.
type processUsage struct {
	CPUSeconds float64 `json:"cpu_seconds"` // user and system
	RSS        int64   `json:"rss_octets"`  // resident at the end of the run
}

// clockTick is how many units of processor time in /proc are a second, on every
// Linux.
const clockTick = 100

// readUsage reads the processor time and resident memory of a process from
// /proc/PID/stat; see proc(5). It works on Linux only.
func readUsage(pid int) (processUsage, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	data, err := os.ReadFile(name)
	if err != nil {
		return processUsage{}, err
	}
	// The second field is a name in parentheses, of any characters.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	const state, utime, stime, pages = 3, 14, 15, 24
	var n [3]int64
	for i, field := range []int{utime, stime, pages} {
		if len(fields) <= field-state {
			return processUsage{}, fmt.Errorf("%s: too short", name)
		}
		if n[i], err = strconv.ParseInt(string(fields[field-state]), 10, 64); err != nil {
			return processUsage{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return processUsage{float64(n[0]+n[1]) / clockTick, n[2] * int64(os.Getpagesize())}, nil
}
