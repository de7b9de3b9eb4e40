package main

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed topics/*.txt topics/workers
var topicFiles embed.FS

// A topic is a help text about no single command. Its first line is a summary.
type topic struct{ name, summary, text string }

// topics returns the help topics in the order of their names.
func topics() (all []topic) {
	files, err := fs.Glob(topicFiles, "topics/*.txt")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	for _, file := range files {
		data, err := topicFiles.ReadFile(file)
		if err != nil {
			panic(err) // it is part of the program
		}
		summary, text, _ := strings.Cut(string(data), "\n\n")
		all = append(all, topic{strings.TrimSuffix(path.Base(file), ".txt"), summary, text})
	}
	return all
}

// findTopic returns the topic of a name.
func findTopic(name string) (t topic, ok bool) {
	for _, t := range topics() {
		if strings.EqualFold(t.name, name) {
			return t, true
		}
	}
	return t, false
}

// workers are examples in several languages.
const workers = "topics/workers"

// findWorker returns the text of an example, such as worker.py. A Go file with its own name
// would be a package of this module.
func findWorker(name string) (text []byte, ok bool) {
	text, err := topicFiles.ReadFile(path.Join(workers, path.Base(name)))
	if err != nil {
		text, err = topicFiles.ReadFile(path.Join(workers, path.Base(name)+".txt"))
	}
	return text, err == nil
}
