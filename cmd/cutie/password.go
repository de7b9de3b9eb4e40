package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"cutie/cmd/cutie/access"
	"cutie/cmd/cutie/fault"
)

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
			return "", fault.Usagef("standard input has more than one line")
		}
		return password, nil
	}
	in, ok := c.Stdin.(*os.File)
	if !ok || !isTerminal(in) {
		return "", fault.Hint(fault.Usagef("there is no terminal to ask for a password"),
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
