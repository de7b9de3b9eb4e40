package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"cutie/cmd/cutie/access"
)

// usersVariable names the users file in the environment.
const usersVariable = "CUTIE_USERS"

var userVerb = verb{
	name:    "user",
	aliases: []string{"users"},
	args:    "add NAME | set NAME | rm NAME | ls",
	min:     1,
	max:     2,
	about:   "say who may use a daemon, and what for",
	manual: `
add makes a user, and the users file if there is none. set changes the rights,
or else the password. rm takes a user away with all tokens. ls lists them. A
daemon that was started with --users FILE notices within a second.

Rights are a list such as read,submit:ingest. Each is for all queues, or for the
one whose identifier follows a colon:

  read     states, payloads, files, everything published, events
  submit   put jobs into a queue
  consume  take jobs, report on them and put them back
  delete   delete pending jobs, hold and release them
  admin    all of these, and the settings; for all queues also to make queues

The password is asked for. The file holds bcrypt hashes of passwords, which may
have 72 octets, and is written with mode 0600. See cutie help token for programs.`,
	setup: setupUser,
}

func setupUser(flags *pflag.FlagSet) action {
	var (
		file, rights  string
		piped, noPass bool
	)
	flags.StringVar(&file, "users", os.Getenv(usersVariable), "users `file` (environment "+usersVariable+")")
	flags.StringVar(&rights, "rights", "", "`list` of rights (default of add: read)")
	flags.BoolVar(&piped, "password-stdin", false, "read the password from standard input")
	flags.BoolVar(&noPass, "no-password", false, "let the user have tokens only")
	return func(ctx context.Context, c *call) error {
		if err := usersFile(file); err != nil {
			return err
		}
		word, name, err := c.subverb("add", "set", "rm", "ls")
		if err != nil {
			return err
		}
		if (word == "rm" || word == "ls") && (rights != "" || piped || noPass) {
			return usagef("%s takes no rights and no password", word)
		}
		if piped && noPass {
			return usagef("--password-stdin and --no-password exclude each other")
		}
		u := access.User{Name: name}
		if rights != "" {
			if u.Rights, err = access.ParseRights(rights); err != nil {
				return usagef("--rights: %v", err)
			}
		}
		switch word {
		case "ls":
			return c.listUsers(file)
		case "rm":
			return aboutName(name, access.Edit(file, func(all *access.Users) error { return all.Remove(name) }))
		}
		if err := access.CheckName(name); err != nil {
			return usagef("%v", err)
		}
		// What cannot be done is said before a password is asked for.
		if err := canChange(file, name, word == "add"); err != nil {
			return aboutName(name, err)
		}
		if asks := word == "add" || rights == "" || piped; asks && !noPass {
			password, err := c.password(ctx, piped)
			if err == nil {
				u.Password, err = access.HashPassword(password)
			}
			if err != nil {
				return aboutName(name, err)
			}
		}
		return aboutName(name, access.Edit(file, func(all *access.Users) error {
			if word == "add" {
				if rights == "" {
					u.Rights = access.Rights{{Right: access.Read}}
				}
				return all.Add(u)
			}
			old, ok := all.User(name)
			if !ok {
				return access.ErrMissing
			}
			if rights == "" {
				u.Rights = old.Rights
			}
			if u.Password == "" && !noPass {
				u.Password = old.Password
			}
			return all.Set(u)
		}))
	}
}

func canChange(file, name string, add bool) error {
	all, _, err := access.Load(file)
	if add && errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch _, ok := all.User(name); {
	case ok && add:
		return access.ErrExists
	case !ok && !add:
		return access.ErrMissing
	}
	return nil
}

func (c *call) listUsers(file string) error {
	all, _, err := access.Load(file)
	if err != nil {
		return err
	}
	tokens := map[string][]string{}
	for _, t := range all.Tokens() {
		tokens[t.User] = append(tokens[t.User], t.Name)
	}
	l := c.listing()
	l.heading("USER", "RIGHTS", "PASSWORD", "TOKENS")
	for _, u := range all.Users() {
		password := "yes"
		if u.Password == "" {
			password = "no"
		}
		names := strings.Join(tokens[u.Name], ",")
		if names == "" {
			names = "-"
		}
		l.row(u.Name, u.Rights.String(), password, names)
	}
	return l.print(c)
}

// usersFile refuses to do without the name of the file.
func usersFile(name string) error {
	if name == "" {
		return withHint(usagef("no users file is named"), "--users FILE or "+usersVariable+" names it; serve takes the same")
	}
	return nil
}

// subverb returns the first argument, which is one of words, and the second,
// which all but ls want.
func (c *call) subverb(words ...string) (word, name string, err error) {
	word = strings.ToLower(c.args[0])
	known := false
	for _, w := range words {
		known = known || w == word
	}
	switch {
	case !known:
		return "", "", withHint(usagef("%.40q is none of %s", c.args[0], strings.Join(words, ", ")), "cutie help "+c.verb.name)
	case word == "ls" && len(c.args) > 1:
		return "", "", usagef("too many arguments: %.60q", c.args[1])
	case word != "ls" && len(c.args) < 2:
		return "", "", withHint(usagef("%s wants a name", word), "cutie help "+c.verb.name)
	case word != "ls":
		name = c.args[1]
	}
	return word, name, nil
}

// aboutName names a user or a token in an error, if there is one.
func aboutName(name string, err error) error {
	if err == nil {
		return nil
	}
	return about(name, err)
}
