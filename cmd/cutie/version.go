package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"cutie/queuefs"
)

// printVersion names the specification, this implementation and, if the build
// recorded it, the commit.
func printVersion(_ context.Context, c *call) error {
	commit := setting("vcs.revision", 12)
	if commit != "" {
		commit = ", commit " + commit
	}
	_, err := fmt.Fprintf(c.stdout, "cutie %s (Cutie 0.3, %s%s)\n", queuefs.Version, runtime.Version(), commit)
	return err
}

// setting returns the first n octets of what the build recorded, "" if it did
// not.
func setting(key string, n int) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key && len(s.Value) >= n {
			return s.Value[:n]
		}
	}
	return ""
}
