package main

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"cutie/queuefs/home"
	"cutie/queuefs/state"
)

// initVerb makes a home.
func initVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "make an empty home",
		Long: `
The home is DIR, or else the one of --home or CUTIE_HOME. It has no queue yet:
cutie create adds them.`,
		Example: `cutie init archive --name 'archive of theses'`,
	}
	var info home.ServiceInfo
	flags := cmd.Flags()
	flags.StringVar(&info.Name, "name", "", "`name` of the service (default that of the directory)")
	flags.StringVar(&info.Identifier, "identifier", "", "globally unique `identifier` (default a random one)")
	flags.StringVar(&info.Description, "description", "", "`text` about the service")
	flags.StringVar(&info.BaseURI, "base-uri", "", "`URI` at which clients will reach it")
	flags.StringVar(&info.SupportURI, "support-uri", "", "`URI` for questions, such as mailto:someone@example.org")
	return c.Verb(cmd, optHome, func(context.Context) error {
		dir := c.Home
		if len(c.Args) > 0 {
			dir = c.Args[0]
		}
		if info.BaseURI != "" {
			var err error
			if info.BaseURI, err = cleanBase(info.BaseURI); err != nil {
				return err
			}
		}
		if err := asOwner(dir); err != nil {
			return err
		}
		err := home.Init(dir, namedService(info, dir))
		if errors.Is(err, fs.ErrExist) {
			return withHint(err, "cutie serve --home "+dir+" serves it")
		}
		if errors.Is(err, home.ErrNoHome) {
			return explainHome(err, dir)
		}
		return err
	})
}

// namedService fills in a missing name and identifier of a service.
func namedService(info home.ServiceInfo, dir string) home.ServiceInfo {
	if info.Name == "" {
		info.Name = "cutie"
		if abs, err := filepath.Abs(dir); err == nil {
			info.Name = filepath.Base(abs)
		}
	}
	if info.Identifier == "" {
		b := make([]byte, 8)
		rand.Read(b)
		host, _ := os.Hostname()
		info.Identifier = fmt.Sprintf("cutie:%s:%s", host, hex.EncodeToString(b))
	}
	return info
}

func importVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import HOME",
		Short: "copy a home that another program wrote",
		Long: `
Copies HOME, a home of Cutie 0.3, to the directory of --home, which must not exist.
Jobs get identifiers of the form that this program uses, in the order of their old
ones; status, dates, sidecars and payloads stay. Prints a line for each job, with
tabs: queue, old identifier, new identifier. The old one also stays in the job file,
as the element formerIdentifier. Nothing in HOME is changed. Links are not followed,
and what is not a regular file is refused.

A home with identifiers of the right form needs no import: cutie serve opens it as it
is. Without queues.txt its directories with queue-info.txt are the queues.`,
		Example: `cutie import /srv/old --home new > names`,
	}
	return c.Verb(cmd, optHome|optOutput, func(context.Context) error {
		if err := asOwner(c.Home); err != nil {
			return err
		}
		rows, err := home.Import(c.Args[0], c.Home)
		if err != nil {
			return withHint(err, "nothing was imported; remove "+c.Home+" if it was made, and try again")
		}
		lines := make([]string, len(rows))
		for i, r := range rows {
			lines[i] = r.Queue + "\t" + r.Old + "\t" + r.New
		}
		return c.Out.Lines(lines)
	})
}

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
				return usagef("--licenses and --response-form exclude each other")
			}
			_, err := fmt.Fprint(c.Out.Stdout, licenses)
			return err
		}
		if c.Form != "" {
			return c.Facts(false, state.OfFacts(state.VersionClass, home.Version, "Cutie 0.3", runtime.Version(), buildSetting("vcs.revision", 12)))
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
	return fmt.Sprintf("cutie %s (Cutie 0.3, %s%s)", home.Version, runtime.Version(), commit)
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
