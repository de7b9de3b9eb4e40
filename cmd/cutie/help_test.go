package main_test

import (
	"bytes"
	"cutie/testdata/processes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// completing is a home with queues whose names shells find hard.
func completing(t *testing.T) (home string) {
	t.Helper()
	home = filepath.Join(t.TempDir(), "home")
	for _, args := range [][]string{{"init", home}, {"createQueue", "jobs", "-H", home}, {"createQueue", "uc3:cutie/01/queue/01", "-H", home}} {
		run(t, args...)
	}
	return home
}

func TestCompletionWords(t *testing.T) {
	t.Parallel()
	home := completing(t)
	daemon := processes.Serve(t, filepath.Join(t.TempDir(), "other"))
	run(t, "createQueue", "served", "--url", daemon.URL)
	for _, tt := range []struct {
		line string
		want string // words, in their order
	}{
		{"getN", "getNextJob"},
		{"GETn", "getNextJob"},
		{"peek", "peek peekAtJob peekJob"},
		{"--ur", "--url"},
		{"-H " + home + " ls ", "jobs uc3+cutie=01=queue=01"},
		{"ls -H " + home + " j", "jobs"},
		{"ls -u " + daemon.URL + " ", "jobs served"},
		{"ls -H " + filepath.Dir(home) + " ", ""},
		{"ls --url http://127.0.0.1:1/ ", ""},
		{"ls -H " + home + " jobs ", ""},
		{"watch -H " + home + " jobs u", "uc3+cutie=01=queue=01"},
		{"ls --status ", "pending consumed deleted"},
		{"ls --status=c", "consumed"},
		{"watch --kind ", "submit consume delete requeue cull update hold release lease outcome"},
		{"requeue jobs --out", "--outcome --output"},
		{"requeue jobs --outcome e", "error"},
		{"setQueue jobs -S ", "pause restart"},
		{"put jobs -T b", "batch-manifest"},
		{"put jobs ", ":files"},
		{"put jobs f ", ":files"},
		{"show jobs -o ", ":files"},
		{"show jobs -t ", "anvl json turtle xhtml xml soif"},
		{"user ", "add set rm ls token"},
		{"user token ", "add rm ls"},
		{"token ", "add rm ls"},
		{"user add ", ""},
		{"completion ", "bash zsh fish powershell"},
		{"help setQ", "setQueue setQueueBehavior"},
		{"nonsense ", ""},
		{"put jobs -- -", ":files"},
	} {
		args := append([]string{"__complete"}, strings.Split(tt.line, " ")...)
		out, err := cutie(t, args...)
		if err != nil {
			t.Errorf("%q: %v", tt.line, err)
		}
		var words []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			switch word {
			case ":4": // nothing else
			case ":0":
				words = append(words, ":files")
			default:
				words = append(words, word)
			}
		}
		if got := strings.Join(words, " "); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.line, got, tt.want)
		}
	}
}

// Each shell is asked for candidates as it would be at its prompt.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	home := completing(t)
	for _, tt := range []struct {
		shell string
		ask   string // prints the candidates for the line in $1, one a line
	}{
		// The package bash-completion has this function, and uses __start_cutie.
		{"bash", `_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD; }
source <(cutie completion bash)
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
read -ra COMP_WORDS <<<"$1"; [[ $1 == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { [[ $1 == -o ]] || no_files=1; }
__start_cutie
[[ ${#COMPREPLY[@]} -gt 0 || -n $no_files ]] || COMPREPLY=(files)
printf '%s\n' "${COMPREPLY[@]}" | sed 's/ *$//'`},
		// These are what zsh's completions end in.
		{"zsh", `compdef() { : }
_describe() { local -a all; all=("${(@P)2}"); (( $#all )) || return 1; print -rl -- "${all[@]%%:*}" }
_arguments() { print -r -- files }
source <(cutie completion zsh)
words=("${(@s: :)1}")
CURRENT=$#words
_cutie`},
		{"fish", `cutie completion fish | source
complete -C $argv[1] | string replace -r '\t.*' ''; true`},
	} {
		t.Run(tt.shell, func(t *testing.T) {
			if _, err := exec.LookPath(tt.shell); err != nil {
				t.Skipf("%s is not installed", tt.shell)
			}
			files := map[string]string{"bash": "files\n", "zsh": "files\n", "fish": "a-file\n"}[tt.shell]
			// Bash cuts the line at "=" and takes what is behind.
			behind := map[string]string{"bash": "queue=01\n"}[tt.shell]
			if behind == "" {
				behind = "uc3+cutie=01=queue=01\n"
			}
			for line, want := range map[string]string{
				"cutie getN":             "getNextJob\n",
				"cutie ls j":             "jobs\n",
				"cutie ls uc3+cutie=01=": behind,
				"cutie ls jobs --lim":    "--limit\n",
				"cutie put jobs a-":      files,
			} {
				args := []string{"-c", tt.ask, tt.shell, line}
				switch tt.shell {
				case "zsh":
					args = append([]string{"-f"}, args...)
				case "fish":
					args = []string{"--no-config", "-c", tt.ask, line}
				}
				cmd := exec.Command(tt.shell, args...)
				cmd.Dir = t.TempDir()
				must(t, os.WriteFile(filepath.Join(cmd.Dir, "a-file"), nil, 0o666))
				cmd.Env = append(os.Environ(), "CUTIE_URL=", "CUTIE_HOME="+home, "HOME="+cmd.Dir)
				out, err := cmd.CombinedOutput()
				if got := string(out); err != nil || got != want {
					t.Errorf("%q: got %q, %v, want %q", line, got, err, want)
				}
			}
		})
	}
}

// commands are the names of all of them.
func commands(t *testing.T) []string {
	t.Helper()
	out := run(t, "help", "-q")
	return strings.Fields(out)
}

func TestManualPagesAreClean(t *testing.T) {
	t.Parallel()
	formatters := [][]string{{"mandoc", "-T", "lint", "-W", "warning"}, {"groff", "-man", "-Tutf8", "-ww", "-z"}}
	found := false
	for _, name := range append([]string{""}, commands(t)...) {
		page := run(t, append([]string{"help", "--man"}, strings.Fields(name)...)...)
		file := filepath.Join(t.TempDir(), "page.1")
		must(t, os.WriteFile(file, []byte(page), 0o666))
		for _, f := range formatters {
			if _, err := exec.LookPath(f[0]); err != nil {
				continue
			}
			found = true
			out, err := exec.Command(f[0], append(f[1:], file)...).CombinedOutput()
			for line := range strings.Lines(string(out)) {
				// A build outside a repository has no date.
				if !strings.Contains(line, "missing date") {
					t.Errorf("%s: %s: %s", name, f[0], line)
				}
			}
			if err != nil && len(out) == 0 {
				t.Errorf("%s: %s: %v", name, f[0], err)
			}
		}
	}
	if !found {
		t.Skip("neither mandoc nor groff is installed")
	}
}

// Examples are run in a world with all that they speak of.
const world = `
cutie init
cutie createQueue jobs
cutie createQueue empty
mkdir -p inbox
echo text >inbox/text
cp inbox/text log.txt
: >report.pdf
cutie put jobs log.txt log.txt log.txt log.txt log.txt -q
cutie get jobs --lease=1h -o job
cutie holdJob jobs j000000000002 -q
cutie get jobs --lease=1h -o other
cutie get jobs --lease=1h -o last
cutie putResult jobs j000000000004 log.txt --lease @last.lease
`

// wants are scripts that the examples of a command need besides.
var wants = map[string]string{
	"get":     "cutie put jobs log.txt log.txt log.txt log.txt -q\n",
	"requeue": "cutie done jobs j000000000001 --lease @job.lease -q\n",
	"publish": "mkdir srv; cutie init srv/cutie\n",
	"export":  "mkdir srv\n",
	"check":   "cutie init archive\n",
	"backup":  "echo >users.txt\n",
	"restore": "cutie backup srv/backup\n",
	"rmqueue": "cutie createQueue gone; rm -r cutie_home/queues/gone\n",
}

// served are commands whose examples need a running daemon.
var served = []string{"watch", "publish", "export", "work", "sync", "audit"}

// copied are commands whose examples need a copy of that daemon.
var copied = []string{"audit"}

// elsewhere are commands whose examples are not run: they need other servers, or
// have no end.
var elsewhere = []string{"batch", "uws", "rdm", "serve", "failover", "import", "bench", "store"}

func TestExamplesWork(t *testing.T) {
	t.Parallel()
	made := filepath.Join(t.TempDir(), "world")
	must(t, os.Mkdir(made, 0o777))
	sh(t, made, world)
	for _, name := range commands(t) {
		help := run(t, "help", name)
		_, examples, ok := strings.Cut(help, "\nexamples:\n")
		if !ok {
			t.Errorf("%s has no examples", name)
		}
		if slices.Contains(elsewhere, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "world")
			must(t, copySparse(dir, made))
			sh(t, dir, wants[name])
			if slices.Contains(served, name) {
				url := processes.Serve(t, filepath.Join(dir, "cutie_home")).URL
				examples := strings.ReplaceAll(examples, "http://127.0.0.1:8080", url)
				if slices.Contains(copied, name) {
					sh(t, dir, "cutie sync "+url+" mirror\n")
				}
				runExamples(t, dir, examples)
				return
			}
			runExamples(t, dir, examples)
		})
	}
}

// copySparse copies a home; the prepared octets of its journal take no space in the copy,
// where the system knows how.
func copySparse(to, from string) error {
	if exec.Command("cp", "-R", "--sparse=always", from, to).Run() == nil {
		return nil
	}
	return errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from)))
}

// run runs examples, except those without an end.
func runExamples(t *testing.T, dir, examples string) {
	for line := range strings.Lines(examples) {
		if !strings.Contains(line, " --follow") && !strings.HasPrefix(strings.TrimSpace(line), "cutie serve ") {
			sh(t, dir, strings.ReplaceAll(line, "/srv/", dir+"/srv/"))
		}
	}
}

// sh runs a script that is to succeed.
func sh(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = environ()
	var e bytes.Buffer
	cmd.Stderr = &e
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v: %s", strings.TrimSpace(script), err, e.String())
	}
}

// Each code of help is one that a command ends with.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	d := processes.Serve(t, home, "--anonymous", "read")
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, []byte("x"), 0o666))
	mirror := filepath.Join(t.TempDir(), "mirror")
	sh(t, t.TempDir(), "cutie sync "+d.URL+" "+mirror+"; rm "+mirror+"/queues/jobs/queue-info.txt\n")
	for want, args := range [][]string{
		{"status", "-H", home},
		{"status", "--url", "http://127.0.0.1:1/"},
		{"status", "--nonsense"},
		{"ls", "nosuch", "-H", home},
		{"get", "jobs", "-H", home},
		{"createQueue", "jobs", "-H", home},
		{"put", "jobs", file, "--url", d.URL},
		{"put", "jobs", file, "-H", home, "--digest", "md5:00000000000000000000000000000000"},
		{"audit", mirror},
	} {
		cmd := exec.Command("cutie", args...)
		cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%q: got exit code %d, want %d", args, got, want)
		}
	}
}

// The index of the topics, for readers of the tree, is made of their first lines.
func TestTopicsHaveAnIndex(t *testing.T) {
	t.Parallel()
	overview := run(t, "help", "all")
	_, list, _ := strings.Cut(overview, "Topics:\n")
	want := "# Topics\n\nThese files are what `cutie help TOPIC` prints. Begin with the [tour](tour.txt).\n\n"
	for _, m := range topicLine.FindAllStringSubmatch(list, -1) {
		want += fmt.Sprintf("- [%s](%s.txt): %s\n", m[1], m[1], m[2])
	}
	const index = "topics/README.md"
	if *update {
		must(t, os.WriteFile(index, []byte(want), 0o666))
	}
	if got, err := os.ReadFile(index); err != nil || string(got) != want {
		t.Errorf("%s: %v; -update makes it anew: got\n%s\nwant\n%s", index, err, got, want)
	}
}

var topicLine = regexp.MustCompile(`(?m)^    ([a-z]+) +([A-Za-z].*)$`)

// Every help topic is listed, has a text that fits a terminal, and speaks of
// commands that there are.
func TestHelpTopicsCanBeRead(t *testing.T) {
	overview := run(t, "help", "all")
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
			must(t, err)
			source.Write(text)
		}
	}
	topics, err := filepath.Glob("topics/*.txt")
	must(t, err)
	found := 0
	for _, name := range topics {
		text, err := os.ReadFile(name)
		must(t, err)
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
	must(t, err)
	var (
		command = regexp.MustCompile(`(?m)^ {4,}(?:\$ )?(?:CUTIE_\w+=\S+ )?cutie ([a-zA-Z]+)( .*)?$`)
		option  = regexp.MustCompile(` (--[a-z][a-z-]*)`)
		helps   = map[string]string{}
	)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must(t, err)
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
					settings := run(t, "config", "default")
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
