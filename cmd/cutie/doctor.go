package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/doctor"
	"cutie/cmd/cutie/fault"
	"cutie/queuefs/durable"
)

// doctorVerb names faults of a home and of the machine around it.
func doctorVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "look for faults of a home, its machine and its daemon, and name their cures",
		Args:  between(0, 0),
		Long: `
Looks at the settings, the home, its disk, the clock, the limits of the process, the
certificate, where references lead, and at what a running daemon says of itself: its
storage, what it publishes and pushes, its mirrors and their audits. Each fault comes
with its cure. It changes nothing, takes seconds, and may run beside the daemon; cutie
check reads and verifies all files of a home without one.

The settings are those of cutie serve: give it the same --config file, environment and
options. The exit code is 1 if there is a fault; warnings alone leave it 0.`,
		Example: "cutie doctor\ncutie doctor -t json",
	}
	s := newSettings(cmd.Flags(), &c.Home)
	return c.Verb(cmd, optHome|optForm, func(ctx context.Context) error {
		var findings []durable.Finding
		s.Log = zerolog.Nop()
		err := s.fill(typed(c), os.Getenv)
		asked := s.Limits.Conns
		if err == nil {
			err = s.check()
		}
		if err != nil {
			text, hint := fault.Words(err) // settings left out have their defaults
			findings = append(findings, durable.Finding{Path: "settings", Text: text, Cure: cmp.Or(hint, "mend it: cutie config default says what each setting takes")})
		}
		users := s.Access.Users
		if _, wide, err := access.Load(users); err == nil && wide {
			findings = append(findings, durable.Finding{Level: durable.Warning, Path: "settings", Text: "other users of this machine may read or write " + users, Cure: "chmod 600 " + users})
		}
		var mirrors []string
		for _, m := range s.Mirror.Sources {
			mirrors = append(mirrors, m.URL)
		}
		p := doctor.Patient{Home: c.Home, BaseURI: s.Listen.BaseURI, Certificate: s.tlsCert, Key: s.tlsKey, Conns: asked,
			Memory: s.Limits.Buffers, Audit: s.Mirror.Audit, Mirrors: mirrors, Readable: []string{s.config, users, s.tlsCert, s.tlsKey}, Finder: &c.Finder, Now: time.Now()}
		findings = append(findings, p.Examine(ctx)...)
		if err := c.Findings(findings, "", nil); err != nil {
			return err
		}
		count := map[durable.Level]int{}
		for _, f := range findings {
			count[f.Level]++
		}
		if count[durable.Faulty] > 0 {
			return fmt.Errorf("faults: %d, warnings: %d", count[durable.Faulty], count[durable.Warning])
		}
		return nil
	})
}
