package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"cutie/cmd/cutie/access"
	"cutie/queuefs/job"
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
	return c.Group(cmd, optForm, userAddVerb(c, &file), userSetVerb(c, &file),
		removing(c, &file, "remove a user with all tokens", (*access.Users).Remove), listing(c, &file, "users", listUsers), tokens(c, &file))
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
		return usagef("--password-stdin and --no-password exclude each other")
	}
	e.user = access.User{Name: name}
	if e.rights != "" {
		if e.user.Rights, err = access.ParseRights(e.rights); err != nil {
			return usagef("--rights: %v", err)
		}
	}
	if e.user.Limits, err = job.ParseLimits(e.limits); err != nil {
		return usagef("--limits: %v", err)
	}
	if err := access.CheckName(name); err != nil {
		return usagef("%v", err)
	}
	if err := canChange(*e.file, name, add); err != nil {
		return nameError(name, err)
	}
	if !asks || e.noPass {
		return nil
	}
	password, err := password(ctx, e.call, e.piped)
	if err == nil {
		e.user.Password, err = access.HashPassword(password)
	}
	return nameError(name, err)
}

// edit changes the file. Its error names the user.
func (e *editedUser) edit(change func(all *access.Users) error) error {
	return nameError(e.user.Name, access.Edit(*e.file, change))
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

// removing is the verb that takes users or tokens out of the file.
func removing(c *call, file *string, short string, remove func(all *access.Users, name string) error) *cobra.Command {
	cmd := &cobra.Command{Use: "rm NAME", Short: short}
	bindUsers(cmd.Flags(), file)
	return c.Verb(cmd, 0, func(context.Context) error {
		if err := usersFile(*file); err != nil {
			return err
		}
		name := c.Args[0]
		return nameError(name, access.Edit(*file, func(all *access.Users) error { return remove(all, name) }))
	})
}

// listing is the verb that lists users or tokens.
func listing(c *call, file *string, what string, list func(c *call, all *access.Users) error) *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "list the " + what + ", with -t json as an array"}
	bindUsers(cmd.Flags(), file)
	return c.Verb(cmd, optForm, func(context.Context) error {
		if err := usersFile(*file); err != nil {
			return err
		}
		all, _, err := access.Load(*file)
		if err != nil {
			return err
		}
		return list(c, all)
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

func listUsers(c *call, all *access.Users) error {
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
		return withHint(usagef("no users file is named"), "--users FILE or "+usersVariable+" names it; serve takes the same")
	}
	return nil
}

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
	return c.Group(cmd, optForm, tokenAddVerb(c, file),
		removing(c, file, "remove a token by its name", (*access.Users).RemoveToken), listing(c, file, "tokens", listTokens))
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
				return usagef("--rights: %v", err)
			}
		}
		if t.Expires, err = parseExpires(*expires, time.Now()); err != nil {
			return err
		}
		if *label != "" {
			if err := access.CheckName(*label); err != nil {
				return usagef("%v", err)
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

// factsOf says what a token is, and once its secret.
func factsOf(t *access.Token, secret string) state.Document {
	var rights []string
	if t.Narrow {
		rights = rightsOf(t.Rights)
	}
	return state.OfFacts(state.TokenClass, t.Name, t.User, rights, t.Expires, secret)
}

func listTokens(c *call, all *access.Users) error {
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

// password asks twice for a new password on a terminal. If piped is set it reads
// one line of standard input instead.
func password(ctx context.Context, c *call, piped bool) (string, error) {
	if piped {
		text, err := io.ReadAll(io.LimitReader(c.Stdin, access.MaxPassword+3))
		if err != nil {
			return "", err
		}
		password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
		if strings.ContainsAny(password, "\r\n") {
			return "", usagef("standard input has more than one line")
		}
		return password, nil
	}
	in, ok := c.Stdin.(*os.File)
	if !ok || !isTerminal(in) {
		return "", withHint(usagef("there is no terminal to ask for a password"),
			"--password-stdin reads it from standard input, --no-password makes a user with tokens only")
	}
	first, err := ask(ctx, in, c.Stderr, "password: ")
	if err != nil {
		return "", err
	}
	again, err := ask(ctx, in, c.Stderr, "once more: ")
	if err != nil {
		return "", err
	}
	if first != again {
		return "", errors.New("the passwords differ")
	}
	return first, nil
}

// ask reads a line from a terminal without showing it. An interrupt restores the
// terminal.
func ask(ctx context.Context, in, out *os.File, prompt string) (string, error) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	before, err := term.GetState(int(in.Fd()))
	if err != nil {
		return "", err
	}
	fmt.Fprint(out, prompt)
	defer fmt.Fprintln(out)
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() { // it ends with the line, or with the program
		text, err := term.ReadPassword(int(in.Fd()))
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		return string(l.text), l.err
	case <-ctx.Done():
		return "", errors.Join(context.Canceled, term.Restore(int(in.Fd()), before))
	}
}
