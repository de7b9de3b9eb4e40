package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The index of the topics, for readers of the tree, is made of their first lines.
func TestTopicsHaveAnIndex(t *testing.T) {
	t.Parallel()
	overview, err := cutie(t, "help", "all")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(overview, "Topics:\n")
	want := "# Topics\n\nThese files are what `cutie help TOPIC` prints. Begin with the [tour](tour.txt).\n\n"
	for _, m := range topicLine.FindAllStringSubmatch(list, -1) {
		want += fmt.Sprintf("- [%s](%s.txt): %s\n", m[1], m[1], m[2])
	}
	const index = "topics/README.md"
	if *update {
		if err := os.WriteFile(index, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(index); err != nil || string(got) != want {
		t.Errorf("%s: %v; -update makes it anew: got\n%s\nwant\n%s", index, err, got, want)
	}
}

var topicLine = regexp.MustCompile(`(?m)^    ([a-z]+) +([A-Za-z].*)$`)

// Every help topic is listed, has a text that fits a terminal, and speaks of
// commands that there are.
func TestHelpTopicsCanBeRead(t *testing.T) {
	overview, err := cutie(t, "help", "all")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(overview, "Topics:\n")
	topics := topicLine.FindAllStringSubmatch(list, -1)
	if len(topics) < 5 {
		t.Fatalf("got %q in %s", topics, overview)
	}
	verbs := commands(t)
	for _, m := range topics {
		text, err := cutie(t, "help", strings.ToUpper(m[1]))
		if err != nil || len(text) < 500 {
			t.Errorf("%s: %v, %s", m[1], err, text)
		}
		if slices.Contains(verbs, m[1]) {
			t.Errorf("%s is a command too", m[1])
		}
		for _, use := range regexp.MustCompile(`(?m)(?:^ *|\(|, |\. )cutie ([a-z]+) `).FindAllStringSubmatch(text, -1) {
			if use[1] != m[1] && use[1] != "help" && !slices.Contains(verbs, use[1]) {
				t.Errorf("%s: %q is no command", m[1], use[0])
			}
		}
	}
}

// Topics name figures that the daemon has, since readers search for them.
func TestTopicsNameFiguresThatExist(t *testing.T) {
	t.Parallel()
	var source strings.Builder
	for _, pattern := range []string{"daemon/*.go", "mirror/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	topics, err := filepath.Glob("topics/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range topics {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, figure := range regexp.MustCompile(`\bcutie_[a-z]+_[a-z_]+[a-z]\b|\bcutie_jobs\b`).FindAllString(string(text), -1) {
			found++
			if !strings.Contains(source.String(), `"`+figure+`"`) {
				t.Errorf("%s names %s, and the daemon has no such figure", name, figure)
			}
		}
	}
	if found < 10 {
		t.Errorf("got %d figures in the topics", found)
	}
}

// Commands that are shown and not run have options that there are.
func TestTopicsUseOptionsThatExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("topics/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var (
		command = regexp.MustCompile(`(?m)^ {4,}(?:\$ )?(?:CUTIE_\w+=\S+ )?cutie ([a-zA-Z]+)( .*)?$`)
		option  = regexp.MustCompile(` (--[a-z][a-z-]*)`)
		helps   = map[string]string{}
	)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range command.FindAllStringSubmatch(string(text), -1) {
			verb, rest := m[1], m[2]
			if part, ok := strings.CutPrefix(rest, " "); ok && slices.Contains([]string{"failover", "rdm", "user"}, verb) {
				part, _, _ = strings.Cut(part, " --")
				words := strings.Fields(part)
				for len(words) > 1 && !slices.Contains([]string{"token"}, words[0]) {
					words = words[:1]
				}
				verb += " " + strings.Join(words[:min(len(words), 2)], " ")
			}
			if helps[verb] == "" {
				if helps[verb], err = cutie(t, append([]string{"help"}, strings.Fields(verb)...)...); err != nil {
					t.Errorf("%s: %v", page, err)
				}
				if verb == "serve" { // its help shows those that most people need
					settings, err := cutie(t, "config", "default")
					if err != nil {
						t.Fatal(err)
					}
					helps[verb] += regexp.MustCompile(`(?m)^#([a-z-]+) =`).ReplaceAllString(settings, "--$1 ")
				}
			}
			rest, _, _ = strings.Cut(rest, "  ") // a remark follows
			rest, _, _ = strings.Cut(rest, " -- ")
			for _, o := range option.FindAllStringSubmatch(rest, -1) {
				if !strings.Contains(helps[verb], o[1]+" ") && !strings.Contains(helps[verb], o[1]+"[") && !strings.Contains(helps[verb], o[1]+"\n") {
					t.Errorf("%s: cutie %s has no option %s", page, verb, o[1])
				}
			}
		}
	}
	if len(helps) < 10 {
		t.Errorf("got %d commands", len(helps))
	}
}
