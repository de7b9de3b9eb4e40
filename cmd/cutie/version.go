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
	_, err := fmt.Fprintf(c.stdout, "cutie %s (Cutie 0.3, %s%s)\n", queuefs.Version, runtime.Version(), commit())
	return err
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return ", commit " + s.Value[:12]
		}
	}
	return ""
}
