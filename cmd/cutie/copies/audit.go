package copies

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/call"
	"cutie/cmd/cutie/fault"
	"cutie/publisher/destination"
)

// Audit compares a copy with its Source.
func Audit(c *call.Call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit [URL] DIR",
		Short: "prove that a copy equals its Source",
		Args:  call.Between(1, 2),
		Long: `
Compares the files of a copy made by cutie sync with the lists of the Source, and
prints a line for each difference: a resource is missing, different, extra (no list
names it), or in transit (a change that was not yet followed explains it).

Length and time are compared, with --checksum the digests of all files. It changes no
file.

It ends with 0 when nothing is missing, different or extra, else with 8.`,
		Example: `cutie audit mirror
cutie audit mirror --checksum -t json`,
	}
	var o options
	o.bind(cmd.Flags())
	cmd.Flags().BoolVar(&o.Deep, "checksum", false, "compare the digests of all files")
	return c.Verb(cmd, call.Form|call.Verbose, func(ctx context.Context) error {
		return o.with(ctx, c, func(ctx context.Context, copied *destination.Copy) error {
			r, err := copied.Audit(ctx)
			if err != nil {
				return err
			}
			if err := printAudit(c, r); err != nil {
				return err
			}
			if !r.Clean() {
				return fault.Hint(fmt.Errorf("%w: %d missing, %d different, %d extra", fault.ErrDiffers, r.Missing, r.Different, r.Extra),
					"cutie sync --again --checksum --delete all "+o.Dir)
			}
			return nil
		})
	})
}

func printAudit(c *call.Call, r *destination.AuditReport) error {
	if asJSON, err := wantsJSON(c); err != nil {
		return err
	} else if asJSON {
		return printJSON(c, r)
	}
	for _, d := range r.Differences {
		line := fmt.Sprintf("%s: %s", d.What, d.URI)
		if d.Why != "" {
			line += ": " + d.Why
		}
		fmt.Fprintln(c.Out.Stdout, line)
	}
	how := "length and time"
	if r.Deep {
		how = "digests"
	}
	_, err := fmt.Fprintf(c.Out.Stdout, "%d resources, same %d, missing %d, different %d, extra %d, in transit %d, unverified %d; by %s, %.1f s\n",
		r.Resources, r.Same, r.Missing, r.Different, r.Extra, r.InTransit, r.Unverified, how, r.Seconds)
	return err
}
