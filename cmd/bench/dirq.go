package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

//go:embed testdata/synced_queue.py
var dirqScript []byte

// dirqPython returns a Python with the module; empty if there is none. The
// system's comes first, because the module is a package of the system.
func dirqPython(ctx context.Context) string {
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(ctx, python, "-c", "import dirq.QueueSimple").Run() == nil {
			return python
		}
	}
	return ""
}

func missingDirq(ctx context.Context) string {
	if dirqPython(ctx) == "" {
		return "python3-dirq is not installed"
	}
	return ""
}

// measureDirq runs the phases with worker processes; it has no server.
func measureDirq(ctx context.Context, parent string, t task) (runs []result, err error) {
	dir, err := os.MkdirTemp(parent, "peer-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	script := filepath.Join(dir, "synced_queue.py")
	if err := os.WriteFile(script, dirqScript, 0o600); err != nil {
		return nil, err
	}
	python := dirqPython(ctx)
	for _, phase := range t.phases {
		cmd := exec.CommandContext(ctx, python, script, phase, filepath.Join(dir, "queue"),
			strconv.Itoa(t.clients), strconv.FormatInt(t.jobs, 10), strconv.Itoa(t.size))
		var stdout bytes.Buffer
		var stderr tail
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 10 * time.Second
		if err := cmd.Run(); err != nil {
			return runs, fmt.Errorf("%s: %w: %s", phase, err, stderr.text())
		}
		res := result{Phase: phase, Clients: t.clients, Size: t.size, Batch: 1}
		if err := json.Unmarshal(stdout.Bytes(), &res); err != nil {
			return runs, fmt.Errorf("%s: %w", phase, err)
		}
		if res.Jobs != t.jobs {
			return runs, fmt.Errorf("%s: %d of %d jobs", phase, res.Jobs, t.jobs)
		}
		res.OpsPerSecond = float64(res.Jobs) / res.Seconds
		runs = append(runs, res)
	}
	return runs, nil
}
