// Words counts relative and indefinite pronouns in the comments of Go packages.
//
//	go run ./testdata/words [-max N] [-v] [DIR ...]
//
// It prints a line for each package: pronouns per 100 words of comments. Test
// files and generated files are left out. With -max the exit code is 1 if a
// package has more. With -v it prints each sentence with a pronoun.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// pronouns make a comment hard to read when they are many.
var pronouns = []string{"that", "which", "what", "who", "whoever", "whom", "whose", "those", "such", "whatever", "whichever"}

// A count is how many words and pronouns the comments of a package have.
type count struct{ words, pronouns int }

func (c count) rate() float64 { return 100 * float64(c.pronouns) / float64(max(c.words, 1)) }

func main() {
	most := flag.Float64("max", 0, "pronouns per 100 words, at most; 0: no limit")
	verbose := flag.Bool("v", false, "print each line with a pronoun")
	flag.Parse()
	dirs := flag.Args()
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	counts := map[string]count{}
	for _, dir := range dirs {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			c, err := countFile(path, *verbose)
			sum := counts[filepath.Dir(path)]
			counts[filepath.Dir(path)] = count{sum.words + c.words, sum.pronouns + c.pronouns}
			return err
		}); err != nil {
			fmt.Fprintln(os.Stderr, "words:", err)
			os.Exit(2)
		}
	}
	if !report(counts, *most) {
		os.Exit(1)
	}
}

// report prints the packages, and reports whether none is above most.
func report(counts map[string]count, most float64) bool {
	names, ok := []string{}, true
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		c, over := counts[name], ""
		if most > 0 && c.rate() > most {
			over, ok = fmt.Sprintf("  above %g", most), false
		}
		fmt.Printf("%5.2f of 100, %6d words  %s%s\n", c.rate(), c.words, name, over)
	}
	return ok
}

// countFile counts the comments of one file.
func countFile(path string, verbose bool) (c count, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return c, err
	}
	for _, group := range file.Comments {
		for i, line := range strings.Split(group.Text(), "\n") {
			n := 0
			words := strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' && r != '-' })
			for _, w := range words {
				if slices.Contains(pronouns, w) {
					n++
				}
			}
			c.words, c.pronouns = c.words+len(words), c.pronouns+n
			if verbose && n > 0 {
				fmt.Printf("%s:%d: %s\n", path, set.Position(group.Pos()).Line+i, line)
			}
		}
	}
	return c, nil
}
