package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/fault"
	"cutie/queuefs"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// usersVariable is the environment variable for the users file.
const usersVariable = "CUTIE_USERS"

// userVerb manages users and their rights.
func userVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "user add NAME | set NAME | rm NAME | ls",
		Aliases: []string{"users"},
		Short:   "manage the users of a daemon and their rights",
		Args:    between(1, 2),
		Long: `
add makes a user, and the users file if there is none. set changes the rights or
limits, or else the password. rm removes a user with all tokens. ls lists the users,
with -t json as an array. A daemon started with --users FILE notices changes within
a second.

Rights are a list such as read,submit:ingest. A right is for all queues, or for
the queue after a colon:

    read     states, payloads, files, everything published, events
    submit   put jobs into a queue
    consume  take jobs, report on them and put them back
    delete   delete pending jobs, hold and release them
    admin    all of these, and the settings; for all queues, also to make queues

Limits are a list such as pending=100,active=1000 for each queue: cutie help
limits.

The command asks for the password. The file holds bcrypt hashes of passwords of up
to 72 octets, and has mode 0600. Programs use tokens: cutie help token.`,
		Example: `cutie user add ada --users users --rights read,submit:ingest --no-password`,
	}
	fs := cmd.Flags()
	file := bindUsers(fs)
	rights := fs.String("rights", "", "`list` of rights (default of add: read)")
	limits := fs.String("limits", "", "`list` of limits in each queue, such as pending=100,active=1000; see cutie help limits")
	piped := fs.Bool("password-stdin", false, "read the password from standard input")
	noPass := fs.Bool("no-password", false, "let the user have tokens only")
	return c.Verb(cmd, optForm, func(ctx context.Context) error {
		if err := usersFile(*file); err != nil {
			return err
		}
		word, name, err := subverb(c, "add", "set", "rm", "ls")
		if err != nil {
			return err
		}
		if (word == "rm" || word == "ls") && (*rights != "" || fs.Changed("limits") || *piped || *noPass) {
			return fault.Usagef("%s takes no rights, no limits and no password", word)
		}
		if word != "ls" && c.Form != "" {
			return fault.Usagef("%s prints nothing in a response form", word)
		}
		if *piped && *noPass {
			return fault.Usagef("--password-stdin and --no-password exclude each other")
		}
		u := access.User{Name: name}
		if *rights != "" {
			if u.Rights, err = access.ParseRights(*rights); err != nil {
				return fault.Usagef("--rights: %v", err)
			}
		}
		if u.Limits, err = queuefs.ParseLimits(*limits); err != nil {
			return fault.Usagef("--limits: %v", err)
		}
		switch word {
		case "ls":
			return listUsers(c, *file)
		case "rm":
			return fault.About(name, access.Edit(*file, func(all *access.Users) error { return all.Remove(name) }))
		}
		if err := access.CheckName(name); err != nil {
			return fault.Usagef("%v", err)
		}
		if err := canChange(*file, name, word == "add"); err != nil {
			return fault.About(name, err)
		}
		if asks := word == "add" || *rights == "" && !fs.Changed("limits") || *piped; asks && !*noPass {
			password, err := password(ctx, c, *piped)
			if err == nil {
				u.Password, err = access.HashPassword(password)
			}
			if err != nil {
				return fault.About(name, err)
			}
		}
		return fault.About(name, access.Edit(*file, func(all *access.Users) error {
			if word == "add" {
				if *rights == "" {
					u.Rights = access.Rights{{Right: web.Read}}
				}
				return all.Add(u)
			}
			old, ok := all.User(name)
			if !ok {
				return access.ErrMissing
			}
			if *rights == "" {
				u.Rights = old.Rights
			}
			if !fs.Changed("limits") {
				u.Limits = old.Limits
			}
			if u.Password == "" && !*noPass {
				u.Password = old.Password
			}
			return all.Set(u)
		}))
	})
}

// bindUsers adds the option for the users file, and returns its name.
func bindUsers(fs *pflag.FlagSet) *string {
	file := fs.String("users", os.Getenv(usersVariable), "users `file` (environment "+usersVariable+")")
	fs.Lookup("users").DefValue = ""
	return file
}

// canChange reports an error before a password is asked for.
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

func listUsers(c *call, file string) error {
	all, _, err := access.Load(file)
	if err != nil {
		return err
	}
	tokens := map[string][]string{}
	for _, t := range all.Tokens() {
		tokens[t.User] = append(tokens[t.User], t.Name)
	}
	if c.Form != "" {
		var facts []state.Document
		for _, u := range all.Users() {
			facts = append(facts, state.OfFacts(state.UserClass, u.Name, rightsOf(u.Rights), u.Password != "", tokens[u.Name], u.Limits.String()))
		}
		return c.Facts(true, facts...)
	}
	l := c.Out.Table("USER", "RIGHTS", "PASSWORD", "TOKENS", "LIMITS")
	for _, u := range all.Users() {
		password := "yes"
		if u.Password == "" {
			password = "no"
		}
		if err := l.Row(u.Name, u.Rights, password, cmp.Or(strings.Join(tokens[u.Name], ","), "-"), cmp.Or(u.Limits.String(), "-")); err != nil {
			return err
		}
	}
	return l.End()
}

// rightsOf are rights one by one.
func rightsOf(r access.Rights) []string {
	return strings.FieldsFunc(r.String(), func(c rune) bool { return c == ',' })
}

// usersFile refuses an empty name.
func usersFile(name string) error {
	if name == "" {
		return fault.Hint(fault.Usagef("no users file is named"), "--users FILE or "+usersVariable+" names it; serve takes the same")
	}
	return nil
}

// subverb returns the first argument, one of words, and the second, a name, for
// all words but ls.
func subverb(c *call, words ...string) (word, name string, err error) {
	word = strings.ToLower(c.Args[0])
	known := false
	for _, w := range words {
		known = known || w == word
	}
	switch {
	case !known:
		return "", "", fault.Hint(fault.Usagef("%.40q is none of %s", c.Args[0], strings.Join(words, ", ")), "cutie help "+c.Cmd.Name())
	case word == "ls" && len(c.Args) > 1:
		return "", "", fault.Usagef("too many arguments: %.60q", c.Args[1])
	case word != "ls" && len(c.Args) < 2:
		return "", "", fault.Hint(fault.Usagef("%s wants a name", word), "cutie help "+c.Cmd.Name())
	case word != "ls":
		name = c.Args[1]
	}
	return word, name, nil
}
