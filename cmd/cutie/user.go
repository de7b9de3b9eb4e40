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

// userVerb manages users, their rights, and the tokens of their programs.
func userVerb(c *call) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "user COMMAND",
		Aliases: []string{"users"},
		Short:   "manage the users of a daemon, their rights and their tokens",
		Long: `
Users and tokens are in a file, which --users or CUTIE_USERS names. A daemon started with
--users FILE notices changes within a second.

Rights are a list such as read,submit:ingest. A right is for all queues, or for
the queue after a colon:

    read     states, payloads, files, everything published, events
    submit   put jobs into a queue
    consume  take jobs, report on them and put them back
    delete   delete pending jobs, hold and release them
    admin    all of these, and the settings; for all queues, also to make queues

Limits are a list such as pending=100,active=1000 for each queue: cutie help
limits.

Programs use tokens, which have rights of their user: cutie help user token. The file
holds bcrypt hashes of passwords of up to 72 octets, hashes of tokens, and has mode 0600.`,
		Example: `cutie user add ada --users users --rights read,submit:ingest --no-password
cutie user token add ada --users users --rights read --expires 30d
cutie user ls --users users`,
	}
	file := os.Getenv(usersVariable)
	bindUsers(cmd.Flags(), &file)
	return c.Group(cmd, optForm, userAddVerb(c, &file), userSetVerb(c, &file), userRemoveVerb(c, &file), userListVerb(c, &file), tokens(c, &file))
}

// An edited user is what the options of add and set say.
type editedUser struct {
	call           *call
	file           *string
	rights, limits string
	piped, noPass  bool
	limited        func() bool // whether --limits was given
	user           access.User
}

func (e *editedUser) bind(c *call, cmd *cobra.Command, file *string) {
	fs := cmd.Flags()
	e.call, e.file = c, file
	bindUsers(fs, file)
	fs.StringVar(&e.rights, "rights", "", "`list` of rights (default of add: read)")
	fs.StringVar(&e.limits, "limits", "", "`list` of limits in each queue, such as pending=100,active=1000; see cutie help limits")
	fs.BoolVar(&e.piped, "password-stdin", false, "read the password from standard input")
	fs.BoolVar(&e.noPass, "no-password", false, "let the user have tokens only")
	e.limited = func() bool { return fs.Changed("limits") }
}

// read checks the arguments and options, and asks for a password if one is wanted.
func (e *editedUser) read(ctx context.Context, add, asks bool) (err error) {
	name := e.call.Args[0]
	if err := usersFile(*e.file); err != nil {
		return err
	}
	if e.piped && e.noPass {
		return fault.Usagef("--password-stdin and --no-password exclude each other")
	}
	e.user = access.User{Name: name}
	if e.rights != "" {
		if e.user.Rights, err = access.ParseRights(e.rights); err != nil {
			return fault.Usagef("--rights: %v", err)
		}
	}
	if e.user.Limits, err = queuefs.ParseLimits(e.limits); err != nil {
		return fault.Usagef("--limits: %v", err)
	}
	if err := access.CheckName(name); err != nil {
		return fault.Usagef("%v", err)
	}
	if err := canChange(*e.file, name, add); err != nil {
		return fault.About(name, err)
	}
	if !asks || e.noPass {
		return nil
	}
	password, err := password(ctx, e.call, e.piped)
	if err == nil {
		e.user.Password, err = access.HashPassword(password)
	}
	return fault.About(name, err)
}

// edit changes the file. Its error names the user.
func (e *editedUser) edit(change func(all *access.Users) error) error {
	return fault.About(e.user.Name, access.Edit(*e.file, change))
}

func userAddVerb(c *call, file *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "make a user, and the users file if there is none",
		Long:  `The command asks for the password.`,
	}
	var e editedUser
	e.bind(c, cmd, file)
	return c.Verb(cmd, 0, func(ctx context.Context) error {
		if err := e.read(ctx, true, true); err != nil {
			return err
		}
		if e.rights == "" {
			e.user.Rights = access.Rights{{Right: web.Read}}
		}
		return e.edit(func(all *access.Users) error { return all.Add(e.user) })
	})
}

func userSetVerb(c *call, file *string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "change the rights or limits of a user, or else the password",
		Long:  `Without rights and limits the command asks for the new password.`,
	}
	var e editedUser
	e.bind(c, cmd, file)
	return c.Verb(cmd, 0, func(ctx context.Context) error {
		if err := e.read(ctx, false, e.rights == "" && !e.limited() || e.piped); err != nil {
			return err
		}
		return e.edit(func(all *access.Users) error {
			u := e.user
			old, ok := all.User(u.Name)
			if !ok {
				return access.ErrMissing
			}
			if e.rights == "" {
				u.Rights = old.Rights
			}
			if !e.limited() {
				u.Limits = old.Limits
			}
			if u.Password == "" && !e.noPass {
				u.Password = old.Password
			}
			return all.Set(u)
		})
	})
}

func userRemoveVerb(c *call, file *string) *cobra.Command {
	cmd := &cobra.Command{Use: "rm NAME", Short: "remove a user with all tokens"}
	bindUsers(cmd.Flags(), file)
	return c.Verb(cmd, 0, func(context.Context) error {
		if err := usersFile(*file); err != nil {
			return err
		}
		name := c.Args[0]
		return fault.About(name, access.Edit(*file, func(all *access.Users) error { return all.Remove(name) }))
	})
}

func userListVerb(c *call, file *string) *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "list the users, with -t json as an array"}
	bindUsers(cmd.Flags(), file)
	return c.Verb(cmd, optForm, func(context.Context) error {
		if err := usersFile(*file); err != nil {
			return err
		}
		return listUsers(c, *file)
	})
}

// bindUsers adds the option for the users file. The current value is the default.
func bindUsers(fs *pflag.FlagSet, file *string) {
	fs.StringVar(file, "users", *file, "users `file` (environment "+usersVariable+")")
	fs.Lookup("users").DefValue = ""
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
