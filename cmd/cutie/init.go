package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
	"cutie/queuefs"
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
	var info queuefs.ServiceInfo
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
			if info.BaseURI, err = reach.CleanBase(info.BaseURI); err != nil {
				return err
			}
		}
		if err := reach.AsOwner(dir); err != nil {
			return err
		}
		err := queuefs.Init(dir, namedService(info, dir))
		if errors.Is(err, fs.ErrExist) {
			return fault.Hint(err, "cutie serve --home "+dir+" serves it")
		}
		if errors.Is(err, queuefs.ErrNoHome) {
			return reach.HomeHint(dir, err)
		}
		return err
	})
}

// namedService fills in a missing name and identifier of a service.
func namedService(info queuefs.ServiceInfo, dir string) queuefs.ServiceInfo {
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
