package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// completing is a home with queues whose names shells find hard.
func completing(t *testing.T) (home string) {
	t.Helper()
	home = filepath.Join(t.TempDir(), "home")
	for _, args := range [][]string{{"init", home}, {"createQueue", "jobs", "-H", home}, {"createQueue", "uc3:cutie/01/queue/01", "-H", home}} {
		if _, err := cutie(t, args...); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func TestCompletionWords(t *testing.T) {
	t.Parallel()
	home := completing(t)
	daemon := serveHome(t, filepath.Join(t.TempDir(), "other"))
	if _, err := cutie(t, "createQueue", "served", "--url", daemon.url); err != nil {
		t.Fatal(err)
	}
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
		{"ls -u " + daemon.url + " ", "jobs served"},
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
				if err := os.WriteFile(filepath.Join(cmd.Dir, "a-file"), nil, 0o666); err != nil {
					t.Fatal(err)
				}
				cmd.Env = append(os.Environ(), "CUTIE_URL=", "CUTIE_HOME="+home, "HOME="+cmd.Dir)
				out, err := cmd.CombinedOutput()
				if got := string(out); err != nil || got != want {
					t.Errorf("%q: got %q, %v, want %q", line, got, err, want)
				}
			}
		})
	}
}
