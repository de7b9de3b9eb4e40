package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// spelled puts arguments into the spelling of the library. Cutie 0.3, 4 has "-D
// [level]" and "--debug [level]": a number after them is the level, anywhere on the
// line. The library wants it in the same word. Before the verb -- has no meaning.
func spelled(root *cobra.Command, args []string) []string {
	var (
		words []string
		cmd   = root
	)
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		switch {
		case word == "--" && cmd != root:
			return append(append(words, word), args...)
		case word == "--":
			continue
		case len(word) < 2 || word[0] != '-':
			if cmd == root {
				if cmd = find(root, word); cmd == nil {
					return append(append(words, word), args...)
				}
			}
		default:
			switch f := lastOption(cmd.Flags(), word); {
			case f == nil || len(args) == 0:
			case f.NoOptDefVal == "":
				words, word, args = append(words, word), args[0], args[1:]
			case f.Name == "debug" && isNumber(args[0]):
				word, args = word+"="+args[0], args[1:]
			}
		}
		words = append(words, word)
	}
	return words
}

// lastOption is the option at the end of a word, such as D of -vD, if a value for it
// may stand in the next word; else nil.
func lastOption(fs *pflag.FlagSet, word string) *pflag.Flag {
	if name, long := strings.CutPrefix(word, "--"); long {
		return fs.Lookup(name) // none has "=" in its name
	}
	for i := 1; i < len(word); i++ {
		f := fs.ShorthandLookup(word[i : i+1])
		switch {
		case f == nil || i+1 == len(word):
			return f
		case f.NoOptDefVal == "" || word[i+1] == '=':
			return nil // the rest is its value
		}
	}
	return nil
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
