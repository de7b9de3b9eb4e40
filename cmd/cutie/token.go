package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"cutie/cmd/cutie/access"
)

var tokenVerb = verb{
	name:    "token",
	aliases: []string{"tokens"},
	args:    "add USER | rm NAME | ls",
	min:     1,
	max:     2,
	about:   "give programs a way in that is no password",
	manual: `
add makes a token for a user and prints it, once: the users file holds its hash
only. It can do what the user can, or what of that --rights leaves. rm takes a
token away by its name, ls lists them.

A program sends it as Authorization: Bearer TOKEN; curl does with
--oauth2-bearer TOKEN, cutie with the environment variable CUTIE_TOKEN. In both a
URL of a daemon beyond this machine should begin with https.`,
	setup: setupToken,
}

func setupToken(flags *pflag.FlagSet) action {
	var file, rights, expires, label string
	flags.StringVar(&file, "users", os.Getenv(usersVariable), "users `file` (environment "+usersVariable+")")
	flags.StringVar(&label, "name", "", "`name` of the token (default USER-1, USER-2 …)")
	flags.StringVar(&rights, "rights", "", "`list` of rights, see cutie help user (default those of the user)")
	flags.StringVar(&expires, "expires", "90d", "`time` it lasts, such as 12h or 30d; a date such as 2030-01-31; or never")
	return func(_ context.Context, c *call) error {
		if err := usersFile(file); err != nil {
			return err
		}
		word, name, err := c.subverb("add", "rm", "ls")
		if err != nil {
			return err
		}
		switch word {
		case "ls":
			return c.listTokens(file)
		case "rm":
			return aboutName(name, access.Edit(file, func(all *access.Users) error { return all.RemoveToken(name) }))
		}
		t := access.Token{Name: label, User: name, Narrow: rights != ""}
		if t.Narrow {
			if t.Rights, err = access.ParseRights(rights); err != nil {
				return usagef("--rights: %v", err)
			}
		}
		if t.Expires, err = parseExpires(expires, time.Now()); err != nil {
			return err
		}
		if label != "" {
			if err := access.CheckName(label); err != nil {
				return usagef("%v", err)
			}
		}
		// An empty file for a user who cannot be in it would be left behind.
		if _, _, err := access.Load(file); err != nil {
			return err
		}
		secret, hash := access.NewToken()
		t.Hash = hash
		err = access.Edit(file, func(all *access.Users) error {
			for n := 1; label == ""; n++ {
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
		_, err = fmt.Fprintln(c.stdout, secret)
		return err
	}
}

// parseExpires reads when a token ends: a time from now, a date, or never,
// which is zero.
func parseExpires(text string, now time.Time) (time.Time, error) {
	bad := usagef("--expires %.40q is no time such as 12h or 30d, no date such as 2030-01-31, and not never", text)
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
		return at, usagef("--expires %.40q is over already", text)
	}
	return at, nil
}

func (c *call) listTokens(file string) error {
	all, _, err := access.Load(file)
	if err != nil {
		return err
	}
	l := c.listing()
	l.heading("TOKEN", "USER", "RIGHTS", "EXPIRES")
	for _, t := range all.Tokens() {
		l.row(t.Name, t.User, t.RightsText(), t.ExpiresText())
	}
	return l.print(c)
}

// tokenVariable holds the token that commands send to a daemon.
const tokenVariable = "CUTIE_TOKEN"

// A bearing transport sends a token to one host, and to no other that it may be
// redirected to.
type bearing struct {
	http.RoundTripper
	origin string // scheme and host
	token  string
}

// withToken adds the token of the environment to requests below base.
func withToken(base string, t http.RoundTripper) http.RoundTripper {
	token := os.Getenv(tokenVariable)
	u, err := url.Parse(base)
	if token == "" || err != nil {
		return t
	}
	return bearing{t, u.Scheme + "://" + u.Host, token}
}

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme+"://"+r.URL.Host == b.origin {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.RoundTripper.RoundTrip(r)
}
