package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const commentWidth = 78

// WriteDefault writes a file with all settings, each in a comment with its default. A note
// follows the meaning of some.
func (f *Filler) WriteDefault(w io.Writer, some []string, note string) error {
	return f.each(func(o *pflag.Flag) error {
		_, usage := pflag.UnquoteUsage(o)
		if slices.Contains(some, o.Name) {
			usage += ". " + note
		}
		for _, line := range fold(usage, commentWidth-2) {
			if _, err := fmt.Fprintf(w, "# %s\n", line); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(w, "#%s\n\n", line(o, o.DefValue))
		return err
	})
}

// Write writes all settings with the values of now, and where they are from.
func (f *Filler) Write(w io.Writer) error {
	return f.each(func(o *pflag.Flag) error {
		_, err := fmt.Fprintf(w, "%s # %s\n", line(o, o.Value.String()), f.Origins[o.Name])
		return err
	})
}

func (f *Filler) each(do func(*pflag.Flag) error) (err error) {
	f.Options.VisitAll(func(o *pflag.Flag) {
		if err == nil && o.Deprecated == "" && !slices.Contains(f.Not, o.Name) {
			err = do(o)
		}
	})
	return err
}

// line is a setting in TOML.
func line(o *pflag.Flag, value string) string {
	switch o.Value.Type() {
	case "bool", "int", "int64":
	case "stringSlice":
		texts := []string{}
		if list, ok := o.Value.(pflag.SliceValue); ok && value != o.DefValue {
			texts = list.GetSlice()
		}
		for i := range texts {
			texts[i] = quote(texts[i])
		}
		value = "[" + strings.Join(texts, ", ") + "]"
	default:
		value = quote(value)
	}
	return o.Name + " = " + value
}

// quote returns a basic string of TOML.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ' || r == 0x7f:
			b.WriteString(`\u` + fmt.Sprintf("%04x", r))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// fold divides a text into lines of up to n octets where words end.
func fold(text string, n int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > n {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
