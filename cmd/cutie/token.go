package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/fault"
	"cutie/queuefs/state"
)

// tokenVerb is the former name of cutie user token.
func tokenVerb(c *call) *cobra.Command {
	file := os.Getenv(usersVariable)
	cmd := tokens(c, &file)
	cmd.Aliases = []string{"tokens"}
	return cmd
}

// tokens manages the tokens of programs.
func tokens(c *call, file *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token COMMAND",
		Short: "manage the tokens of programs",
		Long: `
A program sends a token as Authorization: Bearer TOKEN; curl does with
--oauth2-bearer TOKEN, cutie with the environment variable CUTIE_TOKEN. Send
tokens to daemons on other machines over https only.`,
		Example: `cutie user token add ada --users users --rights read --expires 30d`,
	}
	bindUsers(cmd.Flags(), file)
	return c.Group(cmd, optForm, tokenAddVerb(c, file), tokenRemoveVerb(c, file), tokenListVerb(c, file))
}

func tokenRemoveVerb(c *call, file *string) *cobra.Command {
	cmd := &cobra.Command{Use: "rm NAME", Short: "remove a token by its name"}
	bindUsers(cmd.Flags(), file)
	return c.Verb(cmd, 0, func(context.Context) error {
		if err := usersFile(*file); err != nil {
			return err
		}
		name := c.Args[0]
		return fault.About(name, access.Edit(*file, func(all *access.Users) error { return all.RemoveToken(name) }))
	})
}

func tokenListVerb(c *call, file *string) *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "list the tokens, with -t json as an array"}
	bindUsers(cmd.Flags(), file)
	return c.Verb(cmd, optForm, func(context.Context) error {
		if err := usersFile(*file); err != nil {
			return err
		}
		return listTokens(c, *file)
	})
}

func tokenAddVerb(c *call, file *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add USER",
		Short: "make a token for a user and print it",
		Long: `
Prints the token once; the users file holds only its hash. It has the rights of the user,
or those of --rights among them. With -t json an object is printed.`,
	}
	fs := cmd.Flags()
	bindUsers(fs, file)
	label := fs.String("name", "", "`name` of the token (default USER-1, USER-2 …)")
	rights := fs.String("rights", "", "`list` of rights, see cutie help user (default those of the user)")
	expires := fs.String("expires", "90d", "`time` it lasts, such as 12h or 30d; a date such as 2030-01-31; or never")
	return c.Verb(cmd, optForm, func(context.Context) (err error) {
		if err := usersFile(*file); err != nil {
			return err
		}
		name := c.Args[0]
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
