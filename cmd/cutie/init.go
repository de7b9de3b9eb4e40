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

	"github.com/spf13/pflag"

	"cutie/queuefs"
)

var initVerb = verb{
	name:  "init",
	args:  "[DIR]",
	max:   1,
	about: "make an empty home",
	manual: `
The home is DIR, or what --home or CUTIE_HOME says. It has no queue yet:
createQueue adds them.`,
	takes: atHome,
	setup: setupInit,
}

func setupInit(flags *pflag.FlagSet) action {
	var info queuefs.ServiceInfo
	flags.StringVar(&info.Name, "name", "", "`name` of the service (default that of the directory)")
	flags.StringVar(&info.Identifier, "identifier", "", "globally unique `identifier` (default a random one)")
	flags.StringVar(&info.Description, "description", "", "`text` about the service")
	flags.StringVar(&info.BaseURI, "base-uri", "", "`URI` under which clients will reach it")
	flags.StringVar(&info.SupportURI, "support-uri", "", "`URI` for questions, such as mailto:someone@example.org")
	return func(_ context.Context, c *call) error {
		dir := c.home
		if len(c.args) > 0 {
			dir = c.args[0]
		}
		if info.BaseURI != "" {
			var err error
			if info.BaseURI, err = cleanBase(info.BaseURI); err != nil {
				return err
			}
		}
		err := queuefs.Init(dir, named(info, dir))
		if errors.Is(err, fs.ErrExist) {
			return withHint(err, "cutie serve --home "+dir+" serves it")
		}
		return err
	}
}

// named gives a service without name or identifier what tells it from others.
func named(info queuefs.ServiceInfo, dir string) queuefs.ServiceInfo {
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
