package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/daemon"
	"cutie/cmd/cutie/fault"
	"cutie/cmd/cutie/reach"
)

// handoverVerb gives a home in a store to a standby.
func handoverVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "handover",
		Short: "give a home in a store to a standby",
		Long: `
The owner of a home in a store finishes the changes in progress and gives the home up. A
standby takes it, and the former owner is a standby then. Requests wait meanwhile, about
a tenth of a second, and are sent on to the new owner. Slow uploads are waited for, up to
--grace of cutie serve. If no standby takes the home, the
owner goes on after a few seconds, and the exit code is 5. See cutie help standbys.`,
	}
	return c.Verb(cmd, optTarget|optForm|optOutput, func(ctx context.Context) error {
		return changeOwner(ctx, c, http.MethodDelete)
	})
}

// maxOwnership is the most octets of an answer.
const maxOwnership = 64 << 10

// changeOwner asks a daemon to take its home, or to give it up.
func changeOwner(ctx context.Context, c *call, method string) error {
	asJSON, err := wantsJSON(c)
	if err != nil {
		return err
	}
	return c.At(ctx, func(t *reach.Target) error {
		req, err := http.NewRequestWithContext(ctx, method, t.Base+daemon.OwnerPath[1:], nil)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/json")
		resp, err := t.Do(req)
		if err != nil {
			if fault.ExitCode(err) == fault.ExitNotFound {
				err = fault.Hint(err, "this daemon has its home in its directory; of a mirror name the queue, or give --all")
			}
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxOwnership))
		if err != nil {
			return err
		}
		if asJSON {
			return c.Out.Emit(body)
		}
		var o daemon.Ownership
		if err := json.Unmarshal(body, &o); err != nil {
			return err
		}
		_, err = fmt.Fprintf(onScreen(c.Out.Stdout), "%s; the owner is %s, %s\n", o.Role, o.Owner, o.URL)
		return err
	})
}
