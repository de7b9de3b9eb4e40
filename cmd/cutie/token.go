package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/fault"
	"cutie/queuefs/state"
)

// tokenVerb manages the tokens of programs.
func tokenVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "token add USER | rm NAME | ls",
		Aliases: []string{"tokens"},
		Short:   "manage the tokens of programs",
		Args:    between(1, 2),
		Long: `
add makes a token for a user and prints it once; the users file holds only its
hash. It has the rights of the user, or those of --rights among them. rm removes a
token by its name, ls lists the tokens. -t json prints objects.

A program sends it as Authorization: Bearer TOKEN; curl does with
--oauth2-bearer TOKEN, cutie with the environment variable CUTIE_TOKEN. Send
tokens to daemons on other machines over https only.`,
		Example: `cutie token add ada --users users --rights read --expires 30d`,
	}
	fs := cmd.Flags()
	file := bindUsers(fs)
	label := fs.String("name", "", "`name` of the token (default USER-1, USER-2 …)")
	rights := fs.String("rights", "", "`list` of rights, see cutie help user (default those of the user)")
	expires := fs.String("expires", "90d", "`time` it lasts, such as 12h or 30d; a date such as 2030-01-31; or never")
	return c.Verb(cmd, optForm, func(context.Context) error {
		if err := usersFile(*file); err != nil {
			return err
		}
		word, name, err := subverb(c, "add", "rm", "ls")
		if err != nil {
			return err
		}
		if word == "rm" && c.Form != "" {
			return fault.Usagef("rm prints nothing in a response form")
		}
		switch word {
		case "ls":
			return listTokens(c, *file)
		case "rm":
			return fault.About(name, access.Edit(*file, func(all *access.Users) error { return all.RemoveToken(name) }))
		}
		t := access.Token{Name: *label, User: name, Narrow: *rights != ""}
		if t.Narrow {
			if t.Rights, err = access.ParseRights(*rights); err != nil {
				return fault.Usagef("--rights: %v", err)
			}
		}
		if t.Expires, err = parseExpires(*expires, time.Now()); err != nil {
			return err
		}
		if *label != "" {
			if err := access.CheckName(*label); err != nil {
				return fault.Usagef("%v", err)
			}
		}
		// Edit would make an empty file for a missing user.
		if _, _, err := access.Load(*file); err != nil {
			return err
		}
		secret, hash := access.NewToken()
		t.Hash = hash
		err = access.Edit(*file, func(all *access.Users) error {
			for n := 1; *label == ""; n++ {
				t.Name = name + "-" + strconv.Itoa(n)
				if _, taken := all.Token(t.Name); !taken {
					break
				}
			}
			return all.AddToken(t)
		})
		if err != nil {
			return err
		}
		if c.Form != "" {
			return c.Facts(false, factsOf(&t, secret))
		}
		_, err = fmt.Fprintln(c.Out.Stdout, secret)
		return err
	})
}

// parseExpires reads the end of a token: a time from now, a date, or never (zero).
func parseExpires(text string, now time.Time) (time.Time, error) {
	bad := fault.Usagef("--expires %.40q is no time such as 12h or 30d, no date such as 2030-01-31, and not never", text)
	if text == "never" {
		return time.Time{}, nil
	}
	var at time.Time
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		at = day
	} else if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 100*366 {
			return at, bad
		}
		at = now.Add(time.Duration(n) * 24 * time.Hour)
	} else {
		d, err := time.ParseDuration(text)
		if err != nil {
			return at, bad
		}
		at = now.Add(d)
	}
	at = at.UTC().Truncate(time.Second)
	if !at.After(now) {
		return at, fault.Usagef("--expires %.40q is over already", text)
	}
	return at, nil
}

// factsOf says what a token is, and once its secret.
func factsOf(t *access.Token, secret string) state.Document {
	var rights []string
	if t.Narrow {
		rights = rightsOf(t.Rights)
	}
	return state.OfFacts(state.TokenClass, t.Name, t.User, rights, t.Expires, secret)
}

func listTokens(c *call, file string) error {
	all, _, err := access.Load(file)
	if err != nil {
		return err
	}
	if c.Form != "" {
		var facts []state.Document
		for _, t := range all.Tokens() {
			facts = append(facts, factsOf(&t, ""))
		}
		return c.Facts(true, facts...)
	}
	l := c.Out.Table("TOKEN", "USER", "RIGHTS", "EXPIRES")
	for _, t := range all.Tokens() {
		if err := l.Row(t.Name, t.User, t.RightsText(), t.ExpiresText()); err != nil {
			return err
		}
	}
	return l.End()
}
