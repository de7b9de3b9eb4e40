package main

import (
	"context"
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/queuefs"
	"cutie/queuefs/state"
)

// licenses is written by make licenses.
//
//go:embed licenses.txt
var licenses string

func versionVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "print the version", Example: "cutie version\ncutie version -t json\ncutie version --licenses"}
	all := cmd.Flags().Bool("licenses", false, "print the libraries in the program, with their licences")
	return c.Verb(cmd, optForm, func(context.Context) error {
		if *all {
			if c.Form != "" {
				return fault.Usagef("--licenses and --response-form exclude each other")
			}
			_, err := fmt.Fprint(c.Out.Stdout, licenses)
			return err
		}
		if c.Form != "" {
			return c.Facts(false, state.OfFacts(state.VersionClass, queuefs.Version, "Cutie 0.3", runtime.Version(), buildSetting("vcs.revision", 12)))
		}
		_, err := fmt.Fprintln(c.Out.Stdout, versionLine())
		return err
	})
}

// versionLine names this implementation, the specification, and the commit if
// the build recorded it.
func versionLine() string {
	commit := buildSetting("vcs.revision", 12)
	if commit != "" {
		commit = ", commit " + commit
	}
	return fmt.Sprintf("cutie %s (Cutie 0.3, %s%s)", queuefs.Version, runtime.Version(), commit)
}

// buildSetting returns the first n octets of a setting of the build, "" if the build
// did not record it.
func buildSetting(key string, n int) string {
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
