package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"cutie/queuefs"
)

// manual prints the manual page of a command.
func manual(c *call, cmd *cobra.Command) error {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, usage := pflag.UnquoteUsage(f)
		if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		f.Usage, f.DefValue = usage, value
	})
	var page bytes.Buffer
	head := &doc.GenManHeader{Section: "1", Date: new(time.Time), Source: "cutie " + queuefs.Version, Manual: "Cutie 0.3"}
	if err := doc.GenMan(cmd, head, &page); err != nil {
		return err
	}
	text := strings.Replace(page.String(), head.Date.Format("Jan 2006"), buildSetting("vcs.time", 10), 1)
	text = strings.NewReplacer("[=]\n", "\n", "=\n", "\n").Replace(text)
	text = pageOption.ReplaceAllString(text, ".TP\n$1$2\n")
	return c.Out.Emit([]byte(nonASCII.ReplaceAllStringFunc(text, func(s string) string {
		return fmt.Sprintf(`\[u%04X]`, []rune(s)[0])
	})))
}

// pageOption is an option in the pages of cobra, with a tab before its text. troff
// wants a paragraph with a tag.
var (
	pageOption = regexp.MustCompile(`(?m)^(?:\.PP\n)?(\\fB-.*\\fP)(.*)\n\t`)
	nonASCII   = regexp.MustCompile(`[^\x00-\x7f]`)
)
