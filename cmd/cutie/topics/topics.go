// Package topics is the manual of the program: texts about no single command, for
// cutie help and for the pages of a daemon, and examples of workers.
package topics

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed *.txt workers
var files embed.FS

// A Topic is one text. The first line of its file is the summary.
type Topic struct{ Name, Summary, Text string }

// All returns the topics in the order of their names.
func All() (all []Topic) {
	names, err := fs.Glob(files, "*.txt")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is part of the program
		}
		summary, text, _ := strings.Cut(string(data), "\n\n")
		all = append(all, Topic{strings.TrimSuffix(name, ".txt"), summary, text})
	}
	return all
}

// Find returns the topic of a name, in any case.
func Find(name string) (t Topic, ok bool) {
	for _, t := range All() {
		if strings.EqualFold(t.Name, name) {
			return t, true
		}
	}
	return t, false
}

// workers is the directory of the examples.
const workers = "workers"

// Worker returns the text of an example, such as worker.py. A Go file with its own name
// would be a package of this module.
func Worker(name string) (text []byte, ok bool) {
	text, err := files.ReadFile(path.Join(workers, path.Base(name)))
	if err != nil {
		text, err = files.ReadFile(path.Join(workers, path.Base(name)+".txt"))
	}
	return text, err == nil
}
