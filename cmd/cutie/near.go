package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"cutie/cmd/cutie/fault"
)

// maxNear is the most names in a hint; more are no help.
const maxNear = 3

// unknown is the error for an unknown verb. Its hint is the nearest name.
func unknown(root *cobra.Command, word string) error {
	var near []string
	for _, cmd := range root.Commands() {
		for _, name := range append([]string{cmd.Name()}, cmd.Aliases...) {
			if isNear(word, name) {
				near = append(near, name)
			}
		}
	}
	hint := "cutie help lists the commands"
	if len(near) > 0 && len(near) <= maxNear {
		hint = fmt.Sprintf("did you mean %s? %s", strings.Join(near, " or "), hint)
	}
	return fault.Hint(fault.Usagef("unknown command %.40q", word), hint)
}

// maxWord is longer than the names of all verbs.
const maxWord = 30

// isNear reports whether a name may be meant by word: word begins it, or is a slip
// of the fingers away from it, or two in a word of 8 letters.
func isNear(word, name string) bool {
	word, name = strings.ToLower(word), strings.ToLower(name)
	if len(word) < 3 || len(word) > maxWord {
		return len(word) == 2 && strings.HasPrefix(name, word)
	}
	return strings.HasPrefix(name, word) || slips(word, name) <= 1+len(word)/8
}

// slips is how many letters are missing, added, wrong or changed over with the next
// one (the distance of optimal string alignment).
func slips(a, b string) int {
	d := make([][]int, len(a)+1)
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
		for j := 1; j <= len(b); j++ {
			if i == 0 {
				d[i][j] = j
				continue
			}
			wrong := d[i-1][j-1]
			if a[i-1] != b[j-1] {
				wrong++
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
