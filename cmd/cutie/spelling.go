package main

import (
	"strings"
)

// spelled puts arguments into the spelling of the library. Cutie 0.3, 4 has "-D [level]"
// and "--debug [level]": a number after them is the level, anywhere on the line. The
// library wants it in the same word.
func spelled(args []string) (words []string) {
	if len(args) > 0 && args[0] == "--" { // without a meaning before the verb
		args = args[1:]
	}
	for i, word := range args {
		last := ""
		if i > 0 {
			last = args[i-1]
		}
		switch debug := last == "--debug" || len(last) > 1 && last[0] == '-' && last[1] != '-' && last[len(last)-1] == 'D'; {
		case word == "--":
			return append(words, args[i:]...)
		case debug && word != "" && strings.Trim(word, "0123456789") == "":
			words[len(words)-1] += "=" + word
		default:
			words = append(words, word)
		}
	}
	return words
}
